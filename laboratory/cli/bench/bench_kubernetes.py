"""The run of ``quadrant bench kubernetes``: pods on a real API server, bound by us or others."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import psutil
import typer
import yaml
from rich.console import Console
from rich.table import Table

from coordinator.cli.options.failure import CommandError
from coordinator.cli.output.progress import RunProgress
from coordinator.supervisor import cpu_time
from coordinator.supervisor.supervisor import Supervisor
from laboratory.chaos.stage import beside
from laboratory.cli.bench.bench_options import BenchOptions, BenchOutput
from laboratory.cli.control_plane import own_control_plane
from laboratory.cli.stack import run_to_exit_code
from laboratory.local_kubernetes.bind_watch import BindWatch, watching_binds
from laboratory.local_kubernetes.client import ApiClient, client_of
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.definitions import VOLCANO, install
from laboratory.local_kubernetes.errors import LocalClusterFailed
from laboratory.local_kubernetes.kubelets import HollowKubelets
from laboratory.local_kubernetes.load import AMOUNTS, create, nodes, running, waiting
from laboratory.local_kubernetes.peers import VOLCANO_CONTROLLERS, peer
from laboratory.local_kubernetes.server_process import ServerProcess
from laboratory.own_directory import own_settings
from laboratory.workloads.bulk_client import BulkClient as Quadrant

OURS = "quadrant"
SERVERS = ("kube-apiserver", "etcd", VOLCANO_CONTROLLERS)
"""Processes beside a scheduler."""
GOALS = {"rate": 1500.0, "gang_us": 250.0, "separate_us": 450.0}
"""Binds a second, and microseconds of processor time a pod, on two cores with the API server."""
NODES, PODS = 5_000, 10_000
"""Where the user gives no other numbers."""
NO_LEASES = 1e9
LOOK_SECONDS = 0.05
READ_SECONDS = 5.0
"""By then a scheduler has read the nodes."""
PATIENCE = 120.0
"""Seconds without any bind after which a run has failed."""

Item = dict[str, Any]
Roots = dict[int, str]
"""Process id -> name."""
Spent = dict[str, float]
"""Process -> seconds of processor time so far."""


@dataclass(frozen=True, slots=True)
class Rates:
    scheduler: str
    pods: int
    seconds: float
    """From the first bind to the last; 0: one look saw all of them."""
    first_bind: float
    """Seconds to the first bind from the scheduler's start, or from that of creating the pods where
    it was there before."""
    again: float
    """The same of a second start, with what the ledger has; 0: there was none."""
    memory: dict[str, int]
    """Process -> bytes at the end."""
    costs: dict[str, float]
    """Process -> seconds of processor time a pod, once all processes were up."""

    def row(self) -> dict[str, Any]:
        cost = {name: round(1e6 * seconds) for name, seconds in sorted(self.costs.items())}
        servers = {name: cost.pop(name) for name in SERVERS if name in cost}
        return {
            "scheduler": self.scheduler,
            "pods": self.pods,
            "pods_per_second": round(self.pods / self.seconds, 1) if self.seconds else None,
            "first_bind_seconds": round(self.first_bind, 1),
            "second_start_first_bind_seconds": round(self.again, 1),
            "memory_mib": {name: size >> 20 for name, size in sorted(self.memory.items())},
            "scheduler_us_per_pod": sum(cost.values()),
            "by_process_us_per_pod": cost,
            "servers_us_per_pod": servers,
        }


def run_on_kubernetes(options: BenchOptions) -> int:
    """Returns the exit code. Raises CommandError."""
    if options.servers is None:
        raise CommandError("kubernetes: give the folder of etcd and kube-apiserver by --servers")
    if options.output is BenchOutput.HTML:
        raise CommandError("-o html: it is for scale; use table or json")
    if options.running and options.kubelets:
        raise CommandError("--running: leave it out, or --kubelets")
    programs = options.against or []
    for given in programs:
        if not given.is_file():
            raise CommandError(f"--against: there is no {given}; name the program's file")
        try:
            peer(given, given)  # before anything is started
        except LocalClusterFailed as error:
            raise CommandError(str(error)) from None
    rows: list[dict[str, Any]] = []
    console = Console(stderr=True, highlight=False)
    for program in (None, *programs):
        # A server of its own for each: what one leaves behind is no load for the next.
        with own_control_plane(options.servers) as plane, RunProgress(console) as progress:
            run = _Run(options, plane, progress, program)
            try:
                if code := run_to_exit_code(run.measure):
                    return code
            except CommandError:
                if rows:  # what was measured before is worth its minutes
                    _tell(options, rows)
                raise
        assert run.rates is not None
        rows.append(run.rates.row())
    _tell(options, rows)
    return 0


class _Run:
    """One scheduler on a fresh API server."""

    def __init__(
        self,
        options: BenchOptions,
        plane: ControlPlane,
        progress: RunProgress,
        program: Path | None,
    ) -> None:
        """``program``: another scheduler; None: Quadrant."""
        self._options, self._plane, self._progress = options, plane, progress
        kubeconfig = plane.admin.kubeconfig
        self._peer = None if program is None else peer(program.absolute(), kubeconfig)
        self._name = OURS if program is None else program.name
        self._nodes = options.other_nodes or NODES
        self._pods_wanted = options.other_pods or PODS
        self._url = ""
        """Quadrant's address, once it runs."""
        self.rates: Rates | None = None

    async def measure(self) -> int:
        options, progress = self._options, self._progress
        kubeconfig = self._plane.admin.kubeconfig
        async with client_of(self._plane.admin) as cluster, watching_binds(kubeconfig) as binds:
            await install(cluster, *self._definitions())
            progress.phase(f"{self._name}: creating {self._nodes:,} nodes (not counted)")
            if options.kubelets:
                kubelets = HollowKubelets(cluster, lease_seconds=NO_LEASES)
                await create(cluster, nodes(self._nodes))
                kubelets.adopt((f"n{number}" for number in range(self._nodes)), AMOUNTS)
                async with beside(kubelets.run()):
                    self.rates = await self._arriving(cluster, binds)
            else:
                await create(cluster, nodes(self._nodes))
                many = self._pods_wanted + options.running
                progress.phase(f"{self._name}: creating {many:,} pods (not counted)")
                await create(cluster, running(options.running, self._nodes, self._pods_name))
                await create(cluster, self._pods())
                await binds.until(options.running, PATIENCE)
                binds.begin()
                with tempfile.TemporaryDirectory(prefix="qb-") as folder:
                    self.rates = await self._waiting(binds, Path(folder))
                    if options.running and self._peer is None:
                        await self._second_start(cluster, binds, Path(folder))
        return 0

    def _definitions(self) -> Sequence[Item]:
        files = () if self._peer is None else self._peer.definitions
        return [yaml.load(path.read_text(), yaml.CSafeLoader) for path in files] or VOLCANO

    @property
    def _pods_name(self) -> str:
        """The scheduler's name in its pods."""
        return OURS if self._peer is None else self._peer.name

    def _pods(self) -> Iterator[Item]:
        return waiting(self._pods_wanted, self._options.gang, self._pods_name)

    async def _waiting(self, binds: BindWatch, folder: Path) -> Rates:
        """The pods are there before the scheduler is."""
        began = time.monotonic()
        async with self._scheduler(folder) as roots:
            return await self._until_all(binds, roots, began)

    async def _second_start(self, cluster: ApiClient, binds: BindWatch, folder: Path) -> None:
        """One more pod waits, and the ledger has the others."""
        binds.begin()
        await create(cluster, waiting(1, 0, self._pods_name, prefix="again"))
        began = time.monotonic()
        async with self._scheduler(folder):
            await binds.until(1, PATIENCE)
        assert self.rates is not None
        self.rates = replace(self.rates, again=binds.first_at - began)

    async def _arriving(self, cluster: ApiClient, binds: BindWatch) -> Rates:
        """The pods are created while it runs."""
        with tempfile.TemporaryDirectory(prefix="qb-") as folder:
            async with self._scheduler(Path(folder)) as roots, asyncio.TaskGroup() as group:
                await asyncio.sleep(READ_SECONDS)
                began = time.monotonic()
                task = group.create_task(create(cluster, self._pods()))
                rates = await self._until_all(binds, roots, began)
                await task
                return rates

    async def _until_all(self, binds: BindWatch, roots: Callable[[], Roots], began: float) -> Rates:
        pods = self._pods_wanted
        try:
            await binds.until(1, PATIENCE)
            await self._started()
            # What the start of the workers takes is no cost of a pod.
            before, bound = _spent(roots()), binds.bound
            self._progress.phase(f"{self._name}: measuring {pods:,} binds")
            await binds.until(pods, PATIENCE)
        except TimeoutError:
            raise CommandError(f"{self._name} bound {binds.bound:,} of {pods:,} pods") from None
        after = _spent(roots())
        return Rates(
            scheduler=self._name,
            pods=pods,
            seconds=binds.last_at - binds.first_at,
            first_bind=binds.first_at - began,
            again=0.0,
            memory=_memory(roots()),
            costs={n: (after[n] - before.get(n, 0.0)) / max(1, pods - bound) for n in after},
        )

    async def _started(self) -> None:
        """Until every shard is up, while binds go on."""
        if self._url:
            async with Quadrant(self._url) as api, asyncio.timeout(PATIENCE):
                while not all(shard["up"] for shard in (await api.status())["shards"]):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_SECONDS)

    @contextlib.asynccontextmanager
    async def _scheduler(self, folder: Path) -> AsyncIterator[Callable[[], Roots]]:
        """It runs, in this folder; its processes and the servers' can be asked for."""
        servers = _pids({"etcd": self._plane.etcd, "kube-apiserver": self._plane.api_server})
        self._progress.phase(f"{self._name}: starting")
        if self._peer is not None:
            commands = [c for c in (self._peer.controllers, self._peer.command) if c is not None]
            processes = [ServerProcess(command, folder) for command in commands]
            try:
                for process in processes:
                    process.start()
                roots = servers | _pids({process.name: process for process in processes})
                async with beside(_checking(processes)):
                    yield lambda: roots
            finally:
                for process in processes:
                    process.kill()
            return
        settings = own_settings(
            folder,
            shards=self._options.shards,
            kubeconfig=self._plane.admin.kubeconfig,
            policy=self._options.policy,
        )
        async with Supervisor(settings) as supervisor:
            self._url = supervisor.url
            yield lambda: servers | _ours(supervisor)


async def _checking(processes: Sequence[ServerProcess]) -> None:
    """End the run where one of them ends. Raises CommandError."""
    while True:
        try:
            for process in processes:
                process.check()
        except LocalClusterFailed as error:
            raise CommandError(str(error)) from None
        await asyncio.sleep(LOOK_SECONDS)


def _pids(servers: dict[str, ServerProcess]) -> Roots:
    return {server.pid: name for name, server in servers.items() if server.pid is not None}


def _ours(supervisor: Supervisor) -> Roots:
    roles: Roots = {pid: role for role, pid in supervisor.pids().items()}
    return roles | dict.fromkeys(supervisor.worker_pids(), cpu_time.WORKERS)


def _memory(roots: Roots) -> dict[str, int]:
    """Resident bytes; of processes of one name that of the largest."""
    sizes: dict[str, int] = {}
    for pid, name in roots.items():
        with contextlib.suppress(psutil.NoSuchProcess):
            sizes[name] = max(sizes.get(name, 0), psutil.Process(pid).memory_info().rss)
    return sizes


def _spent(roots: Roots) -> Spent:
    """With the processes below them: Ray's head is several."""
    return cpu_time.by_role(cpu_time.processes(), roots)


# --- result -----------------------------------------------------------------------------------


def _tell(options: BenchOptions, rows: list[dict[str, Any]]) -> None:
    if options.output is BenchOutput.JSON:
        result = {
            "bench": "kubernetes",
            "nodes": options.other_nodes or NODES,
            "gang": options.gang,
            "runs": rows,
        }
        typer.echo(orjson.dumps(result).decode())
        return
    shape = f"in gangs of {options.gang:,}" if options.gang else "each by itself"
    when = "created meanwhile, kubelets on" if options.kubelets else "created before"
    title = f"{rows[0]['pods']:,} pods {shape} on {options.other_nodes or NODES:,} nodes, {when}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("scheduler", no_wrap=True)
    servers = [server for server in SERVERS if any(server in r["servers_us_per_pod"] for r in rows)]
    for column in ("pods/s", "us a pod", *servers):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("where it goes", style="dim")
    for row in rows:
        parts = row["by_process_us_per_pod"].items()
        table.add_row(
            row["scheduler"],
            "-" if row["pods_per_second"] is None else f"{row['pods_per_second']:,.0f}",
            f"{row['scheduler_us_per_pod']:,}",
            *(f"{row['servers_us_per_pod'].get(server, 0):,}" for server in servers),
            ", ".join(f"{name} {cost:,}" for name, cost in parts if cost),
        )
    cost = GOALS["gang_us" if options.gang else "separate_us"]
    table.add_row(
        "goal, on two cores", f"{GOALS['rate']:,.0f}", f"{cost:,.0f}", *("" for _ in servers), ""
    )
    Console().print(table)
    for row in rows:
        memory = ", ".join(f"{name} {size:,} MiB" for name, size in row["memory_mib"].items())
        start = "the first pod" if options.kubelets else "its start"
        starts = f"first bind {row['first_bind_seconds']} s after {start}"
        if row["second_start_first_bind_seconds"]:
            starts += f", {row['second_start_first_bind_seconds']} s after a second one"
        Console().print(f"{row['scheduler']}: {starts}; {memory}", style="dim")
