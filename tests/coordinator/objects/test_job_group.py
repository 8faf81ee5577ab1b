"""The PodGroup of a Job tells what the Job asks of the network, so that dumps keep it."""

from __future__ import annotations

from shared.manifests.volcano.gangs import read_pod_group
from tests.builders.objects import job, task
from tests.coordinator.objects.world import World


def test_the_group_of_a_job_says_how_close_its_pods_have_to_be() -> None:
    world = World()
    hard = {"mode": "hard", "highestTierAllowed": 1}
    parts = {
        "totalPartitions": 2,
        "partitionSize": 2,
        "minPartitions": 1,
        "networkTopology": {"mode": "soft", "highestTierName": "rack"},
    }
    world.put(job("j", networkTopology=hard, tasks=[task(replicas=4, partitionPolicy=parts)]))
    world.put(job("plain"))
    groups = {name[: -len("-") - 36]: name for name in world.names("PodGroup")}
    live = world.get("PodGroup", groups["j"])
    assert live["spec"]["networkTopology"] == hard
    parsed = next(j for j in world.intake.registry.jobs.values() if j.topology is not None)
    read = read_pod_group(live)
    assert read.topology == parsed.topology
    assert read.sub_groups == parsed.sub_groups
    assert [(policy.size, policy.minimum) for policy in read.sub_groups] == [(2, 1)]
    plain = world.get("PodGroup", groups["plain"])["spec"]
    assert not {"networkTopology", "subGroupPolicy"} & set(plain)
