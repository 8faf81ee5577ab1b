"""Counts pods that come to a node, whoever places them, as the API server's watch tells."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from coordinator.cluster.kubernetes.api.client import ApiReader
from coordinator.cluster.kubernetes.api.credentials import from_kubeconfig
from coordinator.cluster.kubernetes.api.objects import head_of
from coordinator.cluster.kubernetes.api.reflector import Reflector, WatchedKind

_BOUND_PODS = WatchedKind("Pod", "/api/v1/pods?fieldSelector=spec.nodeName%21%3D", "v1", "Pod")
"""A pod enters this watch when it is bound: it costs the server no event before."""


class BindWatch:
    """Use :func:`watching_binds`."""

    def __init__(self) -> None:
        self._uids: set[str] = set()
        self._before = 0
        self.first_at = self.last_at = 0.0
        """When the first bind and the latest one were seen, on the monotonic clock; 0: none."""
        self._progress = asyncio.Event()

    @property
    def bound(self) -> int:
        """Since :meth:`begin`."""
        return len(self._uids) - self._before

    def begin(self) -> None:
        """Count from here on."""
        self._before, self.first_at, self.last_at = len(self._uids), 0.0, 0.0

    async def until(self, pods: int, seconds: float) -> None:
        """Until so many were seen. Raises TimeoutError where none came for ``seconds``."""
        while self.bound < pods:
            self._progress.clear()
            async with asyncio.timeout(seconds):
                await self._progress.wait()

    # --- what the stream says -------------------------------------------------------------------

    def absent(self, kind: WatchedKind) -> None:
        """Every API server has pods."""

    async def listed(self, kind: WatchedKind, items: list[msgspec.Raw], *, first: bool) -> None:
        await self.changed(kind, [(False, item) for item in items])

    async def list_ended(self, kind: WatchedKind) -> None:
        """Do nothing: a pod that is gone was bound before."""

    async def changed(self, kind: WatchedKind, item: list[tuple[bool, msgspec.Raw]]) -> None:
        before = len(self._uids)
        self._uids.update(head_of(raw).metadata.uid for _, raw in item)
        if len(self._uids) > before:
            self.last_at = time.monotonic()
            self.first_at = self.first_at or self.last_at
            self._progress.set()


@asynccontextmanager
async def watching_binds(kubeconfig: Path) -> AsyncIterator[BindWatch]:
    binds, reader = BindWatch(), ApiReader(from_kubeconfig(kubeconfig))
    async with reader, asyncio.TaskGroup() as group:
        task = group.create_task(Reflector(reader, _BOUND_PODS, binds).run_forever())
        yield binds
        task.cancel()
