"""Jobs that are passed over, or placed by sessions: the word of each, with figures."""

from __future__ import annotations

import re

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.reasons import why
from coordinator.dispatch.dispatcher import Dispatcher, SendTurns
from coordinator.intake.changes import Changes
from coordinator.jobs.pending_reasons import Why
from coordinator.order.order import Order
from coordinator.service.metrics.pending_counts import reasons_in_steps
from shard_worker.dialects.open_session import open_session
from shared.codec.packed import replace
from shared.messages import skips
from shared.messages.messages import Epoch, OutcomeCode
from shared.messages.reason import Reason
from shared.model.model import Job, Queue, TaskClass
from shared.policy.dialect import parse_policy
from shared.slices import at_once
from shared.units.slots import CPU, PODS
from tests.builders.rows import ONE, TWO, job, node
from tests.coordinator.order.helpers import answer
from tests.deploy.rendered import ROOT

NAMES = ("cpu", "memory", "pods", "nvidia.com/gpu")
NOTHING = TaskClass(requests=((PODS, 1),))


def cluster(
    *jobs: Job, actions: str = "enqueue, allocate, backfill", **queue: object
) -> Coordinator:
    """Two nodes of 4 cores; classes 0, 1 ask for 1, 2 cores, class 2 for nothing."""
    plugins = ("priority", "gang", "overcommit", "proportion")
    policy = {"actions": actions, "tiers": [{"plugins": [{"name": name} for name in plugins]}]}
    order = Order(open_session(parse_policy(policy)), window=16)
    core = Coordinator(order, Dispatcher(1))
    nodes = [node(r) for r in range(2)]
    queues = [Queue(qid=0, name="a", **queue)]  # type: ignore[arg-type]
    classes = {0: ONE, 1: TWO, 2: NOTHING}
    core.admitted(Changes(queues=queues, classes=classes, nodes=nodes, jobs=list(jobs)))
    core.repartition()
    core.worker_up(0, Epoch(7, "x"))
    return core


def judged(core: Coordinator, jid: int) -> Why:
    reason = why(core, core.order.jobs[jid], names=NAMES)
    assert reason is not None
    return reason


def top(core: Coordinator) -> dict[str, int]:
    return at_once(reasons_in_steps(core, names=NAMES))


def refused(core: Coordinator, **reasons: int) -> None:
    (call,) = [i for i in core.step(0.0) if isinstance(i, SendTurns)]
    printed = {text.replace("_", " "): count for text, count in reasons.items()}
    outcomes = [answer(turn, OutcomeCode.INFEASIBLE, printed) for turn in call.turns]
    core.turns_returned(0, call.call, outcomes, now=1.0)


def test_a_skipped_job_keeps_the_reason_and_message_of_its_session() -> None:
    core = cluster(job(1, count=2))
    sentence = "16 nvidia.com/gpu are free, no tier-1 domain has more than 6"
    refused(core, **{skips.written(Reason.TOPOLOGY_PLACEMENT_FAILED, sentence): 2})
    verdict = judged(core, 1)
    assert (verdict.reason, verdict.message) == (Reason.TOPOLOGY_PLACEMENT_FAILED, sentence)
    assert top(core) == {"TopologyPlacementFailed": 1}
    assert skips.read(["Insufficient cpu", "node(s): odd"]) is None


def test_a_job_whose_pods_all_have_gates() -> None:
    job_item = job(1, count=3)
    core = cluster(replace(job_item, roles=(replace(job_item.roles[0], gated=True),)))
    verdict = judged(core, 1)
    assert verdict.reason is Reason.GATED
    assert verdict.message.startswith("3 tasks have scheduling gates")
    assert top(core) == {"Gated": 1}


def test_refusal_names_the_plugin_and_the_missing_resource() -> None:
    large = replace(job(1, count=4), min_resources=((CPU, 12_000),), phase="Pending")
    core = cluster(large)
    assert judged(core, 1).reason is Reason.PENDING_EVALUATION
    core.step(1.0)
    verdict = judged(core, 1)
    assert verdict.reason is Reason.WAITING_FOR_QUOTA
    assert "plugin overcommit" in verdict.message
    assert "12 cpu, the cluster has 8 free, 0 of them promised" in verdict.message
    assert top(core) == {"WaitingForQuota": 1}
    small = replace(large, groups=job(1, count=4, minimum=2).groups)
    core = cluster(replace(small, min_resources=((CPU, 3000),)), capability=((CPU, 2000),))
    core.step(1.0)
    assert "queue a may have 2, 0 of them taken" in judged(core, 1).message


def test_best_effort_tasks_wait_for_backfill_or_else_for_allocate() -> None:
    core = cluster(job(1, cid=2), actions="allocate")
    assert judged(core, 1).reason is Reason.PENDING_EVALUATION
    assert "backfill" not in judged(core, 1).message
    core = cluster(job(1, cid=2))
    assert judged(core, 1).reason is Reason.PENDING_EVALUATION
    refused(core, **{"node(s) were unschedulable": 2})
    verdict = judged(core, 1)
    assert verdict.reason is Reason.NO_MATCHING_NODES
    assert top(core) == {"NoMatchingNodes": 1}


def test_a_job_behind_others_is_waiting_for_turn() -> None:
    core = cluster(job(1), job(2))
    assert judged(core, 2).reason is Reason.WAITING_FOR_TURN
    assert top(core) == {"WaitingForTurn": 2}


def test_every_word_of_the_list_is_written_out_once() -> None:
    """Code uses the member of the Enum, so that the type checker knows the closed list."""
    words = "|".join(reason.value for reason in Reason)
    places = [
        (str(path.relative_to(ROOT)), match)
        for room in ("laboratory", "coordinator", "shard_worker", "shared")
        for path in (ROOT / room).rglob("*.py")
        for match in re.findall(rf'"({words})"', path.read_text())
    ]
    assert {path for path, _ in places} == {"shared/messages/reason.py"}
    assert len(places) == len(Reason)
