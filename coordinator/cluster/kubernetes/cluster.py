"""The driver: streams in, state in the middle, binds and evictions out.

::

    API server -- lists, watches --> Reflector (one a kind) --> Mirror --> intake: objects
                                                                  |
         ^                                                        +------> binder: reports
         +---- bindings, evictions <---- Writes <---- binder

What writes is a part of its own (:class:`PodWrites`): in the shadow it writes nowhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from coordinator.cluster.events import ReportedUsage
from coordinator.cluster.kubernetes.api.client import ApiReader
from coordinator.cluster.kubernetes.api.reflector import (
    ObjectSink,
    Reflector,
    ReflectorCounts,
    WatchedKind,
)
from coordinator.cluster.kubernetes.gathering import EventGathering
from coordinator.cluster.kubernetes.state.mirror import POD, Mirror, ObjectDelta, ObjectKey
from coordinator.cluster.kubernetes.state.pods import PodRow, Task
from coordinator.cluster.kubernetes.state.reports import ReportLog
from coordinator.cluster.protocol import (
    BindAnswers,
    BindRequests,
    ClusterTimeout,
    Foreign,
    Listed,
    Phase,
    Reports,
    StopAnswers,
)
from shared.model.storage import Amounts

BACKLOG = 20_000
"""Maximum number of objects that wait for intake; beyond it the streams wait, and the server keeps
the rest. An initial list of 100,000 pods is held in such parts."""
DELTA = 500
"""Objects given to intake at once."""
LISTING = 5000
"""Tasks of one part of a listing."""
TICK_SECONDS = 0.1
LIST_SECONDS = 20.0
"""How long one request of the binder waits for the first lists: about as long as a change of leader
takes with 100,000 pods. It is asked again after that."""

Clock = Callable[[], float]


class PodWrites(Protocol):
    """Writes to pods."""

    async def bind(self, requests: BindRequests, rows: Sequence[PodRow | None]) -> BindAnswers: ...

    async def evict(self, rows: Sequence[PodRow]) -> list[PodRow]:
        """Have these pods end. Returns those for which that is not certain: they are to be asked
        for again. Raises ClusterTimeout."""
        ...

    async def close(self) -> None: ...


class KubernetesCluster:
    """A cluster behind :class:`coordinator.cluster.protocol.ClusterDriver`, and the source of its
    objects."""

    def __init__(
        self,
        reader: ApiReader,
        kinds: Sequence[WatchedKind],
        *,
        mirror: Mirror,
        writes: PodWrites,
        followed: Sequence[tuple[WatchedKind, ObjectSink]] = (),
        clock: Clock = time.time,
    ) -> None:
        """``followed``: kinds that intake does not hear of, and who does."""
        self.mirror = mirror
        self._reader = reader
        self._kinds = {kind.name: kind for kind in kinds}
        self._writes = writes
        self._clock = clock
        self._reflectors = [
            *(Reflector(self._reader, kind, self) for kind in kinds),
            *(Reflector(self._reader, kind, sink) for kind, sink in followed),
        ]
        self._changed = asyncio.Event()
        """There may be something for intake."""
        self._room = asyncio.Event()
        self._room.set()
        self._reported = asyncio.Event()
        self._job_uid: Callable[[int], str | None] = lambda jid: None
        self._listing: list[PodRow] = []
        self._for_intake, self._for_binder = EventGathering(), EventGathering()

    # --- as a process ---------------------------------------------------------------------------

    async def follow_forever(self, job_uid: Callable[[int], str | None]) -> None:
        """Follow every kind. ``job_uid``: the uid that the coordinator has for a job."""
        self._job_uid = job_uid
        async with self._reader, asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run_forever())
            group.create_task(self._tick_forever())

    async def _tick_forever(self) -> None:
        while True:
            self.mirror.tick(self._clock())
            self._signal()
            await asyncio.sleep(TICK_SECONDS)

    def streams(self) -> dict[str, ReflectorCounts]:
        return {reflector.kind.name: reflector.counts for reflector in self._reflectors}

    # --- what the streams say -------------------------------------------------------------------

    def absent(self, kind: WatchedKind) -> None:
        self.mirror.absent(kind.name)
        self._signal()

    async def listed(self, kind: WatchedKind, items: list[msgspec.Raw], *, first: bool) -> None:
        if first:
            self._kinds[kind.name] = kind  # in the version that the server has
            self.mirror.begin_list(kind.name)
        await self._take(kind, [(False, item) for item in items])

    async def list_ended(self, kind: WatchedKind) -> None:
        self.mirror.end_list(kind.name)
        self._signal()

    async def changed(self, kind: WatchedKind, item: list[tuple[bool, msgspec.Raw]]) -> None:
        await self._take(kind, item)

    async def _take(self, kind: WatchedKind, events: list[tuple[bool, msgspec.Raw]]) -> None:
        mirror = self.mirror
        for at in range(0, len(events), DELTA):
            for deleted, raw in events[at : at + DELTA]:
                if deleted:
                    mirror.remove(kind.name, raw)
                else:
                    mirror.take(kind.name, raw)
            self._signal()
            # For the loop: nobody else runs while a large page is read.
            await asyncio.sleep(0)
            # Pods alone are held back: they wait for the first lists of all other kinds.
            if kind.name == POD:
                await self._room.wait()

    def _signal(self) -> None:
        if self.mirror.waiting:
            self._changed.set()
        if self.mirror.waiting > BACKLOG:
            self._room.clear()
        if len(self.mirror.reports):
            self._reported.set()

    # --- what intake takes ----------------------------------------------------------------------

    async def changes(self) -> ObjectDelta:
        """The next objects and removals; waits for one."""
        while True:
            if self.mirror.waiting:
                await self._for_intake.pause(self.mirror.waiting)
            delta = self.mirror.take_delta(DELTA)
            if self.mirror.waiting <= BACKLOG:
                self._room.set()
            if delta:
                self._complete(delta)
                return delta
            self._changed.clear()
            await self._changed.wait()

    def _complete(self, delta: ObjectDelta) -> None:
        """Set what the items of a list leave out."""
        for key, item in zip(delta.keys, delta.items, strict=True):
            kind = self._kinds[key.kind]
            item["apiVersion"], item["kind"] = kind.api_version, kind.written

    def expect(self, known: list[tuple[ObjectKey, str]]) -> None:
        self.mirror.expect(known)

    def admitted(self, pods: list[tuple[tuple[str, str], str, Task | None]]) -> None:
        """Intake has these pods, of these uids, as these tasks; None: as no task."""
        for key, uid, task in pods:
            self.mirror.admitted(key, uid, task)
        self._signal()

    def put_back(self, delta: ObjectDelta, positions: Sequence[int]) -> None:
        self.mirror.put_back(delta, positions)

    def devices_unread(self, jid: int, tix: int, error: Exception) -> None:
        """The devices of a task's pod cannot be read: it counts without."""
        if (row := self.mirror.pods.of_task((jid, tix))) is not None and not row.gone:
            self.mirror.report_unread(ObjectKey(POD, *row.key), row.uid, error)
            self._signal()

    def quarantined(self, key: ObjectKey, item: dict[str, Any], error: Exception) -> None:
        """An object on which intake failed."""
        self.mirror.quarantined(key, item, error)
        self._signal()

    def refused(self, item: dict[str, Any], why: str) -> None:
        """A pod that intake does not understand."""
        self.mirror.refused(item, why)

    def resized(self, item: dict[str, Any], booked: Amounts | None) -> None:
        """A pod that intake has with other amounts than it has now; see :meth:`Mirror.resized`."""
        self.mirror.resized(item, booked)

    def foreign_changed(self) -> bool:
        """Whether what pods that are not ours use has changed since :meth:`foreign`."""
        return self.mirror.accounts_for_all and self.mirror.foreign.changed

    def nodes_came(self, names: Iterable[str]) -> None:
        """Nodes were admitted: what pods of others use there could not be counted before."""
        self.mirror.foreign.nodes_came(names)

    # --- what the binder asks -------------------------------------------------------------------

    async def _all_known(self) -> None:
        """Wait while a task may be on a node without our knowing: after a change of leader, until
        everything was listed. It would be taken for lost, and its room for free. Raises
        ClusterTimeout where that takes long."""
        await self._until(lambda: self.mirror.accounts_for_all)

    async def _until(self, known: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(LIST_SECONDS):
                while not known():  # noqa: ASYNC110 - intake has a part in it
                    await asyncio.sleep(TICK_SECONDS)
        except TimeoutError:
            raise ClusterTimeout("not every pod was listed yet") from None

    async def bind(self, requests: BindRequests) -> BindAnswers:
        await self._all_known()
        rows = self.mirror.pods.rows([read_task(name) for name in requests.tasks])
        answers = await self._writes.bind(requests, rows)
        self._signal()
        return answers

    async def delete(self, tasks: list[str], uids: list[str] | None = None) -> StopAnswers:
        # Not for pods that are new to intake: one of them may have the name of a deleted one, and
        # is admitted once this call has ended that one's task (decision 0089).
        await self._until(lambda: self.mirror.accounts_for_books)
        rows = self.mirror.pods.rows([read_task(name) for name in tasks])
        live = [row for row in rows if row is not None and not row.gone]
        pending: list[PodRow] = []
        if live:
            pending = await self._writes.evict(live)
            self._signal()
        # Beside those that a budget keeps, for as long as it does: a deleted job whose bind was
        # under way when its leader died has nobody else to end it.
        never = without_end(tasks, rows, self.mirror.reports)
        return StopAnswers(never, [row.task for row in pending])

    async def reports(self, *, after: int, wait: float) -> Reports:
        reports = self.mirror.reports.after(after)
        if not reports.tasks:
            self._reported.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._reported.wait()
            except TimeoutError:
                return reports
        await self._for_binder.pause(len(self.mirror.reports))
        return self.mirror.reports.after(after)

    async def listing(self, token: str) -> Listed:
        await self._all_known()
        if not token:
            self._listing = self.mirror.pods.tasks()  # one state for all parts
        start = int(token or 0)
        part = self._listing[start : start + LISTING]
        more = start + LISTING < len(self._listing)
        return self._listed(
            [row for row in part if (row.node or row.decided) and not row.ended],
            str(start + LISTING) if more else "",
        )

    async def look(self, tasks: list[str]) -> Listed:
        await self._all_known()
        names = [read_task(name) for name in tasks]
        rows = self.mirror.pods.rows(names)
        listed = self._listed([row for row in rows if row is not None])
        unknown = [name for name, row in zip(tasks, rows, strict=True) if row is None]
        return Listed(
            [*listed.tasks, *unknown],
            [*listed.uids, *[""] * len(unknown)],
            [*listed.nodes, *[""] * len(unknown)],
            [*listed.phases, *[Phase.UNKNOWN] * len(unknown)],
        )

    def _listed(self, rows: Sequence[PodRow], token: str = "") -> Listed:
        return Listed(
            tasks=[row.task for row in rows],
            uids=[self._job_uid(row.jid) or "" for row in rows],
            nodes=[row.reported_node or row.node for row in rows],
            phases=[phase_of(row) for row in rows],
            token=token,
        )

    async def foreign(self) -> Foreign:
        await self._all_known()
        self.mirror.foreign.changed = False
        return self.mirror.foreign.sums()

    async def history_position(self) -> str:
        return ""

    async def acknowledged(self, jobs: list[tuple[int, int]]) -> None:
        """There is no history: the API server has what users were told."""

    async def measured(self, measured: ReportedUsage) -> None:
        """There is no history."""

    async def close(self) -> None:
        await self._writes.close()


def phase_of(row: PodRow) -> Phase:
    """The phase of a task as a listing has it."""
    if row.phase in (Phase.SUCCEEDED, Phase.FAILED):
        return row.phase
    if row.gone:
        return Phase.FAILED
    return Phase.RELEASING if row.leaving else row.phase


def without_end(
    names: Sequence[str], rows: Sequence[PodRow | None], reports: ReportLog
) -> list[str]:
    """Tasks that are gone and of whose end no report is to come. One that is still to be read may
    say that the pod succeeded."""
    unread = reports.unread_ends()
    return [
        name
        for name, row in zip(names, rows, strict=True)
        if row is None or (row.gone and (row.task, row.incarnation) not in unread)
    ]


def read_task(name: str) -> Task:
    jid, _, tix = name.partition(".")
    return int(jid), int(tix)
