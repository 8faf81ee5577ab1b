"""Times at which objects are walked, in processes that hold very many for a long time.

``test_garbage_collection`` runs these in a process of their own: each of them walks all objects
several times, and those that the tests have take half a second."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from shared import garbage_collection
from shared.garbage_collection import (
    LEAST_GROWN,
    LOOK_SECONDS,
    REST_PERIODS,
    SAMPLE_EVERY,
    YOUNG,
    RestingCollector,
)


@dataclass(eq=False)
class Cycle:
    """Something that refers to itself, and so ends by a walk alone."""

    itself: Cycle | None = None


def cycle() -> Cycle:
    one = Cycle()
    one.itself = one
    return one


class Process:
    """Periods of a process, at rest or busy, after each of which the collector looks."""

    def __init__(self) -> None:
        self.collector = RestingCollector()
        self.collector.begin()
        self._now, self._used = 100.0, 0.0
        self.collector.look(self._now, self._used)

    def period(self, *, busy: bool, hurry: bool = False) -> None:
        self._now += LOOK_SECONDS
        self._used += LOOK_SECONDS if busy else 0.0
        self.collector.look(self._now, self._used, hurry=hurry)

    def rest(self, *, hurry: bool = False) -> None:
        for _ in range(REST_PERIODS):
            self.period(busy=False, hurry=hurry)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """A process that may walk all objects however many the other tests have."""
    monkeypatch.setattr(garbage_collection, "WALK_SECONDS", 60.0)
    yield Process()
    gc.unfreeze()
    gc.collect()


def walks() -> list[int]:
    return [each["collections"] for each in gc.get_stats()]


def leave_cycles(count: int) -> None:
    for _ in range(count):
        cycle()


def test_what_is_there_at_the_beginning_is_set_aside() -> None:
    one = cycle()
    RestingCollector().begin()
    assert not any(other is one for other in gc.get_objects())


def test_what_an_earlier_load_left_is_collected_by_the_next() -> None:
    RestingCollector().begin()
    one = cycle()
    before, one = weakref.ref(one), cycle()
    RestingCollector().begin()
    assert before() is None
    assert one.itself is one


def test_nothing_is_walked_while_busy_but_a_sample(process: Process) -> None:
    kept: list[list[list[int]]] = []
    process.period(busy=True)
    kept.append([[] for _ in range(2 * YOUNG)])
    process.period(busy=True)  # the first sample
    before = walks()
    for _ in range(SAMPLE_EVERY - 1):
        kept.append([[] for _ in range(2 * YOUNG)])
        process.period(busy=True)
    assert walks() == before
    kept.append([[] for _ in range(2 * YOUNG)])
    assert walks()[0] > before[0], "the sample"
    process.period(busy=True)
    before = walks()
    kept.append([[] for _ in range(2 * YOUNG)])
    assert walks() == before, "it found nothing"


def test_the_sample_goes_on_while_it_finds_garbage(process: Process) -> None:
    process.period(busy=True)
    for _ in range(3):
        leave_cycles(2 * YOUNG)
        process.period(busy=True)
        one = weakref.ref(cycle())
        leave_cycles(2 * YOUNG)
        assert one() is None


def test_a_sample_with_little_garbage_ends(process: Process) -> None:
    """Some 57 objects of 80,000, in collections of both young generations."""
    process.period(busy=True)
    kept: list[list[object]] = []
    for number in range(4 * YOUNG):
        some: list[object] = []
        if number % 1400:
            kept.append(some)
        else:
            some.append(some)
    process.period(busy=True)
    assert not gc.isenabled()


def test_what_left_garbage_is_sampled_again_after_a_rest(process: Process) -> None:
    process.period(busy=True)
    leave_cycles(2 * YOUNG)
    process.period(busy=True)
    process.rest()
    process.period(busy=True)
    one = weakref.ref(cycle())
    leave_cycles(2 * YOUNG)
    assert one() is None


def test_cycles_left_while_busy_are_collected_at_rest(process: Process) -> None:
    one = weakref.ref(cycle())
    kept: list[list[int]] = [[] for _ in range(2 * LEAST_GROWN + gc.get_freeze_count())]
    process.period(busy=True)
    process.period(busy=False)
    process.period(busy=True)
    process.rest(hurry=True)
    assert one() is not None, "busy in between, then somebody waits"
    process.period(busy=False)
    assert one() is None
    del kept


def test_a_process_that_makes_many_objects_is_not_at_rest(process: Process) -> None:
    before, one = walks()[2], weakref.ref(cycle())
    kept: list[list[int]] = [[] for _ in range(2 * LEAST_GROWN + gc.get_freeze_count())]
    process.period(busy=False)
    kept += [[] for _ in range(2 * YOUNG)]
    process.period(busy=False)
    assert walks()[2] == before
    assert one() is not None


def test_cycles_left_at_rest_are_collected_in_the_next_period(process: Process) -> None:
    one = weakref.ref(cycle())
    process.period(busy=False)
    assert one() is None


def test_without_new_memory_nothing_is_walked_again_at_rest(process: Process) -> None:
    before = walks()[2]
    for _ in range(3):
        process.rest()
    assert walks()[2] == before


def test_all_objects_are_not_walked_where_that_takes_too_long(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage_collection, "WALK_SECONDS", 1e-6)
    kept: list[list[int]] = [[] for _ in range(2 * LEAST_GROWN + gc.get_freeze_count())]
    process.period(busy=True)
    before = walks()[2]
    process.rest()
    assert walks()[2] == before
    del kept


def test_memory_stays_flat_over_many_bursts_that_leave_cycles(process: Process) -> None:
    sizes = []
    for _ in range(20):
        for _ in range(3):
            leave_cycles(LEAST_GROWN // 10)
            process.period(busy=True)
        process.rest()
        sizes.append(len(gc.get_objects()) + gc.get_freeze_count())
    assert max(sizes[10:]) <= 1.1 * max(sizes[:10])
