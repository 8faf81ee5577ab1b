"""The read model: all objects as clients see them, and their changes by version.

Documents are published here once they are durable. The scheduler's changes of jobs arrive as
:class:`~coordinator.core.observer.Observer` calls, which only note the job and keep references to
lists of tasks. Everything else is computed when a client reads.

One sequence of versions covers all kinds. Every coordinator starts a new, higher one: so no client
can have seen a version of this coordinator that it does not know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.intake.admission.registry import Registry, unpack_task
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.index import MARK, KindIndex, Record
from coordinator.intake.documents.kinds import EVENT, NAMESPACE, POD, POD_GROUP, SHARD, Kind
from coordinator.jobs.state import JobState
from coordinator.objects import events
from coordinator.objects.changes import ChangeReader, ObjectChange, Ring
from coordinator.objects.cluster import namespace as namespace_object
from coordinator.objects.cluster import shard as shard_object
from coordinator.objects.columns import table
from coordinator.objects.context import QueueCounts, ReadModel, count_queues, group_name, shard_name
from coordinator.objects.entries import (
    DocumentEntry,
    JobGroupEntry,
    JobPodEntry,
    ObjectEntry,
    ObjectPage,
    PodEntry,
    RenderedEntry,
)
from coordinator.objects.namespaces import NamespaceIndex
from coordinator.objects.pods import task_of
from coordinator.objects.recorder import Observing
from coordinator.objects.watchers import Watchers
from shared.slices import Steps

Json = dict[str, Any]

EPOCH_BITS = 40
"""Bits for the versions of one coordinator: about a trillion."""
FEW_JOBS = 5000
JOBS_A_SECOND = 20_000
"""Maximum number of jobs visited per second to count the jobs of queues (0.5 us each)."""
PAGE_BYTES = 50_000
"""Stored JSON of the objects on one page: parsing it takes 0.5 ms, or 3 ms where fresh memory is
slow. The page ends with the object that reaches this size; the largest accepted object is six times
as large."""


class Objects(Observing):
    """The read model. ``registry``: intake's current objects. ``epoch``: number of this
    coordinator, increasing. ``clock``: seconds since 1970, for ages."""

    def __init__(
        self,
        core: Coordinator,
        registry: Callable[[], Registry],
        *,
        epoch: int,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._watchers = Watchers()
        super().__init__(
            core,
            first=epoch << EPOCH_BITS,
            registry=registry,
            notify=self._watchers.notify,
        )
        self._clock = clock or (lambda: core.order.now)
        self._started = self._clock()
        self._indexes: defaultdict[str, KindIndex] = defaultdict(KindIndex)
        self._ring = Ring(self.version)
        self._namespaces = NamespaceIndex(self._indexes[NAMESPACE.kind].records)
        self._counted: tuple[float, QueueCounts] = (0.0, {})

    # --- what was written -------------------------------------------------------------------------

    def restore(self, documents: Iterable[Document]) -> None:
        """Load what earlier coordinators published; all objects get the first version."""
        for document in documents:
            self._put(document, self.version)
            self._list(document.jid)
            self._last_restored = max(self._last_restored, document.jid)

    def publish(
        self, documents: Iterable[Document], deleted: Iterable[Key], *, purged: Iterable[int] = ()
    ) -> None:
        """Publish documents that are now durable, and deletions. ``purged``: jobs of which nothing
        remains.

        Call it before the core learns of the change: the core may drop the last state of deleted
        objects.
        """
        for key in deleted:
            self._take(key)
        for jid in purged:
            self.stories.forget(jid)
        for document in documents:
            self.version += 1
            before = self._put(document, self.version)
            event = "ADDED" if not (before or self._implied(document.key)) else "MODIFIED"
            self._ring.add(self.version, event, document.key)
            if document.state is not None:
                self._job_published(None if before is None else before.document, document)
            if document.jid >= 0:
                self._came(document.jid)
            elif document.key.kind == "Queue":
                self._queue_published(before.document if before is not None else None, document)
            self._queues.published(self.version, document, before)
        self._watchers.notify()

    def sweep(self) -> None:
        """Look at some pending jobs, and drop some deletions of long ago. Call it every second or
        so."""
        self.report_waiting()
        self._ring.sweep(self.version, self._clock())

    def _put(self, document: Document, version: int) -> Record | None:
        key = document.key
        path, task = key.path, -1
        index = self._indexes[key.kind]
        before = index.records.get(path)
        if key.kind == "Pod":
            task = self._registry().pods.get(path, -1 if before is None else before.task)
        index.put(path, Record(document, version, task))
        if before is None:
            self._enter(key.namespace, version)
            if key.kind == "Job":
                self._stand(document)
        elif key.kind == "Job":
            self._replace_behind(before, document)
        return before

    def _stand(self, document: Document) -> None:
        for kind, count in self._behind(document):
            self._indexes[kind].mark(document.key.path, document.key.namespace, count)

    def _replace_behind(self, record: Record, document: Document) -> None:
        """Republish the derived objects if the Job is another incarnation or its number of tasks
        changed."""
        key, before = document.key, record.document
        state = self.core.order.known(before.jid)
        if before.jid == document.jid and (state is None or self._tasks(before) == state.job.tasks):
            return
        for kind, count in self._stood(before):
            self._indexes[kind].unmark(key.path, key.namespace, count)
        # Another incarnation: its pods have other uids, so the old ones are deleted and the new
        # ones added, even under the same names (decision 0018).
        if before.jid != document.jid:
            # The PodGroup stays the same one, unless the Job has ended: then nothing is derived.
            kinds = (POD.kind,) if document.jid >= 0 else (POD.kind, POD_GROUP.kind)
            self._ring.add(self.version, "DELETED", key, record=record, state=state, behind=kinds)
            self.version += 1
        self._stand(document)
        self._ring.add(self.version, "ADDED", key, behind=(POD.kind,))

    def _take(self, key: Key) -> None:
        path = key.path
        record = self._indexes[key.kind].take(path)
        if record is None:
            return
        document = record.document
        if key.kind == "Job":
            self._job_gone(document)
            for kind, count in self._stood(document):
                self._indexes[kind].unmark(path, key.namespace, count)
        self.version += 1
        state = self.core.order.known(document.jid)
        self._ring.add(self.version, "DELETED", key, record=record, state=state)
        self._queues.published(self.version, document)
        self._leave(key.namespace)
        if self._implied(key):
            self.version += 1
            self._ring.add(self.version, "ADDED", key)

    def _enter(self, namespace: str, version: int) -> None:
        """Count an object of the namespace. The first one creates the namespace."""
        if self._namespaces.enter(namespace):
            self._ring.add(version, "ADDED", Key(NAMESPACE.kind, "", namespace))

    def _leave(self, namespace: str) -> None:
        if self._namespaces.leave(namespace):
            self._ring.add(self.version, "DELETED", Key(NAMESPACE.kind, "", namespace))

    def _implied(self, key: Key) -> bool:
        """Whether it is a namespace that exists without being created."""
        return key.kind == NAMESPACE.kind and self._namespaces.implied(key.name)

    def _behind(self, document: Document) -> Iterator[tuple[str, int]]:
        """(kind, number) of the objects now derived from a Job."""
        if document.jid >= 0:
            yield POD.kind, self._tasks(document)
            yield POD_GROUP.kind, 1

    def _stood(self, document: Document) -> Iterator[tuple[str, int]]:
        """The same before the current publication, from the core, which does not know of it yet."""
        if document.jid >= 0:
            state = self.core.order.known(document.jid)
            yield POD.kind, self._tasks(document) if state is None else state.job.tasks
            yield POD_GROUP.kind, 1

    def _tasks(self, document: Document) -> int:
        registry, jid = self._registry(), document.jid
        job = registry.jobs.get(jid) or registry.leaving.get(jid)
        if job is None:
            state = self.core.order.known(jid)
            return 0 if state is None else state.job.tasks
        return job.tasks

    # --- one object -------------------------------------------------------------------------------

    def document(self, key: Key) -> Document | None:
        """The published document, with its version."""
        record = self._indexes[key.kind].records.get(key.path)
        return None if record is None else record.document.at(record.version)

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """The complete object; None if there is none."""
        entry = self.entry(kind, namespace, name)
        return None if entry is None else entry.object()

    def version_of(self, kind: Kind, namespace: str, name: str) -> str | None:
        """The resourceVersion that :meth:`get` shows; None if there is no object."""
        entry = self.entry(kind, namespace, name)
        return None if entry is None else entry.version

    def entry(self, kind: Kind, namespace: str, name: str) -> ObjectEntry | None:
        """The object before rendering; None if there is none."""
        read_model = self.read_model()
        key = Key(kind.kind, namespace if kind.namespaced else "", name)
        record = self._indexes[kind.kind].records.get(key.path)
        if record is not None:
            return self._written(read_model, record)
        match kind.kind:
            case "Pod":
                return self._job_pod(read_model, namespace, name)
            case "PodGroup":
                return self._job_group(read_model, namespace, name)
            case "Event":
                return events.find(read_model, self.stories, self.cluster_events, namespace, name)
            case "Namespace" | "Shard":
                return next((e for e in self._made(read_model, kind) if e.key.name == name), None)
            case _:
                return None

    def node_of(self, namespace: str, name: str) -> str:
        """The node that a pod is on; "" for none."""
        entry = self.entry(POD, namespace, name)
        return "" if entry is None else entry.field("spec.nodeName")

    def events_of_pod(self, namespace: str, name: str) -> Sequence[ObjectEntry] | None:
        """Events about a member of a gang; None where the pod is none."""
        pod = self.entry(POD, namespace, name)
        if pod is None or pod.task is None:
            return None
        return events.of_member(self.read_model(), self.stories, pod.key, pod.task)

    def read_model(self) -> ReadModel:
        return ReadModel(
            self.core,
            self._registry(),
            self._indexes,
            self.stories.jobs,
            queues=self._queue_counts,
        )

    def _queue_counts(self) -> QueueCounts:
        """Job counts of queues. With many jobs a recent count is reused."""
        at, _ = self._counted
        now = self._clock()
        jobs = len(self.core.order.jobs)
        if jobs < FEW_JOBS or not at <= now < at + jobs / JOBS_A_SECOND:
            self._counted = now, count_queues(self.core)
        return self._counted[1]

    def _written(self, read_model: ReadModel, record: Record) -> ObjectEntry:
        document = record.document
        key = document.key
        version = record.version
        if document.jid >= 0:
            # Two sources: the document's last publication, and the last move of the job's tasks,
            # for which no object is written (decision 0016).
            version = max(version, read_model.moved(document.jid))
        if key.kind == "Pod" and record.task >= 0:
            task = task_of(read_model, *unpack_task(record.task))
            return PodEntry(read_model, record, version, task)
        if key.kind == self._registry().queue_kind:
            version = max(version, self.queue_version(key.kind, key.name))
        elif key.kind == "Node":
            version = max(version, self.node_version(key.name))
        return DocumentEntry(read_model, record, version)

    def _job_pod(self, read_model: ReadModel, namespace: str, name: str) -> ObjectEntry | None:
        """A pod without a document, found by the Job whose name its own begins with."""
        stem = name.rpartition("-")[0]
        # Every dash may be the one behind the Job's name, as names of Jobs and roles have dashes,
        # too.
        cut = stem.find("-")
        while cut > 0:
            record = read_model.record("Job", f"{namespace}/{stem[:cut]}")
            state = None if record is None else read_model.state(record.document.jid)
            if record is not None and state is not None:
                tix = events.task_named(read_model, state, name)
                if tix >= 0:
                    return self._pod_of(read_model, record, tix)
            cut = stem.find("-", cut + 1)
        return None

    def _pod_of(self, read_model: ReadModel, job: Record, tix: int) -> ObjectEntry:
        return JobPodEntry(read_model, job.document, tix, self._version_of(read_model, job))

    def _job_group(self, read_model: ReadModel, namespace: str, name: str) -> ObjectEntry | None:
        record = read_model.record("Job", f"{namespace}/{name[:-37]}")
        if record is None or group_name(record.document) != name:
            return None
        return JobGroupEntry(read_model, record.document, self._version_of(read_model, record))

    @staticmethod
    def _version_of(read_model: ReadModel, record: Record) -> int:
        return max(record.version, read_model.moved(record.document.jid))

    # --- lists ------------------------------------------------------------------------------------

    def list(
        self, kind: Kind, *, namespace: str | None, after: str = "", limit: int | None
    ) -> ObjectPage:
        """Objects in the order of their paths, with a Job's pods by index at the Job's position.

        ``after``: ``next`` of the previous page. ``namespace`` None: all namespaces. A page may
        have fewer objects than ``limit``, because it ends at about PAGE_BYTES of stored JSON.
        """
        skipped_text, _, start = after.partition("|")
        skipped = int(skipped_text) if skipped_text else 0
        walk = self._walk(kind, namespace, start)
        # To its end before anything is rendered: the walk must not meet what changes meanwhile.
        if limit is None:
            return ObjectPage((entry for _, entry in [*walk]), "", 0)
        entries: list[tuple[str, ObjectEntry]] = []
        size = 0
        for place in islice(walk, limit):
            entries.append(place)
            size += place[1].size
            if size >= PAGE_BYTES:
                break
        # A look at one more: a page that ends with the last object must not promise another.
        if not entries or next(walk, None) is None:
            return ObjectPage((entry for _, entry in entries), "", 0)
        skipped += len(entries)
        # Objects that went meanwhile may make the difference 0 although there are more; Kubernetes
        # allows an estimate here.
        remaining = max(1, self._total(kind, namespace) - skipped)
        return ObjectPage((entry for _, entry in entries), f"{skipped}|{entries[-1][0]}", remaining)

    def _total(self, kind: Kind, namespace: str | None) -> int:
        if kind is EVENT:
            return self.stories.happenings + len(self.cluster_events)
        return self._indexes[kind.kind].total(namespace)

    def _walk(
        self, kind: Kind, namespace: str | None, start: str
    ) -> Iterator[tuple[str, ObjectEntry]]:
        """Each object from ``start`` on, with the start of what follows it."""
        read_model = self.read_model()
        if kind is EVENT:
            spot = events.EventPosition.parse(start) if start else events.FIRST
            event_entries = events.walk(
                read_model, self.stories, self.cluster_events, namespace, spot
            )
            yield from ((str(following), entry) for following, entry in event_entries)
            return
        if kind in (NAMESPACE, SHARD):
            computed = (e for e in self._made(read_model, kind) if e.key.name >= start)
            yield from ((f"{entry.key.name}\0", entry) for entry in computed)
            return
        yield from self._walk_index(read_model, kind, namespace, start)

    def _walk_index(
        self, read_model: ReadModel, kind: Kind, namespace: str | None, start: str
    ) -> Iterator[tuple[str, ObjectEntry]]:
        index = self._indexes[kind.kind]
        first, _, offset = start.partition("#")
        end = None
        if namespace is not None and kind.namespaced:
            first, end = first or f"{namespace}/", f"{namespace}0"  # what follows the slash
        for path in index.paths.between(first, end):
            if path.endswith(MARK):
                begin = int(offset) if offset and path == first else 0
                yield from self._behind_mark(read_model, kind, path, begin)
            else:
                yield f"{path}\0", self._written(read_model, index.records[path])

    def _behind_mark(
        self, read_model: ReadModel, kind: Kind, path: str, begin: int
    ) -> Iterator[tuple[str, ObjectEntry]]:
        """The objects derived from a Job, from task ``begin`` on."""
        job = self._indexes["Job"].records[path.removesuffix(MARK)]
        state = read_model.state(job.document.jid)
        if state is None:
            return
        if kind is POD_GROUP:
            version = self._version_of(read_model, job)
            yield f"{path}\0", JobGroupEntry(read_model, job.document, version)
            return
        for role in state.job.roles:
            for tix in range(max(role.first, begin), role.first + role.count):
                yield f"{path}#{tix + 1}", self._pod_of(read_model, job, tix)

    def _made(self, read_model: ReadModel, kind: Kind) -> Iterator[ObjectEntry]:
        if kind is NAMESPACE:
            records, first = self._indexes[kind.kind].records, self._ring.first
            for name in self._namespaces.names():
                namespace = namespace_object(name, first, started=self._started)
                entry = RenderedEntry(Key(kind.kind, "", name), namespace)
                yield self._written(read_model, records[name]) if name in records else entry
            return
        shards = self.core.dispatcher.shards.values()
        for state in sorted(shards, key=lambda s: shard_name(s.shard)):
            version = self.shard_version(state.shard)
            value = shard_object(read_model, state, version, started=self._started)
            yield RenderedEntry(Key(kind.kind, "", shard_name(state.shard)), value)

    def table(self, kind: Kind, objects: Sequence[Any], *, now: float | None = None) -> Json:
        """A Table's ``columnDefinitions`` and ``rows`` of these objects or entries. ``now``: for
        ages."""
        shown = [o if isinstance(o, dict) else o.object() for o in objects]
        return table(kind.kind, shown, self._clock() if now is None else now)

    # --- changes ----------------------------------------------------------------------------------

    @property
    def floor(self) -> int:
        """Changes up to this version are no longer known."""
        return self._ring.floor

    def changes(self, since: int, kind: Kind) -> Steps[Sequence[ObjectChange]]:
        """The changes up to now, by version, one per object. Raises Expired if not known."""
        reader = ChangeReader(self.read_model(), self._ring, self.stories, self._last)
        return reader.read(
            since, self.version, kind, self.cluster_events, self.moved_cluster(kind, since)
        )

    def _last(self, record: Record, state: JobState | None, kind: str, tix: int) -> Json:
        """The last form of a deleted object. ``record``: its own, or that of its Job."""
        deleted_jobs = {} if state is None else {record.document.jid: state}
        read_model = ReadModel(
            self.core, self._registry(), self._indexes, self.stories.jobs, deleted_jobs=deleted_jobs
        )
        own_kind = record.document.key.kind
        if own_kind == kind:
            return self._written(read_model, record).object()
        if kind == "PodGroup":
            return JobGroupEntry(read_model, record.document, record.version).object()
        return JobPodEntry(read_model, record.document, tix, record.version).object()

    async def wait(self, since: int) -> None:
        """Wait until there is a version after ``since``."""
        while self.version <= since:
            await self._watchers.wait()
