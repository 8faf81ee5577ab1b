"""Whole runs from a seed: everything finishes, no promise breaks, and the run can be repeated."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.borders import Borders
from coordinator.core import Coordinator
from coordinator.jobbook import JobBook
from coordinator.jobs import JobState, Standing
from coordinator.simulation.generate import scenario
from coordinator.simulation.life import settled
from coordinator.simulation.play import UNTIL, Played, build, play
from coordinator.simulation.scenario import FaultKind
from shared.ledger.double import Batch, First, LedgerDouble
from shared.messages import CommitBatch, CommitReply, Outcome, StatusItem, TaskState, Verdict
from shared.model import Job, Node

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 500
PER_TEST = 25
"""Seeds of one test: so many runs share what pytest costs, and a failure still names its seed."""


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_every_job_finishes_and_no_promise_breaks(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        played = play(scenario(seed))
        again = f"quadrant chaos sim --seed {seed}"
        assert not played.broken, f"{again}: {played.broken[0]}"
        assert played.report is not None
        assert played.report.summary.jobs_submitted > 0, again


def _counts(played: Played) -> Counter[str]:
    """How often what makes a run hard happened in it."""
    assert played.report is not None
    summary, simulation = played.report.summary, played.simulation
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
    return counts + simulation.timeline.struck


def test_what_makes_it_hard_does_happen() -> None:
    """Else the runs above would prove little."""
    counts = sum((_counts(play(scenario(seed))) for seed in range(32)), Counter[str]())
    for name in ("rechecked", "conflicts_true", "conflicts_read", "across", "lost", "L2"):
        assert counts[name] > 0, name
    for name in ("successors", "redelivered", *FaultKind):
        assert counts[name] > 0, name
    for name in ("request lost", "answer lost", "request twice", "call lost", "call twice"):
        assert counts[name] > 0, name
    assert counts["L3"] + counts["L4"] > 0


def test_changes_meet_open_turns_and_restarts_meet_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    gate, replaced, put = LedgerDouble._gate, JobBook._replace, Borders.put_node

    def counted_gate(self: LedgerDouble, batch: Batch) -> tuple[Verdict, First | None]:
        verdict, first = gate(self, batch)
        seen[f"{verdict.name} {type(batch).__name__}"] += 1
        return verdict, first

    def counted_replaced(self: JobBook, state: JobState, job: Job) -> None:
        seen[f"member, {state.standing.name}"] += 1
        replaced(self, state, job)

    def counted_put(self: Borders, node: Node) -> None:
        shards = self._dispatcher.shards.values()
        seen["cordoned"] += node.row in self.nodes and any(s.open_turns for s in shards)
        put(self, node)

    monkeypatch.setattr(LedgerDouble, "_gate", counted_gate)
    monkeypatch.setattr(JobBook, "_replace", counted_replaced)
    monkeypatch.setattr(Borders, "put_node", counted_put)
    for seed in range(80):
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
    for seed in range(80):
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
    seed = _seed_with(FaultKind.WORKER_PAUSED, FaultKind.LEADER_KILLED)
    for name, number, salt in (("a", seed, "1"), ("b", seed, "2"), ("c", seed + 1, "1")):
        command = ["chaos", "sim", "--seed", str(number), "--history", str(tmp_path / name)]
        subprocess.run(
            [sys.executable, "-m", "coordinator.cli", *command],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": salt},
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=60,
        )
    first, second, other = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == second
    assert first != other


def _seed_with(*kinds: FaultKind) -> int:
    """The first seed with all these faults."""
    for seed in range(1000):
        if {fault.kind for fault in scenario(seed).faults} >= set(kinds):
            return seed
    raise AssertionError(f"no seed has {kinds}")


def test_messages_alone_make_another_history() -> None:
    """The same objects and faults, another seed for the delays."""
    wanted = scenario(7)
    first, other = play(wanted), play(replace(wanted, seed=8))
    assert first.notes.lines != other.notes.lines


# --- workers that die or stand still ----------------------------------------------------------


def test_paused_worker_wakes_deposed_and_commits_nothing() -> None:
    """Promise 4: its shard has another owner by then; what it sends is refused as a whole."""
    refused = 0
    for seed in range(200):
        wanted = scenario(seed)
        if all(fault.kind is not FaultKind.WORKER_PAUSED for fault in wanted.faults):
            continue
        simulation = build(wanted)
        verdicts: Counter[str] = Counter()
        _count_verdicts(simulation.ledger, verdicts)
        simulation.run(until=UNTIL)
        assert settled(simulation.core)
        refused += verdicts["EPOCH"]
    assert refused > 0


def test_books_agree_after_every_single_event() -> None:
    for seed in (3, 31, 40):
        played = play(scenario(seed), inspect=lambda simulation: simulation.life.validate())
        assert not played.broken


def _count_verdicts(ledger: LedgerDouble, verdicts: Counter[str]) -> None:
    """Note how the ledger judges each batch as a whole."""
    commit = ledger.commit

    async def counted(batch: CommitBatch) -> CommitReply:
        reply = await commit(batch)
        verdicts[reply.verdict.name] += 1
        return reply

    ledger.commit = counted  # type: ignore[method-assign]  # listens; judges nothing itself
