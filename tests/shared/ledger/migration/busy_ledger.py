"""A small ledger in which something of every kind is under way, written by a running service."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from coordinator.cluster.protocol import BindAnswers, BindRequests, ClusterTimeout, Listed
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.memory import KeptPod, Memory
from coordinator.intake.documents.document import Key
from laboratory.workloads.generators import DURATION
from shared.ledger.keys import key
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import TaskState
from tests.builders.objects import container, job, node, pod, pod_group, priority_class, queue, task
from tests.coordinator.controllers.support import submit
from tests.end_to_end.one_process.harness import Running, running
from tests.shared.ledger.migration.next_schema import NOTE

POLICY = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
NEVER = 1e9
"""Seconds of a task that does not end by itself."""


class Halting(LocalCluster):
    """It answers no bind, and ends nothing, from the time when it is told to."""

    silent = False

    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        if self.silent:
            raise ClusterTimeout("no answer")
        return super().bind(requests, now)

    def linger(self) -> None:
        self._grace = NEVER


def lasting(item: dict[str, Any], **spec: Any) -> dict[str, Any]:
    item["metadata"].setdefault("annotations", {})[DURATION] = str(NEVER)
    item["spec"] |= spec
    return item


def ported(name: str, port: int) -> dict[str, Any]:
    ports = [{"containerPort": 80, "hostPort": port}]
    return lasting(pod(name, containers=[container("1") | {"ports": ports}]))


def high(name: str) -> dict[str, Any]:
    """Preempts what is of low priority, which is in the same queue."""
    lasting_item = lasting(pod(name), priorityClassName="high")
    lasting_item["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = "research"
    return lasting_item


def states(service: Running) -> dict[str, int]:
    result: dict[str, int] = service.service.status()["tasks"]
    return result


async def fill(service: Running, kubelets: Halting) -> None:
    """Ends with something of every kind under way; see :func:`check`."""
    spread = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
            ]
        }
    }
    await submit(
        service,
        *(node(f"n{i}", labels={"zone": f"z{i % 2}"}) for i in range(4)),
        priority_class("low", value=1),
        priority_class("high", value=1000),
        queue("research", capability={"cpu": "64"}),
        queue("child", parent="research", guarantee={"resource": {"cpu": "1"}}),
    )
    gang = job("gang", tasks=[task("w", replicas=3)], minAvailable=3, queue="child")
    gang["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {DURATION: str(NEVER)}}
    apart = lasting(pod("apart", affinity=spread))
    apart["metadata"]["labels"] = {"app": "a"}
    await submit(service, gang, apart, *(ported(f"port{i}", 8080) for i in range(4)))
    await submit(service, ported("port-too-many", 8080), ported("port-other", 9090))
    await service.until(lambda status: status["tasks"]["running"] == 9)
    # One that came and went: its number is not given again.
    writer = service.service._writer
    assert writer is not None
    await submit(service, lasting(pod("gone")))
    await service.until(lambda status: status["tasks"]["running"] == 10)
    await writer.change(Key("Pod", "ns", "gone"), lambda before: None)
    await service.until(lambda status: status["jobs"]["deleted"] == 1)
    # All that is left goes to a gang of low priority, of which one is evicted and comes back.
    low = {"priorityClassName": "low"}
    left = 32 - 9
    members = [lasting(pod(f"low{i}", group="low"), **low) for i in range(left)]
    await submit(service, pod_group("low", minMember=2, queue="research"), *members)
    await service.until(lambda status: status["tasks"]["running"] == 9 + left)
    await submit(service, high("first-high"))
    await service.until(lambda status: status["jobs"]["running"] == 9)  # of 10: one has no port
    # A deleted member is being stopped, others are evicted: all of them go on leaving.
    kubelets.linger()
    for name in ("low0", "low1", "low2"):  # one of them may be the one that was evicted
        await writer.change(Key("Pod", "ns", name), lambda before: None)
    await submit(service, high("second-high"))
    counted = service.service.core.order.accounts.tasks
    await service.until(lambda _: counted[TaskState.RELEASING] >= 2)
    # What is placed now is not bound: the cluster does not answer any more.
    kubelets.silent = True
    await submit(service, lasting(pod("nothing", containers=[{"name": "c"}])))
    await service.until(lambda _: counted[TaskState.BINDING] >= 1)


@dataclass(frozen=True, slots=True)
class BusyLedger:
    records: dict[bytes, bytes]
    """Key -> its content, as DUMP gives it."""
    cluster: Listed
    """The pods that ran at that moment."""

    def load(self, client: Any) -> None:
        """Replace everything on the server; the leader that wrote it is gone, whatever the clock
        says."""
        client.flushall()
        for name, content in self.records.items():
            client.restore(name, 0, content)
        free_leadership(client)
        client.hset(key("meta"), NOTE, "1")

    def memory(self, *, seconds: float) -> Memory:
        """The pods as kubelets remember them, each running for so long from now on."""
        now = time.time()
        columns = zip(self.cluster.tasks, self.cluster.uids, self.cluster.nodes, strict=True)
        return Memory(
            pods={
                task: KeptPod(uid, node, seconds, bound=now, failing=False, started=True)
                for task, uid, node in columns
            }
        )


def free_leadership(client: Any) -> None:
    client.hset(key("epoch"), "coordinator/lease", "0 0")


async def record(run_dir: Path) -> BusyLedger:
    policy = run_dir / "policy.yaml"
    policy.write_text(POLICY)
    server = EmbeddedServer(run_dir, run_dir / "data", fsync="no")
    server.start()
    kubelets = Halting(grace=0.05)
    try:
        async with running(server.url, run_dir, kubelets=kubelets, policy=policy) as service:
            await fill(service, kubelets)
            with redis.Redis.from_url(server.url, protocol=2) as client:
                records = {name: client.dump(name) for name in client.keys("*")}
            return BusyLedger(records, kubelets.listing(""))
    finally:
        server.stop()
