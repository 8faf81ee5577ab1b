"""The changes since a version, computed on request.

Two records are kept: a ring of publications (with the last form of deleted objects), and for each
job the versions at which its tasks changed (:mod:`coordinator.objects.timeline`). The second grows
only with the number of jobs, so that a watcher may fall far behind as long as few objects are
created and deleted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.group_trees import group_keys
from coordinator.intake.documents.index import Record
from coordinator.intake.documents.kinds import JOB, POD, POD_GROUPS, Kind
from coordinator.jobs.state import JobState
from coordinator.objects import events
from coordinator.objects.context import ReadModel, group_name
from coordinator.objects.timeline import Stories, Story
from coordinator.objects.watchers import WatchExpired
from shared.model.groups import COMPOSITE, NATIVE_KINDS
from shared.model.model import Job
from shared.slices import Steps

Json = dict[str, Any]
_OF_JOBS = frozenset(kind.kind for kind in (POD, JOB, *POD_GROUPS))
"""Kinds whose objects change with their job."""
T = TypeVar("T")

PUBLISHED = 200_000
"""Maximum number of publications in the ring."""
STRIDE = 200
"""Changes read in one step: 0.3 ms."""
SORTED = 4096
"""Changes sorted in one step: 1 ms."""
GONE_BYTES = 64 << 20
"""Maximum bytes of deleted objects in the ring, with the states of their jobs: some 10,000 jobs of
one task."""
LITTLE_BYTES = 4 << 20
KEPT_SECONDS = 75.0
"""Deleted objects that take more bytes leave the ring after this time: 10,000 jobs held 64 MiB for
ever. A Kubernetes API server aims to keep the events of its watches as long
(``eventFreshDuration``)."""
SWEPT = 500
"""Maximum number of publications dropped by one sweep: 7 ms where each held the state of a job."""
STATE_BYTES, TASK_BYTES = 6 << 10, 64
"""Bytes of a job's specification and state, and of each of its tasks beside that."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """The latest change of one object.

    ``last`` renders the last form of a deleted object; it is called on demand, since a Job may be
    deleted with a million pods. ``version``: where to resume after this change and all before it;
    the object itself may have a newer version.
    """

    version: int
    type: str
    key: Key
    last: Callable[[], Json] | None = None


class Published(NamedTuple):
    version: int
    type: str
    key: Key
    record: Record | None
    """For a deletion: the last record."""
    state: JobState | None
    """For a deletion: the state of the job it belonged to."""
    behind: tuple[str, ...]
    """Concerns only the objects of these kinds that are derived from a Job; (): all, and itself."""
    size: int
    """Bytes that it alone holds."""


def _size_of(record: Record | None, state: JobState | None) -> int:
    body = 0 if record is None else len(record.document.body)
    return body + (0 if state is None else STATE_BYTES + TASK_BYTES * len(state.states))


class Ring:
    """A ring of publications that drops the oldest."""

    def __init__(self, first: int) -> None:
        """``first``: earlier versions are unknown."""
        self.first = first
        self.floor = first
        """Changes up to this version are no longer known."""
        self._items: deque[Published] = deque()
        self._bytes = 0
        self._swept: deque[tuple[float, int]] = deque()
        """(time, version) of the sweeps within :data:`KEPT_SECONDS`: cheaper than a time in each
        publication."""
        self._old = first
        """The version at the last sweep before those."""

    def add(
        self,
        version: int,
        event: str,
        key: Key,
        *,
        record: Record | None = None,
        state: JobState | None = None,
        behind: tuple[str, ...] = (),
    ) -> None:
        shared = bool(self._items) and self._items[-1].state is state
        size = _size_of(record, None if shared else state)
        self._items.append(Published(version, event, key, record, state, behind, size))
        self._bytes += size
        # Two bounds: many small deletions, or a few with large bodies. Beyond them a watcher gets
        # 410 and lists again, as from a Kubernetes API server.
        while len(self._items) > PUBLISHED or self._bytes > GONE_BYTES:
            self._drop_oldest()

    def sweep(self, version: int, now: float) -> None:
        """Drop some of what is older than :data:`KEPT_SECONDS`, if deleted objects take more than
        a little. ``version``: the current one."""
        self._swept.append((now, version))
        while self._swept[0][0] <= now - KEPT_SECONDS:
            _, self._old = self._swept.popleft()
        for _ in range(SWEPT):
            if self._bytes <= LITTLE_BYTES or self._items[0].version > self._old:
                return
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = self._items.popleft()
        self.floor = oldest.version
        self._bytes -= oldest.size

    def since(self, version: int) -> list[Published]:
        """The publications after a version, oldest first. Raises Expired."""
        if version < self.first:
            raise WatchExpired(f"version {version} is of an earlier coordinator")
        if version < self.floor:
            raise WatchExpired(f"version {version} is too old; {self.floor} is the oldest kept")
        # A copy of 200,000 references takes 0.5 ms; to walk back over them took 15.
        every = list(self._items)
        return every[bisect_right(every, version, key=attrgetter("version")) :]


Last = Callable[[Record, JobState | None, str, int], Json]
"""Renders the last form of a deleted object; see
:meth:`coordinator.objects.store.Objects._last`."""


class ChangeReader:
    """Computes the changes of one kind, once."""

    def __init__(self, read_model: ReadModel, ring: Ring, stories: Stories, last: Last) -> None:
        self._read_model = read_model
        self._ring = ring
        self._stories = stories
        self._last = last
        self._found: dict[Key, ObjectChange] = {}
        self._upto = 0
        self._ended: list[ObjectChange] = []
        """Deletions of objects whose name another object has since taken."""

    def read(
        self,
        since: int,
        upto: int,
        kind: Kind,
        cluster_events: Iterable[events.ClusterHappening],
        changed: Iterable[tuple[Key, int]],
    ) -> Steps[list[ObjectChange]]:
        """The changes of one kind since a version, oldest first. What comes after ``upto`` is left
        to the next reading: between two steps others go on, and the reading stays that of one
        moment.

        ``changed``: other objects of this kind that changed, with their versions.
        """
        self._upto = upto
        published = self._ring.since(since)
        yield
        for number, item in enumerate(published):
            if number % STRIDE == 0:
                yield
            for key, last in self._published(item, kind.kind):
                self._note(ObjectChange(item.version, item.type, key, last))
        match kind.kind:
            case of_jobs if of_jobs in _OF_JOBS:
                for number, (jid, story) in enumerate((yield from self._stories_since(since))):
                    if number % STRIDE == 0:
                        yield
                    for key, version in self._moved(jid, story, since, kind.kind):
                        self._touch(key, version)
            case "Event":
                yield from self._events(since, cluster_events)
            case _:
                for key, version in list(changed):
                    self._touch(key, version)
        every = yield from in_order([*self._ended, *self._found.values()], attrgetter("version"))
        for at, (change, following) in enumerate(pairwise([*every, None])):
            if at % STRIDE == 0:
                yield
            if change is not None:
                every[at] = _resumable(change, following)
        return every

    def _stories_since(self, since: int) -> Steps[list[tuple[int, Story]]]:
        """Jobs that changed after a version, latest first, as of now."""
        stories = list(self._stories.jobs.items())
        yield
        changed: list[tuple[int, Story]] = []
        for jid, story in reversed(stories):
            # One that was later moves on: the order is that of before.
            if story.version <= since:
                break
            changed.append((jid, story))
            if len(changed) % STRIDE == 0:
                yield
        return changed

    # --- several changes are one ------------------------------------------------------------------

    def _note(self, change: ObjectChange) -> None:
        if change.version > self._upto:
            return
        earlier = self._found.get(change.key)
        # Another object took the name: a watcher has to see the end of the first one too, or it
        # would take the second for a change of it.
        if earlier is not None and earlier.type == "DELETED":
            self._ended.append(earlier)
        elif earlier is not None and earlier.type == "ADDED" and change.type == "MODIFIED":
            change = ObjectChange(change.version, "ADDED", change.key)
        self._found[change.key] = change

    def _touch(self, key: Key, version: int) -> None:
        """Record a change by the scheduler; deleted objects stay deleted."""
        if version > self._upto:
            return
        earlier = self._found.get(key)
        if earlier is None:
            self._found[key] = ObjectChange(version, "MODIFIED", key)
        elif earlier.type != "DELETED" and version > earlier.version:
            self._found[key] = ObjectChange(version, earlier.type, key)

    # --- which objects ----------------------------------------------------------------------------

    def _published(
        self, item: Published, kind: str
    ) -> Iterator[tuple[Key, Callable[[], Json] | None]]:
        """The objects of this kind that a publication concerns."""
        key, record = item.key, item.record
        if item.behind and kind not in item.behind:
            return
        if key.kind == kind:
            yield key, self._later(item, kind, -1)
        elif key.kind == "Job" and kind in ("Pod", "PodGroup"):
            current = record or self._read_model.record("Job", key.path)
            state = item.state or (
                self._read_model.state(current.document.jid) if current else None
            )
            if current is None or state is None:
                return
            for tix, name in _names(current.document, state.job, kind):
                yield Key(kind, key.namespace, name), self._later(item, kind, tix)

    def _later(self, item: Published, kind: str, tix: int) -> Callable[[], Json] | None:
        record = item.record
        return None if record is None else partial(self._last, record, item.state, kind, tix)

    def _moved(self, jid: int, story: Story, since: int, kind: str) -> Iterator[tuple[Key, int]]:
        """The objects of this kind that belong to a changed job, with the versions of their
        changes."""
        state = self._read_model.state(jid)
        if state is None:
            return
        job = state.job
        match kind:
            case "Pod":
                for tix, version in sorted(story.changed(since).items()):
                    if name := job.pod_name(tix):
                        yield Key(kind, job.namespace, name), version
            case "PodGroup" if job.kind == "Job":
                record = self._read_model.record("Job", job.key)
                if record is not None:
                    key = Key(kind, job.namespace, group_name(record.document))
                    yield key, story.version
            case _ if job.kind == COMPOSITE and kind in NATIVE_KINDS:
                for key in group_keys(job):
                    if key.kind == kind:
                        yield key, story.version
            case _ if self._read_model.registry.document_kind(job) == kind and not job.dangling:
                yield Key(kind, job.namespace, job.name), story.version
            case _:
                pass

    def _events(self, since: int, cluster_events: Iterable[events.ClusterHappening]) -> Steps[None]:
        for cluster_event in list(cluster_events):
            if cluster_event.happening.version > since:
                entry = events.EventEntry(
                    self._read_model, cluster_event.about, cluster_event.happening, -1
                )
                event = "ADDED" if cluster_event.happening.number > since else "MODIFIED"
                self._note(ObjectChange(cluster_event.happening.version, event, entry.key))
        for number, (jid, story) in enumerate((yield from self._stories_since(since))):
            if number % STRIDE == 0:
                yield
            for version, event, key in events.changed(self._read_model, jid, story, since):
                self._note(ObjectChange(version, event, key))


def in_order(items: list[T], key: Callable[[T], int]) -> Steps[list[T]]:
    """Sorted by the key, and otherwise in the order given. In pieces: to sort 200,000 at once takes
    60 ms."""
    pieces: list[list[T]] = []
    for start in range(0, len(items), SORTED):
        pieces.append(sorted(items[start : start + SORTED], key=key))
        yield
    if len(pieces) == 1:
        return pieces[0]
    merged: list[T] = []
    for item in merge(*pieces, key=key):
        merged.append(item)
        if len(merged) % STRIDE == 0:
            yield
    return merged


def _resumable(change: ObjectChange, following: ObjectChange | None) -> ObjectChange:
    """Lower the version if the next change has the same one.

    Tasks that change together share a version. A client that has seen only some of them must not
    resume from that version, or it would miss the rest.
    """
    if following is None or following.version != change.version:
        return change
    return ObjectChange(change.version - 1, change.type, change.key, change.last)


def _names(document: Document, job: Job, kind: str) -> Iterator[tuple[int, str]]:
    """Names of the objects derived from a Job, with the task index for pods."""
    if kind == "PodGroup":
        yield -1, group_name(document)
        return
    for role in job.roles:
        for i in range(role.count):
            yield role.first + i, f"{job.name}-{role.name}-{role.start + i}"
