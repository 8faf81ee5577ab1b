"""Guards of evictions, on a real server and on one in memory: gangs and guarantees, each run of
victims by its own guards."""

from __future__ import annotations

import pytest

from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import PutQueue
from shared.ledger.gang_minimum import stored_minimum
from shared.messages.messages import (
    GUARD_GANG,
    GUARD_GUARANTEE,
    GUARD_REST,
    GUARD_WHOLE,
    Group,
    Statement,
    StatusItem,
)
from tests.shared.ledger.evicting import (
    OTHER_VICTIM,
    VICTIM,
    WINNER,
    S,
    V,
    evicting,
    plain,
    running,
    verdict,
    victims,
)
from tests.shared.ledger.support import (
    BIG,
    CPU,
    LEAF,
    MEMORY,
    OTHER,
    PODS,
    ROOT,
    SMALL,
    Desk,
    job,
    run,
    statement,
)


async def test_a_gang_keeps_its_minimum_or_goes_whole(desk: Desk) -> None:
    role = Group(0, 2)
    await desk.store(job(VICTIM, Group(-1, 3), role, role), job(WINNER))
    parts = run([0, 1], [0, 0], group=1), run([5, 6, 7], [1, 1, 1], group=2)
    await desk.commit(statement(VICTIM, *parts))
    await desk.record(StatusItem(S.RUNNING, VICTIM, [0, 1, 5, 6, 7], [0, 0, 1, 1, 1]))
    before = await plain(desk)

    def ask(first: list[int], second: list[int], guards: int = GUARD_GANG) -> Statement:
        return evicting(
            victims(first, [0] * len(first), cid=SMALL, group=1),
            victims(second, [1] * len(second), cid=SMALL, group=2),
            guards=guards,
        )

    assert verdict(await desk.commit(ask([0], []))) == (V.GANG, 1)
    assert verdict(await desk.commit(ask([], [5, 6]))) == (V.GANG, 2)
    assert verdict(await desk.commit(ask([0, 1], [7]))) == (V.GANG, 0)
    assert await plain(desk) == before
    assert verdict(await desk.commit(ask([], [7])))[0] is V.COMMITTED
    assert verdict(await desk.commit(ask([0, 1], [5, 6])))[0] is V.COMMITTED
    assert [g.held for g in (await desk.ledger.snapshot()).jobs[VICTIM].groups] == [0, 0, 0]


async def test_a_gang_keeps_as_many_of_its_sub_groups_as_it_needs(desk: Desk) -> None:
    minima = Group(-1, stored_minimum(1, 1)), Group(0, 2), Group(0, 2)
    await desk.store(job(VICTIM, *minima), job(WINNER))
    await desk.commit(
        statement(VICTIM, run([0, 1], [0, 0], group=1), run([5, 6], [1, 1], group=2)),
    )
    await desk.commit(statement(VICTIM, run([9], [2])))
    await desk.record(StatusItem(S.RUNNING, VICTIM, [0, 1, 5, 6, 9], [0, 0, 1, 1, 2]))
    first = victims([0, 1], [0, 0], cid=SMALL, group=1)
    second = victims([5, 6], [1, 1], cid=SMALL, group=2)
    both = evicting(first, second, guards=GUARD_GANG)
    assert verdict(await desk.commit(both)) == (V.GANG, 0)
    assert verdict(await desk.commit(evicting(first, guards=GUARD_GANG)))[0] is V.COMMITTED
    assert verdict(await desk.commit(evicting(second, guards=GUARD_GANG))) == (V.GANG, 0)


async def test_without_the_guard_a_gang_may_break(desk: Desk) -> None:
    await running(desk, Group(-1, 2))
    assert verdict(await desk.commit(evicting(victims([0], [0]))))[0] is V.COMMITTED
    assert (
        verdict(await desk.commit(evicting(victims([1], [0]), guards=GUARD_GANG)))[0] is V.COMMITTED
    )


async def one_gang_in_part_and_one_whole(desk: Desk) -> None:
    """VICTIM has two members, and needs three by now; OTHER_VICTIM has the two that it needs."""
    await running(desk, Group(-1, 2))
    await desk.store(job(OTHER_VICTIM, Group(-1, 2)))
    await desk.commit(statement(OTHER_VICTIM, run([0, 1], [1, 1], cid=BIG)))
    await desk.record(StatusItem(S.RUNNING, OTHER_VICTIM, [0, 1], [1, 1]))
    await desk.store(job(VICTIM, Group(-1, 3), version=2))


async def test_each_gang_is_guarded_by_itself(desk: Desk) -> None:
    """A view saw one gang in part, and the other whole with a member to spare, which has gone."""
    await one_gang_in_part_and_one_whole(desk)
    in_part = victims([0], [0], version=2)
    guarded = replace(victims([0], [1], jid=OTHER_VICTIM), guards=GUARD_GANG)
    before = await plain(desk)
    for both in ((in_part, guarded), (guarded, in_part)):
        assert verdict(await desk.commit(evicting(*both))) == (V.GANG, 0)
        assert await plain(desk) == before
    rest = replace(guarded, tasks=[0, 1], rows=[1, 1])
    assert verdict(await desk.commit(evicting(in_part, rest)))[0] is V.COMMITTED
    snapshot = await desk.ledger.snapshot()
    assert [snapshot.jobs[jid].groups[0].held for jid in (VICTIM, OTHER_VICTIM)] == [1, 0]


async def test_a_gang_in_part_may_go_on_leaving_alone(desk: Desk) -> None:
    await one_gang_in_part_and_one_whole(desk)
    in_part = victims([0], [0], version=2)
    refused = evicting(in_part, guards=GUARD_GANG)
    assert verdict(await desk.commit(refused)) == (V.GANG, 0)
    assert verdict(await desk.commit(evicting(in_part)))[0] is V.COMMITTED


async def test_an_eviction_of_a_whole_gang_may_leave_ended_members_but_no_new_one(
    desk: Desk,
) -> None:
    """Seed 81570: a worker evicts all of a gang that runs, two of which have ended well. Another
    one placed a member meanwhile, which would be left alone."""
    await desk.store(job(VICTIM, Group(-1, 5)), job(WINNER))
    rows = [0, 0, 1, 1, 2]
    await desk.commit(statement(VICTIM, run([0, 1, 2, 3, 4], rows)))
    await desk.record(StatusItem(S.RUNNING, VICTIM, [0, 1, 2, 3, 4], rows))
    await desk.record(StatusItem(S.SUCCEEDED, VICTIM, [0, 1], [0, 0]))
    leaving = victims([2, 3, 4], [1, 1, 2], cid=SMALL)

    def ask(rest: int) -> Statement:
        return evicting(leaving, guards=GUARD_GANG + rest * GUARD_REST)

    assert verdict(await desk.commit(ask(1))) == (V.GANG, 0)
    await desk.commit(statement(VICTIM, run([5], [3])))
    await desk.record(StatusItem(S.RUNNING, VICTIM, [5], [3]))
    before = await plain(desk)
    assert verdict(await desk.commit(ask(2))) == (V.GANG, 0)
    assert await plain(desk) == before
    with_it = replace(leaving, tasks=[2, 3, 4, 5], rows=[1, 1, 2, 3])
    both = evicting(with_it, guards=GUARD_GANG + 2 * GUARD_REST)
    assert verdict(await desk.commit(both))[0] is V.COMMITTED


async def test_a_job_that_leaves_whole_leaves_nobody_but_its_ended_members(desk: Desk) -> None:
    """A member that another worker placed meanwhile stays above the minimum, and alone."""
    await desk.store(job(VICTIM, Group(-1, 1)), job(WINNER))
    await desk.commit(statement(VICTIM, run([0, 1, 2], [0, 0, 1])))
    await desk.record(StatusItem(S.RUNNING, VICTIM, [0, 1, 2], [0, 0, 1]))
    await desk.record(StatusItem(S.SUCCEEDED, VICTIM, [0], [0]))
    one, rest = victims([1], [0], cid=SMALL), victims([1, 2], [0, 1], cid=SMALL)
    before = await plain(desk)
    for part, guards in ((one, GUARD_WHOLE + GUARD_REST), (rest, GUARD_WHOLE)):
        assert verdict(await desk.commit(evicting(part, guards=guards))) == (V.GANG, 0)
    assert await plain(desk) == before
    assert verdict(await desk.commit(evicting(one, guards=GUARD_GANG)))[0] is V.COMMITTED
    whole = evicting(victims([2], [1], cid=SMALL), guards=GUARD_WHOLE + GUARD_REST)
    assert verdict(await desk.commit(whole))[0] is V.COMMITTED


async def test_a_rest_is_no_guarantee(desk: Desk) -> None:
    """The bit beside it is another guard."""
    await running(desk)
    await desk.store(PutQueue(LEAF, ROOT, None, b"q", [(CPU, 8000)]))
    one = victims([0], [0])
    rest = evicting(one, guards=GUARD_GANG + 3 * GUARD_REST)
    guarded = evicting(one, guards=GUARD_GANG + GUARD_GUARANTEE + 3 * GUARD_REST)
    assert verdict(await desk.commit(guarded)) == (V.QUEUE, LEAF)
    assert verdict(await desk.commit(rest))[0] is V.COMMITTED


async def test_runs_of_one_gang_are_judged_when_all_have_left(desk: Desk) -> None:
    await running(desk, Group(-1, 2))
    both = [replace(victims([tix], [0]), guards=GUARD_GANG) for tix in (0, 1)]
    assert verdict(await desk.commit(evicting(both[0]))) == (V.GANG, 0)
    assert verdict(await desk.commit(evicting(*both)))[0] is V.COMMITTED


async def test_each_queue_is_guarded_by_itself(desk: Desk) -> None:
    """One queue's guarantee was taken already; the other's may not be taken."""
    await running(desk)
    await desk.store(
        PutQueue(LEAF, ROOT, None, b"poor", [(CPU, 12_000)]),
        PutQueue(OTHER, ROOT, None, b"rich", [(CPU, 8000)]),
        job(OTHER_VICTIM, qid=OTHER),
    )
    await desk.commit(statement(OTHER_VICTIM, run([0, 1], [1, 1], cid=BIG), qid=OTHER))
    await desk.record(StatusItem(S.RUNNING, OTHER_VICTIM, [0, 1], [1, 1]))
    poor = victims([0], [0])
    rich = replace(victims([0], [1], jid=OTHER_VICTIM), guards=GUARD_GUARANTEE)
    before = await plain(desk)
    for both in ((poor, rich), (rich, poor)):
        assert verdict(await desk.commit(evicting(*both))) == (V.QUEUE, OTHER)
        assert await plain(desk) == before
    assert verdict(await desk.commit(evicting(poor)))[0] is V.COMMITTED


@pytest.mark.parametrize("owner", [LEAF, ROOT])
async def test_a_queue_and_those_above_it_keep_what_is_guaranteed(desk: Desk, owner: int) -> None:
    await running(desk)
    parent = -1 if owner == ROOT else ROOT
    guaranteed = PutQueue(owner, parent, None, b"q", [(CPU, 4000), (PODS, 1)])
    await desk.store(guaranteed)
    assert (await desk.ledger.snapshot()).queues[owner].guarantee == {CPU: 4000, PODS: 1}
    both = evicting(victims([0, 1], [0, 0]), guards=GUARD_GUARANTEE)
    assert verdict(await desk.commit(both)) == (V.QUEUE, owner)
    one = evicting(victims([0], [0]), guards=GUARD_GUARANTEE)
    assert verdict(await desk.commit(one))[0] is V.COMMITTED
    rest = evicting(victims([1], [0]), guards=GUARD_GUARANTEE)
    assert verdict(await desk.commit(rest)) == (V.QUEUE, owner)
    await desk.record(StatusItem(S.PENDING, VICTIM, [0], [0]))
    assert verdict(await desk.commit(rest)) == (V.QUEUE, owner)
    await desk.store(replace(guaranteed, guarantee=[(CPU, 1)]))
    assert verdict(await desk.commit(rest)) == (V.QUEUE, owner)
    await desk.store(replace(guaranteed, guarantee=[]))
    assert verdict(await desk.commit(rest))[0] is V.COMMITTED


async def test_guarantees_beyond_the_lower_limb_count(desk: Desk) -> None:
    await running(desk)
    one = evicting(victims([0], [0]), guards=GUARD_GUARANTEE)
    for guarantee, expected in ((2**32 + 1, V.QUEUE), (2**32, V.COMMITTED)):
        await desk.store(PutQueue(LEAF, ROOT, None, b"q", [(MEMORY, guarantee)]))
        assert verdict(await desk.commit(one))[0] is expected
