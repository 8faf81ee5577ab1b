"""Why a job waits, from what the coordinator holds: one word of the closed list, with amounts."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.reasons import why
from coordinator.dispatch.dispatcher import Dispatcher, SendTurns
from coordinator.intake.changes import Changes
from coordinator.jobs.pending_reasons import Why, of_counts, told_counts, word
from coordinator.order.order import Order
from shard_worker.dialects.open_session import open_session
from shared.codec.packed import replace
from shared.messages.messages import Epoch, Outcome, OutcomeCode
from shared.messages.reason import HoldReason, Reason
from shared.model.constraints import Taint
from shared.model.model import Job, Queue, TaskClass
from shared.policy.dialect import parse_policy
from shared.units.slots import CPU, PODS
from tests.builders.rows import ONE, TWO, job, node
from tests.coordinator.order.helpers import POLICY, answer, order, placed

NAMES = ("cpu", "memory", "pods", "nvidia.com/gpu")
GPU = 3
FAST = TaskClass(requests=((CPU, 1000), (PODS, 1), (GPU, 1000)))
FIVE = TaskClass(requests=((CPU, 5000), (PODS, 1)))


def cluster(*jobs: Job, nodes: int = 2, shards: int = 1, walls: bool = False) -> Coordinator:
    """``nodes`` nodes of 4 cores; classes 0, 1, 3 ask for 1, 2, 5 cores, class 2 for a GPU."""
    core = Coordinator(order(nodes=0, window=16, walls=walls), Dispatcher(shards))
    items = [node(r) for r in range(nodes)]
    classes = {0: ONE, 1: TWO, 2: FAST, 3: FIVE}
    core.admitted(Changes(classes=classes, nodes=items, jobs=list(jobs)))
    core.repartition()
    for shard in range(shards):
        core.worker_up(shard, Epoch(7, "x"))
    return core


def preempting(*, quota: int) -> Coordinator:
    """A policy that evicts, two nodes of 4 cores, and queue "a" that may have so much cpu."""
    policy = POLICY | {"actions": "allocate, preempt"}
    order = Order(open_session(parse_policy(policy)))
    order.put_queue(Queue(qid=0, name="a", capability=((CPU, quota),)))
    core = Coordinator(order, Dispatcher(1))
    nodes = [node(r) for r in range(2)]
    core.admitted(Changes(classes={0: ONE}, nodes=nodes))
    core.repartition()
    core.worker_up(0, Epoch(7, "x"))
    return core


def send(core: Coordinator) -> list[SendTurns]:
    return [i for i in core.step(0.0) if isinstance(i, SendTurns)]


def judged(core: Coordinator, jid: int) -> Why:
    reason = why(core, core.order.jobs[jid], names=NAMES)
    assert reason is not None
    assert reason.message
    return reason


def test_the_list_is_closed_and_every_word_of_the_core_is_on_it() -> None:
    assert [r.rank for r in Reason] == sorted(r.rank for r in Reason)
    assert [word(reason) for reason in Reason] == list(Reason)
    assert {word(hold) for hold in HoldReason} == {Reason.PENDING_EVALUATION}


def test_a_queue_that_does_not_exist() -> None:
    verdict = judged(cluster(job(1, queue="nowhere")), 1)
    assert verdict.reason is Reason.MISCONFIGURED
    assert "queue nowhere does not exist; create" in verdict.message


def test_pods_of_a_group_that_does_not_exist() -> None:
    verdict = judged(cluster(replace(job(1), dangling=True)), 1)
    assert verdict.reason is Reason.MISCONFIGURED
    assert "PodGroup ns/j1" in verdict.message


def test_a_resource_that_no_node_has() -> None:
    verdict = judged(cluster(job(1, cid=2)), 1)
    assert verdict.reason is Reason.NO_MATCHING_NODES
    assert "nvidia.com/gpu" in verdict.message


def test_one_task_that_is_larger_than_any_node() -> None:
    core = cluster(job(1, cid=3))
    verdict = judged(core, 1)
    assert verdict.reason is Reason.EXCEEDS_NODE_CAPACITY
    assert verdict.message == "one task asks 5 cpu, the largest node has 4"


def test_the_largest_node_is_measured_anew_when_nodes_change() -> None:
    core = cluster(job(1, cid=3))
    assert judged(core, 1).reason is Reason.EXCEEDS_NODE_CAPACITY
    large = node(9, cpus=6)
    core.admitted(Changes(nodes=[large]))
    assert judged(core, 1).reason is Reason.PENDING_EVALUATION


def test_more_than_the_queue_or_one_above_it_may_ever_have() -> None:
    core = cluster(job(1, queue="b", count=3))
    core.admitted(
        Changes(
            queues=[
                Queue(qid=5, name="above", capability=((CPU, 2000),)),
                Queue(qid=6, name="b", parent=5),
            ]
        )
    )
    verdict = judged(core, 1)
    assert verdict.reason is Reason.EXCEEDS_CAPABILITY
    assert "asks 3 cpu at once, queue above may have 2 at most" in verdict.message


def test_behind_walls_a_gang_that_no_shard_could_hold() -> None:
    core = cluster(job(1, count=6), shards=2, walls=True)
    assert judged(core, 1).reason is Reason.LARGER_THAN_SHARD
    assert judged(cluster(job(1, count=6), shards=2), 1).reason is Reason.PENDING_EVALUATION


def test_a_closed_queue() -> None:
    core = cluster(job(1, queue="b"))
    core.admitted(Changes(queues=[Queue(qid=5, name="b", open=False)]))
    assert judged(core, 1).reason is Reason.QUEUE_CLOSED


def test_members_that_were_not_created_yet() -> None:
    verdict = judged(cluster(job(1, count=2, minimum=3)), 1)
    assert verdict.reason is Reason.NOT_ENOUGH_TASKS
    assert verdict.message == "2 of the 3 members that the job needs exist"


@pytest.mark.parametrize(
    "closing", [{"taints": (Taint("gpu", "", "NoSchedule"),)}, {"unschedulable": True}]
)
def test_amounts_leave_out_nodes_that_the_job_may_not_use(closing: dict[str, Any]) -> None:
    core = cluster(job(1, count=10), nodes=1)
    core.admitted(Changes(nodes=[replace(node(1), **closing)]))
    core.repartition()
    verdict = judged(core, 1)
    assert verdict.message == (
        "gang of 10 asks 10 cpu, the nodes that it may use could give 4 cpu; short by 6 cpu"
    )
    assert (verdict.available, verdict.short) == ({CPU: 4000}, {CPU: 6000})


def test_missing_resources_are_named_with_amounts() -> None:
    core = cluster(job(1, count=3), job(2, count=6))
    (call,) = send(core)
    core.turns_returned(0, call.call, [placed(call.turns[0])])
    verdict = judged(core, 2)
    assert verdict.reason is Reason.NOT_ENOUGH_RESOURCES
    assert verdict.message == "gang of 6 asks 6 cpu, the cluster could give 5 cpu; short by 1 cpu"
    assert verdict.short == {CPU: 1000}
    assert verdict.requested[CPU] == 6000


def test_enough_in_total_but_not_on_one_node_is_fragmented() -> None:
    core = cluster(job(1, count=2, cid=1))
    (call,) = send(core)
    reasons = {"Insufficient cpu": 2}
    core.turns_returned(0, call.call, [answer(call.turns[0], OutcomeCode.INFEASIBLE, reasons)])
    verdict = judged(core, 1)
    assert verdict.reason is Reason.FRAGMENTED
    assert (verdict.shard, verdict.epoch) == (0, "7:x")
    assert "4 cpu are free in total" in verdict.message
    assert "2 nodes: 2 Insufficient cpu" in verdict.message


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        ({"node(s) had untolerated taints": 40}, Reason.NO_MATCHING_NODES),
        (
            {"node(s) had untolerated taints": 40, "Insufficient cpu": 1},
            Reason.NOT_ENOUGH_RESOURCES,
        ),
        ({"node(s) had room for a part of the gang only": 3}, Reason.NOT_ENOUGH_RESOURCES),
        (
            {
                "node(s) had untolerated taints": 4,
                "node(s) didn't match pod anti-affinity rules": 1,
            },
            Reason.NOT_ENOUGH_RESOURCES,
        ),
        ({"node(s) had volume node affinity conflict": 5}, Reason.NO_MATCHING_NODES),
        ({'persistentvolumeclaim "data" not found': 5}, Reason.MISCONFIGURED),
        ({"pod has unbound immediate PersistentVolumeClaims": 5}, Reason.MISCONFIGURED),
        (
            {'persistentvolumeclaim "a" bound to non-existent persistentvolume "v"': 5},
            Reason.MISCONFIGURED,
        ),
        ({"claim cannot be judged: no such key: model": 5}, Reason.MISCONFIGURED),
    ],
)
def test_as_long_as_one_node_only_lacks_room_the_job_waits_for_room(
    counts: dict[str, int], reason: Reason
) -> None:
    assert of_counts(counts) is reason


@pytest.mark.parametrize("nodes", [0, 3])
def test_what_does_not_exist_is_not_counted_by_nodes(nodes: int) -> None:
    missing = 'persistentvolumeclaim "c" not found'
    assert told_counts({missing: nodes}) == missing
    assert told_counts({"node(s) had taints": 2}) == "2 nodes: 2 had taints"


def test_one_jobs_reason_applies_to_equal_jobs_behind_it() -> None:
    core = cluster(*[job(n, count=2, cid=1) for n in range(20)])
    (call,) = send(core)
    reasons = {"node(s) had untolerated taints": 2}
    outcomes = [answer(turn, OutcomeCode.INFEASIBLE, reasons) for turn in call.turns]
    core.turns_returned(0, call.call, outcomes)
    assert {judged(core, n).reason for n in range(20)} == {Reason.NO_MATCHING_NODES}


def test_a_queue_beyond_its_share_tells_how_much() -> None:
    core = cluster(job(1, queue="b", count=2), job(2, queue="b", count=2))
    core.admitted(Changes(queues=[Queue(qid=5, name="b", capability=((CPU, 3000),))]))
    (call,) = send(core)
    core.turns_returned(0, call.call, [placed(call.turns[0])])
    send(core)
    verdict = judged(core, 2)
    assert verdict.reason is Reason.WAITING_FOR_QUOTA
    assert (
        "queue b uses 2 of the 3 cpu it may have, the job asks 2; short by 1 cpu" in verdict.message
    )


def test_refused_by_the_ledger_again_and_again() -> None:
    core = cluster(job(1))
    for _ in range(4):
        (call,) = send(core)
        core.turns_returned(0, call.call, [answer(call.turns[0], OutcomeCode.CONFLICT)])
    verdict = judged(core, 1)
    assert verdict.reason is Reason.REPEATED_CONFLICT
    assert "4 times" in verdict.message


def test_a_nominated_job_names_the_nodes_it_waits_for() -> None:
    core = cluster(job(1))
    core.order.nominations.leaving(1)
    (call,) = send(core)
    core.turns_returned(0, call.call, [placed(call.turns[0], row=1, level=3)])
    verdict = judged(core, 1)
    assert verdict.reason is Reason.WAITING_FOR_VICTIMS
    assert "n1" in verdict.message


def test_not_looked_at_yet_and_waiting_for_its_turn_are_different_reasons() -> None:
    core = Coordinator(order(nodes=4, window=1), Dispatcher(1))
    core.admitted(Changes(classes={0: ONE}, jobs=[job(1)]))
    assert judged(core, 1).reason is Reason.PENDING_EVALUATION
    core.admitted(Changes(jobs=[job(2), job(3)]))
    verdict = judged(core, 3)
    assert verdict.reason is Reason.WAITING_FOR_TURN
    assert verdict.message == "2 other jobs wait in queue a; it has had no turn yet"


def test_a_placed_job_waits_for_nothing() -> None:
    core = cluster(job(1))
    (call,) = send(core)
    core.turns_returned(0, call.call, [placed(call.turns[0])])
    assert why(core, core.order.jobs[1]) is None


def test_a_message_never_exceeds_what_an_event_may_hold() -> None:
    core = cluster(job(1))
    (call,) = send(core)
    reasons = {f"node(s) said {n} " + "x" * 300: n for n in range(1, 9)}
    outcome = Outcome(jid=1, code=OutcomeCode.INFEASIBLE, placements=[], reasons=reasons)
    core.turns_returned(0, call.call, [outcome])
    assert len(judged(core, 1).message) <= 1024


def test_an_open_turn_is_not_short_of_its_own_charge() -> None:
    core = cluster(job(1, count=8))
    send(core)
    verdict = judged(core, 1)
    assert verdict.reason is Reason.PENDING_EVALUATION
    assert verdict.message == "a shard is placing it now"


def test_an_evicting_turn_keeps_the_reason_of_its_job() -> None:
    """A second `explain` in that moment said that a shard places it: no shard may, it has no quota
    (a page of the docs failed on it, beside load)."""
    core = preempting(quota=2000)
    core.admitted(Changes(jobs=[job(1, count=2)]))
    (call,) = send(core)
    core.turns_returned(0, call.call, [placed(call.turns[0])])
    core.admitted(Changes(jobs=[job(2, count=1, priority=1)]))
    (looks,) = send(core)
    assert looks.turns[0].action == "preempt"
    accounts = core.order.accounts
    queue = accounts.queue(core.order.jobs[2])
    totals = dict(queue.allocated), dict(accounts.capacity.promised)
    verdict = judged(core, 2)
    assert verdict.reason is Reason.WAITING_FOR_QUOTA
    assert "uses 2 of the 2 cpu it may have, the job asks 1; short by 1 cpu" in verdict.message
    assert (queue.allocated, accounts.capacity.promised) == totals
