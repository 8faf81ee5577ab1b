"""Whole runs from a seed: everything finishes, no promise breaks, and the run can be repeated."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from coordinator.core import Coordinator
from coordinator.jobbook import JobBook
from coordinator.jobs import JobState, Standing
from coordinator.simulation import Simulation, settled
from shard_worker.view import View
from shared.ledger.double import Batch, First, LedgerDouble
from shared.ledger.records import NOMINATED, RELEASING, USED, WIDTH, unpack_node
from shared.ledger.synchronous import at_once
from shared.messages import CommitBatch, CommitReply, Outcome, StatusItem, TaskState, Verdict
from shared.model import Job, Node
from tests.simulation.scenario import UNTIL, build, run, scenario

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 100
PER_TEST = 10
"""Seeds of one test: so many runs share what pytest costs, and a failure still names its seed."""


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_every_job_finishes_and_no_promise_breaks(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        _finish(seed)


@cache
def _finish(seed: int) -> Counter[str]:
    """Run a seed, hold it to everything that must be true at its end; counts what happened."""
    with TemporaryDirectory() as directory:
        simulation, report = run(scenario(seed), Path(directory) / "history.jsonl")
    summary, core = report.summary, simulation.core
    assert report.first is None, f"seed {seed}: {report.first}"
    assert settled(core), f"seed {seed}: {core.status()}"
    assert summary.jobs_submitted > 0, seed
    assert not core.leaving, seed
    assert not core.order.departures.members, seed
    ended = summary.tasks_finished + summary.tasks_failed + summary.tasks_deleted
    assert ended == summary.tasks_submitted, f"seed {seed}: {summary}"
    if not scenario(seed).deletes:
        assert summary.jobs_finished == summary.jobs_submitted, seed
        assert summary.tasks_finished == summary.tasks_bound == ended, seed
    assert (summary.tasks_bound_twice, summary.gangs_partly_bound) == (0, 0), seed
    assert core.order.open == sum(binding.elsewhere for binding in simulation.bindings) == 0, seed
    core.validate()
    _nothing_left(simulation, seed)
    _views_equal_the_ledger(simulation, seed)
    counts = Counter(
        rechecked=summary.rechecked,
        conflicts_true=summary.conflicts_true,
        conflicts_read=summary.conflicts_read,
        across=summary.gangs_across_shards,
        lost=sum(life.core.tally.workers_lost for life in simulation.lives),
        successors=len(simulation.lives) - 1,
        redelivered=sum(binding.redelivered for binding in simulation.bindings),
    )
    counts.update({f"L{level}": count for level, count in enumerate(summary.levels, 1)})
    return counts


def _nothing_left(simulation: Simulation, seed: int) -> None:
    """Whatever a job took, it gave back: on nodes, in queues, in nominations, in the streams."""
    snapshot = at_once(simulation.ledger.snapshot())
    for row, record in zip(snapshot.nodes.rows, snapshot.nodes.records, strict=True):
        slots = unpack_node(record)[2]
        for part in (USED, RELEASING, NOMINATED):
            assert not any(slots[part::WIDTH]), f"seed {seed}: row {row} still holds something"
    assert all(not queue.used for queue in snapshot.queues.values()), seed
    assert snapshot.nominations == {}, seed
    assert at_once(simulation.ledger.read_binds("coordinator", own=True)) == [], seed


def _views_equal_the_ledger(simulation: Simulation, seed: int) -> None:
    """Nothing is open, the log is read to its end: each view is what a new one would load."""
    for worker in simulation.shards.workers.values():
        worker.follow(simulation.ledger)
        assert worker.worker.open_turns == 0, seed
        worker.worker.validate()
        fresh = View(shard=worker.shard)
        fresh.load(at_once(simulation.ledger.snapshot(workload=False)))
        slots = max(worker.view.columns.slots, fresh.columns.slots)
        for view in (worker.view, fresh):
            view.columns.grow(slots=slots)
        assert worker.view.columns.image() == fresh.columns.image(), seed
        assert worker.view.nodes == fresh.nodes, seed
        assert worker.view.classes == fresh.classes, seed
        assert worker.view.nominations == fresh.nominations == {}, seed
        assert (worker.view.own == fresh.own).all(), seed


def test_what_makes_it_hard_does_happen() -> None:
    """Else the runs above would prove little."""
    counts = sum((_finish(seed) for seed in range(16)), Counter[str]())
    for name in ("rechecked", "conflicts_true", "conflicts_read", "across", "lost", "L2"):
        assert counts[name] > 0, name
    for name in ("successors", "redelivered"):
        assert counts[name] > 0, name
    assert counts["L3"] + counts["L4"] > 0


def test_changes_meet_open_turns_and_restarts_meet_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    gate, replaced, put = LedgerDouble._gate, JobBook._replace, Coordinator._put_node

    def counted_gate(self: LedgerDouble, batch: Batch) -> tuple[Verdict, First | None]:
        verdict, first = gate(self, batch)
        seen[f"{verdict.name} {type(batch).__name__}"] += 1
        return verdict, first

    def counted_replaced(self: JobBook, state: JobState, job: Job) -> None:
        seen[f"member, {state.standing.name}"] += 1
        replaced(self, state, job)

    def counted_put(self: Coordinator, node: Node) -> None:
        seen["cordoned"] += node.row in self.nodes and self.order.open > 0
        put(self, node)

    monkeypatch.setattr(LedgerDouble, "_gate", counted_gate)
    monkeypatch.setattr(JobBook, "_replace", counted_replaced)
    monkeypatch.setattr(Coordinator, "_put_node", counted_put)
    for seed in range(24):
        build(scenario(seed)).run(until=UNTIL)
    for name in ("RUN CommitBatch", "RUN StatusBatch", "RUN IntakeBatch", "EPOCH CommitBatch"):
        assert seen[name] > 0, (name, seen)
    for name in ("member, OPEN", "member, DONE", "cordoned"):
        assert seen[name] > 0, (name, seen)


def test_deletions_meet_every_moment_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    drop, members, leaving = JobBook.drop_job, JobBook.drop_members, JobBook.put_leaving
    late, resolve, never = JobBook._late, JobBook._resolve_leaving, Coordinator.never_held

    def counted_drop(self: JobBook, jid: int) -> None:
        if (state := self.jobs.get(jid)) is not None:
            seen[state.standing.name] += 1
            seen["unread"] += state.unread
            seen.update({f"job with {TaskState(s).name}" for s in state.states})
        drop(self, jid)

    def counted_members(self: JobBook, tasks: Iterable[tuple[int, int]]) -> None:
        gone = list(tasks)
        for jid, tix in gone:
            seen[f"member {TaskState(self.jobs[jid].states[tix]).name}"] += 1
        members(self, gone)

    def counted_leaving(self: JobBook, job: Job, states: bytearray) -> None:
        seen["recovered"] += 1
        leaving(self, job, states)

    def counted_late(self: JobBook, state: JobState, outcome: Outcome) -> None:
        seen[f"late {outcome.code.name}"] += 1
        late(self, state, outcome)

    def counted_resolve(self: JobBook, jid: int, states: bytearray) -> None:
        seen["reread"] += jid in self.departures.jobs
        resolve(self, jid, states)

    def counted_never(self: Coordinator, tasks: list[tuple[int, int]]) -> list[StatusItem]:
        items = never(self, tasks)
        seen["never held"] += len(items)
        return items

    monkeypatch.setattr(JobBook, "drop_job", counted_drop)
    monkeypatch.setattr(JobBook, "drop_members", counted_members)
    monkeypatch.setattr(JobBook, "put_leaving", counted_leaving)
    monkeypatch.setattr(JobBook, "_late", counted_late)
    monkeypatch.setattr(JobBook, "_resolve_leaving", counted_resolve)
    monkeypatch.setattr(Coordinator, "never_held", counted_never)
    for seed in range(24):
        build(scenario(seed)).run(until=UNTIL)
    for standing in Standing:
        assert seen[standing.name] > 0, (standing, seen)
    for state in TaskState:
        assert seen[f"job with {state.name}"] > 0, (state, seen)
    for name in ("unread", "recovered", "reread", "never held", "late PLACED", "late STALE"):
        assert seen[name] > 0, (name, seen)
    for state in (TaskState.PENDING, TaskState.RUNNING, TaskState.SUCCEEDED):
        assert seen[f"member {state.name}"] > 0, (state, seen)


# --- repeating --------------------------------------------------------------------------------


def test_same_seed_leaves_the_same_history_to_the_byte(tmp_path: Path) -> None:
    """In another process too, where sets of strings have another order; another seed does not."""
    seed = 15  # a paused and a killed worker
    assert scenario(seed).kills
    assert scenario(seed).pauses
    code = (
        "import sys; from pathlib import Path; from tests.simulation.scenario import run, scenario;"
        "run(scenario(int(sys.argv[1])), Path(sys.argv[2]))"
    )
    for name, number, salt in (("a", seed, "1"), ("b", seed, "2"), ("c", seed + 1, "1")):
        subprocess.run(
            [sys.executable, "-c", code, str(number), str(tmp_path / name)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": salt},
            check=True,
            timeout=60,
        )
    first, second, other = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == second
    assert first != other


def test_messages_alone_make_another_history(tmp_path: Path) -> None:
    """The same objects and faults, another seed for the delays."""
    wanted = scenario(7)
    run(wanted, tmp_path / "a")
    run(replace(wanted, seed=8), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() != (tmp_path / "b").read_bytes()


# --- workers that die or stand still ----------------------------------------------------------


def test_paused_worker_wakes_deposed_and_commits_nothing() -> None:
    """Promise 4: its shard has another owner by then; what it sends is refused as a whole."""
    refused = 0
    for seed in range(0, 60, 5):
        simulation = build(scenario(seed))
        verdicts: Counter[str] = Counter()
        _count_verdicts(simulation.ledger, verdicts)
        simulation.run(until=UNTIL)
        assert settled(simulation.core)
        refused += verdicts["EPOCH"]
    assert refused > 0


def test_books_agree_after_every_single_event() -> None:
    for seed in (3, 31, 127):  # faulty kubelets; with a killed worker; with four successors
        assert _validated_to_the_end(build(scenario(seed)))


def _count_verdicts(ledger: LedgerDouble, verdicts: Counter[str]) -> None:
    """Note how the ledger judges each batch as a whole."""
    commit = ledger.commit

    async def counted(batch: CommitBatch) -> CommitReply:
        reply = await commit(batch)
        verdicts[reply.verdict.name] += 1
        return reply

    ledger.commit = counted  # type: ignore[method-assign]  # listens; judges nothing itself


def _validated_to_the_end(simulation: Simulation) -> bool:
    simulation.run(until=UNTIL, inspect=lambda: simulation.life.validate())
    return settled(simulation.core)
