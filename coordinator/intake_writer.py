"""From parsed objects to durable ones: the single writer of intake.

Requests that wait together are stored together. A request is answered when its objects are in the
ledger (fsync included) and the coordinator knows them, never before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from coordinator.core import Changes
from coordinator.intake import Admission, Intake
from coordinator.recorder import write
from shared.ledger.protocol import IntakeBatch, IntakeOp, IntakeReply, Ledger
from shared.messages import Epoch

BATCH_OPS = 4000
"""Operations of one store call: bounds how long the ledger's one thread is busy with it."""

QUEUE_REQUESTS = 64
"""Requests that may wait; beyond it the API answers 429 and the client comes back."""


class IntakeFull(Exception):
    """Too many requests wait to be stored."""


@dataclass(slots=True)
class _Request:
    items: list[dict[str, Any]]
    atomic: bool
    ops: list[IntakeOp]
    done: asyncio.Future[Admission | None]


class IntakeWriter:
    def __init__(
        self,
        intake: Intake,
        ledger: Ledger,
        *,
        writer: str,
        epoch: Epoch,
        run_id: Callable[[], Awaitable[str]],
        stored: Callable[[Changes], None],
    ) -> None:
        self._intake = intake
        self._ledger = ledger
        self._writer = writer
        self._epoch = epoch
        self._run_id = run_id
        self._stored = stored
        self._sequence = 0
        self._queue: asyncio.Queue[_Request] = asyncio.Queue(QUEUE_REQUESTS)

    async def submit(self, items: list[dict[str, Any]], *, atomic: bool = False) -> Admission:
        """Parse, store, answer. Raises IntakeFull at once where too many wait."""
        request = _Request(items, atomic, [], asyncio.get_running_loop().create_future())
        try:
            self._queue.put_nowait(request)
        except asyncio.QueueFull as error:
            raise IntakeFull(f"{QUEUE_REQUESTS} requests wait to be stored") from error
        admission = await request.done
        assert admission is not None
        return admission

    async def store(self, ops: list[IntakeOp]) -> None:
        """Store operations that are not objects of a user (a partition)."""
        request = _Request([], False, ops, asyncio.get_running_loop().create_future())
        await self._queue.put(request)
        await request.done

    async def run(self) -> None:
        while True:
            batch = [await self._queue.get()]
            answers = [self._admit(batch[0])]
            ops = len(answers[0][0])
            while not self._queue.empty() and ops < BATCH_OPS:
                batch.append(self._queue.get_nowait())
                answers.append(self._admit(batch[-1]))
                ops += len(answers[-1][0])
            await self._send([op for more, _ in answers for op in more])
            for request, (_, admission) in zip(batch, answers, strict=True):
                if admission is not None:
                    self._stored(changes_of(admission))
                if not request.done.done():
                    request.done.set_result(admission)

    def _admit(self, request: _Request) -> tuple[list[IntakeOp], Admission | None]:
        if request.ops:
            return request.ops, None
        admission = self._intake.admit(request.items, time.time(), atomic=request.atomic)
        return admission.ops, admission

    async def _send(self, ops: list[IntakeOp]) -> None:
        if not ops:
            return
        self._sequence += 1

        def send(run: str) -> Awaitable[IntakeReply]:
            batch = IntakeBatch(self._writer, self._epoch, self._sequence, run, ops)
            return self._ledger.store(batch)

        await write(self._ledger, send, run_id=self._run_id, what="store")


def changes_of(admission: Admission) -> Changes:
    return Changes(
        classes=admission.classes,
        nodes=admission.nodes,
        nodes_gone=admission.nodes_gone,
        queues=admission.queues,
        hyper_nodes=admission.hyper_nodes,
        jobs=admission.jobs,
        jobs_gone=admission.jobs_gone,
    )
