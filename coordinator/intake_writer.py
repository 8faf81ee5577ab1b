"""From parsed objects to durable ones: the single writer of intake.

Requests that wait together are stored together. A request is answered when its objects are in the
ledger (fsync included) and the coordinator knows them, never before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.admission.documents import SERVER_OWNED
from coordinator.core import Changes
from coordinator.gate.fair_queue import FairQueue, LineFull
from coordinator.gate.pending import PendingBound, too_many
from coordinator.gate.principal import CALLER, may_plant
from coordinator.gate.queues import lane, lane_of, present_queue
from coordinator.intake import Admission, Intake
from coordinator.objects.document import Document, Key, encode_document
from coordinator.recorder import write
from shared.errors import Refusal
from shared.ledger.protocol import IntakeBatch, IntakeOp, IntakeReply, Ledger
from shared.messages import Epoch
from shared.tracing import span

BATCH_OPS = 4000
"""Operations of one store call: bounds how long the ledger's one thread is busy with it."""

QUEUE_REQUESTS = 64
"""Requests of one queue that may wait while no other's do; beyond its share the API answers 429 and
the client comes back."""

_OWN = "the coordinator"
"""Line of what the coordinator itself has to store; no queue has such a name."""


class IntakeFull(Exception):
    """Too many requests wait to be stored."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of one object. ``after`` None: it is gone. Where ``admission`` refuses it, or
    nothing moved, ``after`` is ``before``."""

    admission: Admission
    before: Document | None
    after: Document | None


Make = Callable[[Document | None], dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class _Done:
    """A request that was worked on: what to store, what to tell, what to answer."""

    answer: Any
    admission: Admission
    tell: bool = True


@dataclass(slots=True)
class _Request:
    work: Callable[[float], _Done]
    done: asyncio.Future[Any]
    reads: Key | None = None
    """The object whose published form it looks at."""


class IntakeWriter:
    def __init__(
        self,
        intake: Intake,
        ledger: Ledger,
        *,
        writer: str,
        epoch: Epoch,
        run_id: Callable[[], Awaitable[str]],
        bless: Callable[[], Awaitable[str]],
        stored: Callable[[Changes], None],
        bound: PendingBound | None = None,
    ) -> None:
        """``bless`` accepts a new run of the server. ``bound``: how many jobs may wait in a queue;
        None = any number."""
        self._intake = intake
        self._ledger = ledger
        self._writer = writer
        self._epoch = epoch
        self._run_id = run_id
        self._bless = bless
        self._stored = stored
        self._sequence = 0
        self._bound = bound
        self._queue: FairQueue[_Request] = FairQueue(2 * QUEUE_REQUESTS)

    # --- what can be asked ----------------------------------------------------------------------

    async def submit(
        self, items: list[dict[str, Any]], *, atomic: bool = False, dry_run: bool = False
    ) -> Admission:
        """Parse, store, answer. Raises IntakeFull at once where too many wait, Problem where all
        objects (with ``atomic``: one) are jobs beyond what may wait in their queues."""
        planting = may_plant(CALLER.get())

        def work(now: float) -> _Done:
            kept, beyond = self._within(items)
            if beyond and (atomic or not kept):
                raise too_many(beyond)
            admission = self._intake.admit(
                kept, now, atomic=atomic, keep=not dry_run, planting=planting
            )
            admission.refused += beyond
            return _Done(admission, admission) if not dry_run else _dry(admission)

        admission: Admission = await self._ask(work, lane_of(items, self._intake.registry))
        return admission

    async def change(self, key: Key, make: Make, *, dry_run: bool = False) -> Changed:
        """Create, change or delete one object.

        ``make`` gets the newest document of the object (None: there is none) and returns the whole
        new object, or None to delete it. It runs between all other changes: nothing moves while it
        looks, and what came before is published. What it raises goes to the caller. Raises
        IntakeFull at once where too many requests wait.
        """
        planting = may_plant(CALLER.get())

        def work(now: float) -> _Done:
            before = self._intake.documents.get(key)
            new = make(before)
            if new is not None and (beyond := self._within([new])[1]):
                raise too_many(beyond)
            admission = self._one(key, new, now, keep=not dry_run, planting=planting)
            changed = Changed(admission, before, _after(key, before, admission))
            return _Done(changed, admission) if not dry_run else _dry(changed)

        changed: Changed = await self._ask(work, self._line(key), reads=key)
        return changed

    async def remember(self, key: Key, state: dict[str, Any] | None) -> Admission:
        """Keep what a controller knows of an object; nothing where the object is gone meanwhile."""

        def work(now: float) -> _Done:
            admission = self._intake.remember(key, state)
            return _Done(admission, admission)

        admission: Admission = await self._wait(work)
        return admission

    async def purge(self, jids: Sequence[int], pods: Sequence[tuple[int, int]]) -> Admission:
        """Forget deleted jobs and deleted members (jid, tix) that nothing is left of."""

        def work(now: float) -> _Done:
            admission = self._intake.purge(jids, pods, now)
            return _Done(admission, admission)

        admission: Admission = await self._wait(work)
        return admission

    async def apply(self, work: Callable[[float], Admission]) -> Admission:
        """Store what a controller makes of what is known, in order with everything else."""

        def done(now: float) -> _Done:
            admission = work(now)
            return _Done(admission, admission)

        admission: Admission = await self._wait(done)
        return admission

    async def store(self, ops: list[IntakeOp]) -> None:
        """Store operations that are not objects of a user (a partition)."""
        await self._wait(lambda now: _Done(None, Admission(ops=ops), tell=False))

    async def _ask(
        self, work: Callable[[float], _Done], line: str, reads: Key | None = None
    ) -> Any:
        request = _Request(work, asyncio.get_running_loop().create_future(), reads)
        try:
            self._queue.put_nowait(request, line)
        except LineFull as error:
            raise IntakeFull(str(error)) from error
        with span("intake", line=line):
            return await request.done

    def _line(self, key: Key) -> str:
        """That of the queue an object is in; a new one's is not known yet, so its author's."""
        names = self._intake.registry
        queue = present_queue(key.kind, key.path, names)
        return f"by {CALLER.get().name}" if queue is None else lane(queue, names)

    def _within(self, items: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Refusal]]:
        return (items, []) if self._bound is None else self._bound.split(items)

    async def _wait(self, work: Callable[[float], _Done]) -> Any:
        """For the coordinator's own requests: they are not turned away."""
        request = _Request(work, asyncio.get_running_loop().create_future())
        await self._queue.put(request, _OWN)
        return await request.done

    def _one(
        self, key: Key, new: dict[str, Any] | None, now: float, *, keep: bool, planting: bool
    ) -> Admission:
        if new is None:
            return self._intake.remove(key.kind, key.namespace, key.name, now, keep=keep)
        if not _is(new, key):
            message = f"kind, namespace and name must stay those of {key.kind} {key.path}"
            return Admission(refused=[Refusal(key.kind, key.path, "metadata.name", "", message)])
        return self._intake.admit([_own_words(new)], now, keep=keep, planting=planting)

    # --- the single writer ----------------------------------------------------------------------

    async def run(self) -> None:
        request = await self._queue.get()
        while True:
            batch: list[tuple[_Request, _Done]] = []
            size = 0
            following: _Request | None = request
            while following is not None and size < BATCH_OPS and not _rests_on(following, batch):
                done = self._work(following)
                if done is not None:
                    batch.append((following, done))
                    size += len(done.admission.ops) + len(done.admission.documents)
                following = self._queue.get_nowait() if len(self._queue) else None
            await self._store(batch)
            request = following or await self._queue.get()

    def _work(self, request: _Request) -> _Done | None:
        """None where the request failed: its caller gets the error."""
        try:
            return request.work(time.time())
        except Exception as error:  # of the caller's own function
            if not request.done.done():
                request.done.set_exception(error)
            return None

    async def _store(self, batch: list[tuple[_Request, _Done]]) -> None:
        await self._send([done.admission for _, done in batch])
        for request, done in batch:
            if done.tell:
                self._stored(changes_of(done.admission))
            if not request.done.done():
                request.done.set_result(done.answer)
        if self._bound is not None:
            self._bound.published()

    async def _send(self, admissions: list[Admission]) -> None:
        ops = [op for admission in admissions for op in admission.ops]
        documents: dict[str, bytes | None] = {}
        for admission in admissions:
            for document in admission.documents:
                documents[str(document.key)] = encode_document(document)
            for key in admission.documents_gone:
                documents[str(key)] = None
        if not ops and not documents:
            return
        self._sequence += 1
        kept = list(documents.items())

        def send(run: str) -> Awaitable[IntakeReply]:
            batch = IntakeBatch(self._writer, self._epoch, self._sequence, run, ops, kept)
            return self._ledger.store(batch)

        await write(send, run_id=self._run_id, bless=self._bless, what="store")


def _dry(answer: Any) -> _Done:
    return _Done(answer, Admission(), tell=False)


def _rests_on(request: _Request, batch: list[tuple[_Request, _Done]]) -> bool:
    """Does the request look at an object that the batch changes, and that is not published yet?"""
    key = request.reads
    return key is not None and any(
        any(document.key == key for document in done.admission.documents)
        or key in done.admission.documents_gone
        for _, done in batch
    )


def _is(item: dict[str, Any], key: Key) -> bool:
    metadata = item.get("metadata")
    if item.get("kind") != key.kind or not isinstance(metadata, dict):
        return False
    namespace = (metadata.get("namespace") or "default") if key.namespace else ""
    return (namespace, metadata.get("name")) == (key.namespace, key.name)


def _after(key: Key, before: Document | None, admission: Admission) -> Document | None:
    if key in admission.documents_gone:
        return None
    return next((d for d in admission.documents if d.key == key), before)


def _own_words(item: dict[str, Any]) -> dict[str, Any]:
    """The object without what only the server may say of it."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or SERVER_OWNED.isdisjoint(metadata):
        return item
    own = {name: value for name, value in metadata.items() if name not in SERVER_OWNED}
    return item | {"metadata": own}


def changes_of(admission: Admission) -> Changes:
    return Changes(
        classes=admission.classes,
        nodes=admission.nodes,
        nodes_gone=admission.nodes_gone,
        queues=admission.queues,
        queues_gone=admission.queues_gone,
        hyper_nodes=admission.hyper_nodes,
        hyper_nodes_gone=admission.hyper_nodes_gone,
        objects=admission.objects,
        objects_gone=admission.objects_gone,
        jobs=admission.jobs,
        jobs_gone=admission.jobs_gone,
        jobs_purged=admission.jobs_purged,
        tasks_gone=admission.tasks_gone,
        documents=admission.documents,
        documents_gone=admission.documents_gone,
    )
