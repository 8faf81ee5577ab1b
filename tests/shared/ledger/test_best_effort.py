"""Members that ask for nothing but a place among a node's pods: they count for their groups while
they are pending, so that placing one changes nothing; who failed or was evicted counts no more."""

from __future__ import annotations

import pytest

from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import PutClass
from shared.messages.messages import (
    GUARD_GANG,
    CommitReply,
    EvictRun,
    Group,
    Statement,
    StatusItem,
    TaskState,
    Verdict,
)
from tests.shared.ledger.support import NOTHING, PODS, SMALL, Desk, job, run, statement

S, V = TaskState, Verdict
GANG = 7
"""Two members that need something (tasks 0 and 1, at most), and one that does not (task 2)."""


async def gang(desk: Desk, minimum: int) -> None:
    await desk.store(job(GANG, Group(-1, minimum, 1), Group(0, 1, 1)), job(8))


async def held(desk: Desk) -> list[int]:
    return [group.held for group in (await desk.ledger.snapshot()).jobs[GANG].groups]


async def fill(desk: Desk, *, tail: bool = False) -> Verdict:
    """Place what asks for nothing."""
    mine = run([2], [0], cid=NOTHING, group=1)
    plain = statement(GANG, tail=(mine,)) if tail else statement(GANG, mine)
    reply = await desk.commit(plain)
    return reply.answers[0].tail[0] if tail else verdict(reply)


async def becomes(desk: Desk, state: TaskState, tix: int = 2) -> None:
    assert (await desk.record(StatusItem(state, GANG, [tix], [0]))).applied == [[tix]]


def evicting(tix: int, *, cid: int, group: int, guards: int = 0) -> Statement:
    victims = EvictRun(GANG, 1, cid, group, [tix], [0], guards)
    return replace(statement(8), evictions=[victims], reason="preempt: priority")


async def evict(desk: Desk) -> Verdict:
    return verdict(await desk.commit(evicting(2, cid=NOTHING, group=1)))


def verdict(reply: CommitReply) -> Verdict:
    """Verdict on its statement; how old the node was that it saw does not matter here."""
    result = reply.answers[0].verdict
    return V.COMMITTED if result is V.RECHECKED else result


@pytest.mark.parametrize("tail", [False, True])
async def test_it_is_held_once_from_its_intake_to_its_end(desk: Desk, tail: bool) -> None:
    await gang(desk, 2)
    assert await held(desk) == [1, 1]
    assert await fill(desk, tail=tail) is V.COMMITTED
    assert (await desk.slots(0))[PODS][1] == 1
    assert await held(desk) == [1, 1]
    await becomes(desk, S.PENDING)  # its bind was refused
    assert await held(desk) == [1, 1]
    assert await fill(desk, tail=tail) is V.COMMITTED
    for state in (S.BOUND, S.RUNNING, S.SUCCEEDED):
        await becomes(desk, state)
        assert await held(desk) == [1, 1]


async def test_together_with_others_only_those_join(desk: Desk) -> None:
    await gang(desk, 3)
    both = statement(GANG, run([0, 1], [0, 1]), run([2], [0], cid=NOTHING, group=1))
    assert verdict(await desk.commit(both)) is V.COMMITTED
    assert await held(desk) == [3, 1]


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_failed_best_effort_member_is_not_held(desk: Desk, leaves: bool) -> None:
    await gang(desk, 2)
    await fill(desk)
    await becomes(desk, S.RUNNING)
    if leaves:
        await becomes(desk, S.RELEASING)
    await becomes(desk, S.FAILED)
    assert await held(desk) == [0, 0]


async def test_an_evicted_best_effort_member_is_held_again_while_pending(desk: Desk) -> None:
    await gang(desk, 1)
    await fill(desk)
    await becomes(desk, S.RUNNING)
    for _ in range(2):
        assert await evict(desk) is V.COMMITTED
        assert await held(desk) == [0, 0]
        await becomes(desk, S.PENDING)
        assert await held(desk) == [1, 1]
        assert await fill(desk) is V.COMMITTED
        assert await held(desk) == [1, 1]
        await becomes(desk, S.RUNNING)


@pytest.mark.parametrize(("end", "left"), [(S.SUCCEEDED, 1), (S.FAILED, 0)])
async def test_a_victim_that_ends_by_itself(desk: Desk, end: TaskState, left: int) -> None:
    await gang(desk, 1)
    await fill(desk)
    await becomes(desk, S.RUNNING)
    await evict(desk)
    await becomes(desk, end)
    assert await held(desk) == [left, left]


@pytest.mark.parametrize("evicted", [False, True])
async def test_a_deleted_one_is_held_until_it_has_ended(desk: Desk, evicted: bool) -> None:
    """It is taken away once. What was never placed is said to be of its class."""
    await gang(desk, 2)
    if evicted:
        await fill(desk)
        await becomes(desk, S.RUNNING)
        await evict(desk)
        await becomes(desk, S.PENDING)
        gone = StatusItem(S.FAILED, GANG, [2], [0])
    else:
        gone = StatusItem(S.FAILED, GANG, [2], [0], NOTHING, 1)
    for applied in ([2], []):
        assert (await desk.record(gone)).applied == [applied]
        assert await held(desk) == [0, 0]
    assert await fill(desk) is V.TASK


@pytest.mark.parametrize(("cid", "group"), [(SMALL, 0), (99, 0), (NOTHING, 5), (-1, -1)])
async def test_others_that_are_deleted_leave_no_group(desk: Desk, cid: int, group: int) -> None:
    await gang(desk, 2)
    gone = StatusItem(S.FAILED, GANG, [1], [0], cid, group)
    assert (await desk.record(gone)).applied == [[1]]
    assert await held(desk) == [1, 1]
    placed = statement(GANG, run([1], [0]))
    assert verdict(await desk.commit(placed)) is V.TASK


async def test_the_cluster_has_it(desk: Desk) -> None:
    """Adopted from pending, it counts as before; and as somebody else has it, too."""
    await gang(desk, 2)
    for row in (0, 1):
        status_item = StatusItem(S.RUNNING, GANG, [2], [row], NOTHING, 1)
        assert (await desk.record(status_item)).applied == [[2]]
        assert await held(desk) == [1, 1]


async def test_a_gang_that_would_be_left_short_by_a_placement(desk: Desk) -> None:
    """Placed and failed, it makes no room for half a gang."""
    await gang(desk, 2)
    await fill(desk)
    await becomes(desk, S.FAILED)
    one = statement(GANG, run([0], [0]))
    assert verdict(await desk.commit(one)) is V.GANG
    both = statement(GANG, run([0, 1], [0, 1]))
    assert verdict(await desk.commit(both)) is V.COMMITTED


async def test_a_gang_that_would_be_left_short_by_an_eviction(desk: Desk) -> None:
    await gang(desk, 2)
    await fill(desk)
    await desk.commit(statement(GANG, run([0], [0])))
    for tix in (0, 2):
        await becomes(desk, S.RUNNING, tix)
    assert await held(desk) == [2, 1]
    for victim in (
        evicting(0, cid=SMALL, group=0, guards=GUARD_GANG),
        evicting(2, cid=NOTHING, group=1, guards=GUARD_GANG),
    ):
        assert verdict(await desk.commit(victim)) is V.GANG
        assert await held(desk) == [2, 1]


async def test_a_class_without_any_request_asks_for_nothing_either(desk: Desk) -> None:
    await desk.store(PutClass(5, [], b"none"), job(GANG, Group(-1, 2, 1)))
    placed = statement(GANG, run([2], [0], cid=5))
    assert verdict(await desk.commit(placed)) is V.COMMITTED
    assert await held(desk) == [1]
    await desk.store(PutClass(6, [(0, 0, 0), (PODS, 1, 0)], b"names another slot"))
    alone = statement(GANG, run([1], [0], cid=6))
    assert verdict(await desk.commit(alone)) is V.COMMITTED
    assert await held(desk) == [2]
