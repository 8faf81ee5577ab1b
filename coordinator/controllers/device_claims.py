"""The ResourceClaims of tasks: devices before a bind goes out, and none after the pod has left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from coordinator.bind.binder import BindPlan
from coordinator.controllers.device_controller import DeviceController
from coordinator.core.coordinator import Coordinator
from coordinator.intake.admission.result import Admission
from coordinator.intake.intake import Intake
from coordinator.ledger_refusals import StoreRefused

LOOK_SECONDS = 0.25
"""Interval of looks for claims that nobody uses any more, where something has ended since."""
AGAIN_SECONDS = 1.0
"""Pause after the ledger refused to store claims."""


class AppliesWork(Protocol):
    """The single writer of objects."""

    @property
    def apply(self) -> Callable[[Callable[[float], Admission]], Awaitable[Admission]]: ...


class DeviceClaims:
    def __init__(self, core: Coordinator, intake: Intake, writer: AppliesWork) -> None:
        self._core = core
        self._writer = writer
        self._controller = DeviceController(core, intake)

    async def allocate(self, plan: BindPlan) -> dict[int, str]:
        """Give the claims of these tasks devices; why that is impossible, by position in the
        plan."""
        users = self._controller.users(plan)
        if users:  # a place may be there because those before have just left
            await self._free()
        while users:
            failures: dict[int, str] = {}
            try:
                await self._writer.apply(partial(self._controller.allocate, users, failures))
            except StoreRefused:  # logged and counted
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return failures
        return {}

    async def free_forever(self) -> None:
        """Take devices back from claims that nobody uses any more; also from those of pods that
        left while nobody led."""
        version = -1
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            changes = self._core.order.accounts.capacity.changes
            if changes == version:
                continue
            version = changes
            if not await self._free():
                version = -1
                await asyncio.sleep(AGAIN_SECONDS)

    async def _free(self) -> bool:
        """Take devices back; False where the ledger refused to store that."""
        try:
            await self._write_unused()
        except StoreRefused:  # logged and counted
            return False
        return True

    async def _write_unused(self) -> None:
        due = self._controller.unused()
        if any(written is not None for _, written in due):
            await self._writer.apply(self._controller.free)
        for key in (key for key, written in due if written is None):
            await self._writer.apply(partial(self._controller.drop, key))
