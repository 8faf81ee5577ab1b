"""What changed since a version, put together when somebody asks.

Two things are kept: a ring of what was published (with the last form of what is gone), and of each
job when which of its tasks moved (:mod:`coordinator.objects.story`). The second only grows with the
number of jobs, so that a watcher may fall far behind as long as few objects come and go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from coordinator.jobs import JobState
from coordinator.objects import events
from coordinator.objects.document import Document, Key
from coordinator.objects.glance import Glance, group_name
from coordinator.objects.kinds import Kind
from coordinator.objects.shelf import Record
from coordinator.objects.story import Stories, Story
from coordinator.objects.watchers import Expired
from shared.model import Job

Json = dict[str, Any]

PUBLISHED = 200_000
"""Publications that are remembered."""
GONE_BYTES = 32 << 20
"""The same of bodies of objects that are gone."""


@dataclass(frozen=True, slots=True)
class Change:
    """What last became of one object. ``last`` tells how it was, where it is gone: rendered when it
    is asked, for a Job may have gone with a million pods. ``version``: from
    where to go on after this and all before it; the object itself may have a newer one."""

    version: int
    type: str
    key: Key
    last: Callable[[], Json] | None = None


class Published(NamedTuple):
    version: int
    type: str
    key: Key
    record: Record | None
    """Where it is gone: the last."""
    state: JobState | None
    """Where it is gone: of its job."""
    behind: bool
    """Only about the pods that a Job stands for."""


class Ring:
    """Publications, the oldest of which are forgotten."""

    def __init__(self, first: int) -> None:
        """``first``: nothing is known of versions before it."""
        self.first = first
        self.floor = first
        """What happened up to here is forgotten."""
        self._items: deque[Published] = deque()
        self._bytes = 0

    def add(
        self,
        version: int,
        event: str,
        key: Key,
        *,
        record: Record | None = None,
        state: JobState | None = None,
        behind: bool = False,
    ) -> None:
        self._items.append(Published(version, event, key, record, state, behind))
        if record is not None:
            self._bytes += len(record.document.body)
        while len(self._items) > PUBLISHED or self._bytes > GONE_BYTES:
            old = self._items.popleft()
            self.floor = old.version
            if old.record is not None:
                self._bytes -= len(old.record.document.body)

    def since(self, version: int) -> list[Published]:
        """Oldest first. Raises Expired."""
        if version < self.first:
            raise Expired(f"version {version} is of an earlier coordinator")
        if version < self.floor:
            raise Expired(f"version {version} is too old; {self.floor} is the oldest kept")
        found = []
        for item in reversed(self._items):
            if item.version <= version:
                break
            found.append(item)
        found.reverse()
        return found


Last = Callable[[Record, JobState | None, str, int], Json]
"""The last form of an object that is gone; see :meth:`coordinator.objects.store.Objects._last`."""


class Reader:
    """One reading of the changes of one kind."""

    def __init__(self, glance: Glance, ring: Ring, stories: Stories, last: Last) -> None:
        self._glance = glance
        self._ring = ring
        self._stories = stories
        self._last = last
        self._found: dict[Key, Change] = {}
        self._ended: list[Change] = []
        """Of objects that are gone, and another has their name now."""

    def read(
        self,
        since: int,
        kind: Kind,
        told: list[events.Told],
        moved: Iterable[tuple[Key, int]],
    ) -> list[Change]:
        """``told``: what happened in the cluster. ``moved``: other objects of this kind that moved,
        with their versions."""
        for item in self._ring.since(since):
            for key, last in self._published(item, kind.kind):
                self._note(Change(item.version, item.type, key, last))
        match kind.kind:
            case "Pod" | "PodGroup" | "Job":
                for jid, story in self._stories.since(since):
                    for key, version in self._moved(jid, story, since, kind.kind):
                        self._touch(key, version)
            case "Event":
                self._events(since, told)
            case _:
                for key, version in moved:
                    self._touch(key, version)
        every = sorted([*self._ended, *self._found.values()], key=lambda change: change.version)
        return [_resumable(one, following) for one, following in pairwise([*every, None]) if one]

    # --- several changes are one ------------------------------------------------------------------

    def _note(self, change: Change) -> None:
        known = self._found.get(change.key)
        if known is not None and known.type == "DELETED":
            self._ended.append(known)
        elif known is not None and known.type == "ADDED" and change.type == "MODIFIED":
            change = Change(change.version, "ADDED", change.key)
        self._found[change.key] = change

    def _touch(self, key: Key, version: int) -> None:
        """What the scheduler did with an object; what is gone stays gone."""
        known = self._found.get(key)
        if known is None:
            self._found[key] = Change(version, "MODIFIED", key)
        elif known.type != "DELETED" and version > known.version:
            self._found[key] = Change(version, known.type, key)

    # --- which objects ----------------------------------------------------------------------------

    def _published(
        self, item: Published, kind: str
    ) -> Iterator[tuple[Key, Callable[[], Json] | None]]:
        """The objects of this kind that a publication is about."""
        key, record = item.key, item.record
        if item.behind and kind != "Pod":
            return
        if key.kind == kind:
            yield key, self._later(item, kind, -1)
        elif key.kind == "Job" and kind in ("Pod", "PodGroup"):
            current = record or self._glance.record("Job", key.path)
            state = item.state or (self._glance.state(current.document.jid) if current else None)
            if current is None or state is None:
                return
            for tix, name in _names(current.document, state.job, kind):
                yield Key(kind, key.namespace, name), self._later(item, kind, tix)

    def _later(self, item: Published, kind: str, tix: int) -> Callable[[], Json] | None:
        record = item.record
        return None if record is None else partial(self._last, record, item.state, kind, tix)

    def _moved(self, jid: int, story: Story, since: int, kind: str) -> Iterator[tuple[Key, int]]:
        """The objects of this kind that belong to a job that moved, and when they did."""
        state = self._glance.state(jid)
        if state is None:
            return
        job = state.job
        match kind:
            case "Pod":
                for tix, version in sorted(story.changed(since).items()):
                    if name := job.pod_name(tix):
                        yield Key(kind, job.namespace, name), version
            case "PodGroup" if job.kind == "Job":
                record = self._glance.record("Job", job.key)
                if record is not None:
                    key = Key(kind, job.namespace, group_name(record.document))
                    yield key, story.version
            case _ if job.kind == kind and not job.dangling:
                yield Key(kind, job.namespace, job.name), story.version
            case _:
                pass

    def _events(self, since: int, told: list[events.Told]) -> None:
        for one in told:
            if one.happening.version > since:
                entry = events.EventEntry(self._glance, one.about, one.happening, -1)
                event = "ADDED" if one.happening.number > since else "MODIFIED"
                self._note(Change(one.happening.version, event, entry.key))
        for jid, story in self._stories.since(since):
            for version, event, key in events.changed(self._glance, jid, story, since):
                self._note(Change(version, event, key))


def _resumable(change: Change, following: Change | None) -> Change:
    """Tasks that moved together have one version. Whoever has seen all but the last of them must
    not say that it has seen that version, or it would miss the rest when it comes again."""
    if following is None or following.version != change.version:
        return change
    return Change(change.version - 1, change.type, change.key, change.last)


def _names(document: Document, job: Job, kind: str) -> Iterator[tuple[int, str]]:
    """Names of what a Job stands for, with the task index where it is a pod."""
    if kind == "PodGroup":
        yield -1, group_name(document)
        return
    for role in job.roles:
        for i in range(role.count):
            yield role.first + i, f"{job.name}-{role.name}-{role.start + i}"
