"""Walks beside Volcano's and Kubernetes' controllers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

from laboratory.local_kubernetes.kubelets import DURATION
from tests.builders.objects import (
    container,
    hyper_node,
    kube_object,
    pod_group,
    priority_class,
    queue,
    simple_job,
)
from tests.kubernetes.driver.harness import pod, until
from tests.kubernetes.driver.volcano.conftest import POLICY
from tests.kubernetes.driver.volcano.objects import JOBS, command, with_defaults
from tests.kubernetes.end_states.walk import Json, Stage, Walk

ROOM = {"cpu": "8", "memory": "64Gi"}
BATCH = "/apis/batch/v1/namespaces/default/jobs"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
CRON_JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/cronjobs"
LONG = 600.0
HIERARCHY = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins:
  - name: drf
  - name: predicates
  - {name: capacity, enableHierarchy: true}
  - name: nodeorder
"""
TOPOLOGY = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: network-topology-aware
"""
PREEMPTION = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def job(name: str, pods: int, *, cpu: float = 1, seconds: float = LONG, **spec: Any) -> Json:
    item = simple_job(name, pods, namespace="default", cpu=cpu, seconds=seconds, **spec)
    return with_defaults(item)


def of_workload(cpu: float = 1, *, seconds: float = LONG) -> Json:
    """Template of pods for Kubernetes' own controllers."""
    return {
        "metadata": {"labels": {"app": "a"}, "annotations": {DURATION: str(seconds)}},
        "spec": {"schedulerName": "volcano", "containers": [container(cpu, "", image="i")]},
    }


def batch_job(name: str, pods: int, *, cpu: float = 1, seconds: float = LONG, **spec: Any) -> Json:
    template = of_workload(cpu, seconds=seconds)
    template["spec"]["restartPolicy"] = "Never"
    spec |= {"parallelism": pods, "completions": pods, "template": template}
    return kube_object("batch/v1", "Job", name, spec=spec)


async def a_job_from_its_creation_to_its_end(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1", "n2"], ROOM)
    await stage.cluster.create(job("j", 3, cpu=2))
    yield "runs"
    await stage.cluster.create(job("short", 2, seconds=1.0))
    yield "another has ended"


async def a_job_that_is_not_admitted(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], ROOM)
    await stage.cluster.create(job("large", 3, cpu=4))
    yield "waits"
    await stage.kubelets.join(["n2"], ROOM)
    yield "with another node"


async def a_job_that_fits_no_nodes(stage: Stage) -> AsyncIterator[str]:
    """The sum has room for it, and no two nodes have."""
    await stage.kubelets.join(["n1", "n2"], ROOM)
    await stage.cluster.create(job("wide", 3, cpu=5))
    yield "waits"


async def a_cron_job_suspended_and_resumed(stage: Stage) -> AsyncIterator[str]:
    """It has missed a time, so that a Job is due as soon as it is resumed."""
    await stage.kubelets.join(["n1"], ROOM)
    spec = job("j", 2)["spec"]
    cron = kube_object(
        "batch.volcano.sh/v1alpha1",
        "CronJob",
        "cron",
        spec={
            "schedule": "0 0 1 1 *",
            "suspend": True,
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": spec},
        },
    )
    await stage.cluster.create(cron)
    before = datetime.now(UTC) - timedelta(days=366)
    status = {"lastScheduleTime": before.strftime("%Y-%m-%dT%H:%M:%SZ")}
    await stage.cluster.patch(f"{CRON_JOBS}/cron/status", {"status": status})
    yield "suspended"
    await stage.cluster.patch(f"{CRON_JOBS}/cron", {"spec": {"suspend": False}})
    yield "resumed"


async def a_tree_of_queues(stage: Stage) -> AsyncIterator[str]:
    """Each team may have 6 cpu, and both together 8."""
    await stage.kubelets.join(["n1", "n2"], ROOM)
    await stage.cluster.create(
        queue("dept", weight=1, capability={"cpu": "8"}),
        *(queue(name, weight=1, parent="dept", capability={"cpu": "6"}) for name in ("a", "b")),
        job("first", 3, cpu=2, queue="a"),
    )
    yield "one team"
    await stage.cluster.create(job("second", 2, cpu=2, queue="b"))
    yield "both teams"
    await stage.cluster.delete(f"{JOBS}/first")
    yield "the other team"


async def a_hard_topology(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1", "n2", "n3"], ROOM)
    near = {"mode": "hard", "highestTierAllowed": 1}
    await stage.cluster.create(
        hyper_node("racka", "n1", "n2"),
        hyper_node("rackb", "n3"),
        job("near", 4, cpu=3, networkTopology=near),
    )
    yield "within a rack"
    await stage.cluster.create(job("far", 2, cpu=5, networkTopology=near))
    yield "another fits in no rack"


async def a_job_aborted_and_resumed(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], ROOM)
    [created] = await stage.cluster.create(job("j", 2))
    yield "runs"
    await stage.cluster.create(command("abort", "AbortJob", created))
    yield "aborted"
    await stage.cluster.create(command("resume", "ResumeJob", created))
    yield "resumed"


async def a_batch_job_suspended_and_resumed(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], ROOM)
    await stage.cluster.create(batch_job("b", 2, suspend=True))
    yield "suspended"
    await stage.cluster.patch(f"{BATCH}/b", {"spec": {"suspend": False}})
    yield "resumed"
    await stage.cluster.patch(f"{BATCH}/b", {"spec": {"suspend": True}})
    yield "suspended again"
    await stage.cluster.patch(f"{BATCH}/b", {"spec": {"suspend": False}})
    yield "resumed again"


async def a_deployment_that_grows(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], ROOM)
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": of_workload(2)}
    await stage.cluster.create(kube_object("apps/v1", "Deployment", "web", spec=spec))
    yield "of two"
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    await stage.cluster.patch(path, {"spec": {"replicas": 5}})
    yield "of five where four fit"


async def batch_jobs_that_have_ended(stage: Stage) -> AsyncIterator[str]:
    """Together they ask for more than the cluster has."""
    await stage.kubelets.join(["n1"], ROOM)
    names = [f"j{number}" for number in range(13)]
    await stage.cluster.create(*(batch_job(name, 1, cpu=3, seconds=0.5) for name in names))
    yield "13 have ended"
    await stage.cluster.create(batch_job("next", 2, cpu=4))
    yield "the next one"


async def a_job_preempts_another(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], ROOM)
    await stage.cluster.create(priority_class("high", 1000), priority_class("low", 10))
    await stage.cluster.create(job("low", 4, cpu=2, minimum=2, priorityClassName="low"))
    yield "the lower one"
    await stage.cluster.create(job("high", 2, cpu=2, priorityClassName="high"))
    yield "both"


async def a_queue_that_is_closed(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], ROOM)
    [created] = await stage.cluster.create(queue("q", weight=1))
    await stage.cluster.create(job("j", 2, queue="q"))
    yield "open"
    await stage.cluster.create(command("close", "CloseQueue", created))
    yield "closing"
    await stage.cluster.delete(f"{JOBS}/j")

    async def is_closed() -> bool:
        state = (await stage.cluster.get(f"{QUEUES}/q"))["status"].get("state")
        return bool(state == "Closed")

    await until(
        is_closed, within=60
    )  # a Job that comes before keeps it Closing, or not: that is a race
    await stage.cluster.create(job("late", 1, queue="q"))
    yield "closed"


async def a_job_of_a_queue_that_is_missing(stage: Stage) -> AsyncIterator[str]:
    await stage.kubelets.join(["n1"], ROOM)
    await stage.cluster.create(job("j", 2, queue="absent"))
    yield "waits"
    await stage.cluster.create(queue("absent", weight=1))
    yield "once the queue is there"


async def a_pod_that_is_restarted(stage: Stage) -> AsyncIterator[str]:
    """One of two fails, and a policy restarts it alone."""
    await stage.kubelets.join(["n1"], ROOM)
    item = job("j", 2, policies=[{"event": "PodFailed", "action": "RestartPod"}])
    await stage.cluster.create(item)
    yield "runs"
    path = "/api/v1/namespaces/default/pods/j-w-0/status"
    await stage.cluster.patch(path, {"status": {"phase": "Failed"}})
    yield "one was restarted"


async def roles_with_minima(stage: Stage) -> AsyncIterator[str]:
    """There is room for two of three, and each role needs one."""
    await stage.kubelets.join(["n1"], {"cpu": "2", "memory": "8Gi"})
    item = job("j", 2, cpu=1)
    [worker] = item["spec"]["tasks"]
    launcher = worker | {"name": "launcher", "replicas": 1, "minAvailable": 1}
    worker["minAvailable"] = 1
    item["spec"] |= {"tasks": [worker, launcher], "minAvailable": 2}
    await stage.cluster.create(item)
    yield "two of three"


async def a_bare_pod_beside_a_pod_of_others(stage: Stage) -> AsyncIterator[str]:
    """The other one has an inline volume, and 6 of 8 cpu."""
    await stage.kubelets.join(["n1"], ROOM)
    other = pod("other", cpu=6, scheduler="somebody")
    other["spec"] |= {"nodeName": "n1", "volumes": [{"name": "s", "csi": {"driver": "c.example"}}]}
    await stage.cluster.create(other, pod("large", cpu=4, scheduler="volcano"))
    yield "waits"
    await stage.cluster.create(pod("small", cpu=2, scheduler="volcano"))
    yield "a smaller one"


async def a_group_that_somebody_wrote(stage: Stage) -> AsyncIterator[str]:
    """Its minResources have the names of quotas, and its pods come later."""
    await stage.kubelets.join(["n1"], ROOM)
    amounts = {"count/pods": "1", "pods": "1", "cpu": "1", "requests.cpu": "1", "limits.cpu": "1"}
    item = pod_group("g", namespace="default", minMember=2, queue="default", minResources=amounts)
    await stage.cluster.create(item)
    yield "without pods"
    await stage.cluster.create(pod("p0", group="g", scheduler="volcano"))
    yield "one of two"
    await stage.cluster.create(pod("p1", group="g", scheduler="volcano"))
    yield "both"


WALKS = (
    Walk("a Job to its end", a_job_from_its_creation_to_its_end, POLICY),
    Walk("a Job that is not admitted", a_job_that_is_not_admitted, POLICY),
    Walk("a Job that fits no nodes", a_job_that_fits_no_nodes, POLICY),
    Walk("a CronJob, suspended and resumed", a_cron_job_suspended_and_resumed, POLICY),
    Walk("a tree of queues", a_tree_of_queues, HIERARCHY),
    Walk("a hard topology", a_hard_topology, TOPOLOGY),
    Walk("a Job, aborted and resumed", a_job_aborted_and_resumed, POLICY),
    Walk("a batch Job, suspended and resumed", a_batch_job_suspended_and_resumed, POLICY),
    Walk("a Deployment that grows", a_deployment_that_grows, POLICY),
    Walk("13 batch Jobs that have ended", batch_jobs_that_have_ended, POLICY),
    Walk("a Job preempts another", a_job_preempts_another, PREEMPTION),
    Walk("a queue that is closed", a_queue_that_is_closed, POLICY),
    Walk("a queue that is missing", a_job_of_a_queue_that_is_missing, POLICY),
    Walk("a pod that is restarted", a_pod_that_is_restarted, POLICY),
    Walk("roles with minima", roles_with_minima, POLICY),
    Walk("a bare pod beside others", a_bare_pod_beside_a_pod_of_others, POLICY),
    Walk("a PodGroup without an owner", a_group_that_somebody_wrote, POLICY),
)
