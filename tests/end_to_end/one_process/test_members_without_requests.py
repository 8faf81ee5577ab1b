"""Gangs with members that ask for nothing, under a policy without backfill: whole, or not at all.

Volcano counts such members as there while they wait, and has backfill place them. Without that
action nobody would, and the others would hold their nodes for ever.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from coordinator.cluster.simulated.cluster import LocalCluster
from shared.messages.messages import HOLDING
from tests.builders.objects import GPU, Item
from tests.coordinator.explain.cluster import explained, gang, node, role, settled
from tests.coordinator.explain.test_service_sessions import planned
from tests.end_to_end.one_process.harness import Running, running, submit

ALLOCATE = """
actions: allocate
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
NEAR = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": "nobody"}},
            }
        ]
    }
}
"""A rule between pods: jobs with it are placed by a session."""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(ALLOCATE)
    return file


def training(*, workers: int = 2, sessions: bool, **master: Any) -> Item:
    """Workers of 4 GPUs, and a master that asks for nothing; three have to start together."""
    more = {"affinity": NEAR} if sessions else {}
    return gang(
        "train",
        [
            role("worker", workers, {"cpu": "1", GPU: "4"}, **more),
            role("master", 1, {}, **{**more, **master}),
        ],
        minimum=3,
    )


def holding(service: Running) -> int:
    return sum(s in HOLDING for job in service.service.core.order.jobs.values() for s in job.states)


@asynccontextmanager
async def two_nodes(url: str, path: Path, policy: Path) -> AsyncIterator[Running]:
    async with running(url, path, policy=policy, kubelets=LocalCluster()) as service:
        nodes = [node(f"n{i}", gpus=4, labels={"kubernetes.io/hostname": f"n{i}"}) for i in (0, 1)]
        await submit(service, *nodes)
        await settled(service, bound=0)
        yield service


by_both = pytest.mark.parametrize("sessions", [False, True], ids=["columns", "session"])


@by_both
async def test_the_master_is_placed_with_its_workers(
    tmp_path: Path, redis_url: str, policy: Path, *, sessions: bool
) -> None:
    async with two_nodes(redis_url, tmp_path, policy) as service:
        plan = await planned(service, training(sessions=sessions))
        assert (plan["verdict"], plan["tasks"]["now"]) == ("now", 3)
        await submit(service, training(sessions=sessions))
        await service.until(lambda s: s["tasks"]["running"] == 3)
        assert service.service.core.tally.total().statements["committed"] == 1
        assert (await explained(service, "train"))["phase"] == "Running"
        service.service.core.validate()


@by_both
async def test_where_the_master_has_no_place_nobody_of_the_gang_holds_one(
    tmp_path: Path, redis_url: str, policy: Path, *, sessions: bool
) -> None:
    """Plan and explain say so, and name the role; the gang starts when a place for it comes."""
    hub: dict[str, Any] = {"nodeSelector": {"disk": "ssd"}}
    async with two_nodes(redis_url, tmp_path, policy) as service:
        plan = await planned(service, training(sessions=sessions, **hub))
        await submit(service, training(sessions=sessions, **hub))
        await service.until(lambda s: s["outcomes"].get("infeasible", 0) > 0)
        explanation = await explained(service, "train")
        assert holding(service) == 0
        assert plan["verdict"] != "now"
        assert plan["reason"] == explanation["reason"] == "NoMatchingNodes"
        assert explanation["role"] == "master" and "master" in explanation["story"][-1]["message"]
        assert plan["message"] == explanation["message"] and "role master" in explanation["message"]
        await submit(service, node("hub", labels={"disk": "ssd", "kubernetes.io/hostname": "hub"}))
        await service.until(lambda s: s["tasks"]["running"] == 3)
        service.service.core.validate()


@by_both
async def test_a_member_that_waits_does_not_make_up_for_one_that_could_run(
    tmp_path: Path, redis_url: str, policy: Path, *, sessions: bool
) -> None:
    """Three of four are enough: three workers are, two and a master that waits are not."""
    async with two_nodes(redis_url, tmp_path, policy) as service:
        await submit(service, training(workers=3, sessions=sessions, nodeSelector={"disk": "ssd"}))
        await service.until(lambda s: s["outcomes"].get("infeasible", 0) > 0)
        assert holding(service) == 0
        assert (await explained(service, "train"))["role"] == "master"
        more = node("n2", gpus=4, labels={"kubernetes.io/hostname": "n2"})
        await submit(service, more)
        await service.until(lambda s: s["tasks"]["running"] == 3)
        service.service.core.validate()
