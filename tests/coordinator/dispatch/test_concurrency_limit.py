"""Pace: open turns shrink when conflicts rise, and grow again."""

from __future__ import annotations

from random import Random

from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.dispatch.window import GROW, LEAST, SAMPLE, ConcurrencyLimit
from shared.messages.messages import Epoch
from tests.coordinator.dispatch.test_dispatch import turn


def answered(
    concurrency: ConcurrencyLimit, calls: range, *, statements: int, lost: int
) -> list[int]:
    limits = []
    for call in calls:
        concurrency.judged(call=call, last_call=call, statements=statements, lost=lost)
        limits.append(concurrency.limit)
    return limits


def test_many_conflicts_halve_it_down_to_one_turn_and_none_bring_it_back() -> None:
    concurrency = ConcurrencyLimit(512)
    assert answered(concurrency, range(1, 12), statements=20, lost=10)[:4] == [256, 128, 64, 32]
    assert concurrency.limit == LEAST
    grown = answered(concurrency, range(12, 112), statements=20, lost=1)
    assert grown[:2] == [LEAST + GROW, LEAST + 2 * GROW]
    assert grown[-1] == 512


def test_few_statements_are_judged_together() -> None:
    concurrency = ConcurrencyLimit(64)
    assert set(answered(concurrency, range(1, SAMPLE), statements=1, lost=1)) == {64}
    assert answered(concurrency, range(SAMPLE, SAMPLE + 1), statements=1, lost=1) == [32]


def test_calls_sent_before_a_decrease_do_not_count_twice() -> None:
    concurrency = ConcurrencyLimit(512)
    concurrency.judged(call=1, last_call=4, statements=40, lost=40)
    for call in (2, 3, 4):
        concurrency.judged(call=call, last_call=6, statements=40, lost=40)
    assert concurrency.limit == 256
    concurrency.judged(call=5, last_call=6, statements=40, lost=40)
    assert concurrency.limit == 128


def test_shards_that_collide_lose_little_of_their_work_in_the_end() -> None:
    """Two shards that want the same 128 nodes: who takes longer over a call meets more of what the
    other committed meanwhile. Not both need to be slow for that: one writer loses nothing."""
    rng, limits_of_shards = Random(3), [ConcurrencyLimit(512), ConcurrencyLimit(512)]

    def milliseconds(turns: int) -> float:
        return 1.0 + turns / 64

    def part_lost(own: int, other: int) -> float:
        return min(0.95, other / milliseconds(other) * milliseconds(own) / 128)

    wasted: list[float] = []
    for call in range(1, 600):
        limits = [concurrency.limit for concurrency in limits_of_shards]
        rates = [limit / milliseconds(limit) for limit in limits]
        parts = [part_lost(limits[0], limits[1]), part_lost(limits[1], limits[0])]
        wasted.append(sum(r * p for r, p in zip(rates, parts, strict=True)) / sum(rates))
        for concurrency, part in zip(limits_of_shards, parts, strict=True):
            lost = sum(rng.random() < part for _ in range(SAMPLE))
            concurrency.judged(call=call, last_call=call, statements=SAMPLE, lost=lost)
    assert wasted[0] == 0.95
    assert sum(wasted[100:]) / len(wasted[100:]) < 0.25
    for call in range(600, 700):
        for concurrency in limits_of_shards:
            concurrency.judged(call=call, last_call=call, statements=SAMPLE, lost=0)
    assert [concurrency.limit for concurrency in limits_of_shards] == [512, 512]


def test_a_small_limit_makes_small_calls() -> None:
    dispatcher = Dispatcher(1, calls_in_flight=2, turns_per_call=64)
    dispatcher.up(0, Epoch(1, "x"))
    dispatcher.shards[0].concurrency.limit = 6
    for jid in range(20):
        dispatcher.route(turn(jid), {})
    sent = dispatcher.send()
    assert [len(send.turns) for send in sent] == [3, 3]
    assert dispatcher.send() == []
    dispatcher.returned(0, sent[0].call)
    dispatcher.shards[0].concurrency.limit = LEAST
    assert dispatcher.send() == []
    dispatcher.returned(0, sent[1].call)
    assert [len(send.turns) for send in dispatcher.send()] == [1]
