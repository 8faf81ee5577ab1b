"""Searches for victims under a KAI policy: which of them are open at the same moment."""

from __future__ import annotations

import pytest

from coordinator.order.order import Order
from coordinator.order.turn_contexts import tree_key
from shared.codec.packed import replace
from shared.messages.messages import Turn
from shared.messages.turn_context import TURN_CONTEXT, VICTIMS
from tests.coordinator.order.test_kai_queues import (
    Queue_,
    QueuedJob,
    SessionAndOrder,
    infeasible,
    whole,
)

LEAVES = ["a1", "a2", "b1", "c1"]
QUEUES = [
    *(Queue_(name, quota=8) for name in "abc"),
    *(Queue_(leaf, leaf[0], quota=8) for leaf in LEAVES),
]
"""Three trees of queues, the first of two leaves."""


def contended(actions: str, *, waiting: list[str] = LEAVES, second: bool = False) -> Order:
    """Each leaf runs a job; these have another one that does not fit beside it, or two."""
    jobs = [QueuedJob(f"{leaf}-runs", leaf, gpus=2, priority=40) for leaf in LEAVES]
    jobs += [QueuedJob(f"{leaf}-waits", leaf, gpus=8, priority=60) for leaf in waiting]
    if second:
        jobs += [QueuedJob(f"{leaf}-second", leaf, gpus=7, priority=55) for leaf in waiting]
    policy: dict[str, object] = {"actions": f"allocate, {actions}"}
    order = SessionAndOrder(QUEUES, jobs, gpus=8, policy=policy).order(window=16)
    order.begin(0.0)
    bound = 0
    while bound < len(LEAVES) and (turn := order.next_turn()) is not None:
        runs = name(order, turn.jid).endswith("runs")
        order.outcome(whole(order, turn) if runs else infeasible(turn))
        bound += runs
    return order


def name(order: Order, jid: int) -> str:
    return order.jobs[jid].job.name


def searches(order: Order, now: float) -> dict[str, Turn]:
    """Leaf -> the search for its job, of those that a step opens."""
    order.begin(now)
    opened: dict[str, Turn] = {}
    while (turn := order.next_turn()) is not None:
        if turn.action == "allocate":
            order.outcome(infeasible(turn))
        else:
            opened[name(order, turn.jid).removesuffix("-waits")] = turn
    order.validate()
    return opened


def keys(turn: Turn) -> set[str]:
    return {key for key in TURN_CONTEXT.decode(turn.world).versions if key.startswith(VICTIMS)}


def test_one_search_for_each_tree_of_queues_is_open() -> None:
    order = contended("preempt")
    first = searches(order, 1.0)
    assert {leaf[0] for leaf in first} == {"a", "b", "c"}
    assert len(first) == 3
    assert len(set.union(*map(keys, first.values()))) == 3, "each relies on its own tree alone"
    assert searches(order, 1.1) == {}
    (left,) = set(LEAVES) - set(first)
    assert order.jobs[first["b1"].jid].status.name == "OPEN"
    order.outcome(infeasible(first["b1"]))
    assert searches(order, 1.101) == {}, "another tree has nothing to do with it"
    (own,) = (turn for leaf, turn in first.items() if leaf[0] == "a")
    order.outcome(infeasible(own))
    assert set(searches(order, 1.102)) == {left}, "it is not lost, and does not wait for a pause"


def move(order: Order, name: str, below: str) -> None:
    """Hang a queue below another one."""
    cluster = order.accounts.cluster
    queue = next(info.queue for info in cluster.queues.values() if info.queue.name == name)
    order.put_object(replace(cluster.objects.kai_queues[name], parent=below))
    order.put_queue(replace(queue, parent=order.queue_ids[below]))


def test_a_search_whose_queue_moves_touches_the_tree_that_it_is_in_now() -> None:
    """Both would be judged by what that tree holds, and charge it."""
    order = contended("preempt", waiting=["a1", "b1"], second=True)
    first = searches(order, 1.0)
    assert set(first) == {"a1", "b1"}
    order.outcome(infeasible(first["b1"]))
    move(order, "a1", "b")
    assert searches(order, 1.1) == {}, "the search of a1 is within b now"
    order.outcome(infeasible(first["a1"]))
    (after,) = searches(order, 1.2).values()
    assert keys(after) == keys(first["b1"]), "one search within b, whichever of its leaves has it"
    assert keys(after) != keys(first["a1"])


def test_the_tree_that_a_queue_moved_to_waits_for_word_of_the_evictions() -> None:
    order = contended("preempt", waiting=["a1"])
    (turn,) = searches(order, 1.0).values()
    move(order, "a1", "b")
    searches(order, 1.1)
    (old,), spanning = keys(turn), order.spanning
    assert spanning.out([turn.jid]) == [old], "what its statement moves, if it was lost"
    new = tree_key(order.accounts.cluster.queues[order.queue_ids["b"]])
    spanning.accepted(turn.jid, {old: 1}, evicts=True)
    spanning.give_back(turn.jid)
    assert spanning.touched({old})
    assert spanning.touched({new})
    spanning.evictions_reported(turn.jid)
    assert not spanning.touched({old, new})


def test_a_job_that_waits_for_a_search_in_the_other_tree_is_not_lost() -> None:
    """Queues that an open search touches stay busy until it returns."""
    order = contended("preempt", waiting=["a1", "a2"])
    (leaf, turn), *_ = searches(order, 1.0).items()
    move(order, leaf, "b")
    assert searches(order, 1.1) == {}
    order.outcome(infeasible(turn))
    ((other, _),) = searches(order, 1.2).items()
    assert {leaf, other} == {"a1", "a2"}


@pytest.mark.parametrize("action", ["reclaim", "consolidation"])
def test_a_search_over_all_queues_is_alone(action: str) -> None:
    order = contended(action)
    (first,) = searches(order, 1.0).values()
    assert len(keys(first)) == 3
    assert searches(order, 1.1) == {}
    order.outcome(infeasible(first))
    assert len(searches(order, 1.2)) == 1


def test_nobody_passes_a_search_that_waits_for_others() -> None:
    """The second job of each leaf would search within its queue, so that the search over all
    queues would find one of them open at every look."""
    order = contended("preempt, reclaim", waiting=["a1", "b1"], second=True)
    opened = searches(order, 1.0)
    first, other = opened  # in queue order
    assert {turn.action for turn in opened.values()} == {"preempt"}
    order.outcome(infeasible(opened[first]))  # goes on with reclaim, which waits
    assert searches(order, 1.1) == {}
    order.outcome(infeasible(opened[other]))
    (alone,) = searches(order, 1.2).items()
    assert (alone[0], alone[1].action) == (first, "reclaim")
    assert searches(order, 1.3) == {}
