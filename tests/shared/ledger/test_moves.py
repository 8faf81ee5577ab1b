"""Victims that move, by example, on a real server and on one in memory: the promise of their
new place stands and falls with their eviction."""

from __future__ import annotations

from shared.codec.packed import replace
from shared.ledger.entries.log import CommitEntry
from shared.ledger.entries.snapshot import Nomination
from shared.ledger.entries.stored import Evicted
from shared.messages.messages import NOMINATE, EvictRun, Run, StatusItem
from tests.shared.ledger.evicting import (
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
from tests.shared.ledger.support import BIG, CPU, Desk, entry_of_kind, run, statement

PRIORITY = 5
TAKEN = (V.COMMITTED, V.RECHECKED)


def moving(tasks: list[int], rows: list[int], to: list[int], *, spec: int = 1) -> EvictRun:
    return replace(victims(tasks, rows), to=to, specs=[spec] * len(to), priority=PRIORITY)


async def test_a_victim_is_promised_its_new_place_in_the_same_statement(desk: Desk) -> None:
    await running(desk)
    reply = await desk.commit(evicting(moving([1], [0], [1]), place=True))
    assert verdict(reply)[0] in TAKEN
    assert (await desk.slots(0))[CPU] == (8000, 8000, 0, 4000, 4000)
    assert (await desk.slots(1))[CPU][4] == 4000
    held = (await desk.ledger.snapshot()).nominations[VICTIM]
    new = Run(NOMINATE, BIG, 0, [1], [1], [], [], [4])
    assert held == Nomination(VICTIM, PRIORITY, held.since, 9e9, [new])
    entry = entry_of_kind((await desk.ledger.read_log("0"))[-1], CommitEntry)
    assert entry.accepted[0].evictions == [moving([1], [0], [1])]
    [evicted] = (await desk.ledger.read_binds("b"))[-1].evicts
    assert evicted == Evicted(VICTIM, WINNER, "preempt: priority", [1], [0], [0], [1])


async def test_the_promise_outlives_the_pod_and_is_kept_by_its_bind(desk: Desk) -> None:
    await running(desk)
    await desk.commit(evicting(moving([1], [0], [1])))
    await desk.record(StatusItem(S.PENDING, VICTIM, [1], [0]))
    assert (await desk.slots(1))[CPU][4] == 4000
    assert verdict(await desk.commit(statement(VICTIM, run([1], [1], cid=BIG))))[0] in TAKEN
    assert (await desk.slots(1))[CPU][1:] == (4000, 0, 0, 0)
    assert (await desk.ledger.snapshot()).nominations == {}


async def test_without_room_for_the_move_nobody_is_evicted(desk: Desk) -> None:
    await running(desk)
    filler = statement(WINNER, run([0, 1], [1, 1], cid=BIG))
    assert verdict(await desk.commit(filler)) == (V.COMMITTED, -1)
    before = await plain(desk)
    reply = await desk.commit(evicting(moving([1], [0], [1])))
    assert verdict(reply) == (V.NOMINATION, 1)
    assert await plain(desk) == before


async def test_each_move_takes_room_from_the_next(desk: Desk) -> None:
    await running(desk)
    await desk.commit(statement(WINNER, run([0], [1], cid=BIG)))
    before = await plain(desk)
    reply = await desk.commit(evicting(moving([0, 1], [0, 0], [1, 1])))
    assert verdict(reply) == (V.NOMINATION, 1)
    assert await plain(desk) == before


async def test_a_refused_core_takes_the_moves_back(desk: Desk) -> None:
    await running(desk)
    before = await plain(desk)
    too_much = run([0, 1], [0, 0], kind=NOMINATE, cid=BIG)
    move = evicting(moving([1], [0], [1]))
    assert verdict(await desk.commit(replace(move, core=[too_much]))) == (V.NOMINATION, 0)
    assert await plain(desk) == before


async def test_another_specification_of_the_new_node_refuses(desk: Desk) -> None:
    await running(desk)
    assert verdict(await desk.commit(evicting(moving([1], [0], [1], spec=7)))) == (V.NODE, 1)


async def test_a_task_with_a_nomination_cannot_be_moved(desk: Desk) -> None:
    """A second promise would take the place of the first, and what that holds stays taken."""
    await running(desk)
    assert verdict(await desk.commit(evicting(moving([1], [0], [1]))))[0] in TAKEN
    before = await plain(desk)
    assert verdict(await desk.commit(evicting(moving([0], [0], [1])))) == (V.TASK, 0)
    assert await plain(desk) == before
