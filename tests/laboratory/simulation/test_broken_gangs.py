"""Gangs that were left in part while nobody led: the next leader repairs or releases them."""

from __future__ import annotations

import pytest

from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.jobs.gang_repair import REPAIR_SECONDS
from laboratory.simulation.intervals import Intervals
from laboratory.simulation.scenario import Fault, FaultKind
from shared.messages.messages import HOLDING, TaskState
from shared.policy.volcano import DEFAULT_POLICY
from tests.laboratory.simulation.contending import Run, job

RECONCILE_SECONDS = Intervals().reconcile

LOSS = 1.0
"""When two members vanish, in seconds after the start; the gang of four runs by then."""


def gang_of_four(*, minimum: int = 4) -> Run:
    run = Run(nodes=2, policy=DEFAULT_POLICY)
    run.submit(job("gang", 4, minimum=minimum, cpu="2", seconds=10_000))
    run.until(LOSS)
    assert run.state("gang") == [TaskState.RUNNING] * 4
    return run


def lose(run: Run, *tasks: str) -> None:
    assert isinstance(run.sim.kubelets, LocalCluster)
    run.sim.kubelets.lose(list(tasks), run.sim.timeline.now)


def kill_leader(run: Run, *, at: float) -> None:
    run.sim.strike(Fault(FaultKind.LEADER_KILLED, at - (run.sim.timeline.now - 1000.0)))


def held(run: Run) -> int:
    return sum(state in HOLDING for state in run.state("gang"))


@pytest.mark.parametrize(
    "after", [0.0, 2.5 * RECONCILE_SECONDS, 5 * RECONCILE_SECONDS, REPAIR_SECONDS - 1], ids=str
)
def test_the_rest_of_a_gang_that_lost_members_is_released_by_the_next_leader(after: float) -> None:
    """The leader dies before it sees the loss, right after it recorded it, and while the gang's
    time runs: the time begins anew with its successor, and ends."""
    run = gang_of_four()
    lose(run, "0.0", "0.1")
    kill_leader(run, at=LOSS + after)
    run.until(LOSS + after + 20)
    assert run.state("gang").count(TaskState.LOST) == 2
    run.until(LOSS + after + REPAIR_SECONDS + 25)
    assert held(run) == 0, run.state("gang")
    assert run.sim.core.order.gangs.released == 1
    run.end()


def test_a_gang_that_keeps_its_minimum_after_a_loss_goes_on() -> None:
    run = gang_of_four(minimum=2)
    lose(run, "0.0", "0.1")
    kill_leader(run, at=LOSS + 5 * RECONCILE_SECONDS)
    run.until(LOSS + REPAIR_SECONDS + 60)
    assert held(run) == 2
    assert run.sim.core.order.gangs.broken == 0


def test_members_that_failed_by_themselves_are_no_loss() -> None:
    """The job's policies handle a member's failure, under the next leader too."""
    run = Run(nodes=2, policy=DEFAULT_POLICY)
    failing = job("gang", 4, cpu="1", seconds=10_000)
    first = failing["spec"]["tasks"][0]
    template = first["template"]
    annotations = {"quadrant.dev/duration": "0.5", "quadrant.dev/exit-code": "1"}
    ends = {**template, "metadata": {"annotations": annotations}}
    first["replicas"] = 3
    failing["spec"]["tasks"].append({"name": "ends", "replicas": 1, "template": ends})
    run.submit(failing)
    kill_leader(run, at=3.0)
    run.until(REPAIR_SECONDS + 60)
    assert sorted(run.state("gang")) == [TaskState.RUNNING] * 3 + [TaskState.FAILED]
    assert run.sim.core.order.gangs.broken == 0
