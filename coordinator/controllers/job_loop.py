"""The job controller in the coordinator process: passes events in, executes its actions."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

import structlog

from coordinator.controllers.job_controller import (
    Action,
    End,
    Expire,
    Grow,
    JobController,
    Note,
    Restart,
)
from coordinator.core.coordinator import Coordinator
from coordinator.intake.changes import Changes
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
        self._intake = intake
        self._clock = clock
        self._moved = asyncio.Event()

    # --- what happens -----------------------------------------------------------------------------

    def restored(self, documents: Iterable[Document]) -> None:
        """At the start: find again what became due while no coordinator ran."""
        self.controller.published(documents, (), self._clock())
        self._moved.set()

    def published(self, changes: Changes) -> None:
        self.controller.published(changes.documents, changes.documents_gone, self._clock())
        self._moved.set()

    def recorded(self, items: Iterable[StatusItem]) -> None:
        due = self.controller.next_due()
        self.controller.recorded((item.jid for item in items), self._clock())
        if self.controller.asks or self.controller.next_due() != due:
            self._moved.set()

    # --- what is done -----------------------------------------------------------------------------

    async def run(self, writer: IntakeWriter, begin_anew: BeginsAnew) -> None:
        """Until it is cancelled."""
        while True:
            # Before the actions are taken: what becomes due meanwhile sets it again.
            self._moved.clear()
            actions = self.controller.take(self._clock())
            for at in range(0, len(actions), AT_ONCE):
                async with asyncio.TaskGroup() as group:
                    for action in actions[at : at + AT_ONCE]:
                        group.create_task(self._try(writer, begin_anew, action))
            due = self.controller.next_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due is None else max(0.0, due - self._clock())):
                    await self._moved.wait()

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
