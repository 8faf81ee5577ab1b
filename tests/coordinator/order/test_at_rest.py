"""Jobs that find no place do not keep each other, or themselves, busy while nothing changes."""

from __future__ import annotations

from coordinator.order.order import Order
from shared.codec.packed import replace
from shared.messages.messages import OutcomeCode, Turn
from shared.model.model import Role
from tests.builders.rows import job
from tests.coordinator.order.helpers import answer, placed, turns
from tests.coordinator.order.test_sessions import WEB, contending

STEPS = 40
ANSWERS = {"Insufficient cpu": 4}


def steps(o: Order, *, since: float, every: float = 0.005) -> list[Turn]:
    """The turns of some steps in a row, all of them without a place."""
    turns_opened = []
    for step in range(STEPS):
        for turn in turns(o, since + step * every):
            turns_opened.append(turn)
            o.outcome(answer(turn, OutcomeCode.INFEASIBLE, ANSWERS), shard=0)
    o.validate()
    return turns_opened


def test_mutual_waits_for_backfill_do_not_wake_jobs_for_ever() -> None:
    """A job whose backfill waited for another's turn came back as an urgent job, past the block of
    its line: an allocate turn, for which the other's backfill waited, and so on."""
    o = contending("allocate, backfill")
    roles = (Role("w", 2, 0, 2, labels=WEB), Role("idle", 3, 2, 1, labels=WEB))
    for jid in (1, 2, 3):
        o.put_job(replace(job(jid, count=3, minimum=1), roles=roles))
    actions = [turn.action for turn in steps(o, since=1.0)]
    assert actions.count("backfill") >= 3
    assert len(actions) <= 12, actions


def test_jobs_that_wait_for_each_others_preemption_do_not_either() -> None:
    o = contending("allocate, preempt")
    o.put_job(job(9, count=1))
    (first,) = turns(o, 0.5)
    o.outcome(placed(first))
    for jid in (1, 2, 3):
        roles = (Role("w", 2, 0, 2, labels=WEB),)
        o.put_job(replace(job(jid, count=2, minimum=2), roles=roles))
    actions = [turn.action for turn in steps(o, since=1.0)]
    assert len(actions) <= 12, actions


def test_a_promise_that_cannot_be_taken_is_not_asked_for_again_at_once() -> None:
    """Nobody has to leave for it, and the turn that should take it is promised the same again: a
    plugin lets a gang keep fewer promises than it needs to start."""
    o = contending("allocate")
    o.put_job(job(1, count=1))
    count = 0
    for step in range(STEPS):
        for turn in turns(o, 1.0 + step * 0.005):
            count += 1
            o.outcome(placed(turn, level=3), shard=0)
    assert 2 <= count <= 3
