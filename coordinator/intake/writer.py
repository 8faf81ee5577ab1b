"""From parsed objects to durable ones: the single writer of intake.

Requests that wait together are stored together. A request is answered when its objects are in the
ledger (fsync included) and the coordinator knows them, never before. Where the ledger refuses what
several of them want, each is stored alone, so that it is refused to those alone that it is about.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from coordinator.intake.admission.documents import SERVER_OWNED
from coordinator.intake.admission.result import Admission, merged
from coordinator.intake.admission.step import Notice
from coordinator.intake.changes import Changes
from coordinator.intake.documents.document import Document, Key, encode_document
from coordinator.intake.documents.kinds import BY_KIND
from coordinator.intake.fair_queue import FairQueue, LineFull
from coordinator.intake.intake import Intake
from coordinator.intake.pending_limit import PendingBound, too_many
from coordinator.intake.principal import CALLER, asker, may_plant
from coordinator.intake.queue_of import lane, lane_of, present_queue, reference_parts
from coordinator.ledger_refusals import REFUSED, LedgerRefusals, StoreRefused, WriteKind
from shared.errors import Refusal
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeOp, IntakeReply
from shared.ledger.errors import LedgerError
from shared.ledger.retry import AcceptedRun, write
from shared.messages.messages import Epoch
from shared.slices import SLICE_SECONDS, GiveWay, Steps, in_slices
from shared.telemetry.tracing import span

FRESH_SECONDS = 0.001
"""Maximum time that a callback has used when the next request, or the next part of a batch, is
begun in it: one step of a large object takes 5 to 15 ms, so that two of them are too long a
callback."""

BATCH_OPS = 4000
"""Operations and documents of one store call: bounds how long the ledger's one thread is busy with
it."""

PART_OBJECTS = 250
"""Objects of a List that are judged and stored together where others ask too. Between two parts
whoever has used less time has a turn: a small request waited 1.4 s of this process's time for a
List of 2,500, which is published beside the turns and binds that it causes. Nobody gains by parts
where nobody else asks, and every pod costs a fifth more."""

SHARED_BATCH_OPS = 2 * PART_OBJECTS
"""In place of :data:`BATCH_OPS` where others ask too: a small request is answered with all of its
batch."""

SHARED_SECONDS = 60.0
"""Seconds for which a request shows that its caller is asking."""

BATCH_REQUESTS = 64
"""Requests of one store call. More come while they are judged, since others run in between: without
this bound a batch would go on taking them in, and what is kept of a flood would depend on how fast
the machine is."""

REQUEST_SECONDS = 0.001
"""Charge of each request to its caller beside its whole slices: about the time of one small
object."""

QUEUE_REQUESTS = 64
"""Requests of one queue that may wait while no other's do; beyond its share the API answers 429 and
the client comes back."""

PUBLISH_JOBS = 50
"""Jobs that become known in one go: 40 us each."""

_OWN = "the coordinator"
"""Line of what the coordinator itself has to store; no queue has such a name."""


class StoresBatches(Protocol):
    """The ledger's methods that the intake writer uses."""

    async def store(self, batch: IntakeBatch) -> IntakeReply: ...


class Askers:
    """Knows whether more than one caller asks. ``seconds``: how long a request counts."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last, self._last_at = "", -math.inf
        self._other_at = -math.inf
        """When anybody but the last one asked."""

    def asked(self, name: str, now: float) -> None:
        if name != self._last:
            self._other_at = self._last_at
        self._last, self._last_at = name, now

    def several(self, now: float) -> bool:
        return now - self._other_at < self._seconds


class IntakeFull(Exception):
    """Too many requests wait to be stored."""


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The result of a change to one object. ``after`` None: it is deleted. Where ``admission``
    refuses it, or nothing changed, ``after`` is ``before``."""

    admission: Admission
    before: Document | None
    after: Document | None


T = TypeVar("T")
Make = Callable[[Document | None], dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class _Done:
    """The result of a request: its answer, what to store, and whether to inform the coordinator."""

    answer: Any
    admission: Admission
    publish: bool = True


@dataclass(slots=True)
class _StoreRequest:
    work: Callable[[float], _Done | Steps[_Done]]
    """Steps where the objects are somebody else's: they may be many or large."""
    reply: asyncio.Future[Any]
    caller: str
    """Caller whose share of time it uses."""
    objects: int = 0
    """Number of objects that it submits."""
    reads: Key | None = None
    """The object whose published form it looks at."""


class IntakeWriter:
    def __init__(
        self,
        intake: Intake,
        ledger: StoresBatches,
        *,
        writer: str,
        epoch: Epoch,
        run: AcceptedRun,
        stored: Callable[[Changes], None],
        published: Callable[[], None] = lambda: None,
        notices: Callable[[Changes], Iterable[Notice]] = lambda _: (),
        bound: PendingBound | None = None,
        refusals: LedgerRefusals | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``stored`` gets what is stored, in parts;
        ``published`` is called once after all parts of a batch: whoever orders jobs then sees them
        together, and makes fewer and larger calls to workers of them. ``notices``: what to tell the
        author of what was just stored. ``bound``: how many jobs may
        wait in a queue; None = any number.

        Everything that is asked for raises StoreRefused where the ledger refuses to store it.
        """
        self._intake = intake
        self._ledger = ledger
        self._writer = writer
        self._epoch = epoch
        self._run = run
        self._stored = stored
        self._published = published
        self._notices = notices
        self._sequence = 0
        self._bound = bound
        self._refusals = refusals or LedgerRefusals()
        self._clock = clock
        self._queue: FairQueue[_StoreRequest] = FairQueue(2 * QUEUE_REQUESTS)
        self._askers = Askers(SHARED_SECONDS)

    # --- what can be asked ----------------------------------------------------------------------

    async def submit(
        self, items: list[dict[str, Any]], *, atomic: bool = False, dry_run: bool = False
    ) -> Admission:
        """Parse, store, answer. Raises IntakeFull at once where too many wait, Problem where all
        objects (with ``atomic``: one) are jobs beyond what may wait in their queues.

        A long List is stored in parts where others ask too, unless it is ``atomic`` or a dry run:
        where one fails, those before it stay."""
        whole = atomic or dry_run or not self._askers.several(self._clock())
        parts = [items] if whole else reference_parts(items, PART_OBJECTS)
        admissions: list[Admission] = []
        excess: list[Refusal] = []
        for part in parts:
            # Only the first is turned away: what is half stored is worth its place in the line.
            admission, beyond = await self._submit(part, atomic, dry_run, patient=bool(admissions))
            admissions.append(admission)
            excess += beyond
        if excess and len(excess) == len(items):
            raise too_many(excess)
        admission = admissions[0] if len(admissions) == 1 else merged(admissions)
        admission.refused += excess
        return admission

    async def _submit(
        self, items: list[dict[str, Any]], atomic: bool, dry_run: bool, *, patient: bool
    ) -> tuple[Admission, list[Refusal]]:
        """Returns the admission of a part, and the refusals of jobs beyond what may wait."""
        planting = may_plant(CALLER.get())

        def work(now: float) -> Steps[_Done]:
            within, beyond = self._within(items)
            if beyond and atomic:
                raise too_many(beyond)
            yield
            admission = yield from self._intake.admitting(
                within, now, atomic=atomic, keep=not dry_run, planting=planting
            )
            answer = admission, beyond
            return _Done(answer, admission) if not dry_run else _dry(answer)

        line = lane_of(items, self._intake.registry)
        answer: tuple[Admission, list[Refusal]] = await self._ask(
            work, line, objects=len(items), patient=patient
        )
        return answer

    async def change(self, key: Key, make: Make, *, dry_run: bool = False) -> ChangeResult:
        """Create, change or delete one object.

        ``make`` gets the newest document of the object (None: there is none) and returns the whole
        new object, or None to delete it. It runs between all other changes: nothing moves while it
        looks, and what came before is published. What it raises goes to the caller. Raises
        IntakeFull at once where too many requests wait.
        """
        planting = may_plant(CALLER.get())

        def work(now: float) -> Steps[_Done]:
            before = self._intake.documents.get(key)
            # Here, in the single writer, and not when the request came: a patch is made of the
            # newest object, and nothing can come between the look and the change (decision 0015).
            new = make(before)
            yield
            if new is not None and (beyond := self._within([new])[1]):
                raise too_many(beyond)
            yield
            admission = yield from self._one(key, new, now, keep=not dry_run, planting=planting)
            changed = ChangeResult(admission, before, _after(key, before, admission))
            return _Done(changed, admission) if not dry_run else _dry(changed)

        changed: ChangeResult = await self._ask(work, self._line(key), reads=key)
        return changed

    async def purge(self, jids: Sequence[int], pods: Sequence[tuple[int, int]]) -> Admission:
        """Forget deleted jobs and deleted members (jid, tix) that nothing is left of."""
        return await self.apply(lambda now: self._intake.purge(jids, pods, now))

    async def remove_gates(self, jid: int, tasks: Sequence[int]) -> Admission:
        """Take Volcano's scheduling gate off these pods of a job."""
        return await self.apply(lambda now: self._intake.remove_gates(jid, tasks))

    async def regroup(
        self, move: Sequence[int], apart: Sequence[int], expired: Sequence[int]
    ) -> Admission:
        """Move the pods of these jobs of one to the groups that they name; see
        :meth:`Intake.regroup`."""
        return await self.apply(lambda now: self._intake.regroup(move, apart, expired, now))

    async def apply(self, work: Callable[[float], Admission]) -> Admission:
        """Store what a controller makes of what is known, in order with everything else."""

        def done(now: float) -> _Done:
            admission = work(now)
            return _Done(admission, admission)

        admission: Admission = await self._wait(done)
        return admission

    async def store(self, ops: list[IntakeOp]) -> None:
        """Store operations that are not objects of a user (a partition)."""
        await self._wait(lambda now: _Done(None, Admission(ops=ops), publish=False))

    async def _ask(
        self,
        work: Callable[[float], Steps[_Done]],
        line: str,
        *,
        objects: int = 1,
        reads: Key | None = None,
        patient: bool = False,
    ) -> Any:
        """``patient``: wait for room in the line."""
        caller = CALLER.get().name
        if name := asker() or line:
            self._askers.asked(name, self._clock())
        reply = asyncio.get_running_loop().create_future()
        request = _StoreRequest(work, reply, caller, objects, reads)
        own = f"{caller} {line}"  # nobody waits behind what others send to the same queue
        try:
            if patient:
                await self._queue.put(request, own, caller)
            else:
                self._queue.put_nowait(request, own, caller)
        except LineFull as error:
            raise IntakeFull(str(error)) from error
        with span("intake", line=line):
            return await request.reply

    def _line(self, key: Key) -> str:
        """The fair queue's line of an object: that of its queue. The queue of a new object is not
        known yet, so its author's line."""
        names = self._intake.registry
        queue = present_queue(key.kind, key.path, names)
        return f"by {CALLER.get().name}" if queue is None else lane(queue, names)

    def _within(self, items: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Refusal]]:
        return (items, []) if self._bound is None else self._bound.split(items)

    async def _wait(self, work: Callable[[float], _Done]) -> Any:
        """For the coordinator's own requests: they are not turned away."""
        request = _StoreRequest(work, asyncio.get_running_loop().create_future(), _OWN)
        await self._queue.put(request, _OWN, _OWN)
        return await request.reply

    def _one(
        self, key: Key, new: dict[str, Any] | None, now: float, *, keep: bool, planting: bool
    ) -> Steps[Admission]:
        if new is None:
            return self._intake.remove(key.kind, key.namespace, key.name, now, keep=keep)
        if not _is(new, key):
            kind = BY_KIND[key.kind].written
            message = f"kind, namespace and name must stay those of {kind} {key.path}"
            return Admission(refused=[Refusal(kind, key.path, "metadata.name", "", message)])
        return (
            yield from self._intake.admitting([_own_words(new)], now, keep=keep, planting=planting)
        )

    # --- the single writer ----------------------------------------------------------------------

    async def run(self) -> None:
        request = await self._queue.get()
        while True:
            self._intake.mark()
            batch: list[tuple[_StoreRequest, _Done]] = []
            size = 0
            give_way = GiveWay(seconds=FRESH_SECONDS)
            following: _StoreRequest | None = request
            # A request that looks at an object of this batch waits for the next: it must see what
            # is published, and nothing of this batch is before it is stored. So does a List that is
            # too much for it: whoever is in it is answered first.
            most = SHARED_BATCH_OPS if self._askers.several(self._clock()) else BATCH_OPS
            while (
                following is not None
                and not _rests_on(following, batch)
                and (not batch or size + 2 * following.objects <= most)
            ):
                outcome = await self._work(following)
                await give_way.between()
                if outcome is not None:
                    batch.append((following, outcome))
                    size += len(outcome.admission.ops) + len(outcome.admission.documents)
                more = len(self._queue) and size < most and len(batch) < BATCH_REQUESTS
                following = self._queue.get_nowait() if more else None
            await self._store(batch)
            request = following or await self._queue.get()

    async def _work(self, request: _StoreRequest) -> _Done | None:
        """Judge one request; None where it failed and its caller got the error. No other request is
        judged or stored meanwhile; other coroutines go on."""
        try:
            outcome = request.work(self._clock())
            if isinstance(outcome, _Done):
                return outcome
            return await self._charged(outcome, request)
        except Exception as error:  # of the caller's own function
            if not request.reply.done():
                request.reply.set_exception(error)
            return None
        finally:
            self._queue.charge(request.caller, REQUEST_SECONDS)

    async def _charged(self, steps: Steps[T], request: _StoreRequest) -> T:
        """Run the steps in slices, each of which counts for the caller of the request."""
        charge = partial(self._queue.charge, request.caller, SLICE_SECONDS)
        return await in_slices(steps, sliced=charge)

    async def _store(self, batch: list[tuple[_StoreRequest, _Done]]) -> None:
        try:
            await self._send(batch)
        except REFUSED as error:
            # In memory the batch has happened already: names and numbers were given before the
            # store, and the registry's journal takes them back (decision 0037).
            self._intake.undo()
            if self._bound is not None:
                self._bound.published()  # nothing that was let in is on its way any more
            if len(batch) > 1:
                await self._store_singly([request for request, _ in batch])
            else:
                self._refuse(*batch[0], error)
            return
        self._intake.forget_mark()
        give_way = GiveWay(seconds=FRESH_SECONDS)
        for request, outcome in batch:
            await give_way.between()
            if outcome.publish:
                await self._charged(self._publish(outcome.admission), request)
            if not request.reply.done():
                request.reply.set_result(outcome.answer)
        self._published()
        if self._bound is not None:
            self._bound.published()

    async def _store_singly(self, requests: list[_StoreRequest]) -> None:
        """Store the requests of a refused list one by one: nobody knows which was refused. The
        changes they made of each other are taken back, so each is judged again."""
        for request in requests:
            self._intake.mark()
            outcome = await self._work(request)
            if outcome is not None:
                await self._store([(request, outcome)])

    def _refuse(self, request: _StoreRequest, outcome: _Done, error: LedgerError) -> None:
        names = [str(document.key) for document in outcome.admission.documents]
        names += [str(key) for key in outcome.admission.documents_gone]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        subject = (
            f"{', '.join(names[:3])}{more}" or f"{len(outcome.admission.ops)} operations of its own"
        )
        self._refusals.refused(WriteKind.STORE, error, subject)
        if not request.reply.done():
            request.reply.set_exception(StoreRefused(error))

    def _publish(self, admission: Admission) -> Steps[None]:
        """Publish what is stored, some jobs at a time: each with its documents, so that whoever
        looks in between sees whole jobs."""
        for part in admission.parts(PUBLISH_JOBS):
            self._stored(part)
            for notice in self._notices(part):
                admission.notice(notice)
            yield

    async def _send(self, batch: list[tuple[_StoreRequest, _Done]]) -> None:
        ops = [op for _, outcome in batch for op in outcome.admission.ops]
        documents: dict[str, bytes | None] = {}
        give_way = GiveWay(seconds=FRESH_SECONDS)
        for request, outcome in batch:
            await self._charged(_encode(outcome.admission.documents, documents), request)
            await give_way.between()
            for key in outcome.admission.documents_gone:
                documents[str(key)] = None
        if not ops and not documents:
            return
        # Once for all tries: what is sent again after a lost answer gets the first answer, and is
        # not stored twice.
        self._sequence += 1
        encoded = [*documents.items()]

        def send(run: str) -> Awaitable[IntakeReply]:
            batch = IntakeBatch(self._writer, self._epoch, self._sequence, run, ops, encoded)
            return self._ledger.store(batch)

        await write(send, run=self._run, call_name="store")


def _encode(documents: Iterable[Document], into: dict[str, bytes | None]) -> Steps[None]:
    for document in documents:
        into[str(document.key)] = encode_document(document)
        yield


def _dry(answer: Any) -> _Done:
    return _Done(answer, Admission(), publish=False)


def _rests_on(request: _StoreRequest, batch: list[tuple[_StoreRequest, _Done]]) -> bool:
    """Does the request look at an object that the batch changes, and that is not published yet?"""
    key = request.reads
    return key is not None and any(
        any(document.key == key for document in outcome.admission.documents)
        or key in outcome.admission.documents_gone
        for _, outcome in batch
    )


def _is(item: dict[str, Any], key: Key) -> bool:
    metadata = item.get("metadata")
    if item.get("kind") != BY_KIND[key.kind].written or not isinstance(metadata, dict):
        return False
    namespace = (metadata.get("namespace") or "default") if key.namespace else ""
    return (namespace, metadata.get("name")) == (key.namespace, key.name)


def _after(key: Key, before: Document | None, admission: Admission) -> Document | None:
    if key in admission.documents_gone:
        return None
    return next((d for d in admission.documents if d.key == key), before)


def _own_words(item: dict[str, Any]) -> dict[str, Any]:
    """The object without the metadata that only the server may set."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or SERVER_OWNED.isdisjoint(metadata):
        return item
    author_metadata = {name: value for name, value in metadata.items() if name not in SERVER_OWNED}
    return item | {"metadata": author_metadata}
