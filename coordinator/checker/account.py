"""Promise 6 at the end of the file: both sides of the history, laid beside each other.

The two sources are written by different hands and a bind may stand before or after its commit, so
that they can be compared only when both are complete.
"""

from __future__ import annotations

from collections import Counter

from coordinator.checker.cluster import DONE, LOST, Binding, ClusterSide
from coordinator.checker.job import (
    BINDING,
    BOUND,
    FAILED,
    PENDING,
    RELEASING,
    STATES,
    SUCCEEDED,
    Job,
)
from coordinator.checker.ledger import LedgerSide
from coordinator.checker.report import Findings

_NEVER, _LIVE, _DONE, _LOST = range(4)
"""What the cluster has of a task."""

_AGREED = {
    PENDING: (_NEVER,),
    BINDING: (_NEVER, _LIVE, _DONE, _LOST),  # whatever happened, word of it is on its way
    SUCCEEDED: (_DONE,),
    FAILED: (_NEVER, _LOST),
}
_TAKEN = (_LIVE, _DONE, _LOST)
"""What the cluster may have of a task in every other state."""

_TOLD = {_NEVER: "never bound it", _LIVE: "has it live", _DONE: "saw it succeed", _LOST: "lost it"}


def settle(ledger: LedgerSide, cluster: ClusterSide, findings: Findings, *, closed: bool) -> None:
    """Add what the two sides do not agree on, and in a closed run what was not finished."""
    taken = _match_binds(ledger, cluster, findings)
    for jid, job in ledger.jobs.items():
        if cluster.events:
            _compare(jid, job, taken.get(jid, {}), findings)
        if closed:
            _finished(jid, job, findings)


def _match_binds(
    ledger: LedgerSide, cluster: ClusterSide, findings: Findings
) -> dict[int, dict[int, int]]:
    """Every bind the cluster took has a commit to that node. Returns jid -> tix -> what it has."""
    taken: dict[int, dict[int, int]] = {}
    for (task, _), binding in cluster.bindings.items():
        job = ledger.jobs.get(binding.jid)
        if job is None or not _committed(ledger, job, binding):
            message = f"task {task} was bound to {binding.node} without a commit to it"
            findings.add_at(binding.line, "bind", 6, message)
        if job is not None and binding.life < job.lives.get(binding.tix, 0):
            _ended(task, binding, findings)
            continue
        has = {DONE: _DONE, LOST: _LOST}.get(binding.phase, _LIVE)
        taken.setdefault(binding.jid, {})[binding.tix] = has
    return taken


def _ended(task: str, binding: Binding, findings: Findings) -> None:
    """An incarnation that went back to pending after its eviction is on no node."""
    if binding.phase != LOST:
        what = f"task {task} was evicted from {binding.node} and is pending again"
        told = f"the cluster {_TOLD[_DONE if binding.phase == DONE else _LIVE]}"
        findings.add_at(binding.line, "bind", 6, f"{what}, but {told}")


def _committed(ledger: LedgerSide, job: Job, binding: Binding) -> bool:
    if binding.tix >= len(job.rows):
        return False
    names = ledger.nodes.names
    if names.get(job.rows[binding.tix]) == binding.node:
        return True
    return any(names.get(row) == binding.node for row in job.earlier.get(binding.tix, ()))


def _compare(jid: int, job: Job, taken: dict[int, int], findings: Findings) -> None:
    for tix, state in enumerate(job.states):
        has = taken.get(tix, _NEVER)
        if job.rows[tix] < 0 and state == PENDING:
            continue  # never committed: if it was bound, that bind is named already
        if has not in _AGREED.get(state, _TAKEN):
            findings.add_at(
                job.changed[tix],
                "status",
                6,
                f"task {jid}.{tix} of {job.key} is {STATES[state]} in the ledger, but the "
                f"cluster {_TOLD[has]}; {equation(job)}",
            )


def _finished(jid: int, job: Job, findings: Findings) -> None:
    lacking = [
        tix
        for tix, state in enumerate(job.states)
        if state < SUCCEEDED and (state != PENDING or (job.member[tix] and not job.gone))
    ]
    if job.gone and not job.forgotten:
        message = f"job {jid} ({job.key}) was deleted and never forgotten: {equation(job)}"
        findings.add_at(job.line, "job", 6, message)
    if lacking:
        findings.add_at(
            job.line,
            "job",
            6,
            f"job {jid} ({job.key}) did not finish: {equation(job)}; first open task "
            f"{jid}.{lacking[0]}",
        )


def equation(job: Job) -> str:
    """Where a job's tasks are. Pending ones of a deleted job, or no longer in it, are deleted."""
    states, gone = Counter(job.states), deleted(job)
    held = sum(states[state] for state in range(BOUND, RELEASING + 1))
    return (
        f"{len(job.states)} submitted = {states[PENDING] - gone} pending + "
        f"{states[BINDING]} in flight + {held} held + {states[SUCCEEDED]} succeeded + "
        f"{states[FAILED]} failed + {gone} deleted"
    )


def deleted(job: Job) -> int:
    """Tasks that were not placed when their job, or they themselves, were deleted."""
    if job.gone:
        return job.states.count(PENDING)
    return sum(state == PENDING and not job.member[t] for t, state in enumerate(job.states))
