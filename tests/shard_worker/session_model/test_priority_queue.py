"""The queue that asks for the order while it is used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.session_model.priority_queue import LiveQueue, PriorityQueue


@given(st.lists(st.integers(-5, 5)))
def test_it_pops_in_order(items: list[int]) -> None:
    assert PriorityQueue(lambda a, b: a - b, items).drain() == sorted(items)


def test_an_order_that_moves_counts_from_then_on() -> None:
    share = {"a": 0, "b": 1, "c": 2}
    queue = PriorityQueue(lambda x, y: share[x] - share[y], share)
    assert queue.pop() == "a"
    share["a"] = 3
    queue.push("a")
    assert queue.drain() == ["b", "c", "a"]


def test_pushing_back_the_one_popped_comes_round() -> None:
    """Round robin of queues: each turn costs share."""
    share = {"a": 0, "b": 0, "c": 0}
    queue = PriorityQueue(lambda x, y: share[x] - share[y], share)
    for _ in range(9):
        name = queue.pop()
        share[name] += 1
        queue.push(name)
    assert share == {"a": 3, "b": 3, "c": 3}


def test_an_empty_queue_says_so() -> None:
    queue: PriorityQueue[int] = PriorityQueue(lambda a, b: a - b)
    assert not queue
    with pytest.raises(IndexError):
        queue.pop()


def test_a_live_queue_sees_shares_that_moved_while_it_waited() -> None:
    """One's turn makes the others dearer that a heap would not look at again."""
    share = {"a": 0, "b": 1, "c": 2}
    queue = LiveQueue(lambda x, y: share[x] - share[y], share)
    share["a"], share["b"] = 4, 3
    assert queue.drain() == ["c", "b", "a"]
    with pytest.raises(IndexError):
        queue.pop()
