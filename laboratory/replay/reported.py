"""The result of a replay with several shards, from the ledger's log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from laboratory.replay.outcome import (
    GROUPS,
    ReplayResult,
    by_word,
    phase_by,
    speaks,
    take_left,
)
from laboratory.replay.recorded import Recorded
from shard_worker.session_model.full_world import PlacedJob
from shard_worker.session_model.status import READY, STATUS_OF, Status
from shared.ledger.entries.log import CommitEntry, Committed
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.messages.messages import ALLOCATE, TaskState
from shared.model.model import Job
from shared.policy.model import Policy

_EVERYTHING = 1 << 40


def result_of_log(
    name: str,
    recorded: Recorded,
    ledger: MemoryLedger,
    *,
    began: str,
    policy: Policy,
    words: Mapping[int, str],
) -> ReplayResult:
    """``began``: end of the log before any decision; ``words``: pending reason per job."""
    nodes = {node.row: node.name for node in recorded.nodes}
    jobs = {placed_job.job.jid: placed_job.job for placed_job in recorded.placed_jobs}
    result = ReplayResult(name, {}, [], {}, {}, {})
    for committed in _accepted(ledger, began):
        _take(result, committed, jobs, nodes)
    snapshot = at_once(ledger.snapshot())
    _without_waiting(result, jobs, snapshot)
    queues = {queue.name for queue in recorded.queues}
    for jid, nomination in snapshot.nominations.items():
        for run in nomination.runs:
            for tix, row in zip(run.tasks, run.rows, strict=True):
                result.pipelined[_pod(jobs[jid], tix)] = nodes[row]
    for placed_job in recorded.placed_jobs:
        if placed_job.job.kind in GROUPS and placed_job.job.queue not in queues:
            if not placed_job.job.dangling:
                take_left(result, placed_job)
        elif placed_job.job.kind in GROUPS and not placed_job.foreign:
            _take_group(result, placed_job, snapshot, gangs=speaks(policy, "gang"))
            if word := words.get(placed_job.job.jid, ""):
                result.pod_groups[placed_job.job.key]["reasons"].append(word)
        elif placed_job.job.kind == "Pod" and (word := words.get(placed_job.job.jid, "")):
            result.alone[placed_job.job.key] = [word]
    return result


def _accepted(ledger: MemoryLedger, began: str) -> Iterator[Committed]:
    for entry in at_once(ledger.read_log(began, count=_EVERYTHING)):
        if isinstance(entry, CommitEntry):
            yield from entry.accepted


def _take(
    result: ReplayResult, committed: Committed, jobs: Mapping[int, Job], nodes: Mapping[int, str]
) -> None:
    for victims in committed.evictions:
        for tix, row in zip(victims.tasks, victims.rows, strict=True):
            pod = _pod(jobs[victims.jid], tix)
            result.evicted.append(pod)
            result.victims[pod] = nodes[row], committed.reason
    for run in (*committed.core, *committed.tail):
        if run.kind == ALLOCATE:
            for tix, row in zip(run.tasks, run.rows, strict=True):
                result.binds[_pod(jobs[committed.jid], tix)] = nodes[row]


def _without_waiting(result: ReplayResult, jobs: Mapping[int, Job], snapshot: Snapshot) -> None:
    """Tell placed tasks whose bind has not gone out from the bound ones: they wait for their
    volumes, which nobody binds in a record."""
    for jid, records in snapshot.tasks.items():
        for tix, record in records.items():
            if record.state == TaskState.BINDING and jid in jobs:
                pod = _pod(jobs[jid], tix)
                if (node := result.binds.pop(pod, None)) is not None:
                    result.awaiting_volumes[pod] = node


def _pod(job: Job, tix: int) -> str:
    return f"{job.namespace}/{job.pod_name(tix)}"


def _take_group(
    result: ReplayResult, placed_job: PlacedJob, snapshot: Snapshot, *, gangs: bool
) -> None:
    job = placed_job.job
    records = snapshot.tasks.get(job.jid, {})
    promised = snapshot.nominations.get(job.jid)
    pipelined = {tix for run in promised.runs for tix in run.tasks} if promised else set()
    counts: Counter[Status] = Counter()
    for tix in range(job.tasks):
        record = records.get(tix)
        state = Status.PENDING if record is None else STATUS_OF[TaskState(record.state)]
        counts[Status.PIPELINED if tix in pipelined else state] += 1
    minimum = job.groups[0].minimum
    ready = sum(n for status, n in counts.items() if status & READY)
    phase = phase_by(
        counts,
        leaving=counts[Status.RELEASING],
        minimum=minimum,
        before=job.phase,
        unschedulable=gangs and ready < minimum,
    )
    group: dict[str, Any] = {"phase": phase, "reasons": []}
    result.pod_groups[job.key] = group
    result.tasks[job.key] = by_word(counts)
