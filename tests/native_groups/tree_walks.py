"""Walks of trees: PodGroups below CompositePodGroups, under a policy of KAI's."""

from __future__ import annotations

from typing import Any

from tests.builders.objects import composite_group, leaf_group, priority_class
from tests.native_groups.eviction_walks import ALL, POLITE, URGENT, urgent
from tests.native_groups.topology_walks import NEAR, racks, racks_of
from tests.native_groups.walks import (
    GROUPS,
    PODS,
    GroupCluster,
    Json,
    group,
    member,
    members,
    until,
)

COMPOSITES = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups"
COMPOSITE_CONDITION = "CompositePodGroupInitiallyScheduled"


def composite(name: str, minimum: int | None = None, parent: str = "", **spec: Any) -> Json:
    above = {"parentCompositePodGroupName": parent} if parent else {}
    return composite_group(name, minimum, namespace="default", **(above | spec))


def leaf(name: str, parent: str, minimum: int | None = None, **spec: Any) -> Json:
    return leaf_group(name, parent, minimum, namespace="default", **spec)


async def put_composites(cluster: GroupCluster, *items: Json) -> None:
    for item in items:
        await cluster.api.post(COMPOSITES, item)


async def composite_condition(cluster: GroupCluster, name: str) -> Json | None:
    status = (await cluster.api.get(f"{COMPOSITES}/{name}")).get("status") or {}
    conditions = status.get("conditions") or ()
    return next((c for c in conditions if c["type"] == COMPOSITE_CONDITION), None)


async def until_composite(cluster: GroupCluster, name: str, status: str, text: str = "") -> Json:
    async def present() -> Json | None:
        condition = await composite_condition(cluster, name)
        is_there = condition is not None and condition["status"] == status
        return condition if condition and is_there and text in condition["message"] else None

    condition: Json = await until(present)
    return condition


def names(group: str, count: int) -> list[str]:
    return [f"{group}-{i}" for i in range(count)]


async def a_tree_starts_whole_once_its_pods_are_there(cluster: GroupCluster) -> None:
    await cluster.nodes(8)
    await put_composites(cluster, composite("r", 2), composite("a", 1, "r"))
    await cluster.groups(leaf("x", "a", 2), leaf("y", "r", 1))
    await cluster.pods(*members("x", 2))
    await until_composite(cluster, "r", "False", "sub group y needs exist")
    await cluster.settle()
    assert await cluster.bound() == set()
    await cluster.pods(*members("y", 1))
    await cluster.until_bound("x-0", "x-1", "y-0")
    for name in ("r", "a"):
        assert (await until_composite(cluster, name, "True"))["reason"] == "Scheduled"
    for name in ("x", "y"):
        await cluster.until_condition(name, "True")


async def pods_and_groups_may_come_before_the_groups_above_them(cluster: GroupCluster) -> None:
    await cluster.nodes(8)
    await cluster.pods(*members("x", 2), *members("y", 1))
    await cluster.groups(leaf("x", "a", 2))
    waiting = await cluster.until_condition("x", "False")
    assert waiting["message"] == 'waiting for composite pod group "a" to appear'
    assert waiting["reason"] == "Unschedulable"
    await cluster.until_pod_says("x-0", 'waiting for composite pod group "a" to appear')
    await put_composites(cluster, composite("a", 1, "r"))
    await cluster.until_pod_says("x-0", 'waiting for composite pod group "r" to appear')
    await put_composites(cluster, composite("r", 2))
    await cluster.until_pod_says("x-0", 'waiting for composite pod group "r" tree to meet quorum')
    assert await cluster.bound() == set()
    await cluster.groups(leaf("y", "r", 1))
    await cluster.until_bound("x-0", "x-1", "y-0")
    await until_composite(cluster, "r", "True")


async def a_group_that_has_no_place_is_done_without_where_the_minimum_lets_it(
    cluster: GroupCluster,
) -> None:
    await cluster.nodes(8)
    await put_composites(cluster, composite("r", 2))
    await cluster.groups(leaf("a", "r", 1), leaf("b", "r", 1), leaf("c", "r", 1))
    await cluster.pods(*members("a", 1, cpu=100), *members("b", 1), *members("c", 1))
    await cluster.until_bound("b-0", "c-0")
    await until_composite(cluster, "r", "True")
    await cluster.until_condition("a", "False")


async def a_group_that_may_run_anywhere_leaves_a_rack_to_its_sibling(
    cluster: GroupCluster,
) -> None:
    """kube-scheduler binds none of these twelve: it spreads the first group over both racks."""
    await racks(cluster, a=(8.1, 8.1), b=(8.1, 8.1))
    await put_composites(cluster, composite("r", 2))
    await cluster.groups(leaf("free", "r", 4), leaf("near", "r", 8, schedulingConstraints=NEAR))
    await cluster.pods(*members("free", 4, cpu=2), *members("near", 8, cpu=2))
    await cluster.until_bound(*names("free", 4), *names("near", 8))
    near = [n for n in (await _nodes(cluster)).items() if n[0].startswith("near-")]
    assert len({node.rpartition("-")[0] for _, node in near}) == 1


async def _nodes(cluster: GroupCluster) -> dict[str, str]:
    items = (await cluster.api.get(PODS))["items"]
    return {p["metadata"]["name"]: p["spec"].get("nodeName", "") for p in items}


async def groups_of_a_composite_stay_in_its_domain(cluster: GroupCluster) -> None:
    await racks(cluster, a=(3.1,), b=(2.1, 2.1))
    await put_composites(
        cluster, composite("r", 1), composite("a", 2, "r", schedulingConstraints=NEAR)
    )
    await cluster.groups(leaf("x", "a", 2), leaf("y", "a", 2))
    await cluster.pods(*members("x", 2), *members("y", 2))
    await cluster.until_bound(*names("x", 2), *names("y", 2))
    assert await racks_of(cluster) == ["b"] * 4


async def groups_of_two_priorities_or_workloads_are_refused(cluster: GroupCluster) -> None:
    await cluster.nodes(8)
    await cluster.priority_class(priority_class("high", 90))
    await put_composites(cluster, composite("r", 1))
    await cluster.groups(leaf("x", "r", 1), leaf("y", "r", 1, priorityClassName="high"))
    await cluster.pods(*members("x", 1))
    text = "all pod groups in a hierarchy should have the same priority as the root pod group's"
    refused = await until_composite(cluster, "r", "False", text)
    assert refused["reason"] == "SchedulerError"
    assert (await cluster.until_pod_says("x-0", text))["reason"] == "SchedulerError"
    await delete_group(cluster, "y")
    await until_composite(cluster, "r", "True")
    other = {"workloadName": "other", "templateName": "t"}
    await cluster.groups(leaf("z", "r", 1, workloadRef=other))
    await cluster.pods(*members("z", 1))
    await cluster.until_pod_says("z-0", "pod group workload does not match root workload")


async def circles_and_deep_trees_are_refused(cluster: GroupCluster) -> None:
    await cluster.nodes(8)
    await put_composites(cluster, composite("a", 1, "b"), composite("b", 1, "a"))
    await cluster.groups(leaf("x", "a", 1))
    await cluster.pods(*members("x", 1))
    await cluster.until_pod_says("x-0", "cycle detected in the hierarchy")
    assert (await cluster.until_condition("x", "False"))["reason"] == "SchedulerError"
    deep = [composite(f"d{i}", 1, f"d{i - 1}" if i else "") for i in range(4)]
    await put_composites(cluster, *deep)
    await cluster.groups(leaf("y", "d3", 1))
    await cluster.pods(*members("y", 1))
    await cluster.until_pod_says("y-0", 'hierarchy depth exceeds maximum allowed depth 4 at "d3"')
    await until_composite(cluster, "d0", "False")


async def without_its_root_a_tree_runs_on_and_grows_once_it_is_there_again(
    cluster: GroupCluster,
) -> None:
    await cluster.nodes(8)
    await put_composites(cluster, composite("r", 1))
    await cluster.groups(leaf("x", "r", 2))
    await cluster.pods(*members("x", 2))
    await cluster.until_bound("x-0", "x-1")
    await cluster.api.delete(f"{COMPOSITES}/r")
    await cluster.pods(member("x-2", "x"))
    await cluster.until_pod_says("x-2", 'waiting for composite pod group "r" to appear')
    assert await cluster.bound() == {"x-0", "x-1"}
    await put_composites(cluster, composite("r", 1))
    await cluster.until_bound("x-2")
    await until_composite(cluster, "r", "True")


async def a_tree_of_mode_all_leaves_whole_where_one_surplus_pod_would_do(
    cluster: GroupCluster,
) -> None:
    """Also where only its root says so."""
    await cluster.nodes(4.4)
    await cluster.priority_class(priority_class("urgent", URGENT))
    polite = priority_class("polite", URGENT - 1, preemptionPolicy="Never")
    await cluster.priority_class(polite)
    await put_composites(cluster, composite("r", 2, disruptionMode=ALL))
    await cluster.groups(leaf("x", "r", 1), leaf("y", "r", 1))
    await cluster.pods(*members("x", 2), *members("y", 2))
    await cluster.until_bound(*names("x", 2), *names("y", 2))
    await cluster.groups(group("next", 1, **POLITE))
    await cluster.pods(member("next", "next", cpu=3, priorityClassName="polite"))
    await cluster.until_condition("next", "False")
    await cluster.pods(urgent(cpu=1))
    await cluster.until_bound_after_evictions("vip", "next")
    assert await cluster.bound() == {"vip", "next"}


async def delete_group(cluster: GroupCluster, name: str) -> None:
    """With the finalizer, which kube-controller-manager takes away, as the simulated cluster
    does."""
    await cluster.api.delete(f"{GROUPS}/{name}")
    await cluster.api.patch(f"{GROUPS}/{name}", {"metadata": {"finalizers": None}}, code=None)


TREE_WALKS = (
    a_tree_starts_whole_once_its_pods_are_there,
    pods_and_groups_may_come_before_the_groups_above_them,
    a_group_that_has_no_place_is_done_without_where_the_minimum_lets_it,
    a_group_that_may_run_anywhere_leaves_a_rack_to_its_sibling,
    groups_of_a_composite_stay_in_its_domain,
    groups_of_two_priorities_or_workloads_are_refused,
    circles_and_deep_trees_are_refused,
    without_its_root_a_tree_runs_on_and_grows_once_it_is_there_again,
    a_tree_of_mode_all_leaves_whole_where_one_surplus_pod_would_do,
)
