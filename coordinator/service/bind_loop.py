"""The two loops between ledger and cluster: binds go out, reports come in.

Both only move data between adapters and the pure functions of :mod:`coordinator.bind.binder`; the
durable state is in the ledger (unacknowledged binds) and in the cluster (reports).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import structlog

from coordinator.bind.binder import (
    BindPlan,
    BindResult,
    part_of,
    plan_binds,
    read_names,
    still_wanted,
)
from coordinator.bind.status_writer import Recorder
from coordinator.bind.volume_gate import VOLUME_SECONDS
from coordinator.cluster.protocol import BindAnswer, BindsAndReports, ClusterTimeout
from coordinator.controllers.prebind import PreBind
from coordinator.controllers.volume_controller import VolumeController
from coordinator.core.coordinator import Coordinator
from coordinator.ledger_refusals import StoreRefused
from coordinator.service.metrics.probes import Probes
from shared.ledger.entries.stored import BindEntry, JobRecord, TaskRecord
from shared.ledger.retry import insist

CONSUMER = "coordinator"
"""One consumer name for every coordinator, so that a new leader inherits a dead one's
unacknowledged entries."""

ENTRIES = 64
"""Entries of the bind stream in one call to the cluster."""

CALLS = 4
"""Limit on concurrent calls to the cluster."""

ASK_AGAIN_SECONDS = 0.2
"""Pause before a retry where the cluster did not answer."""

EVICT_AGAIN_SECONDS = 1.0
"""Pause before victims are asked for again that the cluster does not let go, as a budget changes by
itself."""

VOLUME_LOOK_SECONDS = 0.1
"""Pause between two looks at binds that wait for volumes."""

DELETE_TASKS = 1000
"""Tasks per delete call."""

LOOK_BACK_SECONDS = 5.0
"""Interval of searches for entries that were delivered in our name and that nobody processes: the
answer to a read was lost, or a deposed coordinator read them. Without it their tasks would wait for
ever."""

log = structlog.get_logger(__name__)


class HasBindStream(Protocol):
    """The ledger's methods that the bind loop uses."""

    async def read_binds(
        self, consumer: str, *, count: int = 64, block: float | None = None, own: bool = False
    ) -> list[BindEntry]: ...

    async def ack_binds(self, ids: list[str]) -> None: ...

    async def read_tasks(
        self, jids: list[int]
    ) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]: ...


class StopRequest(NamedTuple):
    """Tasks (jid, tix) to stop, and the uids of their incarnations."""

    tasks: list[tuple[int, int]]
    uids: list[str]

    def select(self, wanted: Callable[[tuple[int, int]], bool]) -> StopRequest:
        """The part of it about these tasks."""
        pairs = [pair for pair in zip(self.tasks, self.uids, strict=True) if wanted(pair[0])]
        return StopRequest([task for task, _ in pairs], [uid for _, uid in pairs])


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Rest of entries after the calls to the cluster. It is not counted with the calls under way,
    where it would hold up tasks that wait for nothing."""

    volumes: BindPlan
    """Binds that wait for volumes."""
    asked: list[BindPlan]
    """Binds that another binder was asked for and has not answered."""
    victims: StopRequest
    """Tasks that the cluster does not let go yet."""

    def __bool__(self) -> bool:
        return bool(self.volumes.jids or self.asked or self.victims.tasks)


class Binding:
    def __init__(
        self,
        ledger: HasBindStream,
        cluster: BindsAndReports,
        recorder: Recorder,
        *,
        group: asyncio.TaskGroup,
        core: Coordinator,
        surely: Callable[[], Awaitable[None]],
        prebind: PreBind | None,
        probes: Probes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Entries are processed as tasks of ``group``. ``surely`` waits until this coordinator is
        certain to lead. ``prebind``: who gives claims their volumes and devices; None: binds go out
        without, as in a shadow. ``clock`` is the core's; intervals go by the event loop's."""
        self._prebind = prebind
        self._volumes = VolumeController(core)
        self._group = group
        self._surely = surely
        self._ledger = ledger
        self._cluster = cluster
        self._recorder = recorder
        self._core = core
        self._probes = probes or Probes()
        self._clock = clock
        self._slots = asyncio.Semaphore(CALLS)
        self._under_way: set[str] = set()

    async def bind_forever(self) -> None:
        """Process the bind stream, first the unacknowledged entries."""
        # First what an earlier coordinator read and did not acknowledge, one part after the other:
        # newer entries may be about the same tasks.
        while entries := await self._unattended():
            await self._slots.acquire()
            self._under_way.update(entry.id for entry in entries)
            await self._attend(entries, again=True)
        loop = asyncio.get_running_loop()
        looked = loop.time()
        while True:
            await self._begin(await self._read(own=False), again=False)
            if loop.time() - looked >= LOOK_BACK_SECONDS:
                looked = loop.time()
                await self._begin(await self._unattended(), again=True)

    async def _begin(self, entries: list[BindEntry], *, again: bool) -> None:
        """Process entries concurrently with others. ``again``: they may have been processed
        before."""
        if entries:
            # Before anything is started: while all calls to the cluster are out, the stream keeps
            # what comes, and nothing piles up here.
            await self._slots.acquire()
            self._under_way.update(entry.id for entry in entries)
            self._group.create_task(self._attend(entries, again=again))

    async def _read(self, *, own: bool) -> list[BindEntry]:
        # Those that wait for volumes stay unacknowledged: beyond them there must be room for more.
        unattended = len(self._under_way) + ENTRIES
        block, count = (None, max((CALLS + 1) * ENTRIES, unattended)) if own else (1.0, ENTRIES)
        return await insist(
            lambda: self._ledger.read_binds(CONSUMER, count=count, block=block, own=own),
            call_name="read binds",
        )

    async def _unattended(self) -> list[BindEntry]:
        """Delivered entries that are neither acknowledged nor being processed. Entries acknowledged
        during the read are excluded: their tasks may be placed again by now."""
        # Noted before the read: an entry that is acknowledged while the answer is on its way would
        # look unattended, and its tasks may be placed again by now.
        attended = set(self._under_way)
        entries = [entry for entry in await self._read(own=True) if entry.id not in attended]
        return entries[:ENTRIES]

    async def _attend(self, entries: list[BindEntry], *, again: bool) -> None:
        rest: Unfinished | None = None
        try:
            # Only those again: an entry that is delivered for the first time was never asked of the
            # cluster.
            rest = await self._bind(await self._still_wanted(entries) if again else entries)
            if not rest:
                await self._acknowledge(entries)
        finally:
            if not rest:
                self._under_way.difference_update(entry.id for entry in entries)
            self._slots.release()
        if rest:
            self._group.create_task(self._finish(entries, rest))

    async def _finish(self, entries: list[BindEntry], rest: Unfinished) -> None:
        """Do what waits for others: volumes, another binder, victims that a budget keeps."""
        try:
            async with asyncio.TaskGroup() as group:
                for plan in rest.asked:
                    group.create_task(self._until_answered(plan))
                if rest.volumes.jids and self._prebind is not None:
                    group.create_task(self._after_volumes(rest.volumes, self._prebind, group))
                group.create_task(self._evict_at_last(rest.victims))
            await self._acknowledge(entries)
        finally:
            self._under_way.difference_update(entry.id for entry in entries)

    async def _until_answered(self, plan: BindPlan) -> None:
        """Ask until each bind has an answer: a call about binds that all wait for another binder
        returns with the first answer."""
        while plan.jids:
            result = await self._call(plan, measured=False)
            if result is not None:
                plan = part_of(plan, sorted((*result.again, *result.pending)))

    async def _after_volumes(
        self, waiting: BindPlan, prebind: PreBind, group: asyncio.TaskGroup
    ) -> None:
        """Bind each of these tasks once its claims have volumes."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + VOLUME_SECONDS
        refused: Mapping[str, str] = {}
        while waiting.jids:
            expired = loop.time() >= deadline
            look = self._volumes.look(
                waiting, expired=expired, asked=prebind.asked, refused=refused
            )
            waiting, refused = look.waiting, {}
            if look.items:
                await self._recorder.record(look.items)
            for plan in await self._drive_all(look.ready):
                group.create_task(self._until_answered(plan))
            if look.bindings:
                with contextlib.suppress(StoreRefused):  # logged and counted; tried again
                    refused = await prebind.bind_claims(look.bindings)
            if waiting.jids:
                await asyncio.sleep(VOLUME_LOOK_SECONDS)

    async def _bind(self, entries: list[BindEntry]) -> Unfinished:
        """Returns what waits for others."""
        victims = StopRequest([], [])
        if any(entry.evicts for entry in entries):
            victims = await self._evict(StopRequest(*self._core.evicted(entries)))
        self._core.places.assigned(entries)
        plan = await self._plan(entries)
        waiting = part_of(plan, [])
        if self._prebind is not None:
            plan, waiting = self._volumes.gate.split(plan)
        return Unfinished(waiting, await self._drive_all(plan), victims)

    async def _with_devices(self, plan: BindPlan) -> BindPlan:
        """The binds whose tasks have the devices that they claim; others give their places back."""
        failures = {} if self._prebind is None else await self._prebind.allocate(plan)
        if not failures:
            return plan
        gate = self._volumes.gate
        await self._recorder.record(gate.release(plan, failures, name_of=self._core.names.get))
        return part_of(plan, [i for i in range(len(plan.jids)) if i not in failures])

    async def _drive_all(self, plan: BindPlan) -> list[BindPlan]:
        """Returns the binds that another binder was asked for."""
        plan, unanswered = await self._with_devices(plan), list[BindPlan]()
        # What has no answer is asked again until it has one; the entry stays open as long, so that
        # a crash here repeats the call.
        while plan.jids:
            result = await self._call(plan)
            if result is None:
                continue
            if result.pending:
                unanswered.append(part_of(plan, result.pending))
            plan = part_of(plan, result.again)
        return unanswered

    async def _evict(self, victims: StopRequest) -> StopRequest:
        """Have the cluster stop evicted incarnations; repeats until it answers. Later incarnations
        are not affected. One that has ended already is reported anyhow. Returns those to ask for
        again."""
        remaining = StopRequest([], [])
        at = 0
        while at < len(victims.tasks):
            end = at + DELETE_TASKS
            part = StopRequest(victims.tasks[at:end], victims.uids[at:end])
            pending = await self._stop(part)
            if pending is None:
                await asyncio.sleep(ASK_AGAIN_SECONDS)
                continue
            remaining.tasks.extend(pending.tasks)
            remaining.uids.extend(pending.uids)
            at = end
        return remaining

    async def _evict_at_last(self, victims: StopRequest) -> None:
        while victims.tasks:
            await asyncio.sleep(EVICT_AGAIN_SECONDS)
            victims = await self._evict(victims)

    async def _acknowledge(self, entries: list[BindEntry]) -> None:
        """Acknowledge after the answers are recorded, never before, and only while certain to lead:
        an entry without work for our books may be of a job that they do not know yet."""
        await self._surely()
        await insist(lambda: self._ledger.ack_binds([e.id for e in entries]), call_name="ack binds")

    async def _still_wanted(self, entries: list[BindEntry]) -> list[BindEntry]:
        """Drop binds that a dead coordinator had recorded but not acknowledged: such a task may
        have been placed elsewhere since."""
        jids = sorted({jid for entry in entries for jid, *_ in entry.binds})
        truth = await insist(lambda: self._ledger.read_tasks(jids), call_name="read tasks")
        return still_wanted(entries, {jid: tasks for jid, (_, tasks) in truth.items()})

    async def _plan(self, entries: list[BindEntry]) -> BindPlan:
        while True:
            plan = plan_binds(entries, jobs=self._core.job, node=self._core.names.get)
            if plan is not None:
                return plan
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _call(self, plan: BindPlan, *, measured: bool = True) -> BindResult | None:
        """Make one call to the cluster, and record its answers; None where it gave none.
        ``measured``: whether how long it took says something of the cluster."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            answers = await self._cluster.bind(plan.requests)
        except ClusterTimeout as error:
            unknown = [BindAnswer.UNKNOWN] * len(plan.jids)
            self._probes.bound(unknown, loop.time() - started)
            log.warning("Cluster did not answer a bind", tasks=len(plan.jids), error=str(error))
            await asyncio.sleep(ASK_AGAIN_SECONDS)
            return None
        self._probes.bound(answers.answers, loop.time() - started if measured else None)
        result = self._core.bind_answered(plan, answers, self._clock())
        for i in result.elsewhere:
            log.error(
                "Task is bound on another node than the ledger says; the ledger follows",
                task=plan.requests.tasks[i],
                ours=plan.requests.nodes[i],
                theirs=answers.where[i],
            )
        if result.items:
            await self._recorder.record(result.items)
        if result.again:
            await asyncio.sleep(ASK_AGAIN_SECONDS)
        return result

    async def free_forever(self) -> None:
        """Take devices back from tasks that have no place any more."""
        if self._prebind is not None:
            await self._prebind.free_forever()

    def withdraw(self, tasks: Iterable[tuple[int, int]]) -> None:
        """Have tasks (jid, tix) that wait for volumes give their places back."""
        self._volumes.withdraw(tasks)

    async def stop(self, tasks: list[tuple[int, int]], uids: list[str]) -> None:
        """Have the cluster end these incarnations of tasks (jid, tix). Those that it never had will
        not report; they are recorded as failed. Where the cluster does not answer, or does not let
        some go, the coordinator repeats the instruction."""
        for at in range(0, len(tasks), DELETE_TASKS):
            end = at + DELETE_TASKS
            if await self._stop(StopRequest(tasks[at:end], uids[at:end])) is None:
                return

    async def _stop(self, request: StopRequest) -> StopRequest | None:
        """One call. Returns the tasks to ask for again; None where there was no answer."""
        names = [f"{jid}.{tix}" for jid, tix in request.tasks]
        try:
            answers = await self._cluster.delete(names, request.uids)
        except ClusterTimeout as error:
            log.warning("Cluster did not answer", what="delete", error=str(error))
            return None
        pending = {*read_names(answers.pending)}
        stopped = request.select(lambda task: task not in pending)
        items = self._core.stopped(*stopped, read_names(answers.never))
        if items:
            await self._recorder.record(items)
        return request.select(lambda task: task in pending)

    async def report_forever(self) -> None:
        """Record the cluster's reports; reading the next ones acknowledges the previous."""
        after = 0
        while True:
            try:
                reports = await self._cluster.reports(after=after, wait=1.0)
            except ClusterTimeout as error:
                log.warning("Cluster did not answer", error=str(error))
                await asyncio.sleep(ASK_AGAIN_SECONDS)
                continue
            items = self._core.victims.read(reports, self._core.rows)
            if items:
                await self._recorder.record(items)
            # Only now: the next call acknowledges these, and they are recorded. A crash before it
            # brings them again, as what is known already.
            after = max(after, reports.last)
