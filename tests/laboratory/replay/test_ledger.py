"""A ledger in memory judges what a session keeps: what is wrong does not pass it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from laboratory.replay.ledger_check import LedgerRefused, ReplayLedger
from laboratory.replay.session import run_session
from shard_worker.dialects.volcano.actions import run as actions
from shard_worker.framework.operation import Operation
from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.session_model.job import TaskInfo
from shared.ledger.entries.log import CommitEntry
from shared.ledger.memory.synchronous import at_once
from tests.builders.objects import queue
from tests.laboratory.replay.build import Json, case, gang, node, policy

GANGS = policy("allocate", "gang", "predicates")
NOT_EVEN_GANGS = policy("allocate", "predicates")
PREEMPT = policy("preempt", "gang", "predicates")
Decide = Callable[[WorldStatement, dict[str, TaskInfo]], None]


def decided(monkeypatch: pytest.MonkeyPatch, decide: Decide, *items: Json, under: Json) -> Session:
    """A session whose action does what ``decide`` does, and keeps it."""

    def action(ssn: Session, name: str) -> None:
        del name
        statement = WorldStatement(ssn)
        decide(statement, {task.name: task for task in ssn.world.tasks()})
        statement.commit()

    monkeypatch.setattr("laboratory.replay.session.run_action", action)
    replay_case = case(*items, under=under)
    return run_session(replay_case.policy, replay_case.recorded)


def place(*names: str) -> Decide:
    def decide(statement: WorldStatement, tasks: dict[str, TaskInfo]) -> None:
        for name in names:
            statement.allocate(tasks[name], 0)

    return decide


def evict(*names: str) -> Decide:
    def decide(statement: WorldStatement, tasks: dict[str, TaskInfo]) -> None:
        for name in names:
            statement.evict(tasks[name], "for a test")

    return decide


def test_a_valid_session_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    ssn = decided(monkeypatch, place("g-0", "g-1"), node("a"), *gang("g", pods=2), under=GANGS)
    assert len(ssn.committed) == 2
    assert actions.ACTIONS  # the module whose function was exchanged is the one that is run


def test_a_full_node_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [node("a"), *gang("there", pods=3, on="a"), *gang("g", pods=2)]
    with pytest.raises(LedgerRefused, match="allocate for job ns/g: FIT at 0"):
        decided(monkeypatch, place("g-0", "g-1"), *items, under=GANGS)


def test_a_part_of_a_gang_is_refused_where_the_policy_keeps_gangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items = [node("a"), *gang("g", pods=2)]
    with pytest.raises(LedgerRefused, match="GANG"):
        decided(monkeypatch, place("g-0"), *items, under=GANGS)
    assert decided(monkeypatch, place("g-0"), *items, under=NOT_EVEN_GANGS).committed


def test_a_queue_stays_within_its_capability_where_the_policy_keeps_it_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = queue("small", capability={"cpu": "1"})
    items = [node("a"), small, *gang("g", pods=2, queue="small")]
    limits = policy("allocate", "gang", "proportion", "predicates")
    with pytest.raises(LedgerRefused, match="QUEUE"):
        decided(monkeypatch, place("g-0", "g-1"), *items, under=limits)
    assert decided(monkeypatch, place("g-0", "g-1"), *items, under=GANGS).committed


def test_victims_are_where_the_ledger_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [node("a"), *gang("g", pods=2, on="a"), *gang("new", pods=1)]
    both = decided(monkeypatch, evict("g-0", "g-1"), *items, under=PREEMPT)
    assert len(both.committed) == 2

    def none_of_ours(statement: WorldStatement, tasks: dict[str, TaskInfo]) -> None:
        statement.allocate(tasks["new-0"], 0)
        statement.commit()
        statement.evict(tasks["new-0"], "it is not bound yet")

    with pytest.raises(LedgerRefused, match="preempt for job ns/new: TASK at 0"):
        decided(monkeypatch, none_of_ours, *items, under=PREEMPT)


def test_the_promises_of_a_job_stand_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement replaces what its job was promised: the next one promises it again."""

    def decide(statement: WorldStatement, tasks: dict[str, TaskInfo]) -> None:
        statement.evict(tasks["low-0"], "")
        statement.pipeline(tasks["g-0"], 0)
        statement.commit()
        statement.evict(tasks["low-1"], "")
        statement.pipeline(tasks["g-1"], 0)

    free = policy("preempt", "predicates")
    items = [node("a", cpu=4), *gang("low", pods=4, on="a"), *gang("g", pods=2, cpu=1)]
    item: list[int] = []
    monkeypatch.setattr("laboratory.replay.session.ReplayLedger.commit", _noting(item))
    decided(monkeypatch, decide, *items, under=free)
    assert item == [1, 2]


def test_a_statement_tells_the_rules_of_every_tier_that_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cluster 11573: for the second node a later tier let the victims go, and the statement named
    only the first node's, whose pdb spared them."""
    reasons: list[str] = []
    judge = ReplayLedger.commit

    def commit(self: ReplayLedger, action: str, operations: Sequence[Operation]) -> None:
        judge(self, action, operations)
        entries = at_once(self.ledger.read_log("0", count=1000))
        commits = (entry for entry in entries if isinstance(entry, CommitEntry))
        reasons.extend(result.reason for entry in commits for result in entry.accepted)

    def decide(statement: WorldStatement, tasks: dict[str, TaskInfo]) -> None:
        statement.evict(tasks["low-0"], "preempt (gang, pdb): for ns/g-0")
        statement.evict(tasks["low-1"], "preempt (conformance): for ns/g-0")
        statement.pipeline(tasks["g-0"], 0)

    items = [node("a", cpu=4), *gang("low", pods=4, on="a"), *gang("g", pods=1, cpu=2)]
    monkeypatch.setattr(ReplayLedger, "commit", commit)
    decided(monkeypatch, decide, *items, under=policy("preempt", "predicates"))
    assert reasons == ["preempt (gang, pdb; conformance): for ns/g-0"]


def _noting(calls: list[int]) -> Callable[..., None]:
    judge = ReplayLedger.commit

    def commit(self: ReplayLedger, action: str, operations: object) -> None:
        judge(self, action, operations)  # type: ignore[arg-type]
        held = at_once(self.ledger.read_nominations())
        calls.append(sum(len(run.tasks) for n in held.values() for run in n.runs))

    return commit
