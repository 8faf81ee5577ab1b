"""A consolidation comes out whichever worker searches: a mover does not go back to where it was
because that node is the worker's own. And nobody moves for a job that has room by now."""

from __future__ import annotations

import copy

import pytest

from coordinator.intake.documents.document import Key
from laboratory.workloads.drawn_kai import kai_group
from shared.messages.messages import TaskState
from shared.policy.dialect import parse_policy
from tests.builders.objects import Item
from tests.end_to_end.one_process.test_kai_evictions import at, pinned
from tests.end_to_end.one_process.test_kai_order import leaf, single
from tests.examples import first_of
from tests.laboratory.checker.rich_kai import gpu_node, pod
from tests.laboratory.simulation.contending import Run

POLICY = parse_policy({"dialect": "kai", "actions": "allocate, consolidation"})
LONG = "5000"
"""Seconds: nobody ends while the test looks."""


def lasting(pod: Item) -> Item:
    pod_item = copy.deepcopy(pod)
    pod_item["metadata"].setdefault("annotations", {})["quadrant.dev/duration"] = LONG
    return pod_item


@pytest.mark.parametrize("moved_at", [9.3, 9.9])
@pytest.mark.parametrize("seed", first_of(range(2, 5)))
def test_a_pod_moves_whichever_worker_searches(seed: int, moved_at: float) -> None:
    """Two GPUs are free on each of two nodes, of which each worker has one."""
    run = Run(nodes=0, shards=2, seed=seed, policy=POLICY, setup=[*map(at, range(3))])
    fixed = [pinned("a", 0, 2), pinned("b", 1, 2), pinned("z", 2, 4)]
    run.submit(leaf("red", -1, parent=""), *map(lasting, fixed))
    run.submit(lasting(single("x", "red", 2)), at=3.0)
    run.until(6.0)
    here, other = run.rows("x"), "a" if run.rows("x") == run.rows("a") else "b"
    run.sim.delete(Key("Pod", "ns", other), at=6.0)
    run.submit(lasting(single("whole", "red", 4)), at=moved_at)
    run.until(moved_at + 20)
    assert run.evicted == 1
    assert run.rows("whole") == here != run.rows("x")


def gang(name: str, members: int) -> list[Item]:
    """Pods of one GPU each."""
    pods = [pod(f"{name}-{at}", group=name, seconds=LONG) for at in range(members)]
    for member in pods:
        member["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
    group = kai_group(name, {"queue": "red", "minMember": members, "priorityClassName": "train"})
    return [group, *pods]


@pytest.mark.parametrize("seed", first_of([3, 4, 6, 8]))
def test_nobody_moves_for_a_job_that_has_room_when_the_search_begins(seed: int) -> None:
    """A node comes between the turn that found no room and the one that searches."""
    for joins in (2.3, 2.34, 2.38, 2.42):
        nodes = map(gpu_node, range(3))
        run = Run(nodes=0, shards=3, seed=seed, policy=parse_policy({"dialect": "kai"}))
        run.submit(*nodes, leaf("red", -1, parent=""))
        run.submit(*gang("first", 12), *gang("second", 4), at=2.0)
        run.submit(gpu_node(3), at=joins)
        run.until(8.0)
        jobs = run.sim.core.order.jobs.values()
        running = {job.job.name: job.states.count(TaskState.RUNNING) for job in jobs}
        assert (running, run.evicted) == ({"first": 12, "second": 4}, 0)
