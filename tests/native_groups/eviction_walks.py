"""Walks of native groups whose pods have to leave for others."""

from __future__ import annotations

from typing import Any

from tests.builders.objects import budget, priority_class
from tests.native_groups.walks import (
    PODS,
    GroupCluster,
    Json,
    group,
    member,
    members,
    until,
)

PREEMPTING = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: pdb
- plugins:
  - name: predicates
  - name: nodeorder
"""
"""A policy of Volcano's under which a gang keeps its minimum."""
ALL: Json = {"all": {}}
POLITE: Json = {"priorityClassName": "polite", "preemptionPolicy": "Never"}
"""Kubernetes 1.37 refuses a group that leaves the policy to a class that says Never: the default
of the field comes before the class."""
URGENT = 90
"""A priority that may be preempted under KAI's policy too."""


async def fill(cluster: GroupCluster, minimum: int, **spec: Any) -> None:
    """Two nodes, full of a group's four pods, but for the room of :meth:`GroupCluster.settle`."""
    await cluster.nodes(2.4, 2.4)
    await cluster.priority_class(priority_class("urgent", URGENT))
    await cluster.groups(group("g", minimum, **spec))
    await cluster.pods(*members("g", 4))
    await cluster.until_bound(*(f"g-{i}" for i in range(4)))


def urgent(name: str = "vip", group: str = "", *, cpu: float = 2, **spec: Any) -> Json:
    return member(name, group, cpu=cpu, priorityClassName="urgent", **spec)


async def a_pod_that_needs_room_of_one_member_makes_all_of_a_group_leave(
    cluster: GroupCluster,
) -> None:
    await fill(cluster, 3, disruptionMode=ALL)
    placed = await cluster.until_condition("g", "True")
    await cluster.pods(urgent())
    await cluster.until_bound_after_evictions("vip")
    await cluster.settle_among_urgent()
    assert await cluster.bound() == {"vip"}, "two cores are left, and the group needs three"
    assert await cluster.condition("g") == placed


async def all_of_a_group_leave_where_one_surplus_pod_would_do(cluster: GroupCluster) -> None:
    await cluster.nodes(4.4)
    await cluster.priority_class(priority_class("urgent", URGENT))
    polite = priority_class("polite", URGENT - 1, preemptionPolicy="Never")
    await cluster.priority_class(polite)
    await cluster.groups(group("g", 3, disruptionMode=ALL))
    await cluster.pods(*members("g", 4))
    await cluster.until_bound(*(f"g-{i}" for i in range(4)))
    await cluster.groups(group("next", 1, **POLITE))
    await cluster.pods(member("next", "next", cpu=3, priorityClassName="polite"))
    await cluster.until_condition("next", "False")
    await cluster.pods(urgent(cpu=1))
    await cluster.until_bound_after_evictions("vip", "next")
    assert await cluster.bound() == {"vip", "next"}


async def a_gang_that_needs_room_of_one_member_makes_all_of_a_group_leave(
    cluster: GroupCluster,
) -> None:
    await fill(cluster, 3, disruptionMode=ALL)
    await cluster.groups(group("vips", 2, priorityClassName="urgent"))
    await cluster.pods(*(urgent(f"vip-{i}", "vips", cpu=1) for i in range(2)))
    await cluster.until_bound_after_evictions("vip-0", "vip-1")
    await cluster.settle_among_urgent()
    assert await cluster.bound() == {"vip-0", "vip-1"}


async def a_pod_takes_only_the_surplus_of_a_group_of_mode_single(cluster: GroupCluster) -> None:
    await fill(cluster, 2)
    await cluster.pods(urgent())
    await cluster.until_bound_after_evictions("vip")
    assert len(await cluster.bound()) == 3


async def pods_of_equal_priority_make_no_group_leave(cluster: GroupCluster) -> None:
    await fill(cluster, 3, disruptionMode=ALL)
    await cluster.groups(group("equal", 1))
    await cluster.pods(member("equal", "equal"))
    await cluster.until_condition("equal", "False")
    await cluster.settle()
    await cluster.settle()
    assert await cluster.bound() == {f"g-{i}" for i in range(4)}


async def a_group_whose_policy_is_never_makes_nobody_leave(cluster: GroupCluster) -> None:
    await fill(cluster, 3, disruptionMode=ALL)
    never = priority_class("polite", URGENT, preemptionPolicy="Never")
    await cluster.priority_class(never)
    await cluster.groups(group("p", 1, **POLITE))
    await cluster.pods(member("p-0", "p", priorityClassName="polite"))
    await cluster.until_condition("p", "False")
    await cluster.settle()
    await cluster.settle()
    assert await cluster.bound() == {f"g-{i}" for i in range(4)}


EVICTION_WALKS = (
    a_pod_that_needs_room_of_one_member_makes_all_of_a_group_leave,
    all_of_a_group_leave_where_one_surplus_pod_would_do,
    a_gang_that_needs_room_of_one_member_makes_all_of_a_group_leave,
    a_pod_takes_only_the_surplus_of_a_group_of_mode_single,
    pods_of_equal_priority_make_no_group_leave,
    a_group_whose_policy_is_never_makes_nobody_leave,
)


async def one_member_that_may_not_be_evicted_keeps_all_of_a_group(cluster: GroupCluster) -> None:
    """By Volcano's mark; KAI has none for a pod."""
    await cluster.nodes(2, 2)
    await cluster.priority_class(priority_class("urgent", URGENT))
    await cluster.groups(group("g", 3, disruptionMode=ALL))
    kept = member("g-3", "g")
    kept["metadata"]["annotations"] = {"volcano.sh/preemptable": "false"}
    await cluster.pods(*members("g", 3), kept)
    await cluster.until_bound(*(f"g-{i}" for i in range(4)))
    await cluster.pods(urgent())
    await cluster.until_pod_says("vip", "NotEnoughResources")
    assert await cluster.bound() == {f"g-{i}" for i in range(4)}


async def a_budget_keeps_all_of_a_group_and_the_surplus_of_another_goes(
    cluster: GroupCluster,
) -> None:
    """By Volcano's plugin pdb. The budget lets one pod go, and the group goes whole or not."""
    await cluster.nodes(4.4)
    await cluster.priority_class(priority_class("urgent", URGENT))
    item = budget("kept", 1, app="kept")
    item["metadata"]["namespace"] = "default"
    await cluster.api.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", item)
    await cluster.groups(group("g", 2, disruptionMode=ALL), group("h", 1))
    for pod in members("g", 2):
        pod["metadata"]["labels"] = {"app": "kept"}
        await cluster.pods(pod)
    await cluster.pods(*members("h", 2))
    await cluster.until_bound("g-0", "g-1", "h-0", "h-1")
    await cluster.pods(urgent(cpu=1))
    await cluster.until_bound_after_evictions("vip")
    await cluster.pods(urgent("late", cpu=1))
    await cluster.until_pod_says("late", "NotEnoughResources")
    bound = await cluster.bound()
    assert {"g-0", "g-1", "vip"} < bound and len(bound) == 4


async def nominations_are_cleared_when_a_gang_cannot_start_any_more(cluster: GroupCluster) -> None:
    """Where pods take their time to leave."""
    await fill(cluster, 1)
    await cluster.groups(group("vips", 1, priorityClassName="urgent"))
    await cluster.pods(urgent("vip-0", "vips"))

    async def nominated() -> str:
        status = (await cluster.api.get(f"{PODS}/vip-0"))["status"]
        return str(status.get("nominatedNodeName") or "")

    async def is_cleared() -> bool:
        return not await nominated()

    assert await until(nominated) in ("n0", "n1")
    await cluster.set_minimum("vips", 3)
    await until(is_cleared)
    await cluster.until_pod_says("vip-0", "NotEnoughTasks")
