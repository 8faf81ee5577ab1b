"""Shares of GPUs in a service with four shards, from a real cluster's list of pods: no device is
ever promised beyond what it has, and whoever asks is told which one a pod has."""

from __future__ import annotations

import asyncio
import csv
import gzip
import json
from collections import Counter
from itertools import islice
from pathlib import Path

import aiohttp
import redis

from coordinator.cluster.simulated.cluster import LocalCluster
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.keys import key
from shared.ledger.records import WIDTH, unpack_thing
from shared.ledger.redis.client import RedisLedger
from shared.messages.messages import HOLDING
from shared.model.node_devices import ASSIGNED, REGISTER
from tests.builders import objects
from tests.builders.objects import Item, priority_class
from tests.end_to_end.one_process.harness import PATIENCE, Running, running, submit

NODES, PODS, SHARDS = 40, 400, 4
WHOLE = 1000
"""Memory of a device: the list has thousandths of one."""
POLICY = """
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - name: predicates
  - name: nodeorder
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true}
"""
Device = tuple[int, str]
"""(row, name)."""


def rows(path: Path, gpus: str, most: int) -> list[dict[str, str]]:
    """The first lines of a list, of what has GPUs."""
    packed = path.read_bytes()
    lines = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode().splitlines()
    return list(islice((row for row in csv.DictReader(lines) if int(row[gpus])), most))


def node(row: dict[str, str]) -> Item:
    gpus = int(row["gpu"])
    devices = (f"{row['sn']}-{i},100,{WHOLE},{row['model']},true:" for i in range(gpus))
    item = objects.node(row["sn"], cpu=f"{row['cpu_milli']}m", memory=f"{row['memory_mib']}Mi")
    item["metadata"]["annotations"] = {REGISTER: "".join(devices)}
    item["status"]["allocatable"] |= {
        "volcano.sh/vgpu-number": str(100 * gpus),
        "volcano.sh/vgpu-memory": str(WHOLE * gpus),
    }
    return item


def job(row: dict[str, str]) -> Item:
    annotations = {
        "cpu": "100m",
        "volcano.sh/vgpu-number": row["num_gpu"],
        "volcano.sh/vgpu-memory": row["gpu_milli"],
    }
    container = {"name": "c", "resources": {"limits": annotations, "requests": annotations}}
    return objects.simple_job(row["name"], 1, role="a", pod_spec={"containers": [container]})


def held(snapshot: Snapshot) -> Counter[Device]:
    """Memory of each device that tasks on its node have."""
    total: Counter[Device] = Counter()
    for tasks in snapshot.tasks.values():
        for task in tasks.values():
            if task.state in HOLDING:
                for name, amounts in task.devices:
                    total[task.row, name] += amounts[1]
    return total


def recorded(snapshot: Snapshot) -> dict[Device, int]:
    """The same as the devices' own records have it."""
    results = {}
    for row, name, record in snapshot.nodes.things:
        allocatable, used, *_ = unpack_thing(record)[1][WIDTH : 2 * WIDTH]
        assert allocatable == WHOLE, (row, name)
        if used:
            results[row, name] = used
    return results


def assigned(pod: Item) -> str:
    annotation: str = pod["metadata"]["annotations"].get(ASSIGNED, "")
    return annotation


def written(snapshot: Snapshot, jid: int, machines: list[dict[str, str]]) -> str:
    """As Volcano writes what the ledger has of a job's task; "" where it is not placed."""
    task = snapshot.tasks.get(jid, {}).get(0)
    if task is None:
        return ""
    machine = machines[task.row]
    reports = [
        f"{machine['sn']}-{name.removeprefix('vgpu/')},{machine['model']},{memory},{cores}:"
        for name, (_, memory, cores) in task.devices
    ]
    return "".join((*reports, ";"))


async def test_no_device_is_over_with_four_shards(
    redis_url: str, tmp_path: Path, shared_reference: Path
) -> None:
    policy, data = tmp_path / "policy.yaml", shared_reference / "data" / "openb"
    policy.write_text(POLICY)
    machines = rows(data / "openb_node_list_gpu_node.csv", "gpu", NODES)
    pods = rows(data / "openb_pod_list_gpushare100.csv.gz", "num_gpu", PODS)
    expected = {row["name"]: int(row["num_gpu"]) for row in pods}
    ledger = RedisLedger(redis_url)
    async with (
        running(redis_url, tmp_path, shards=SHARDS, policy=str(policy)) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(service, *[node(row) for row in machines])
        await submit(service, *[job(row) for row in pods])
        at_rest = await service.until(
            lambda s: s["open_turns"] == 0 and s["tasks"]["running"] + s["tasks"]["pending"] == PODS
        )
        snapshot = await ledger.snapshot()
        live = await shown_pods(http, service)
        names = {
            state.job.jid: state.job.name for state in service.service.core.order.jobs.values()
        }
    await ledger.close()
    used = held(snapshot)
    assert used == recorded(snapshot)
    assert {device: n for device, n in used.items() if n > WHOLE} == {}
    placed = {names[jid]: tasks[0].devices for jid, tasks in snapshot.tasks.items() if tasks}
    assert {name: len(devices) for name, devices in placed.items()} == {
        name: expected[name] for name in placed
    }
    assert {pod["metadata"]["name"]: assigned(pod) for pod in live} == {
        f"{names[jid]}-a-0": written(snapshot, jid, machines) for jid in names
    }
    gpus = sum(int(row["gpu"]) for row in machines)
    assert sum(used.values()) > 0.8 * WHOLE * min(gpus, sum(expected.values())), at_rest


async def test_a_victim_gives_its_device_away(redis_url: str, tmp_path: Path) -> None:
    """The nodes' sums have room for it: one of two devices of 600 each has to become
    free, and whoever is evicted for it is not bound again."""
    policy = tmp_path / "policy.yaml"
    preempts = POLICY.replace("backfill", "preempt, backfill")
    policy.write_text(preempts.replace("name: gang", "name: gang, enablePreemptable: false"))
    machine = {"cpu_milli": "8000", "memory_mib": "8192", "gpu": "2", "model": "T4"}
    share = {"num_gpu": "1", "gpu_milli": "600"}
    first = job({"name": "first", **share})
    first["spec"]["priorityClassName"] = "high"
    high = priority_class("high")
    async with (
        running(redis_url, tmp_path, shards=SHARDS, policy=str(policy), grace=0.05) as service,
        aiohttp.ClientSession() as http,
    ):
        names = [f"n{number}" for number in range(SHARDS)]
        await submit(service, *[high, *(node({"sn": name, **machine}) for name in names)])
        low = [job({"name": f"low-{number}", **share}) for number in range(2 * SHARDS)]
        await submit(service, *low)
        await service.until(lambda s: s["tasks"]["running"] == len(low))
        await submit(service, first)
        async with asyncio.timeout(PATIENCE):
            live: dict[str, Item] = {}
            while not live or not assigned(live["first-a-0"]):
                await asyncio.sleep(0.02)
                live = {pod["metadata"]["name"]: pod for pod in await shown_pods(http, service)}
    assert "T4,600,0:" in assigned(live["first-a-0"])
    assert sum(bool(assigned(pod)) for pod in live.values()) == len(low)


async def shown_pods(http: aiohttp.ClientSession, service: Running) -> list[Item]:
    async with http.get(f"{service.url}/api/v1/namespaces/ns/pods?limit={PODS}") as report:
        items: list[Item] = (await report.json())["items"]
    return items


async def test_the_next_leader_knows_device_owners_and_declared_devices(
    redis_url: str, tmp_path: Path
) -> None:
    """Also of a ledger from before nodes declared their devices."""
    policy, kubelets = tmp_path / "policy.yaml", LocalCluster()
    policy.write_text(POLICY)
    machine = {"cpu_milli": "8000", "memory_mib": "8192", "gpu": "1", "model": "T4"}
    share = {"num_gpu": "1", "gpu_milli": "600"}
    machines = [{"sn": name, **machine} for name in ("a", "b")]
    async with (
        running(redis_url, tmp_path, policy=str(policy), kubelets=kubelets) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(service, *map(node, machines), job({"name": "one", **share}))
        await service.until(lambda s: s["tasks"]["running"] == 1)
        (before,) = await shown_pods(http, service)
    assert assigned(before) == f"{before['spec']['nodeName']}-0,T4,600,0:;"
    with redis.Redis.from_url(redis_url, protocol=2) as client:
        free = b"1/vgpu/0" if before["spec"]["nodeName"] == "a" else b"0/vgpu/0"
        assert client.hdel(key("thing"), free) == 1
    async with (
        running(redis_url, tmp_path, policy=str(policy), kubelets=kubelets) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(service, job({"name": "two", **share}), job({"name": "three", **share}))
        await service.until(lambda s: s["tasks"]["running"] == 2 and not s["open_turns"])
        live = {pod["metadata"]["name"]: pod for pod in await shown_pods(http, service)}
    assert assigned(live["one-a-0"]) == assigned(before)
    others = [pod for name, pod in live.items() if name != "one-a-0" and assigned(pod)]
    assert [pod["spec"]["nodeName"] for pod in others] == [
        next(name for name in "ab" if name != before["spec"]["nodeName"])
    ]


async def test_a_watch_tells_which_device_a_pod_got(redis_url: str, tmp_path: Path) -> None:
    """From the moment of its binding on: a watcher never sees it on a node without its device."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    machine = {"cpu_milli": "8000", "memory_mib": "8192", "gpu": "2", "model": "T4"}
    share = {"num_gpu": "1", "gpu_milli": "600"}
    jobs = [job({"name": name, **share}) for name in ("one", "two")]
    async with (
        running(redis_url, tmp_path, policy=str(policy)) as service,
        aiohttp.ClientSession() as http,
    ):
        await submit(service, node({"sn": "n0", **machine}))
        url = f"{service.url}/api/v1/namespaces/ns/pods?watch=true"
        async with http.get(url) as watch, asyncio.timeout(PATIENCE):
            await submit(service, *jobs)
            reports: dict[str, str] = {}
            while len(reports) < len(jobs):
                pod = json.loads(await watch.content.readline())["object"]
                if pod["spec"].get("nodeName"):
                    reports.setdefault(pod["metadata"]["name"], assigned(pod))
        devices = {
            pod["metadata"]["name"]: assigned(pod) for pod in await shown_pods(http, service)
        }
    assert sorted(reports.values()) == ["n0-0,T4,600,0:;", "n0-1,T4,600,0:;"]
    assert reports == devices
