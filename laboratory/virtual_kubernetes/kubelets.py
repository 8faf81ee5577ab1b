"""Nodes of a seeded run: hollow kubelets as they are, and who collects what nodes leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aiohttp

from laboratory.local_kubernetes.client import ApiClient
from laboratory.local_kubernetes.controllers.disruption import count_budgets
from laboratory.local_kubernetes.controllers.rounds import rounds_forever
from laboratory.local_kubernetes.errors import UnexpectedAnswer
from laboratory.local_kubernetes.kubelets import HollowKubelets
from laboratory.simulation.process import Process
from laboratory.virtual_kubernetes.api_process import URL, ApiProcess
from laboratory.virtual_kubernetes.loop import connecting_loop

AMOUNTS = {"cpu": "4", "memory": "16Gi"}
COLLECT_SECONDS = 1.0
"""Interval of looks for pods whose node is gone."""
_AGAIN_SECONDS = 0.5


class SeededKubelets:
    """They outlive everything else, in a process of their own."""

    def __init__(
        self, api: ApiProcess, nodes: Sequence[str], *, start_seconds: float, budgets: bool
    ) -> None:
        """``budgets``: whether somebody counts the pods of budgets."""
        self._api, self._nodes, self._budgets = api, nodes, budgets
        self._start_seconds = start_seconds
        process = Process(api.timeline)
        self._loop = connecting_loop(process, api.network, seed=1)
        self._loop.start(self._run())
        process.round(COLLECT_SECONDS, self._collect)
        self._process = process
        self._kubelets: HollowKubelets | None = None

    async def _run(self) -> None:
        async with aiohttp.ClientSession(URL) as session:
            client = ApiClient(session)
            self._kubelets = HollowKubelets(client, start_seconds=self._start_seconds)
            await self._kubelets.join(self._nodes, AMOUNTS)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._kubelets.run())
                if self._budgets:
                    group.create_task(rounds_forever(client, count_budgets))

    def take_away(self, node: str, seconds: float) -> None:
        """Delete a node under its pods; it comes back as another one."""
        self._loop.call_soon(lambda: self._loop.start(self._bounce(node, seconds)))

    async def _bounce(self, node: str, seconds: float) -> None:
        assert self._kubelets is not None
        while node in self._api.objects("nodes"):
            try:
                await self._kubelets.remove(node)
            except (aiohttp.ClientError, TimeoutError, UnexpectedAnswer):
                await asyncio.sleep(_AGAIN_SECONDS)
        await asyncio.sleep(seconds)
        while node not in self._api.objects("nodes"):
            try:
                await self._kubelets.join([node], AMOUNTS)
            except (aiohttp.ClientError, TimeoutError, UnexpectedAnswer):
                await asyncio.sleep(_AGAIN_SECONDS)

    def end(self) -> None:
        """The run is over."""
        self._process.alive = False
        self._api.network.drop(self._process)
        self._loop.abandon()

    def _collect(self) -> None:
        """As Kubernetes' pod garbage collector does."""
        nodes = self._api.objects("nodes")
        for path, pod in self._api.objects("pods").items():
            node = pod["spec"].get("nodeName")
            if node and node not in nodes:
                namespace, _, name = path.partition("/")
                at = f"/api/v1/namespaces/{namespace}/pods/{name}"
                self._api.ask("DELETE", at, {"gracePeriodSeconds": 0})
        self._process.round(COLLECT_SECONDS, self._collect)
