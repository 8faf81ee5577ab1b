"""A consolidation comes out whichever worker searches: a mover does not go back to where it was
because that node is the worker's own."""

from __future__ import annotations

import copy

import pytest

from coordinator.intake.documents.document import Key
from shared.policy.dialect import parse_policy
from tests.coordinator.verification.simulation.contending import Item, Run
from tests.end_to_end.one_process.test_kai_evictions import at, pinned
from tests.end_to_end.one_process.test_kai_order import leaf, single

POLICY = parse_policy({"dialect": "kai", "actions": "allocate, consolidation"})
LONG = "5000"
"""Seconds: nobody ends while the test looks."""


def lasting(pod: Item) -> Item:
    made = copy.deepcopy(pod)
    made["metadata"].setdefault("annotations", {})["quadrant.dev/duration"] = LONG
    return made


@pytest.mark.parametrize("moved_at", [9.3, 9.9])
@pytest.mark.parametrize("seed", range(2, 5))
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
