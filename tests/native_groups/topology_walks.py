"""Walks of native groups whose pods stay in one domain of a node label."""

from __future__ import annotations

from typing import Any

from tests.native_groups.walks import (
    GROUPS,
    NODES,
    PODS,
    GroupCluster,
    Json,
    group,
    member,
    members,
    new_node,
    until,
)

RACK = "topology.kubernetes.io/rack"
NEAR: Json = {"topology": [{"key": RACK}]}


def in_one_rack(name: str, minimum: int | None = None, **spec: Any) -> Json:
    return group(name, minimum, schedulingConstraints=NEAR, **spec)


async def racks(cluster: GroupCluster, **cores: tuple[float, ...]) -> None:
    """Nodes by their rack: those of rack ``a`` are ``a-0``, ``a-1``, ..."""
    for rack, sizes in cores.items():
        for at, cpu in enumerate(sizes):
            item = new_node(f"{rack}-{at}", cpu)
            item["metadata"]["labels"] = {RACK: rack}
            await cluster.api.post(NODES, item)


async def racks_of(cluster: GroupCluster) -> list[str]:
    """The racks of the bound pods, "" where a node has none."""
    items = (await cluster.api.get(PODS))["items"]
    bound = await cluster.bound()
    nodes = [p["spec"]["nodeName"] for p in items if p["metadata"]["name"] in bound]
    return sorted(name.rpartition("-")[0] for name in nodes)


async def a_group_starts_in_one_rack_grows_there_and_the_surplus_waits(
    cluster: GroupCluster,
) -> None:
    await cluster.nodes(64)
    await racks(cluster, a=(2.1, 2.1), b=(3.1, 3.1), c=(1.1, 1.1))
    await cluster.groups(in_one_rack("g", 5))
    await cluster.pods(*members("g", 5))
    await cluster.until_bound(*(f"g-{i}" for i in range(5)))
    await cluster.until_condition("g", "True")
    await cluster.pods(*(member(f"g-{i}", "g") for i in range(5, 8)))

    async def is_full() -> bool:
        return len(await cluster.bound()) == 6

    await until(is_full)
    waiting = min({f"g-{i}" for i in range(8)} - await cluster.bound())
    full = await cluster.until_pod_says(waiting, "no pods were schedulable")
    assert "0/1 placements are available, first placement status: " in full["message"]
    assert await racks_of(cluster) == ["b"] * 6
    await cluster.api.delete(f"{PODS}/g-0", gracePeriodSeconds="0")
    await until(is_full)
    assert await racks_of(cluster) == ["b"] * 6
    assert (await cluster.until_condition("g", "True"))["reason"] == "Scheduled"


async def a_basic_group_goes_where_most_of_it_fits(cluster: GroupCluster) -> None:
    await racks(cluster, a=(1.1, 1.1), b=(2.1, 2.1), c=(0.6,))
    await cluster.pods(*members("g", 4))
    await cluster.groups(in_one_rack("g"))
    await cluster.until_bound(*(f"g-{i}" for i in range(4)))
    assert await racks_of(cluster) == ["b"] * 4


async def a_gang_that_no_rack_takes_says_why_until_one_does(cluster: GroupCluster) -> None:
    await cluster.nodes(64)
    await cluster.groups(in_one_rack("g", 6))
    await cluster.pods(*members("g", 6))
    await _until_message(cluster, f"no feasible placements found: no node has the label {RACK}")
    await racks(cluster, a=(2.1, 2.1), b=(5.1,))
    await _until_message(
        cluster,
        "0/2 placements are available, first placement status: "
        "minCount (6) cannot be satisfied: 4 scheduled, 0 remaining",
    )
    assert await cluster.bound() == set()
    late = new_node("b-1", 1.1)
    late["metadata"]["labels"] = {RACK: "b"}
    await cluster.api.post(NODES, late)
    await cluster.until_bound(*(f"g-{i}" for i in range(6)))
    assert await racks_of(cluster) == ["b"] * 6


async def _until_message(cluster: GroupCluster, text: str) -> None:
    async def is_there() -> bool:
        condition = await cluster.condition("g")
        return condition is not None and text in condition["message"]

    await until(is_there)


async def topology_is_checked_and_does_not_change(cluster: GroupCluster) -> None:
    two: Json = {"topology": [{"key": RACK}, {"key": "zone"}]}
    await cluster.api.post(GROUPS, group("two", 2, schedulingConstraints=two), code=422)
    await cluster.groups(in_one_rack("g", 2))
    other: Json = {"spec": {"schedulingConstraints": {"topology": [{"key": "zone"}]}}}
    await cluster.api.patch(f"{GROUPS}/g", other, code=422)


TOPOLOGY_WALKS = (
    a_group_starts_in_one_rack_grows_there_and_the_surplus_waits,
    a_basic_group_goes_where_most_of_it_fits,
    a_gang_that_no_rack_takes_says_why_until_one_does,
    topology_is_checked_and_does_not_change,
)
