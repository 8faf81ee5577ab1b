"""Calls that arrive twice."""

from __future__ import annotations

from shard_worker.worker.served_calls import REMEMBERED, WITHOUT_TURNS, ServedCalls


def test_a_copy_of_a_call_is_recognized_after_any_others() -> None:
    served = ServedCalls()
    assert [served.is_new(number) for number in (4, 7, 5, 4, 7, 6, 5)] == [
        True,
        True,
        True,
        False,
        False,
        True,
        False,
    ]


def test_a_call_without_turns_may_come_any_number_of_times() -> None:
    served = ServedCalls()
    assert all(served.is_new(WITHOUT_TURNS) for _ in range(3))


def test_memory_is_bounded() -> None:
    served = ServedCalls()
    for number in range(1, REMEMBERED + 2):
        served.is_new(number)
    assert not served.is_new(2)
    assert served.is_new(1)  # the oldest was forgotten
