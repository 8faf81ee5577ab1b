"""Order under capacity: what is guaranteed to others is lent to nobody, and a tree that is none
gives nobody anything."""

from __future__ import annotations

from coordinator.order.order import Order
from shard_worker.dialects.open_session import open_session
from shared.messages.messages import OutcomeCode
from shared.model.model import Queue
from shared.policy.dialect import parse_policy
from shared.units.slots import CPU
from tests.builders.rows import ONE, job, node
from tests.coordinator.order.helpers import answer, placed
from tests.coordinator.order.helpers import turns as turns_of
from tests.coordinator.order.test_sessions import contending, labelled


def order(*queues: Queue, hierarchy: bool = False, **flags: bool) -> Order:
    """16 cores, and a queue plugin that knows limits and no shares."""
    plugin = {"name": "capacity", "enableHierarchy": hierarchy, **flags}
    policy = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, plugin]}]}
    new_order = Order(open_session(parse_policy(policy)), window=99)
    new_order.accounts.classes[0] = ONE
    for queue in queues:
        new_order.put_queue(queue)
    new_order.accounts.put_node(node(0, cpus=16))
    return new_order


def turns(order: Order) -> list[int]:
    order.begin(0.0)
    results = []
    while (turn := order.next_turn()) is not None:
        results.append(turn.jid)
    return results


GUARANTEED = Queue(0, "a", guarantee=((CPU, 10000),))


def test_guarantees_of_others_are_not_borrowed() -> None:
    new_order = order(GUARANTEED, Queue(1, "b"))
    for jid in range(8):
        new_order.put_job(job(jid, queue="b"))
    assert turns(new_order) == [0, 1, 2, 3, 4, 5]
    assert new_order.jobs[6].reason == "WaitingForQuota"
    new_order.put_job(job(8, queue="a", count=10))
    assert turns(new_order) == [8]


def test_where_the_policy_asks_for_no_limit_there_is_none() -> None:
    new_order = order(GUARANTEED, Queue(1, "b"), enabledAllocatable=False)
    for jid in range(8):
        new_order.put_job(job(jid, queue="b"))
    assert len(turns(new_order)) == 8


def test_leaf_queues_share_the_limit_of_their_parents() -> None:
    top = Queue(1, "top", parent=0, capability=((CPU, 3000),))
    leaves = [Queue(2, "a", parent=1), Queue(3, "b", parent=1)]
    new_order = order(Queue(0, "root"), top, *leaves, hierarchy=True)
    for jid in range(6):
        new_order.put_job(job(jid, queue="ab"[jid % 2]))
    assert turns(new_order) == [0, 2, 4]  # without shares the earlier queue is always the first


def test_a_tree_that_is_none_gives_nobody_anything() -> None:
    new_order = order(Queue(0, "root"), Queue(1, "a", parent=0), hierarchy=True)
    new_order.put_job(job(0, queue="a"))
    new_order.put_queue(Queue(2, "astray", parent=7))
    assert turns(new_order) == []
    new_order.put_queue(Queue(2, "astray", parent=0))
    assert turns(new_order) == [0]


def test_a_queue_that_moves_takes_what_it_uses_along() -> None:
    small = Queue(1, "small", parent=0, capability=((CPU, 2000),))
    new_order = order(Queue(0, "root"), small, Queue(2, "a", parent=0), hierarchy=True)
    for jid in range(3):
        new_order.put_job(job(jid, queue="a"))
    assert len(turns(new_order)) == 3
    new_order.put_queue(Queue(2, "a", parent=1))
    new_order.put_queue(Queue(3, "b", parent=1))
    new_order.put_job(job(3, queue="b"))
    assert turns(new_order) == []
    new_order.put_queue(Queue(2, "a", parent=0))
    assert turns(new_order) == [3]


def test_the_quota_is_checked_again_after_waiting_for_another_turn() -> None:
    """Its queue may have given the rest to others meanwhile. A worker found no quota then, and
    nothing woke the job when a turn of theirs ended without a placement."""
    o = contending("allocate", queues=())
    o.put_queue(Queue(0, "a", capability=((CPU, 2000),)))
    for item in (labelled(job(1, cid=2)), labelled(job(2, cid=2)), job(3)):
        o.put_job(item)
    first, third = turns_of(o, 0.0)
    assert (first.jid, third.jid) == (1, 3)  # job 2 waits: its rule is about the pods of job 1
    o.outcome(placed(first), shard=0)
    assert turns_of(o, 0.1) == []
    assert o.jobs[2].reason == "WaitingForQuota"
    o.outcome(answer(third, OutcomeCode.INFEASIBLE, {"node(s) had untolerated taints": 4}), shard=0)
    assert [turn.jid for turn in turns_of(o, 0.2)] == [2]
    o.validate()
