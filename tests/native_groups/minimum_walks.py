"""Walks of native gangs whose ``minCount`` changes."""

from __future__ import annotations

from tests.native_groups.eviction_walks import fill, urgent
from tests.native_groups.walks import GroupCluster, group, member, members


async def a_lowered_minimum_lets_a_waiting_gang_start(cluster: GroupCluster) -> None:
    await cluster.nodes(8)
    await cluster.groups(group("g", 4))
    await cluster.pods(*members("g", 2))
    await cluster.until_condition("g", "False")
    await cluster.set_minimum("g", 2)
    await cluster.until_bound("g-0", "g-1")
    await cluster.until_condition("g", "True")


async def a_raised_minimum_holds_a_waiting_gang_back(cluster: GroupCluster) -> None:
    await cluster.nodes(8)
    await cluster.groups(group("g", 3))
    await cluster.pods(*members("g", 2))
    await cluster.until_condition("g", "False")
    await cluster.set_minimum("g", 4)
    await cluster.pods(member("g-2", "g"))
    await cluster.settle()
    assert await cluster.bound() == set()
    await cluster.pods(member("g-3", "g"))
    await cluster.until_bound(*(f"g-{i}" for i in range(4)))


async def a_minimum_raised_while_it_runs_ends_no_pod_and_takes_nothing_back(
    cluster: GroupCluster,
) -> None:
    await cluster.nodes(4)
    await cluster.groups(group("g", 2))
    await cluster.pods(*members("g", 2))
    await cluster.until_bound("g-0", "g-1")
    placed = await cluster.until_condition("g", "True")
    await cluster.set_minimum("g", 6)
    await cluster.pods(member("g-2", "g"))
    await cluster.settle()
    assert {"g-0", "g-1"} <= await cluster.bound()
    assert await cluster.condition("g") == placed


async def pods_below_a_minimum_that_was_raised_while_it_runs_wait_for_the_others(
    cluster: GroupCluster,
) -> None:
    await cluster.nodes(8)
    await cluster.groups(group("g", 2))
    await cluster.pods(*members("g", 2))
    await cluster.until_bound("g-0", "g-1")
    await cluster.set_minimum("g", 4)
    await cluster.pods(member("g-2", "g"))
    await cluster.until_pod_says("g-2", "NotEnoughTasks")
    await cluster.settle()
    assert await cluster.bound() == {"g-0", "g-1"}
    await cluster.pods(member("g-3", "g"))
    await cluster.until_bound("g-2", "g-3")


async def a_minimum_lowered_while_it_runs_ends_no_pod_and_lets_a_waiting_one_start(
    cluster: GroupCluster,
) -> None:
    await cluster.nodes(8)
    await cluster.groups(group("g", 4))
    await cluster.pods(*members("g", 4))
    placed = await cluster.until_condition("g", "True")
    await cluster.set_minimum("g", 6)
    await cluster.pods(member("g-4", "g"))
    await cluster.settle()
    await cluster.set_minimum("g", 1)
    await cluster.until_bound(*(f"g-{i}" for i in range(5)))
    assert await cluster.condition("g") == placed


MINIMUM_WALKS = (
    a_lowered_minimum_lets_a_waiting_gang_start,
    a_raised_minimum_holds_a_waiting_gang_back,
    a_minimum_raised_while_it_runs_ends_no_pod_and_takes_nothing_back,
    pods_below_a_minimum_that_was_raised_while_it_runs_wait_for_the_others,
    a_minimum_lowered_while_it_runs_ends_no_pod_and_lets_a_waiting_one_start,
)


async def a_minimum_lowered_while_it_runs_makes_the_surplus_victims(
    cluster: GroupCluster,
) -> None:
    """By Volcano's plugin gang."""
    await fill(cluster, 4)
    await cluster.pods(urgent())
    await cluster.until_pod_says("vip", "NotEnoughResources")
    assert len(await cluster.bound()) == 4
    await cluster.set_minimum("g", 2)
    await cluster.until_bound_after_evictions("vip")
    assert len(await cluster.bound()) == 3
