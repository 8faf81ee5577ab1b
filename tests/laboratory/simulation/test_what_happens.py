"""Seeded runs meet what they are there to meet: faults, conflicts, each moment of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import pytest

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.sharding import ClusterPartition
from coordinator.jobs.state import JobState, SchedulingStatus
from coordinator.jobs.table import JobBook
from laboratory.scenarios.generate import scenario
from laboratory.scenarios.play import UNTIL, ScenarioResult, build, play
from laboratory.simulation.leader import settled
from laboratory.simulation.scenario import FaultKind
from shared.ledger.memory.ledger import MemoryLedger
from shared.messages.messages import (
    CommitBatch,
    CommitReply,
    Outcome,
    StatusItem,
    TaskState,
)
from shared.model.model import Job, Node

pytestmark = pytest.mark.all

Send = Callable[[MemoryLedger, Any], Awaitable[Any]]

SEEDS = 300
"""More would not be run by the tests either."""


def seeds(*first: int) -> Iterator[int]:
    """Seeds to try: first those that showed the event when this was written, then all."""
    yield from first
    yield from range(SEEDS)


def _counts(played: ScenarioResult) -> Counter[str]:
    """How often what makes a run hard happened in it."""
    assert played.report is not None
    summary, simulation = played.report.summary, played.simulation
    counts = Counter(
        rechecked=summary.rechecked,
        conflicts_true=summary.conflicts_true,
        conflicts_read=summary.conflicts_read,
        across=summary.gangs_across_shards,
        lost=sum(incarnation.core.tally.workers_lost for incarnation in simulation.incarnations),
        successors=len(simulation.incarnations) - 1,
        redelivered=simulation.redelivered,
    )
    counts.update({f"L{level}": count for level, count in enumerate(summary.levels, 1)})
    counts["future"] = counts["L3"] + counts["L4"]
    return counts + simulation.timeline.struck


def test_seeds_meet_every_fault_conflict_and_retry() -> None:
    """Else runs would prove little."""
    counts: Counter[str] = Counter()
    names = [
        *("rechecked", "conflicts_true", "conflicts_read", "across", "lost", "L2", "future"),
        *("successors", "redelivered", *FaultKind),
        *("request lost", "answer lost", "request twice", "call lost", "call twice"),
        *("message held", "worker of another version"),
    ]
    for seed in seeds(11, 9, 4, 5, 0, 7, 10, 6):
        counts += _counts(play(scenario(seed)))
        if all(counts[name] for name in names):
            return
    raise AssertionError([name for name in names if not counts[name]])


def _run_until_seen(counts: Counter[str], *names: str, first: tuple[int, ...]) -> None:
    """Run seeds until all of this was seen; that some seed shows it is what is asserted."""
    for seed in seeds(*first):
        build(scenario(seed)).run(until=UNTIL)
        if all(counts[name] for name in names):
            return
    raise AssertionError([name for name in names if not counts[name]])


def test_changes_meet_open_turns_and_restarts_meet_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    observed: Counter[str] = Counter()
    replaced, put = JobBook._replace, ClusterPartition.put_node

    def counted_send(send: Send) -> Send:
        async def sent(self: MemoryLedger, batch: Any) -> Any:
            reply = await send(self, batch)
            observed[f"{reply.verdict.name} {type(batch).__name__}"] += 1
            return reply

        return sent

    def counted_replaced(self: JobBook, state: JobState, job: Job) -> None:
        observed[f"member, {state.status.name}"] += 1
        replaced(self, state, job)

    def counted_put(self: ClusterPartition, node: Node) -> None:
        shards = self._dispatcher.shards.values()
        observed["cordoned"] += node.row in self.nodes and any(s.open_turns for s in shards)
        put(self, node)

    for name in ("commit", "record", "store"):
        monkeypatch.setattr(MemoryLedger, name, counted_send(getattr(MemoryLedger, name)))
    monkeypatch.setattr(JobBook, "_replace", counted_replaced)
    monkeypatch.setattr(ClusterPartition, "put_node", counted_put)
    _run_until_seen(
        observed,
        *("RUN CommitBatch", "RUN StatusBatch", "RUN IntakeBatch", "EPOCH CommitBatch"),
        *("EPOCH StatusBatch", "EPOCH IntakeBatch", "member, OPEN", "member, DONE", "cordoned"),
        first=(24, 17, 10, 36),
    )


def test_deletions_meet_every_moment_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    observed: Counter[str] = Counter()
    drop, members, leaving = JobBook.drop_job, JobBook.drop_members, JobBook.put_leaving
    late, resolve, never = JobBook._late, JobBook._resolve_leaving, Coordinator.stopped

    def counted_drop(self: JobBook, jid: int) -> None:
        if (state := self.jobs.get(jid)) is not None:
            observed[state.status.name] += 1
            observed["unread"] += state.unread
            observed.update({f"job with {TaskState(s).name}" for s in state.states})
        drop(self, jid)

    def counted_members(self: JobBook, tasks: Iterable[tuple[int, int]]) -> None:
        gone = list(tasks)
        for jid, tix in gone:
            observed[f"member {TaskState(self.jobs[jid].states[tix]).name}"] += 1
        members(self, gone)

    def counted_leaving(self: JobBook, job: Job, states: bytearray) -> None:
        observed["recovered"] += 1
        leaving(self, job, states)

    def counted_late(self: JobBook, state: JobState, outcome: Outcome) -> None:
        observed[f"late {outcome.code.name}"] += 1
        late(self, state, outcome)

    def counted_resolve(self: JobBook, jid: int, states: bytearray) -> None:
        observed["reread"] += jid in self.departures.jobs
        resolve(self, jid, states)

    def counted_never(
        self: Coordinator,
        tasks: list[tuple[int, int]],
        uids: list[str],
        unknown: list[tuple[int, int]],
    ) -> list[StatusItem]:
        items = never(self, tasks, uids, unknown)
        observed["never held"] += len(items)
        return items

    monkeypatch.setattr(JobBook, "drop_job", counted_drop)
    monkeypatch.setattr(JobBook, "drop_members", counted_members)
    monkeypatch.setattr(JobBook, "put_leaving", counted_leaving)
    monkeypatch.setattr(JobBook, "_late", counted_late)
    monkeypatch.setattr(JobBook, "_resolve_leaving", counted_resolve)
    monkeypatch.setattr(Coordinator, "stopped", counted_never)
    _run_until_seen(
        observed,
        *(status.name for status in SchedulingStatus),
        *(f"job with {state.name}" for state in TaskState),
        *("unread", "recovered", "reread", "never held", "late PLACED", "late STALE"),
        *("member PENDING", "member RUNNING", "member SUCCEEDED"),
        first=(27, 74, 95, 24, 76, 4, 92),
    )


def test_paused_worker_wakes_deposed_and_commits_nothing() -> None:
    """Promise 4: its shard has another owner by then; what it sends is refused as a whole."""
    for seed in seeds(29):
        expected = scenario(seed)
        if all(fault.kind is not FaultKind.WORKER_PAUSED for fault in expected.faults):
            continue
        simulation = build(expected)
        verdicts: Counter[str] = Counter()
        _count_verdicts(simulation.ledger, verdicts)
        simulation.run(until=UNTIL)
        assert settled(simulation.core)
        if verdicts["EPOCH"]:
            return
    raise AssertionError("no seed shows it")


def _count_verdicts(ledger: MemoryLedger, verdicts: Counter[str]) -> None:
    """Note how the ledger judges each batch as a whole."""
    commit = ledger.commit

    async def counted(batch: CommitBatch) -> CommitReply:
        reply = await commit(batch)
        verdicts[reply.verdict.name] += 1
        return reply

    ledger.commit = counted  # type: ignore[method-assign]  # listens; judges nothing itself
