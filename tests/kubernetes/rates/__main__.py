"""``python -m tests.kubernetes.rates``: pods that wait on a real API server, until all are bound.

Starts etcd and kube-apiserver (``make kubernetes`` builds them), creates nodes and pods, then all
of Quadrant. What is told is from the first to the last bind, as Quadrant records them, with the
processor time that each process took in between. Nodes are objects alone: no kubelet answers.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from coordinator.supervisor.supervisor import Supervisor
from coordinator.verification.local_kubernetes.client import ApiClient, client_of
from coordinator.verification.local_kubernetes.control_plane import ControlPlane
from coordinator.verification.local_kubernetes.definitions import VOLCANO, install
from coordinator.verification.workloads.bulk_client import ApiClient as QuadrantClient
from shared.settings.settings import load_settings
from tests.kubernetes.driver.harness import node, pod, pod_group
from tests.kubernetes.servers.build import find_binaries

Json = dict[str, Any]
WRITERS = 48
LOOK_SECONDS = 0.05
PATIENCE = 600.0
_SERVERS = ("etcd", "kube-apiserver")


@dataclass(frozen=True, slots=True)
class Moment:
    at: float
    spent: dict[str, float]
    """Process -> seconds of processor time so far."""


async def measure(nodes: int, pods: int, gang: int, shards: int) -> bool:
    binaries = find_binaries()
    if binaries is None:
        typer.echo("No API server: build it once with `make kubernetes`", err=True)
        return False
    folder = Path(tempfile.mkdtemp(prefix="qt-"))
    plane = ControlPlane(folder, binaries)
    try:
        plane.start()
        async with client_of(plane.admin) as cluster:
            await install(cluster, *VOLCANO)
            await create(cluster, (node(f"n{i}", cpu=32) for i in range(nodes)), "Nodes")
            await create(cluster, waiting(pods, gang), "Pods")
        first, last = await bind_all(plane.admin.kubeconfig, pods, shards)
    finally:
        plane.stop()
        shutil.rmtree(folder, ignore_errors=True)
    _tell(first, last, pods)
    return True


def waiting(pods: int, gang: int) -> Iterator[Json]:
    """``gang`` pods in each PodGroup; 0: each by itself."""
    for number in range(pods):
        group = f"g{number // gang}" if gang else ""
        if gang and number % gang == 0:
            yield pod_group(group, min(gang, pods - number))
        yield pod(f"p{number}", group=group)


async def create(cluster: ApiClient, items: Iterable[Json], label: str) -> None:
    left, began, count = iter(items), time.monotonic(), 0

    async def writer() -> None:
        nonlocal count
        for item in left:
            await cluster.create(item)
            count += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(writer())
    typer.echo(f"{label} created: {count} in {time.monotonic() - began:.1f} s", err=True)


async def bind_all(kubeconfig: Path, pods: int, shards: int) -> tuple[Moment, Moment]:
    with tempfile.TemporaryDirectory(prefix="qn-") as path:
        settings = load_settings(run_dir=Path(path), shards=shards, kubeconfig=kubeconfig)
        supervisor, began, first = Supervisor(settings), time.monotonic(), None
        async with supervisor, QuadrantClient(supervisor.url) as api:
            deadline = time.monotonic() + PATIENCE
            while True:
                tasks = (await api.status())["tasks"]
                bound = tasks["bound"] + tasks["running"]
                if bound and first is None:
                    first = moment()
                    typer.echo(f"First bind {first.at - began:.1f} s after the start", err=True)
                if first is not None and bound >= pods:
                    return first, moment()
                assert time.monotonic() < deadline, tasks
                supervisor.check()
                await asyncio.sleep(LOOK_SECONDS)


def moment() -> Moment:
    spent: dict[str, float] = {}
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            times, name = process.cpu_times(), _name(process)
        except psutil.NoSuchProcess:
            continue
        spent[name] = spent.get(name, 0.0) + times.user + times.system
    return Moment(time.monotonic(), spent)


def _name(process: psutil.Process) -> str:
    words = process.cmdline()
    known = next((server for server in _SERVERS if words and words[0].endswith(server)), None)
    if known is not None:
        return known
    if any("coordinator.service" in word for word in words):
        return "coordinator"
    if any("ShardWorker" in word or "shard" in word.lower() for word in words[:1]):
        return "workers"
    return "ledger" if any("server" in word and "key" in word for word in words[:1]) else "others"


def _tell(first: Moment, last: Moment, pods: int) -> None:
    seconds = last.at - first.at
    typer.echo(f"{pods} pods bound in {seconds:.1f} s: {pods / seconds:.0f}/s")
    ours = 0.0
    for name, spent in sorted(last.spent.items()):
        cost = (spent - first.spent.get(name, 0.0)) / pods * 1e6
        ours += 0.0 if name in _SERVERS else cost
        typer.echo(f"  {name:15} {cost:7.0f} us a pod")
    typer.echo(f"  {'Quadrant':15} {ours:7.0f} us a pod, all its processes")


def main(
    nodes: Annotated[int, typer.Option(help="Hollow nodes of 32 cores")] = 1000,
    pods: Annotated[int, typer.Option(help="Pods of one core")] = 10_000,
    gang: Annotated[int, typer.Option(help="Pods of a PodGroup; 0: each by itself")] = 0,
    shards: Annotated[int, typer.Option(help="Shard workers")] = 2,
) -> None:
    sys.exit(0 if asyncio.run(measure(nodes, pods, gang, shards)) else 1)


if __name__ == "__main__":
    typer.run(main)
