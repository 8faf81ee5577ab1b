"""Starts etcd and the API server again after they were struck, as whoever keeps them would."""

from __future__ import annotations

import asyncio

from laboratory.chaos.plan import API_SERVER, ETCD
from laboratory.chaos.timeline import ChaosTimeline
from laboratory.local_kubernetes.control_plane import ControlPlane

AGAIN_SECONDS = 1.5
"""Between the end of a server and its next start."""
LOOK_SECONDS = 0.1


class ServersKeeper:
    def __init__(self, plane: ControlPlane, timeline: ChaosTimeline) -> None:
        self._timeline = timeline
        self._servers = {ETCD: plane.etcd, API_SERVER: plane.api_server}

    def pids(self) -> dict[str, int]:
        """Target of faults -> pid, of those that run."""
        pids = {target: server.pid for target, server in self._servers.items()}
        return {target: pid for target, pid in pids.items() if pid is not None}

    async def run_forever(self) -> None:
        async with asyncio.TaskGroup() as group:
            for target in self._servers:
                group.create_task(self._keep(target))

    async def _keep(self, target: str) -> None:
        server = self._servers[target]
        while True:
            if server.ended():
                await asyncio.sleep(AGAIN_SECONDS)
                server.start()
                self._timeline.note(f"{server.name} is started again")
            await asyncio.sleep(LOOK_SECONDS)
