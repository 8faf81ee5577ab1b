"""Order of status writes: by importance, once for many changes, with pauses, bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.cluster.kubernetes.writes import status_queue
from coordinator.cluster.kubernetes.writes.status_queue import (
    LONGEST_PAUSE_SECONDS,
    PAUSE_SECONDS,
    Importance,
    StatusQueue,
)

Queue = StatusQueue[str]


def take_all(queue: Queue, now: float = 0.0) -> list[str]:
    keys = []
    while (key := queue.take(now)) is not None:
        keys.append(key)
    return keys


def test_gangs_come_first_and_equal_importance_goes_by_order_of_change() -> None:
    queue = Queue()
    for key, importance in (
        ("event of b", Importance.POD_EVENT),
        ("b", Importance.POD),
        ("a", Importance.POD),
        ("gang", Importance.GROUP),
    ):
        queue.changed(key, importance, 0.0)
    assert take_all(queue) == ["gang", "b", "a", "event of b"]


def test_many_changes_are_one_write_and_the_next_comes_after_a_pause() -> None:
    queue = Queue()
    for _ in range(3):
        queue.changed("a", Importance.POD, 0.0)
    assert take_all(queue) == ["a"]
    queue.written("a", "short by 2", 1.0)
    for _ in range(3):
        queue.changed("a", Importance.POD, 1.5)
    assert take_all(queue, 1.5) == []
    assert take_all(queue, 1.0 + PAUSE_SECONDS) == ["a"]


def test_pauses_grow_with_each_write_and_begin_anew_after_a_quiet_time() -> None:
    queue, now, pauses = Queue(), 0.0, []
    for _ in range(7):
        queue.written("a", now, now)
        queue.changed("a", Importance.POD, now)
        began = now
        while queue.take(now) is None:
            now += PAUSE_SECONDS
        pauses.append(now - began)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 16.0, 16.0]
    now += 16.0 + LONGEST_PAUSE_SECONDS
    queue.written("a", now, now)
    queue.changed("a", Importance.POD, now)
    assert queue.take(now + PAUSE_SECONDS) == "a"


def test_an_object_taken_before_the_end_of_its_pause_is_not_taken_again_at_its_end() -> None:
    queue = Queue()
    queue.written("gang", "Inqueue", 0.0)
    queue.changed("gang", Importance.GROUP, 0.1)
    assert queue.take_paused("gang")
    assert not queue.take_paused("gang")
    queue.written("gang", "Unschedulable", 0.2)
    queue.changed("gang", Importance.GROUP, 0.3)
    assert queue.take(PAUSE_SECONDS) is None
    assert queue.take(0.2 + 2 * PAUSE_SECONDS) == "gang"


def test_a_status_already_written_is_not_new() -> None:
    queue = Queue()
    assert queue.is_new("a", "short by 2")
    queue.written("a", "short by 2", 0.0)
    assert not queue.is_new("a", "short by 2") and queue.is_new("a", "short by 1")
    queue.forget("a")
    assert queue.is_new("a", "short by 2")


def test_beyond_the_limit_the_newest_of_the_least_important_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_queue, "LONGEST", 3)
    queue = Queue()
    for key in ("a", "b", "c"):
        queue.changed(key, Importance.POD, 0.0)
    queue.changed("gang", Importance.GROUP, 0.0)
    assert queue.dropped == 1
    assert take_all(queue) == ["gang", "a", "b"]


Step = st.tuples(st.sampled_from("abcd"), st.sampled_from(Importance), st.floats(0.0, 4.0))


@given(st.lists(Step, max_size=60))
def test_every_change_is_written_and_no_object_twice_within_a_pause(
    steps: list[tuple[str, Importance, float]],
) -> None:
    queue, now = StatusQueue[tuple[str, Importance]](), 0.0
    written: dict[tuple[str, Importance], float] = {}
    open_changes: set[tuple[str, Importance]] = set()

    def write(now: float) -> None:
        while (key := queue.take(now)) is not None:
            assert now >= written.get(key, -PAUSE_SECONDS) + PAUSE_SECONDS
            open_changes.remove(key)
            queue.written(key, now, now)
            written[key] = now

    for name, importance, pause in steps:
        now += pause
        queue.changed((name, importance), importance, now)
        open_changes.add((name, importance))
        write(now)
    write(now + LONGEST_PAUSE_SECONDS)
    assert not open_changes
