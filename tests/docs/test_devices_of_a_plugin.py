"""The GPU plugin of ``docs/plugins.md``: the same everywhere, and better than the first card."""

from __future__ import annotations

import asyncio
import csv
import gzip
import importlib
import sys
import time
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import orjson
import pytest

from laboratory.replay.sharded import ShardedRun, run_sharded
from laboratory.workloads.bulk_client import BulkClient
from laboratory.workloads.generators import lists
from shard_worker.harness import Cluster, Result
from shard_worker.view.mode import Mode
from shared.ledger.redis.server import EmbeddedServer
from shared.model.named_devices import ASSIGNED_DEVICES, DEVICES, read_devices, written_devices
from shared.policy.model import PluginOption
from shared.units.things import Things
from tests.conftest import ROOT, flush
from tests.docs.pages import blocks
from tests.docs.terminal import Up
from tests.end_to_end.one_process.harness import PATIENCE, running
from tests.laboratory.replay.build import case, gang, node, sessions
from tests.shard_worker.framework.installed import package

Item = dict[str, Any]
PAGE = ROOT / "docs" / "plugins.md"
WHOLE, RESOURCE = 1000, "lab/gpu-milli"
WORKLOAD = "400=0.5 600=0.3 1000=0.2"
ARGUMENTS: dict[str, object] = {"fgd.workload": WORKLOAD}
UNDER = {
    "actions": "allocate",
    "tiers": [{"plugins": [{"name": "gang"}, {"name": "fgd", "arguments": ARGUMENTS}]}],
}
CARDS = {"n0": 2, "n1": 1, "n2": 3}
GANGS = {"first": (3, 600), "second": (5, 400)}
"""Pods, and what each asks for."""
SEED = 5
"""Leaves three nodes in their order: of equal ones the first is taken."""
Placed = dict[str, tuple[str, Things]]
"""Pod -> node, devices."""
NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"


class PlacedObjects(NamedTuple):
    """Two placements of a service, and its objects before the second gang."""

    first: Placed
    second: Placed
    dumped: list[Item]


@pytest.fixture
def fgd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The page's module, installed."""
    (source,) = (b.text for b in blocks(PAGE) if b.options.get("title") == "fgd.py")
    monkeypatch.syspath_prepend(str(package(tmp_path, "fgd", source)))
    monkeypatch.delitem(sys.modules, "fgd", raising=False)
    return importlib.import_module("fgd")


def test_it_takes_a_hundred_lines() -> None:
    (source,) = (b.text for b in blocks(PAGE) if b.options.get("title") == "fgd.py")
    assert sum(1 for line in source.splitlines() if line.strip()) <= 100


# --- a real list ------------------------------------------------------------------------------


def rows(path: Path, gpus: str, most: int) -> list[dict[str, str]]:
    packed = path.read_bytes()
    lines = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode().splitlines()
    return list(islice((row for row in csv.DictReader(lines) if int(row[gpus])), most))


def placed_by(plugin: type, shared: Path, workload: str) -> tuple[Cluster, Result]:
    """A session of 30 machines and 200 pods of the list."""
    cluster = Cluster("gang", PluginOption("fgd", {"fgd.workload": workload}))
    cluster._makers["fgd"] = plugin
    for row in rows(shared / "openb_node_list_gpu_node.csv", "gpu", 30):
        cards = int(row["gpu"])
        devices = {f"card/{card}": WHOLE for card in range(cards)}
        offered = {RESOURCE: WHOLE * cards}
        cluster.node(row["sn"], cpu=999, resources=offered, devices=devices)
    for row in rows(shared / "openb_pod_list_gpushare100.csv.gz", "num_gpu", 200):
        requests = {RESOURCE: int(row["num_gpu"]) * int(row["gpu_milli"])}
        cluster.job(row["name"], cpu=0.1, resources=requests)
    return cluster, cluster.run()


def test_on_a_real_list_no_card_is_over_and_less_is_left_in_pieces(
    fgd: ModuleType, shared_reference: Path
) -> None:
    class First(fgd.Fgd):  # type: ignore[name-defined,misc]
        """The first node, and the first of its cards, with room."""

        def order(self, task: Any, rows: Any, world: Any) -> Any:
            return -1.0 * rows

        def chosen(self, free: Any, count: int) -> Any:
            enough = free >= fgd.part(count)
            chosen_devices = enough & (enough.cumsum(axis=0) <= fgd.number(count))
            return fgd.part(count) * chosen_devices

    data = shared_reference / "data" / "openb"
    pods = rows(data / "openb_pod_list_gpushare100.csv.gz", "num_gpu", 200)
    kinds = [int(row["num_gpu"]) * int(row["gpu_milli"]) for row in pods]
    workload = " ".join(f"{kind}={kinds.count(kind) / len(kinds)}" for kind in sorted({*kinds}))
    left = {}
    for plugin in (fgd.Fgd, First):
        cluster, result = placed_by(plugin, data, workload)
        used: dict[tuple[str, str], int] = {}
        for key, devices in result.devices.items():
            for name, (milli,) in devices:
                at = result.binds[key], name
                used[at] = used.get(at, 0) + milli
        assert used and max(used.values()) <= WHOLE
        assert result.devices.keys() == result.binds.keys()
        offered = cluster.world.devices("card/").offered
        free = offered.copy()
        for (machine, name), milli in used.items():
            names = cluster.world.devices("card/").names
            free[names.index(name), cluster.world.row_of(machine)] -= milli
        judge = fgd.Fgd(PluginOption("fgd", {"fgd.workload": workload}))
        left[plugin.__name__] = (sum(used.values()), judge.fragments(free).sum())
    assert left["Fgd"][0] >= left["First"][0], left
    assert left["Fgd"][1] < left["First"][1], left


# --- the same everywhere ----------------------------------------------------------------------


def machines() -> list[Item]:
    items = []
    for name, cards in CARDS.items():
        machine = node(name)
        named = tuple((f"card/{card}", (WHOLE,)) for card in range(cards))
        machine["metadata"]["annotations"] = {DEVICES: written_devices(named)}
        machine["status"]["allocatable"] |= {"cpu": "64", RESOURCE: str(WHOLE * cards)}
        items.append(machine)
    return items


def asking(name: str) -> list[Item]:
    pods, requests = GANGS[name]
    gang_items = gang(name, pods=pods)
    for pod in gang_items[1:]:
        amounts = {"cpu": "1", RESOURCE: str(requests)}
        pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return gang_items


async def listed(api: BulkClient, path: str) -> list[Item]:
    value = await api.get(path)
    head = {"apiVersion": value["apiVersion"], "kind": value["kind"].removesuffix("List")}
    return [head | item for item in value["items"]]


async def send(api: BulkClient, items: list[Item]) -> None:
    for body in lists(items, limit=250):
        assert (await api.submit(orjson.dumps(body))).refused == []


async def until_running(api: BulkClient, tasks: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while (status := await api.status())["tasks"]["running"] != tasks:
        assert time.monotonic() < deadline, status
        await asyncio.sleep(0.05)


def told_by(pods: list[Item]) -> Placed:
    return {
        f"ns/{pod['metadata']['name']}": (
            pod["spec"]["nodeName"],
            read_devices(pod["metadata"]["annotations"][ASSIGNED_DEVICES]),
        )
        for pod in pods
        if pod["spec"].get("nodeName")
    }


def in_the_harness(before: Placed, name: str) -> Placed:
    """``before``: those of the other gang."""
    cluster = Cluster("gang", PluginOption("fgd", ARGUMENTS))
    for machine, cards in CARDS.items():
        devices = {f"card/{card}": WHOLE for card in range(cards)}
        cluster.node(machine, cpu=64, resources={RESOURCE: WHOLE * cards}, devices=devices)
    if before:
        there = [before[f"ns/first-{i}"] for i in range(len(before))]
        cluster.job(
            "first",
            tasks=len(there),
            namespace="ns",
            resources={RESOURCE: GANGS["first"][1]},
            on=[machine for machine, _ in there],
            devices=[devices for _, devices in there],
        )
    pods, requests = GANGS[name]
    cluster.job(name, tasks=pods, namespace="ns", resources={RESOURCE: requests})
    result = cluster.run()
    return {key: (machine, result.devices[key]) for key, machine in result.binds.items()}


async def served(url: str) -> PlacedObjects:
    """Two gangs one after the other: the second goes by what the first has of the cards."""
    async with BulkClient(url) as api:
        await send(api, [*machines(), *asking("first")])
        await until_running(api, GANGS["first"][0])
        paths = (NODES, GROUPS, PODS)
        dumped = [item for path in paths for item in await listed(api, path)]
        first = told_by(await listed(api, PODS))
        await send(api, asking("second"))
        await until_running(api, sum(pods for pods, _ in GANGS.values()))
        both = told_by(await listed(api, PODS))
    second = {pod: report for pod, report in both.items() if pod not in first}
    assert first.items() <= both.items(), "the first gang stays where it is"
    return PlacedObjects(first, second, dumped)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.all
async def test_it_is_the_same_in_harness_replay_shards_and_up(
    fgd: ModuleType, embedded_server: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    first = in_the_harness({}, "first")
    second = in_the_harness(first, "second")
    flush(embedded_server)
    file = tmp_path / "policy.yaml"
    file.write_text(str(UNDER))
    options: dict[str, Any] = {"shards": 3, "mode": "none", "policy": file}
    async with running(embedded_server.url, short_dir, **options) as service:
        alone = await served(service.url)
    assert (alone.first, alone.second) == (first, second)
    site = Path(str(fgd.__file__)).parent
    with Up(
        f"quadrant up --shards 3 --policy {file}",
        tmp_path,
        PYTHONPATH=f"{ROOT}:{site}",
        QUADRANT_MODE="none",
        QUADRANT_SEED="1",
    ) as up:
        whole = await served(up.address)
    assert (whole.first, whole.second) == (first, second)
    for items, expected in (
        ([*machines(), *asking("first")], first),
        ([*whole.dumped, *asking("second")], second),
    ):
        replay_case = case(*items, under=UNDER)
        binds = {pod: machine for pod, (machine, _) in expected.items()}
        [session] = sessions(replay_case)
        assert session.binds == binds
        for shards in (1, 3):
            sharding = ShardedRun(shards=shards, mode=Mode.NONE, seed=SEED)
            result = run_sharded(
                replay_case.policy, replay_case.recorded, sharding, name=replay_case.id
            )
            assert result.binds == binds, shards
