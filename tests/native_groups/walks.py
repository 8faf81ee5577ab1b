"""Walks of Kubernetes' own PodGroups, over an API server: a real one, or that of the simulated
cluster. Each is a behaviour that both must show, and is named for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from laboratory.local_kubernetes.client import ApiClient
from tests.builders.objects import container, native_group, node, pod_group, priority_class
from tests.builders.objects import pod as made_pod

Json = dict[str, Any]
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
VOLCANO_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
CONDITION = "PodGroupInitiallyScheduled"
SECOND_SCHEDULER = "volcano"
"""Another scheduler name of ours."""
MIXED_PRIORITIES = (
    "all pods in a single pod group should have the same priority as the pod group's priority, "
    "got {} and {}"
)
PATIENCE = 60.0


def group(name: str, minimum: int | None = None, **spec: Any) -> Json:
    return native_group(name, minimum, namespace="default", **spec)


def member(name: str, group: str, *, cpu: float = 1, **spec: Any) -> Json:
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    spec = {"containers": [container(cpu, "", image="i")], "schedulerName": "quadrant"} | spec
    return made_pod(name, namespace="default", **spec)


def members(group: str, count: int, *, cpu: float = 1) -> list[Json]:
    return [member(f"{group}-{i}", group, cpu=cpu) for i in range(count)]


class GroupCluster:
    """A cluster with nodes, as its user sees it."""

    def __init__(self, api: ApiClient) -> None:
        self.api = api
        self._alone = 0

    async def nodes(self, *cores: float) -> None:
        for i, cpu in enumerate(cores):
            await self.api.post(NODES, new_node(f"n{i}", cpu))

    async def groups(self, *items: Json) -> None:
        for item in items:
            await self.api.post(GROUPS, item)

    async def priority_class(self, item: Json) -> None:
        await self.api.post("/apis/scheduling.k8s.io/v1/priorityclasses", item)
        await self.api.until_admitted(item["metadata"]["name"])

    async def pods(self, *items: Json) -> None:
        for item in items:
            await self.api.post(PODS, item)

    async def set_minimum(self, name: str, minimum: int) -> None:
        policy = {"gang": {"minCount": minimum}}
        await self.api.patch(f"{GROUPS}/{name}", {"spec": {"schedulingPolicy": policy}})

    async def bound(self) -> set[str]:
        """Pods that have a node, without those that :meth:`settle` made."""
        items = (await self.api.get(PODS))["items"]
        named = {p["metadata"]["name"] for p in items if _is_placed(p)}
        return {name for name in named if not name.startswith("settled")}

    async def until_bound(self, *names: str) -> None:
        async def is_bound() -> bool:
            return set(names) <= await self.bound()

        await until(is_bound)

    async def until_bound_after_evictions(self, *names: str) -> None:
        """As :meth:`until_bound`; pods that leave are stopped at once, as a kubelet does."""

        async def is_bound() -> bool:
            for item in (await self.api.get(PODS))["items"]:
                if item["metadata"].get("deletionTimestamp"):
                    path = f"{PODS}/{item['metadata']['name']}"
                    await self.api.delete(path, gracePeriodSeconds="0", code=None)
            return set(names) <= await self.bound()

        await until(is_bound)

    async def settle_among_urgent(self) -> None:
        """As :meth:`settle`, after pods of a higher priority."""
        await self.settle(priorityClassName="urgent")

    async def settle(self, **spec: Any) -> None:
        """Wait until a pod that comes now was placed: what came before had its turn."""
        name = f"settled{self._alone}"
        self._alone += 1
        await self.pods(member(name, "", cpu=0.01, **spec))

        async def is_bound() -> bool:
            return bool((await self.api.get(f"{PODS}/{name}"))["spec"].get("nodeName"))

        await until(is_bound)

    async def condition(self, name: str) -> Json | None:
        status = (await self.api.get(f"{GROUPS}/{name}")).get("status") or {}
        return next((c for c in status.get("conditions") or () if c["type"] == CONDITION), None)

    async def until_condition(self, name: str, status: str, reason: str = "") -> Json:
        """``reason``: the one to wait for; "" for any."""

        async def present() -> Json | None:
            condition = await self.condition(name)
            if condition is None or condition["status"] != status:
                return None
            return condition if condition["reason"] == reason or not reason else None

        condition: Json = await until(present)
        return condition

    async def until_pod_says(self, name: str, text: str) -> Json:
        """The condition PodScheduled of a pod, once its message has this text."""

        async def present() -> Json | None:
            status = (await self.api.get(f"{PODS}/{name}")).get("status") or {}
            for condition in status.get("conditions") or ():
                if condition["type"] == "PodScheduled" and text in condition.get("message", ""):
                    return dict(condition)
            return None

        condition: Json = await until(present)
        return condition


async def until(look: Callable[[], Awaitable[Any]]) -> Any:
    """Poll until the result is true, and return it."""
    deadline = time.monotonic() + PATIENCE
    while not (result := await look()):
        assert time.monotonic() < deadline, "it did not come to pass"
        await asyncio.sleep(0.05)
    return result


# --- the walks --------------------------------------------------------------------------------


async def pods_before_their_group_wait_say_why_and_start_when_it_comes(
    cluster: GroupCluster,
) -> None:
    await cluster.nodes(8)
    await cluster.pods(*members("g", 4))
    waiting = await cluster.until_pod_says("g-0", "PodGroup default/g")
    assert (waiting["status"], waiting["reason"]) == ("False", "Unschedulable")
    await cluster.settle()
    assert await cluster.bound() == set()
    await cluster.groups(group("g", 4))
    await cluster.until_bound(*(f"g-{i}" for i in range(4)))
    placed = await cluster.until_condition("g", "True")
    assert placed["reason"] == "Scheduled"


async def one_pod_below_the_minimum_nothing_starts_and_the_group_says_so(
    cluster: GroupCluster,
) -> None:
    await cluster.nodes(8)
    await cluster.groups(group("g", 4))
    await cluster.pods(*members("g", 3))
    waiting = await cluster.until_condition("g", "False")
    assert waiting["reason"] == "Unschedulable"
    await cluster.settle()
    assert await cluster.bound() == set()
    await cluster.pods(member("g-3", "g"))
    await cluster.until_bound(*(f"g-{i}" for i in range(4)))
    await cluster.until_condition("g", "True")


async def a_minimum_of_more_pods_starts_and_the_rest_follow(cluster: GroupCluster) -> None:
    await cluster.nodes(4.5)
    await cluster.groups(group("g", 4))
    await cluster.pods(*members("g", 8))
    await until(lambda: _count(cluster, 4))
    await cluster.until_condition("g", "True")
    await cluster.settle()
    assert len(await cluster.bound()) == 4
    await cluster.api.post(NODES, new_node("late", 5))
    await cluster.until_bound(*(f"g-{i}" for i in range(8)))


async def a_gang_that_does_not_fit_has_no_pod_placed(cluster: GroupCluster) -> None:
    await cluster.nodes(3)
    await cluster.groups(group("g", 4))
    await cluster.pods(*members("g", 4))
    waiting = await cluster.until_condition("g", "False")
    assert waiting["reason"] == "Unschedulable"
    await cluster.settle()
    assert await cluster.bound() == set()


async def a_condition_that_is_true_stays_true_when_pods_go(cluster: GroupCluster) -> None:
    await cluster.nodes(4)
    await cluster.groups(group("g", 2))
    await cluster.pods(*members("g", 2))
    placed = await cluster.until_condition("g", "True")
    await cluster.api.delete(f"{PODS}/g-0", gracePeriodSeconds="0")
    await cluster.pods(member("g-9", "g", cpu=64))
    await cluster.settle()
    await cluster.settle()
    assert await cluster.condition("g") == placed


async def pods_of_a_basic_group_are_placed_one_by_one(cluster: GroupCluster) -> None:
    await cluster.nodes(4)
    await cluster.groups(group("g"))
    await cluster.pods(member("g-large", "g", cpu=64), *members("g", 3))
    await cluster.until_bound("g-0", "g-1", "g-2")
    await cluster.until_condition("g", "True")
    await cluster.settle()
    assert "g-large" not in await cluster.bound()


async def a_gated_pod_of_a_basic_group_keeps_no_other_waiting(cluster: GroupCluster) -> None:
    """kube-scheduler 1.37 keeps those that come after it out of its queue."""
    await cluster.nodes(4)
    await cluster.groups(group("g"))
    await cluster.pods(member("gated", "g", schedulingGates=[{"name": "example.com/later"}]))
    await cluster.pods(member("after", "g"))
    await cluster.until_bound("after")
    assert await cluster.bound() == {"after"}


async def groups_of_one_name_of_two_apis_are_apart(cluster: GroupCluster) -> None:
    await cluster.nodes(8)
    theirs = pod_group("g", namespace="default", minMember=2, queue="default")
    await cluster.api.post(VOLCANO_GROUPS, theirs)
    await cluster.groups(group("g", 2))
    of_volcano = [
        made_pod(
            f"v-{i}",
            namespace="default",
            group="g",
            containers=[container(1, "", image="i")],
            schedulerName="quadrant",
        )
        for i in range(2)
    ]
    await cluster.pods(member("g-0", "g"), of_volcano[0])
    await cluster.until_condition("g", "False")
    await cluster.settle()
    assert await cluster.bound() == set(), "one pod of each is no gang of two"
    await cluster.pods(of_volcano[1])
    await cluster.until_bound("v-0", "v-1")
    assert "g-0" not in await cluster.bound()
    await cluster.pods(member("g-1", "g"))
    await cluster.until_bound("g-0", "g-1")


async def pods_of_two_priorities_are_refused_and_each_says_why(cluster: GroupCluster) -> None:
    await cluster.nodes(8)
    await cluster.priority_class(priority_class("high", 1000))
    await cluster.groups(group("g", 3))
    await cluster.pods(*members("g", 2), member("odd", "g", priorityClassName="high"))
    refused = await cluster.until_condition("g", "False", "SchedulerError")
    assert refused["message"] == MIXED_PRIORITIES.format(1000, 0)
    for name in ("g-0", "g-1", "odd"):
        waiting = await cluster.until_pod_says(name, refused["message"])
        assert waiting["reason"] == "SchedulerError"
    await cluster.settle()
    assert await cluster.bound() == set()
    await cluster.api.delete(f"{PODS}/odd", gracePeriodSeconds="0")
    await cluster.pods(member("g-2", "g"))
    await cluster.until_bound("g-0", "g-1", "g-2")


async def pods_of_two_schedulers_are_refused_and_each_says_why(cluster: GroupCluster) -> None:
    await cluster.nodes(8)
    await cluster.groups(group("g", 3))
    await cluster.pods(*members("g", 2), member("odd", "g", schedulerName=SECOND_SCHEDULER))
    refused = await cluster.until_condition("g", "False", "SchedulerError")
    assert refused["message"] == (
        "all pods in a single pod group should have the same .spec.schedulerName set, "
        f'got: "{SECOND_SCHEDULER}" and "quadrant"'
    )
    for name in ("g-0", "g-1", "odd"):
        await cluster.until_pod_says(name, refused["message"])
    await cluster.settle()
    assert await cluster.bound() == set()


async def pods_without_the_priority_of_their_group_are_refused(cluster: GroupCluster) -> None:
    await cluster.nodes(8)
    await cluster.priority_class(priority_class("high", 1000))
    await cluster.groups(group("g", 2, priorityClassName="high"))
    await cluster.pods(*members("g", 2))
    refused = await cluster.until_condition("g", "False", "SchedulerError")
    assert refused["message"] == MIXED_PRIORITIES.format(0, 1000)
    await cluster.settle()
    assert await cluster.bound() == set()


async def a_pod_of_another_priority_leaves_those_that_run_in_peace(cluster: GroupCluster) -> None:
    await cluster.nodes(8)
    await cluster.priority_class(priority_class("high", 1000))
    await cluster.groups(group("g", 2))
    await cluster.pods(*members("g", 2))
    placed = await cluster.until_condition("g", "True")
    await cluster.pods(member("odd", "g", priorityClassName="high"))
    await cluster.until_pod_says("odd", MIXED_PRIORITIES.format(1000, 0))
    assert await cluster.bound() == {"g-0", "g-1"}
    assert await cluster.condition("g") == placed


async def a_group_that_is_created_anew_may_have_another_policy(cluster: GroupCluster) -> None:
    await cluster.nodes(8)
    await cluster.groups(group("g", 4))
    await cluster.pods(*members("g", 2))
    await cluster.until_condition("g", "False")
    for i in range(2):
        await cluster.api.delete(f"{PODS}/g-{i}", gracePeriodSeconds="0")
    await cluster.api.delete(f"{GROUPS}/g")
    await cluster.api.patch(f"{GROUPS}/g", {"metadata": {"finalizers": None}}, code=None)
    await cluster.api.until(f"{GROUPS}/g", lambda answer: answer.get("code") == 404)
    await cluster.groups(group("g"))
    await cluster.pods(member("g-0", "g"))
    await cluster.until_bound("g-0")


async def pods_of_a_deleted_group_run_on_and_others_join(cluster: GroupCluster) -> None:
    await cluster.nodes(8)
    await cluster.groups(group("g", 2))
    await cluster.pods(*members("g", 2))
    await cluster.until_condition("g", "True")
    await cluster.api.delete(f"{GROUPS}/g")
    assert "deletionTimestamp" in (await cluster.api.get(f"{GROUPS}/g"))["metadata"]
    await cluster.pods(member("late", "g"))
    await cluster.until_bound("g-0", "g-1", "late")


async def unions_and_unchangeable_fields_are_refused(cluster: GroupCluster) -> None:
    none = group("none")
    none["spec"]["schedulingPolicy"] = {}
    both = group("both", 2)
    both["spec"]["schedulingPolicy"]["basic"] = {}
    for item, text in ((none, "must specify one of"), (both, "must specify exactly one of")):
        answer = await cluster.api.post(GROUPS, item, code=422)
        assert f"{text}: `basic`, `gang`" in answer["message"]
    await cluster.api.post(GROUPS, group("zero", 0), code=422)
    answer = await cluster.api.post(GROUPS, group("high", 2, priority=5), code=403)
    expected = "priority set in the pod group (5) must match the priority computed (0)"
    assert expected in answer["message"]
    created = await cluster.api.post(GROUPS, group("g", 2))
    spec = created["spec"]
    assert (spec["disruptionMode"], spec["priority"]) == ({"single": {}}, 0)
    assert spec["preemptionPolicy"] == "PreemptLowerPriority"
    other: Json = {"spec": {"schedulingPolicy": {"gang": None, "basic": {}}}}
    await cluster.api.patch(f"{GROUPS}/g", other, code=422)


WALKS = (
    pods_before_their_group_wait_say_why_and_start_when_it_comes,
    one_pod_below_the_minimum_nothing_starts_and_the_group_says_so,
    a_minimum_of_more_pods_starts_and_the_rest_follow,
    a_gang_that_does_not_fit_has_no_pod_placed,
    a_condition_that_is_true_stays_true_when_pods_go,
    pods_of_a_basic_group_are_placed_one_by_one,
    a_gated_pod_of_a_basic_group_keeps_no_other_waiting,
    groups_of_one_name_of_two_apis_are_apart,
    pods_of_two_priorities_are_refused_and_each_says_why,
    pods_of_two_schedulers_are_refused_and_each_says_why,
    pods_without_the_priority_of_their_group_are_refused,
    a_pod_of_another_priority_leaves_those_that_run_in_peace,
    a_group_that_is_created_anew_may_have_another_policy,
    pods_of_a_deleted_group_run_on_and_others_join,
    unions_and_unchangeable_fields_are_refused,
)


def _is_placed(pod: Json) -> bool:
    leaving = pod["metadata"].get("deletionTimestamp")
    return bool(pod["spec"].get("nodeName")) and not leaving


def new_node(name: str, cpu: float) -> Json:
    item = node(name, cpu=cpu, memory="16Gi")
    item["status"]["capacity"] = item["status"]["allocatable"]
    item["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return item


async def _count(cluster: GroupCluster, count: int) -> bool:
    return len(await cluster.bound()) == count
