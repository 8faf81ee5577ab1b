"""The kinds of Kubernetes' own groups that a cluster serves, by its discovery."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import structlog

from coordinator.cluster.kubernetes.api.client import ApiError
from coordinator.cluster.kubernetes.api.reflector import ReflectorCounts
from coordinator.intake.documents.kinds import COMPOSITE_POD_GROUP, NATIVE_POD_GROUP

GROUP = NATIVE_POD_GROUP.group
KINDS = {
    NATIVE_POD_GROUP.plural: NATIVE_POD_GROUP.written,
    "workloads": "Workload",
    COMPOSITE_POD_GROUP.plural: COMPOSITE_POD_GROUP.written,
}
"""Resource -> kind."""
LOOK_SECONDS = 0.5
"""Interval of looks whether the stream of PodGroups began anew; the server is asked only then."""

log = structlog.get_logger(__name__)


class DiscoveryServer(Protocol):
    async def read(self, path: str) -> dict[str, Any] | None: ...

    async def resources(self, api_version: str) -> frozenset[str]: ...


class NativeKinds:
    def __init__(self, server: DiscoveryServer) -> None:
        self._server = server
        self.text = ""
        """The served kinds with their versions; "" while the server was not asked."""

    async def keep_forever(self, stream: ReflectorCounts) -> None:
        """``stream``: of PodGroups. A server that serves other kinds was restarted, which ends each
        watch."""
        before: tuple[bool, int] | None = None
        while True:
            now = stream.missing, stream.watches
            if now != before and any(now):
                try:
                    await self._ask()
                    before = now
                except ApiError as error:
                    log.warning("Cannot ask which groups the server has", why=str(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def _ask(self) -> None:
        served: dict[str, list[str]] = {resource: [] for resource in KINDS}
        for listed in ((await self._server.read(f"/apis/{GROUP}")) or {}).get("versions") or ():
            version = listed["version"]
            for resource in served.keys() & await self._server.resources(f"{GROUP}/{version}"):
                served[resource].append(version)
        text = ", ".join(
            f"{KINDS[resource]} {' and '.join(versions) or 'not served'}"
            for resource, versions in served.items()
        )
        if text != self.text:
            log.info("Kubernetes' own groups", kinds=text)
        self.text = text
