"""Volumes and devices of a Kubernetes cluster, before binds go out: asked of its API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordinator.bind.binder import BindPlan
from coordinator.cluster.kubernetes.state.mirror import Mirror
from coordinator.cluster.kubernetes.writes.patch import ObjectServer
from coordinator.controllers.device_claims import AppliesWork
from coordinator.controllers.volume_controller import ClaimBinding
from coordinator.core.coordinator import Coordinator
from coordinator.intake.intake import Intake
from coordinator.service.observed.devices import ApiDevices
from coordinator.service.observed.volumes import ApiVolumes


class ApiPreBind:
    def __init__(
        self,
        core: Coordinator,
        intake: Intake,
        writer: AppliesWork,
        *,
        mirror: Mirror,
        server: ObjectServer,
    ) -> None:
        self._volumes = ApiVolumes(mirror, server)
        self._devices = ApiDevices(core, intake, writer, mirror=mirror, server=server)

    def asked(self, claim: str) -> bool:
        return self._volumes.asked(claim)

    async def bind_claims(self, chosen: Sequence[ClaimBinding]) -> Mapping[str, str]:
        return await self._volumes.bind(chosen)

    async def allocate(self, plan: BindPlan) -> Mapping[int, str]:
        return await self._devices.allocate(plan)

    async def free_forever(self) -> None:
        await self._devices.free_forever()
