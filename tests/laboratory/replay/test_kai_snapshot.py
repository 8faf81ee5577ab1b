"""A snapshot of a service under a policy of KAI's, replayed: the same pods go to the same nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from laboratory.replay.cases import Case, read_cases
from laboratory.replay.outcome import ReplayResult
from laboratory.replay.sharded import ShardedRun, run_sharded
from shard_worker.view.mode import Mode
from shared.ledger.redis.server import EmbeddedServer
from shared.policy.dialect import parse_policy
from tests.builders.objects import kai_group, kai_queue, node
from tests.conftest import flush
from tests.end_to_end.one_process.harness import Running, running, submit
from tests.end_to_end.one_process.test_kai_walk import GPUS, gpu_pod, member
from tests.laboratory.replay.build import sessions
from tests.laboratory.replay.test_snapshot import GatedShards, snapshot

Json = dict[str, Any]
POLICY = """
dialect: kai
actions: allocate, reclaim
tiers: [{plugins: [{name: predicates}, {name: proportion, arguments: {kValue: "0.5"}},
  {name: gpuspread}, {name: nodeplacement, arguments: {gpu: spread}}]}]
queueDepthPerAction: {reclaim: 3}
options: {default-staleness-grace-period: -1s}
usageDBConfig:
  clientType: ledger
  usageParams: {windowSize: 1h, extraParams: {queryResolution: 1s}}
"""
# No two are ever equally full.
NODES = [
    node(f"n{gpus}") | {"status": {"allocatable": GPUS | {"nvidia.com/gpu": str(gpus)}}}
    for gpus in (5, 7, 11)
]
QUEUES = [kai_queue("all"), kai_queue("red", "all"), kai_queue("blue", "all")]


def half(name: str, group: str) -> Json:
    pod = gpu_pod(name, 0, annotations={"pod-group-name": group, "gpu-fraction": "0.5"})
    del pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"]
    return pod


def alone(name: str, queue: str) -> Json:
    return gpu_pod(name, 2, labels={"kai.scheduler/queue": queue})


@pytest.fixture
def policy(tmp_path: Path) -> str:
    file = tmp_path / "kai.yaml"
    file.write_text(POLICY)
    return str(file)


async def test_replay_places_pending_pods_like_the_service(
    embedded_server: EmbeddedServer, tmp_path: Path, policy: str
) -> None:
    flush(embedded_server)
    workers = GatedShards(embedded_server.url)
    url = embedded_server.url
    async with running(url, tmp_path, workers=workers, shards=1, policy=policy) as service:
        await submit(service, *NODES, *QUEUES, kai_group("shares", "red", minMember=3))
        await submit(service, *(half(f"s{i}", "shares") for i in range(3)))
        await service.until(lambda status: status["tasks"]["running"] == 3)
        await used(service)
        workers.gate.clear()
        gang = [*(member(f"g{i}", "gang") for i in range(4)), half("h", "gang")]
        await submit(service, kai_group("gang", "blue", minMember=5), *gang, alone("one", "red"))
        before = await snapshot(service)
        workers.gate.set()
        await service.until(lambda status: status["tasks"]["running"] == 9)
        after = await snapshot(service)
    case = of(before)
    assert case.policy == parse_policy(POLICY)
    assert 0 < case.recorded.objects.queue_usage["red"][2] < 10**9
    replayed = sessions(case)[0]
    assert len(replayed.binds) == 6
    assert replayed.binds == {pod: on for pod, on in nodes(after).items() if pod in replayed.binds}
    rest = shards(case)
    assert rest.binds.keys() == replayed.binds.keys()
    assert devices(of(after)) == devices(case) | {
        pod: device for pod, device in devices(of(after)).items() if pod in replayed.binds
    }


async def used(service: Running) -> None:
    """Wait until a sample of what queues use was taken."""
    while True:
        text = yaml.safe_load(await snapshot(service))["items"][0]["data"]["queue-usage.yaml"]
        if (yaml.safe_load(text).get("red") or {}).get("gpu"):
            return


def of(text: str) -> Case:
    [case] = read_cases([("now.yaml", [yaml.safe_load(text)])])
    return case


def shards(case: Case) -> ReplayResult:
    how = ShardedRun(2, Mode.NONE, seed=1)
    return run_sharded(case.policy, case.recorded, how, name=case.id, began=case.now)


def nodes(text: str) -> dict[str, str]:
    pods = [item for item in yaml.safe_load(text)["items"] if item["kind"] == "Pod"]
    return {f"ns/{pod['metadata']['name']}": pod["spec"].get("nodeName", "") for pod in pods}


def devices(case: Case) -> dict[str, Any]:
    """Pod -> the devices that it has."""
    return {
        f"{s.job.namespace}/{s.job.pod_name(tix)}": device
        for s in case.recorded.placed_jobs
        for tix, device in s.devices.items()
    }
