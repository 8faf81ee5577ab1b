"""Calls that are not full wait a moment for others where pods come one by one."""

from __future__ import annotations

import pytest

from coordinator.dispatch.dispatcher import GATHERED_TASKS, Dispatcher
from shared.codec.packed import replace
from shared.messages.messages import Epoch
from tests.coordinator.dispatch.test_dispatch import turn

PACE = 0.5
NEED = {0: 1000}


@pytest.fixture
def paced() -> Dispatcher:
    dispatcher = Dispatcher(3, turns_per_call=4, pace=PACE)
    for row in range(3):
        dispatcher.offer(row, ((0, 1_000_000),), +1)
    dispatcher.assign({row: row for row in range(3)})
    for shard in range(3):
        dispatcher.up(shard, Epoch(1, "x"))
    return dispatcher


def sent(paced: Dispatcher, now: float) -> list[tuple[int, list[int]]]:
    """(shard, jobs) of the calls that go out; each is answered at once."""
    calls = paced.send(now)
    for call in calls:
        paced.returned(call.shard, call.call)
    return [(call.shard, [turn.jid for turn in call.turns]) for call in calls]


def test_turns_arriving_one_by_one_share_a_call(paced: Dispatcher) -> None:
    paced.route(turn(1), NEED)
    assert paced.next_due() is None
    assert sent(paced, 10.0) == [(0, [1])], "nothing came before it"
    for jid, now in ((2, 10.1), (3, 10.2), (4, 10.4)):
        paced.route(turn(jid), NEED)
        assert sent(paced, now) == []
    assert paced.next_due() == 10.5
    assert sent(paced, 10.5) == [(0, [2, 3, 4])]
    assert paced.next_due() is None
    paced.route(turn(5), NEED)
    assert sent(paced, 11.0) == [(0, [5])], "a quiet moment came before it"


def test_a_call_with_much_in_it_waits_for_nothing(paced: Dispatcher) -> None:
    paced.route(turn(1), NEED)
    sent(paced, 10.0)
    paced.route(turn(2, tasks=GATHERED_TASKS - 1), NEED)
    assert sent(paced, 10.1) == []
    paced.route(turn(3), NEED)
    assert sent(paced, 10.1) == [(0, [2, 3])]
    paced.route(replace(turn(4), world=b"a turn context"), NEED)
    assert sent(paced, 10.1) == [(0, [4])], "a session"


def test_much_work_is_shared_out(paced: Dispatcher) -> None:
    paced.route(turn(1), NEED)
    sent(paced, 10.0)
    for jid in (2, 3):
        paced.route(turn(jid, tasks=GATHERED_TASKS), NEED)
    paced.route(turn(4), NEED)
    assert sorted(sent(paced, 11.0)) == [(0, [2]), (1, [3]), (2, [4])]


def test_a_delayed_call_is_not_due_without_workers(paced: Dispatcher) -> None:
    paced.route(turn(1), NEED)
    sent(paced, 10.0)
    paced.route(turn(2), NEED)
    assert sent(paced, 10.1) == []
    for shard in range(3):
        paced.down(shard)
    assert paced.next_due() is None, "it would wake its loop again and again"


def test_a_clock_that_was_set_back_holds_nothing_up(paced: Dispatcher) -> None:
    paced.route(turn(1), NEED)
    sent(paced, 5000.0)
    paced.route(turn(2), NEED)
    assert sent(paced, 10.0) == [(0, [2])]
