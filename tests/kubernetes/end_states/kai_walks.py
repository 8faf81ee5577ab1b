"""Walks beside KAI's pod grouper, binder and controllers, and Kubernetes' own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from laboratory.local_kubernetes.kubelets import DURATION
from tests.builders.objects import container, kai_queue, kube_object, priority_class
from tests.kubernetes.driver.kai.objects import SCHEDULER, gang, kai_pod
from tests.kubernetes.end_states.walk import Json, Stage, Walk

ROOM = {"cpu": "8", "memory": "64Gi"}
GPUS = ROOM | {"nvidia.com/gpu": "4"}
GPU_LABELS = {"nvidia.com/gpu.memory": "16000", "nvidia.com/gpu.count": "4"}
BATCH = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
LONG = 600.0


def queues(**team: Any) -> tuple[Json, ...]:
    return kai_queue("all"), kai_queue("team", "all", **team)


def bounds(quota: float, limit: float) -> Json:
    return {"quota": quota, "limit": limit, "overQuotaWeight": 1}


def gpu_pod(name: str, gpus: int, *, queue: str = "team", priority: str = "") -> Json:
    item = kai_pod(name)
    item["metadata"]["labels"]["kai.scheduler/queue"] = queue
    if priority:
        item["metadata"]["labels"]["priorityClassName"] = priority
    amounts = {"nvidia.com/gpu": str(gpus)}
    item["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"} | amounts}
    item["spec"]["containers"][0]["resources"]["limits"] = amounts
    return item


def members(group: str, pods: int, *, cpu: int = 1, role: str = "") -> list[Json]:
    made = [kai_pod(f"{group}{role}{number}", group=group, cpu=cpu) for number in range(pods)]
    for pod in made:
        if role:
            pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] = role
    return made


def batch_job(name: str, pods: int, *, cpu: float = 1, seconds: float = LONG, **spec: Any) -> Json:
    labels = {"kai.scheduler/queue": "team"}
    template = {
        "metadata": {"labels": labels, "annotations": {DURATION: str(seconds)}},
        "spec": {
            "schedulerName": SCHEDULER,
            "restartPolicy": "Never",
            "containers": [container(cpu, "", image="i")],
        },
    }
    spec |= {"parallelism": pods, "completions": pods, "template": template}
    return kube_object("batch/v1", "Job", name, spec=spec)


async def pods_of_their_own(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], GPUS, labels=GPU_LABELS)
    await stage.cluster.create(*queues(), kai_pod("one"), gpu_pod("two", 2))
    yield "run"
    await stage.cluster.create(gpu_pod("three", 3))
    yield "another waits"


async def a_gang(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], ROOM)
    await stage.cluster.create(*queues(), gang("g", 3), *members("g", 3, cpu=4))
    yield "waits"
    await stage.kubelets.join(["n2"], ROOM)
    yield "with another node"


async def a_gang_in_sub_groups(stage: Stage) -> AsyncIterator[str]:
    """Three of four workers and the leader have room."""
    await stage.kubelets.join(["n1"], ROOM)
    group = gang("g", 3)
    group["spec"]["subGroups"] = [
        {"name": "leader", "minMember": 1},
        {"name": "worker", "minMember": 2},
    ]
    await stage.cluster.create(*queues(), group, *members("g", 4, cpu=2, role="worker"))
    yield "without its leader"
    await stage.cluster.create(*members("g", 1, cpu=2, role="leader"))
    yield "with its leader"


async def a_queue_that_is_missing(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], ROOM)
    await stage.cluster.create(kai_queue("all"), kai_pod("p"))
    yield "waits"
    await stage.cluster.create(kai_queue("team", "all"))
    yield "once the queue is there"


async def a_queue_over_its_limit(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], GPUS, labels=GPU_LABELS)
    await stage.cluster.create(*queues(gpu=bounds(1, 2)), gpu_pod("first", 2))
    yield "at its limit"
    await stage.cluster.create(gpu_pod("second", 1))
    yield "another waits"
    await stage.cluster.delete(f"{PODS}/first", gracePeriodSeconds="0")
    yield "the first has gone"


async def what_may_not_be_preempted_over_quota(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], GPUS, labels=GPU_LABELS)
    await stage.cluster.create(*queues(gpu=bounds(2, 4)), priority_class("build", 125))
    await stage.cluster.create(gpu_pod("within", 2, priority="build"))
    yield "within its quota"
    await stage.cluster.create(gpu_pod("beyond", 1, priority="build"))
    yield "beyond its quota"


async def shares_of_a_gpu(stage: Stage) -> AsyncIterator[str]:
    """A node with one GPU."""
    room = ROOM | {"nvidia.com/gpu": "1"}
    await stage.kubelets.join(["n1"], room, labels=GPU_LABELS | {"nvidia.com/gpu.count": "1"})
    halves = (kai_pod(name, gpu_fraction="0.5") for name in ("a", "b"))
    await stage.cluster.create(*queues(), *halves)
    yield "two halves"
    await stage.cluster.create(kai_pod("c", gpu_fraction="0.5"))
    yield "a third waits"


async def a_batch_job(stage: Stage) -> AsyncIterator[str]:
    """Two of its three pods have room."""
    await stage.kubelets.join(["n1"], ROOM)
    await stage.cluster.create(*queues(), batch_job("b", 3, cpu=3))
    yield "two of three"


async def a_batch_job_suspended_and_resumed(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], ROOM)
    await stage.cluster.create(*queues(), batch_job("b", 2, suspend=True))
    yield "suspended"
    await stage.cluster.patch(f"{BATCH}/b", {"spec": {"suspend": False}})
    yield "resumed"
    await stage.cluster.patch(f"{BATCH}/b", {"spec": {"suspend": True}})
    yield "suspended again"
    await stage.cluster.patch(f"{BATCH}/b", {"spec": {"suspend": False}})
    yield "resumed again"


async def batch_jobs_that_have_ended(stage: Stage) -> AsyncIterator[str]:
    """Together they ask for more than the cluster has."""
    await stage.kubelets.join(["n1"], ROOM)
    names = [f"j{number}" for number in range(13)]
    jobs = (batch_job(name, 1, cpu=3, seconds=0.5) for name in names)
    await stage.cluster.create(*queues(), *jobs)
    yield "13 have ended"
    await stage.cluster.create(batch_job("next", 2, cpu=4))
    yield "the next one"


async def a_queue_reclaims(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], GPUS, labels=GPU_LABELS)
    deserved = bounds(2, -1)
    await stage.cluster.create(
        kai_queue("all"), *(kai_queue(name, "all", gpu=deserved) for name in ("team", "other"))
    )
    await stage.cluster.create(*(gpu_pod(f"w{number}", 1) for number in range(4)))
    yield "one queue has all"
    await stage.cluster.create(gpu_pod("mine", 2, queue="other"))
    yield "another takes what it deserves"


async def a_pod_preempts_another(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], GPUS, labels=GPU_LABELS)
    await stage.cluster.create(*queues(), priority_class("low", 10), priority_class("high", 90))
    await stage.cluster.create(gpu_pod("lower", 4, priority="low"))
    yield "the lower one"
    await stage.cluster.create(gpu_pod("upper", 4, priority="high"))
    yield "both"


WALKS = (
    Walk("pods of their own", pods_of_their_own, ""),
    Walk("a gang", a_gang, ""),
    Walk("a gang in sub groups", a_gang_in_sub_groups, ""),
    Walk("a queue that is missing", a_queue_that_is_missing, ""),
    Walk("a queue over its limit", a_queue_over_its_limit, ""),
    Walk("no preemption, over quota", what_may_not_be_preempted_over_quota, ""),
    Walk("shares of a GPU", shares_of_a_gpu, ""),
    Walk("a batch Job", a_batch_job, ""),
    Walk("a batch Job, suspended and resumed", a_batch_job_suspended_and_resumed, ""),
    Walk("13 batch Jobs that have ended", batch_jobs_that_have_ended, ""),
    Walk("a queue reclaims", a_queue_reclaims, ""),
    Walk("a pod preempts another", a_pod_preempts_another, ""),
)
