"""Volumes and devices of a task, served between its placement and its bind.

kube-scheduler's extension point of this name: the claims of a task have to be served before a
kubelet starts it. Here both are written by the single writer of objects; on a Kubernetes cluster
they are asked of its API server (:mod:`coordinator.service.observed.observed`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from coordinator.bind.binder import BindPlan
from coordinator.controllers.device_claims import AppliesWork, DeviceClaims
from coordinator.controllers.volume_controller import ClaimBinding, bind_claims
from coordinator.core.coordinator import Coordinator
from coordinator.intake.intake import Intake


class PreBind(Protocol):
    def asked(self, claim: str) -> bool:
        """Whether the claim's volume was asked for a moment ago: nothing is chosen for it now."""
        ...

    async def bind_claims(self, chosen: Sequence[ClaimBinding]) -> Mapping[str, str]:
        """Have these claims get their volumes, as far as nobody was quicker. Claim -> why it can
        have none for that node: its tasks give their places back. Raises StoreRefused."""
        ...

    async def allocate(self, plan: BindPlan) -> Mapping[int, str]:
        """Give the claims of these tasks devices; why that is impossible, by position in the
        plan."""
        ...

    async def free_forever(self) -> None:
        """Take devices back from tasks that have no place any more."""
        ...


class StoredPreBind:
    """Volumes and devices of a cluster whose objects are kept here."""

    def __init__(self, core: Coordinator, intake: Intake, writer: AppliesWork) -> None:
        self._intake = intake
        self._writer = writer
        self._devices = DeviceClaims(core, intake, writer)

    def asked(self, claim: str) -> bool:
        return False  # what is written is known before the next look

    async def bind_claims(self, chosen: Sequence[ClaimBinding]) -> Mapping[str, str]:
        await self._writer.apply(partial(bind_claims, self._intake, chosen))
        return {}

    async def allocate(self, plan: BindPlan) -> Mapping[int, str]:
        return await self._devices.allocate(plan)

    async def free_forever(self) -> None:
        await self._devices.free_forever()
