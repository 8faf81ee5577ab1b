"""One chaos run on a real API server: all of Quadrant's processes, hollow kubelets, and faults that
strike etcd and the API server too."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from coordinator.supervisor.supervisor import COORDINATORS
from laboratory.chaos.faults import FaultInjector, InjectedFault
from laboratory.chaos.judgement import judge_history, judge_roles, tell_recoveries
from laboratory.chaos.kubernetes.demands import Item
from laboratory.chaos.kubernetes.dialect import ChaosDialect
from laboratory.chaos.kubernetes.gang_ends import GangEnds
from laboratory.chaos.kubernetes.load import (
    Create,
    Evict,
    KubernetesLoad,
    NewPolicy,
    Operation,
    Patch,
    Remove,
    first_objects,
    first_policy,
    pod_path,
)
from laboratory.chaos.kubernetes.loss import (
    Act,
    LedgerLoss,
    acts_of,
    copy_files,
    lose,
)
from laboratory.chaos.kubernetes.recorder import (
    ClusterRecorder,
    ledger_begun,
    recording,
)
from laboratory.chaos.kubernetes.servers import ServersKeeper
from laboratory.chaos.plan import PlannedFault
from laboratory.chaos.policies import write_policy
from laboratory.chaos.report import ChaosReport, RunFailed
from laboratory.chaos.run import QUIET_SECONDS, burden, strike_at
from laboratory.chaos.stage import READY_SECONDS, Stage, beside
from laboratory.chaos.timeline import ChaosTimeline
from laboratory.local_kubernetes.client import ApiClient, client_of
from laboratory.local_kubernetes.control_plane import ControlPlane
from laboratory.local_kubernetes.controllers.device_claims import free_claims
from laboratory.local_kubernetes.controllers.disruption import count_budgets
from laboratory.local_kubernetes.controllers.rounds import rounds_forever
from laboratory.local_kubernetes.controllers.volumes import VolumeControllerDouble
from laboratory.local_kubernetes.definitions import install
from laboratory.local_kubernetes.errors import UnexpectedAnswer
from laboratory.local_kubernetes.kubelets import HollowKubelets
from shared.ledger.redis.client import RedisLedger
from shared.settings.settings import Settings

PATIENCE_SECONDS = 90.0
"""The run fails after this time without an answer from the API server."""
AGAIN_SECONDS = 0.2
STEPS_WITHOUT_US = 5
"""Steps of the load while the ledger is lost."""
REPORTED = b"The ledger is lost and begun anew"
"""In a coordinator's log."""
_MIGHT = ("Pending", "Running")
_NOT_NOW = (429, 500, 503, 504)
"""Answers of a server that is overloaded, or has no etcd."""


@dataclass(slots=True)
class _Stage(Stage):
    """The history is not the cluster process's, which there is none of."""

    recorder: ClusterRecorder | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Nothing more is to be recorded."""
    written: asyncio.Event = field(default_factory=asyncio.Event)
    """The recorder has ended."""

    def started_with(self) -> Settings | None:
        """The settings, once the ledger's address is in them."""
        parts = getattr(self, "parts", None)
        return parts.settings if parts is not None and parts.settings.redis_url else None

    async def complete_history(self) -> None:
        assert self.recorder is not None
        await self.recorder.complete()
        self.over.set()
        await self.written.wait()  # while the ledger is there

    def check_history(self) -> None:
        """It was completed, or that failed."""


@dataclass(slots=True)
class KubernetesChaos:
    """A run and its state. Call :meth:`run` once."""

    settings: Settings
    plane: ControlPlane
    """It runs."""
    nodes: int
    cores: int
    """Cores of each node."""
    dialect: ChaosDialect
    seed: int
    duration: float
    """Seconds of load."""
    blows: list[PlannedFault]
    timeline: ChaosTimeline
    loss: LedgerLoss | None = None
    report: ChaosReport = field(default_factory=lambda: ChaosReport(seeds=1))
    created: set[str] = field(default_factory=set)
    """Names of pods whose creation was acknowledged."""
    struck: list[InjectedFault] = field(default_factory=list)
    _ledger: str = ""
    """The id of the last act's ledger."""

    async def run(self) -> ChaosReport:
        """Raises RunFailed; ChildDied (in a group) for a process that keeps dying."""
        policy = self.settings.run_dir / "policy.yaml"
        write_policy(policy, first_policy(self.seed, self.dialect))
        self.settings = self.settings.replace(policy=policy)
        servers = ServersKeeper(self.plane, self.timeline)
        async with client_of(self.plane.admin) as client:
            load = await self._prepare(client)
            steps = load.steps()
            async with self._cluster(client), beside(servers.run_forever()):
                self.timeline.begin()
                for act in acts_of(self.blows, self.duration, self.loss):
                    await self._perform(act, client, servers, load, steps)
        return self.report

    async def _perform(
        self,
        act: Act,
        client: ApiClient,
        servers: ServersKeeper,
        load: KubernetesLoad,
        steps: Iterator[list[Operation]],
    ) -> None:
        history = self._history_of(act)
        stage, struck = _Stage(self.settings.replace(history=history), self.timeline), self.struck
        async with self._recorded(stage, client):
            struck = await self._on(act, stage, client, servers, steps)
            if act.loss is None:
                await self._do(client, load.ending())
                await self._finish(stage, client)
            else:
                self.timeline.note("the coordinators are killed, to stay down")
                for role in COORDINATORS:
                    if role in stage.parts.roles():
                        stage.parts.kill(role)
        judge_roles(self.report, stage.deaths, struck, seed=self.seed)
        for back in stage.returns:
            self.report.recovered(f"{back.role} process", back.seconds)
        evidence = await asyncio.to_thread(
            judge_history, self.report, history, seed=self.seed, closed=act.loss is None
        )
        tell_recoveries(self.report, self.timeline, struck, evidence)
        if act.loss is not None:
            await self._lose(act.loss, client, steps)
        elif self.loss is not None:
            self._judge_refilling(stage)

    def _history_of(self, act: Act) -> Path:
        """The act before a loss has its own."""
        path = self.settings.history
        return path if act.loss is None else path.with_name(f"{path.stem}-before{path.suffix}")

    # --- the loss of the ledger -------------------------------------------------------------------

    @property
    def _copy(self) -> Path:
        return self.settings.run_dir / "copy-of-the-ledger"

    async def _copy_later(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await copy_files(self.settings.data_dir, self._copy)
        self.timeline.note("the ledger is copied")

    async def _lose(
        self, loss: LedgerLoss, client: ApiClient, steps: Iterator[list[Operation]]
    ) -> None:
        """While nothing of ours runs. Users go on meanwhile."""
        lose(loss, self.settings.data_dir, self._copy)
        age = f", of {loss.age:.1f} s before" if loss.age else ""
        self.timeline.note(f"{loss.kind}{age}")
        self.report.fault(loss.kind.value)
        for _ in range(STEPS_WITHOUT_US):
            await self._do(client, next(steps))

    def _judge_refilling(self, stage: _Stage) -> None:
        """Whoever led first has said that the ledger was lost, and of what it knows no more."""
        logs = [stage.parts.log(role) for role in COORDINATORS]
        if not any(path.exists() and REPORTED in path.read_bytes() for path in logs):
            message = "the ledger was lost, and no coordinator has said so"
            self.report.violation(promise=6, message=message, seed=self.seed)

    # --- what runs ------------------------------------------------------------------------------

    async def _prepare(self, client: ApiClient) -> KubernetesLoad:
        await install(client, *self.dialect.definitions)
        names = [f"n{number}" for number in range(self.nodes)]
        await client.create(*first_objects(names, self.dialect))
        return KubernetesLoad(self.seed, self.dialect, nodes=names, cores=self.cores)

    @contextlib.asynccontextmanager
    async def _cluster(self, client: ApiClient) -> AsyncIterator[None]:
        kubelets = HollowKubelets(client)
        names = [f"n{number}" for number in range(self.nodes)]
        gpus = self.dialect.nodes
        amounts = {"cpu": str(self.cores), "memory": "64Gi", **gpus.amounts}
        await kubelets.join(names, amounts, labels=gpus.labels, annotations=gpus.annotations)
        volumes = VolumeControllerDouble(self.seed)
        looks = (count_budgets, volumes.look, free_claims, GangEnds().look)
        controllers = rounds_forever(client, *looks)
        async with beside(kubelets.run(), controllers):
            yield

    @contextlib.asynccontextmanager
    async def _recorded(self, stage: _Stage, client: ApiClient) -> AsyncIterator[None]:
        """Start all processes, and record."""
        async with beside(self._record(stage, client)), stage.open():
            yield

    async def _record(self, stage: _Stage, client: ApiClient) -> None:
        """From the moment on when the ledger is there: its log is trimmed as soon as nobody else
        has to read it."""
        while (settings := stage.started_with()) is None:  # noqa: ASYNC110 - a process starts
            await asyncio.sleep(AGAIN_SECONDS)
        ledger = RedisLedger(settings.access())
        try:
            self._ledger = await ledger_begun(ledger, before=self._ledger)
            kubeconfig, scheduler = self.plane.admin.kubeconfig, self.dialect.scheduler
            async with recording(
                settings.history, kubeconfig, ledger, client, scheduler=scheduler
            ) as stage.recorder:
                await stage.over.wait()
        finally:
            await ledger.close()
            stage.written.set()

    async def _on(
        self,
        act: Act,
        stage: _Stage,
        client: ApiClient,
        servers: ServersKeeper,
        steps: Iterator[list[Operation]],
    ) -> list[InjectedFault]:
        """Load and faults; returns those that struck."""
        await stage.until(stage.shared_out, READY_SECONDS, "the nodes are not shared out")
        striker = FaultInjector(
            stage.parts, self.timeline, status=lambda: stage.status, others=servers.pids
        )
        self.timeline.note("load and faults begin")
        try:
            async with asyncio.TaskGroup() as group:
                for blow in act.blows:
                    group.create_task(strike_at(blow, striker))
                if act.loss is not None and act.loss.age:
                    group.create_task(self._copy_later(act.duration - act.loss.age))
                await burden(steps, act.duration, partial(self._do, client))
        finally:
            striker.release()
            self.struck += striker.struck
        self.timeline.note("no more faults")
        return striker.struck

    # --- what users do --------------------------------------------------------------------------

    async def _do(self, client: ApiClient, operations: Iterable[Operation]) -> None:
        for operation in operations:
            match operation:
                case Create(items):
                    await self._create(client, items)
                case Patch(path, change):
                    await self._ask(client, "PATCH", path, change)
                case Remove(paths):
                    for path in paths:
                        await self._ask(client, "DELETE", path)
                case Evict(pod):
                    eviction = {"apiVersion": "policy/v1", "kind": "Eviction"}
                    body = eviction | {"metadata": {"name": pod, "namespace": "default"}}
                    path = f"{pod_path(pod)}/eviction"
                    allowed = await self._ask(client, "POST", path, body, or_refused=True)
                    self.report.fault("pod evicted" if allowed else "eviction refused by a budget")
                case NewPolicy(text):
                    assert self.settings.policy is not None
                    await asyncio.to_thread(write_policy, self.settings.policy, text)
                    self.report.fault("policy changed")

    async def _create(self, client: ApiClient, items: list[Item]) -> None:
        for item in items:
            resource = await client.resource(item["apiVersion"], item["kind"])
            await self._ask(client, "POST", resource.path("default"), item)
            if item["kind"] == "Pod":
                self.created.add(item["metadata"]["name"])

    async def _ask(
        self,
        client: ApiClient,
        method: str,
        path: str,
        body: Any = None,
        *,
        or_refused: bool = False,
    ) -> bool:
        """Until the server has done it. Raises RunFailed where it does not. ``or_refused``: or a
        budget does not allow it, which makes it False."""
        form = "application/merge-patch+json" if method == "PATCH" else "application/json"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                async with asyncio.timeout(10.0):
                    answer = await client.ask(method, path, body, form=form)
                code = answer.get("code", 200) if answer.get("kind") == "Status" else 200
            except (aiohttp.ClientError, TimeoutError) as error:
                code, answer = 503, {"message": repr(error)}
            # A conflict or an absence: an earlier try was done, whose answer was lost.
            if code in (200, 201, 404, 409):
                return True
            if or_refused and _is_of_budget(answer):
                return False
            if code not in _NOT_NOW or time.monotonic() > deadline:
                raise RunFailed(f"{method} {path} is answered {code}: {answer.get('message')}")
            await asyncio.sleep(AGAIN_SECONDS)

    # --- the end --------------------------------------------------------------------------------

    async def _finish(self, stage: _Stage, client: ApiClient) -> None:
        """Wait until every pod has ended. One that does not breaks a promise."""
        began = time.monotonic()
        while left := await self._unfinished(client):
            if time.monotonic() > began + QUIET_SECONDS:
                message = f"{len(left)} pods do not end, such as {left[0]}: {stage.status}"
                self.timeline.note(message)
                self.report.violation(promise=8, message=message, seed=self.seed)
                return
            await asyncio.sleep(AGAIN_SECONDS)
        self.timeline.note("everything is finished")

    async def _unfinished(self, client: ApiClient) -> list[str]:
        """Names of acknowledged pods that have to run yet, or to go."""
        try:
            listed = (await client.get("/api/v1/namespaces/default/pods"))["items"]
        except (aiohttp.ClientError, UnexpectedAnswer):
            return ["(no answer)"]
        phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in listed}
        return [name for name in sorted(self.created) if phases.get(name) in _MIGHT]


def _is_of_budget(answer: dict[str, Any]) -> bool:
    """Whether it is a budget that refuses an eviction. An overloaded server also answers 429."""
    causes = (answer.get("details") or {}).get("causes", [])
    return any(cause.get("reason") == "DisruptionBudget" for cause in causes)
