"""Promise 6 at the end of the history: compares the ledger's side with the cluster's.

The two are written independently, and a bind may come before or after its commit, so they can be
compared only when both are complete.
"""

from __future__ import annotations

from collections import Counter

from laboratory.checker.ledger.ledger import LedgerSide
from laboratory.checker.report.report import Findings
from laboratory.checker.report.rules import Rule
from laboratory.checker.state.cluster import (
    CLOCKS_DIFFER,
    DONE,
    LOST,
    ClusterBinding,
    ClusterSide,
)
from laboratory.checker.state.job import (
    BINDING,
    BOUND,
    PENDING,
    RELEASING,
    STATES,
    SUCCEEDED,
    UNSUCCESSFUL,
    CheckedJob,
)

_ABSENT, _LIVE, _DONE, _LOST, _FORGOTTEN = range(5)
"""The cluster's state of a task. FORGOTTEN: it succeeded, and the cluster knows that no more: an
API server whose pod was deleted while no coordinator led."""

_AGREED = {
    PENDING: (_ABSENT,),
    # Whatever happened, word of it is on its way.
    BINDING: (_ABSENT, _LIVE, _DONE, _LOST, _FORGOTTEN),
    SUCCEEDED: (_DONE, _FORGOTTEN),
    **dict.fromkeys(UNSUCCESSFUL, (_ABSENT, _LOST, _FORGOTTEN)),
}
_TAKEN = (_LIVE, _DONE, _LOST, _FORGOTTEN)
"""Possible states at the cluster for every state that is not in :data:`_AGREED`: it accepted the
task."""

_TOLD = {
    _ABSENT: "never bound it",
    _LIVE: "has it live",
    _DONE: "saw it succeed",
    _LOST: "lost it",
    _FORGOTTEN: "saw it succeed",
}


def settle(ledger: LedgerSide, cluster: ClusterSide, findings: Findings, *, closed: bool) -> None:
    """Add findings where the two sides disagree and, in a closed run, for what was not finished."""
    phase_of = _match_binds(ledger, cluster, findings)
    _acknowledged(ledger, cluster, findings, closed=closed)
    findings.checked[Rule.ACCOUNT] += len(cluster.bindings)
    for jid, job in ledger.jobs.items():
        findings.checked[Rule.ACCOUNT] += len(job.states)
        if cluster.events:
            _compare(jid, job, phase_of.get(jid, {}), findings)
        if closed:
            _finished(jid, job, findings)


READ_BEYOND = 1.0
"""A job counts as missing only if the ledger's side was read this many seconds beyond its
acknowledgement: the log is copied later than answers are sent, and a kill may end the file in
between."""


def _acknowledged(
    ledger: LedgerSide, cluster: ClusterSide, findings: Findings, *, closed: bool
) -> None:
    """Check that the ledger has, or had, every job that users were told is stored."""
    for t, line, first, many in cluster.acknowledged:
        findings.checked[Rule.ACKNOWLEDGED] += many
        if not closed and ledger.read_until <= t + READ_BEYOND:
            continue
        for jid in range(first, first + many):
            if jid not in ledger.jobs:
                message = f"job {jid} was acknowledged, and the ledger knows nothing of it"
                findings.add_at(line, "acknowledged", Rule.ACKNOWLEDGED, message)


def _match_binds(
    ledger: LedgerSide, cluster: ClusterSide, findings: Findings
) -> dict[int, dict[int, int]]:
    """Check that every accepted bind has a commit to the same node. Returns jid -> tix -> the
    cluster's state."""
    phase_of: dict[int, dict[int, int]] = {}
    for (task, _), binding in cluster.bindings.items():
        job = ledger.jobs.get(binding.jid)
        why = "without a commit to it" if job is None else _unexplained(ledger, job, binding)
        if why:
            message = f"task {task} was bound to {binding.node} {why}"
            findings.add_at(binding.line, "bind", Rule.ACCOUNT, message)
        if job is not None and binding.incarnation < job.incarnations.get(binding.tix, 0):
            _ended(
                task, binding, findings, anew=(binding.tix, binding.incarnation) in job.restarted
            )
            continue
        succeeded = _FORGOTTEN if binding.erased else _DONE
        has = {DONE: succeeded, LOST: _LOST}.get(binding.phase, _LIVE)
        phase_of.setdefault(binding.jid, {})[binding.tix] = has
    return phase_of


def _ended(task: str, binding: ClusterBinding, findings: Findings, *, anew: bool) -> None:
    """Check that an incarnation whose task is pending again after an eviction is on no node.
    ``anew``: it was begun anew after its end, which may have been a good one."""
    if anew and binding.phase < DONE:
        problem = f"task {task} has begun anew after its end on {binding.node}"
        contrary = f"the cluster {_TOLD[_LIVE]}"
        findings.add_at(binding.line, "bind", Rule.ACCOUNT, f"{problem}, but {contrary}")
    elif not anew and binding.phase != LOST:
        problem = f"task {task} was evicted from {binding.node} and is pending again"
        contrary = f"the cluster {_TOLD[_DONE if binding.phase == DONE else _LIVE]}"
        findings.add_at(binding.line, "bind", Rule.ACCOUNT, f"{problem}, but {contrary}")


def _unexplained(ledger: LedgerSide, job: CheckedJob, binding: ClusterBinding) -> str:
    """Explain what is wrong with a bind; "" if a commit came before it."""
    if binding.tix >= len(job.rows):
        return "without a commit to it"
    if binding.job_uid not in job.uids:
        return f"under the uid {binding.job_uid}, which its job {job.key} never had"
    tix, names = binding.tix, ledger.books.nodes.names
    last = (job.rows[tix], job.placed_as.get(tix, 0), job.since[tix])
    commits = [c for c in (*job.earlier.get(tix, ()), last) if names.get(c[0]) == binding.node]
    if not commits:
        return "without a commit to it"
    own = [commit for commit in commits if commit[1] == binding.incarnation] or commits
    early = min(since for _, _, since in own) - binding.t
    return f"{early:.1f} s before its commit" if early > CLOCKS_DIFFER else ""


def _compare(jid: int, job: CheckedJob, phase_of: dict[int, int], findings: Findings) -> None:
    for tix, state in enumerate(job.states):
        has = phase_of.get(tix, _ABSENT)
        if job.rows[tix] < 0 and state == PENDING:
            continue  # never committed: if it was bound, that bind is named already
        if has not in _AGREED.get(state, _TAKEN):
            findings.add_at(
                job.changed[tix],
                "status",
                Rule.ACCOUNT,
                f"task {jid}.{tix} of {job.key} is {STATES[state]} in the ledger, but the "
                f"cluster {_TOLD[has]}; {equation(job)}",
            )


def _finished(jid: int, job: CheckedJob, findings: Findings) -> None:
    lacking = [
        tix
        for tix, state in enumerate(job.states)
        if state < SUCCEEDED and (state != PENDING or (job.member[tix] and not job.gone))
    ]
    if job.gone and not job.forgotten:
        message = f"job {jid} ({job.key}) was deleted and never forgotten: {equation(job)}"
        findings.add_at(job.line, "job", Rule.ACCOUNT, message)
    if lacking:
        findings.add_at(
            job.line,
            "job",
            Rule.ACCOUNT,
            f"job {jid} ({job.key}) did not finish: {equation(job)}; first open task "
            f"{jid}.{lacking[0]}",
        )


def equation(job: CheckedJob) -> str:
    """The number of a job's tasks per state, as an equation. Tasks of a deleted job, or removed
    from it, that had not ended before count as deleted."""
    states, stopped = Counter(job.states), stopped_by_deletion(job)
    holding = sum(states[state] for state in range(BOUND, RELEASING + 1))
    unplaced = deleted(job) - stopped
    failed = sum(states[end] for end in UNSUCCESSFUL) - stopped
    return (
        f"{len(job.states)} submitted = {states[PENDING] - unplaced} pending + "
        f"{states[BINDING]} in flight + {holding} held + {states[SUCCEEDED]} succeeded + "
        f"{failed} failed + {unplaced + stopped} deleted"
    )


def deleted(job: CheckedJob) -> int:
    """Number of tasks that had not ended when they, or their job, were deleted."""
    removed = [t for t, state in enumerate(job.states) if state == PENDING and not job.member[t]]
    unplaced = job.states.count(PENDING) if job.gone else len(removed)
    return unplaced + stopped_by_deletion(job)


def stopped_by_deletion(job: CheckedJob) -> int:
    """Number of placed tasks that ended because they, or their job, were deleted."""
    return sum(
        state in UNSUCCESSFUL and (not job.member[t] or (job.gone and job.changed[t] > job.gone_at))
        for t, state in enumerate(job.states)
    )
