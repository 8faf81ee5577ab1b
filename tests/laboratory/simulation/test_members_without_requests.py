"""Gangs with members that ask for nothing, decided by several shards under a policy without
backfill: whole or not at all, whatever goes wrong meanwhile."""

from __future__ import annotations

import pytest

from laboratory.simulation.scenario import Fault, FaultKind
from laboratory.simulation.virtual_time import Network
from shard_worker.view.mode import Mode
from shared.messages.messages import HOLDING, TaskState
from shared.policy.dialect import parse_policy
from shared.policy.volcano import DEFAULT_POLICY
from tests.builders.objects import Item
from tests.examples import examples, first_of
from tests.laboratory.simulation.contending import HOSTNAME, Run, job

ALLOCATE = parse_policy(
    {
        "actions": "allocate",
        "tiers": [
            {"plugins": [{"name": name} for name in ("priority", "gang")]},
            {"plugins": [{"name": name} for name in ("predicates", "proportion", "nodeorder")]},
        ],
    }
)
LOSSY = Network(
    call=0.002, ledger=0.003, cluster=0.004, request_lost=0.02, answer_lost=0.04, echo=0.03
)
APART: Item = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "nobody"}}}
        ]
    }
}
"""A rule between pods: sessions place jobs with it."""


def with_master(
    name: str, workers: int, *, slow: bool, anywhere: bool = True, seconds: float = 1.0
) -> Item:
    """A gang of workers of two cores, and a master that asks for nothing."""
    affinity = APART if slow else None
    job_item = job(name, workers, minimum=workers + 1, cpu="2", affinity=affinity, seconds=seconds)
    master = job(name, 1, cpu="", affinity=APART if slow else None)["spec"]["tasks"][0]
    if not anywhere:
        master["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    job_item["spec"]["tasks"].append({**master, "name": "master"})
    return job_item


@pytest.mark.parametrize("seed", range(examples(24, least=3)))
def test_all_gangs_end_whole_under_faults(seed: int) -> None:
    """The checker reads the history, and every job has to finish: promises 3 and 8."""
    run = Run(nodes=4, seed=seed, mode=list(Mode)[seed % 3], policy=ALLOCATE, network=LOSSY)
    for number in range(8):
        gang = with_master(f"g{number}", 1 + number % 3, slow=number % 2 == seed % 2)
        run.submit(gang, at=number * 0.1)
    for at, kind in ((0.35, FaultKind.WORKER_KILLED), (0.8, FaultKind.LEADER_KILLED)):
        run.sim.strike(Fault(kind, at))
    report = run.end()
    assert report.summary.jobs_finished == 8


@pytest.mark.parametrize("seed", first_of(range(8), 2))
def test_refused_members_are_placed_again_while_the_master_waits_for_backfill(seed: int) -> None:
    """Also where the others have ended by then, so that nobody is left to be released."""
    run = Run(nodes=4, seed=seed, policy=DEFAULT_POLICY, refused=0.3)
    for number in range(12):
        run.submit(with_master(f"g{number}", 3, slow=False, seconds=0.3), at=number * 0.1)
    assert run.end().summary.jobs_finished == 12


@pytest.mark.parametrize("slow", [False, True], ids=["columns", "session"])
def test_a_gang_whose_master_has_no_place_never_holds_a_node(slow: bool) -> None:
    run = Run(policy=ALLOCATE)
    run.submit(with_master("gang", 2, slow=slow, anywhere=False))
    held = []

    def look() -> None:
        states = [s for job in run.sim.core.order.jobs.values() for s in job.states]
        held.append(sum(state in HOLDING for state in states))

    run.sim.run(until=1_010.0, inspect=look)
    assert len(held) > 10 and max(held) == 0
    run.submit(job("other", 8, seconds=1))  # it has all the room
    run.until(13.0)
    assert set(run.state("other")) == {TaskState.SUCCEEDED}
    assert not any(run.state("gang"))
