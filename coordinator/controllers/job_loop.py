"""The controllers of Jobs and PodGroups in the coordinator process: passes events in,
executes their actions."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

import structlog

from coordinator.controllers.group_backoffs import LOOK_SECONDS, GroupBackoffs, mark_failed
from coordinator.controllers.group_protection import GroupProtection
from coordinator.controllers.group_stamps import GroupStamps, write_stamps
from coordinator.controllers.job_controller import (
    Action,
    End,
    Expire,
    Grow,
    JobController,
    Note,
    Restart,
)
from coordinator.controllers.placed_groups import PlacedGroups, keep_placed
from coordinator.core.coordinator import Coordinator
from coordinator.intake.admission.result import Admission
from coordinator.intake.changes import Changes
from coordinator.intake.dialect_change import take_up_dialect
from coordinator.intake.documents.document import Document
from coordinator.intake.intake import Intake
from coordinator.intake.writer import IntakeWriter
from coordinator.ledger_refusals import StoreRefused
from shared.messages.messages import StatusItem

AT_ONCE = 64
"""Limit on actions that wait for the ledger together."""

log = structlog.get_logger(__name__)

BeginsAnew = Callable[[int, Sequence[int]], Awaitable[None]]
"""Begins tasks of a job (jid, tasks) anew, as far as they can be stopped now."""


class JobLoop:
    def __init__(
        self, core: Coordinator, intake: Intake, *, clock: Callable[[], float] = time.time
    ) -> None:
        """``clock``: seconds since 1970."""
        self.controller = JobController(core.order.jobs.get)
        self._stamps = GroupStamps(core)
        self._backoffs = GroupBackoffs(core)
        self._placed_groups = PlacedGroups(core, intake)
        self._protection = GroupProtection(core, intake)
        self._intake = intake
        self._clock = clock
        self._moved = asyncio.Event()

    # --- what happens -----------------------------------------------------------------------------

    def restored(self, documents: Iterable[Document]) -> None:
        """At the start: find again what became due while no coordinator ran."""
        self.controller.published(documents, (), self._clock())
        self._backoffs.published(self._intake.registry.objects.values())
        self._placed_groups.restored()
        self._protection.published(self._intake.documents.values())
        self._moved.set()

    def published(self, changes: Changes) -> None:
        self.controller.published(changes.documents, changes.documents_gone, self._clock())
        self._backoffs.published(changes.objects)
        self._protection.published(changes.documents)
        self._moved.set()

    def recorded(self, items: Sequence[StatusItem]) -> None:
        due, now = self.controller.next_due(), self._clock()
        self.controller.recorded((item.jid for item in items), now)
        stamped = self._stamps.recorded(items, now)
        placed = self._placed_groups.recorded(items)
        moved = stamped or placed or self._protection.watches
        if moved or self.controller.asks or self.controller.next_due() != due:
            self._moved.set()

    # --- what is done -----------------------------------------------------------------------------

    async def run(self, writer: IntakeWriter, begin_anew: BeginsAnew) -> None:
        """Until it is cancelled. What the other dialect left is settled first."""
        with contextlib.suppress(StoreRefused):  # logged and counted; tried by the next leader
            await take_up_dialect(writer, self._intake)
        while True:
            # Before the actions are taken: what becomes due meanwhile sets it again.
            self._moved.clear()
            actions = self.controller.take(self._clock())
            for at in range(0, len(actions), AT_ONCE):
                async with asyncio.TaskGroup() as group:
                    for action in actions[at : at + AT_ONCE]:
                        group.create_task(self._try(writer, begin_anew, action))
            if stamps := self._stamps.take():
                await self._mark(writer, partial(write_stamps, self._intake, stamps))
            if placed := self._placed_groups.take():
                await self._mark(writer, partial(keep_placed, self._intake, placed))
            if self._protection.due:
                await self._mark(writer, self._protection.release)
            if self._backoffs.watches and (failed := self._backoffs.look()):
                await self._mark(writer, partial(mark_failed, self._intake, failed))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._moved.wait()

    def _pause(self) -> float | None:
        """Seconds until something is due; None where nothing is."""
        due = self.controller.next_due()
        pauses = [] if due is None else [max(0.0, due - self._clock())]
        looks = self._backoffs.watches or self._stamps.watches
        pauses += [LOOK_SECONDS] if looks else []
        return min(pauses, default=None)

    async def _mark(self, writer: IntakeWriter, write: Callable[[float], Admission]) -> None:
        """Write something on PodGroups."""
        try:
            await writer.apply(write)
        except StoreRefused as error:
            log.error("PodGroups are not marked", why=error.message)

    async def _try(self, writer: IntakeWriter, begin_anew: BeginsAnew, action: Action) -> None:
        try:
            if isinstance(action, Restart):
                await begin_anew(action.jid, action.tasks)
                self.controller.restarted(action.jid, self._clock())
            else:
                await self._do(writer, action)
        except StoreRefused as error:
            # The Job stays as it is: tried again when it moves, or by the next leader.
            log.error("Job stays as it is", job=action.key.path, why=error.message)

    async def _do(self, writer: IntakeWriter, action: End | Note | Grow | Expire) -> None:
        intake = self._intake
        match action:
            case End(key, jid, state):
                log.info("Job ends", job=key.path, phase=state["phase"], why=state["message"])
                await writer.apply(lambda now: intake.end(key, jid, state))
            case Note(key, jid, state):
                await writer.apply(lambda now: intake.note(key, jid, state))
            case Grow(key, jid, roles):
                admission = await writer.apply(lambda now: intake.grow(key, jid, roles))
                for refusal in admission.refused:
                    log.warning("Roles wait", job=key.path, roles=roles, why=refusal.message)
                    self.controller.failed(jid)
            case Expire(key, created):
                log.info("Job is deleted, its time after the end is over", job=key.path)
                await writer.apply(lambda now: intake.expire(key, created, now))
