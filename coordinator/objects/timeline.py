"""The story of each job: when its tasks changed, and its events.

This code runs in every turn: lists of tasks are kept by reference as they come, and read only on
request. Nothing here is durable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

import msgspec

from coordinator.intake.documents.index import Keys
from coordinator.objects.wait_log import WaitLog
from shared.messages.messages import Placement, TaskState

PARTS = 64
"""Maximum number of task changes remembered per job; before the oldest, all tasks count as
changed."""
HAPPENINGS = 256
"""Maximum number of happenings per job; then the oldest are dropped."""
ALL_HAPPENINGS = 200_000
"""Maximum number of happenings of all jobs; then those of the longest inactive jobs are dropped."""
MOMENTS = 32
"""Maximum number of recorded starts and ends of tasks per job, each of many tasks at once."""

_RAN = (TaskState.RUNNING, TaskState.SUCCEEDED)


class Audience(Enum):
    """The objects that an event is about."""

    JOB = "the job as a whole"
    TASKS = "the tasks it names"
    WAITING = "the job, and those of its tasks that wait"


class Happening(msgspec.Struct, gc=False):
    """Something that happened to a job or a cluster object, and how often."""

    number: int
    """The version at which it was first recorded; unique."""
    version: int
    reason: str
    """An :class:`~coordinator.core.observer.EventReason`, or the phase of a Job."""
    message: str
    audience: Audience
    warning: bool
    first: float
    """Seconds since 1970, like ``last``."""
    last: float
    count: int = 1
    tasks: Sequence[int] = ()
    placements: Sequence[Placement] = ()
    """Where tasks were placed. If given, the tasks are those of the placements."""
    shard: int = -1

    def named(self) -> Iterator[int]:
        """The tasks that the happening concerns."""
        yield from self.tasks
        for placement in self.placements:
            yield from placement.tasks

    def place_of(self, tix: int) -> tuple[int, int] | None:
        """(row, level) of a task's placement in this happening; None if it has none."""
        for p in self.placements:
            if tix in p.tasks:
                at = p.tasks.index(tix)
                return p.rows[at], p.levels[at]
        return None


class Story(msgspec.Struct, gc=False):
    """The changes and events of one job. ``parts``: (version, tasks that changed, None for all),
    oldest first."""

    tasks: int
    version: int = 0
    parts: list[tuple[int, Sequence[int] | None]] = msgspec.field(default_factory=list)
    floor: int = 0
    """Up to this version, which tasks changed is no longer known."""
    happenings: list[Happening] = msgspec.field(default_factory=list)
    moments: list[tuple[TaskState, float, Sequence[int]]] = msgspec.field(default_factory=list)
    refusal: str = ""
    """Reason for which its last turn was refused; "" if it was not."""
    word: str = ""
    """Pending reason reported last; "" before the first, and once the job was placed."""
    waits_since: float | None = None
    """When that reason was reported, seconds since 1970; None before the first."""
    placed_since: float | None = None
    """When the job was placed first since it waited last; None before that."""
    waits: WaitLog | None = None
    """None before a reason to wait; see :meth:`wait_log`."""
    shortage: tuple[str, float] | None = None
    """Why and since when the gang last lacked a part of its minimum; None if it never did. Members
    beyond the minimum that wait are no shortage."""

    def wait_log(self, created: float) -> WaitLog:
        """Its waits. Those of a single task that never had a reason to wait follow from the rest of
        the story: so most jobs need no log."""
        if self.waits is not None:
            return self.waits
        if self.tasks > 1:
            return WaitLog(created)
        ran = next((at for state, at, _ in self.moments if state in _RAN), None)
        return WaitLog(created, placed=self.placed_since, started=ran, is_over=ran is not None)

    def remember(self, state: TaskState, at: float, tasks: Sequence[int]) -> None:
        """Record when tasks started or ended."""
        self.moments.append((state, at, tasks))
        if len(self.moments) > MOMENTS:
            del self.moments[0]

    def changed(self, since: int) -> dict[int, int]:
        """The tasks that changed after a version, each with the version of its last change."""
        version_of: dict[int, int] = {}
        every = range(self.tasks) if since < self.floor else None
        for version, tasks in reversed(self.parts):
            if version <= since:
                break
            for tix in range(self.tasks) if tasks is None else tasks:
                version_of.setdefault(tix, version)
        for tix in every or ():
            version_of.setdefault(tix, self.floor)
        return version_of

    def last(self, reason: str, *, begins: str = "") -> Happening | None:
        """The last happening with this reason whose message begins with ``begins``."""
        of_it = (h for h in reversed(self.happenings) if h.reason == reason)
        return next((h for h in of_it if h.message.startswith(begins)), None)

    def find(self, number: int) -> Happening | None:
        at = bisect_left(self.happenings, number, key=lambda h: h.number)
        happening = self.happenings[at] if at < len(self.happenings) else None
        return happening if happening is not None and happening.number == number else None

    def time_of(self, state: TaskState, tix: int) -> float | None:
        """When a task reached this state; None if that is not known (any more)."""
        for new_state, at, tasks in reversed(self.moments):
            if new_state is state:
                position = bisect_left(tasks, tix)
                if position < len(tasks) and tasks[position] == tix:
                    return at
        return None

    def placement_of(self, tix: int) -> Happening | None:
        """The happening by which a task was last placed; None if that is not known (any more)."""
        for happening in reversed(self.happenings):
            for p in happening.placements:
                position = bisect_left(p.tasks, tix)
                if position < len(p.tasks) and p.tasks[position] == tix:
                    return happening
        return None

    def placed_at(self, tix: int) -> float | None:
        """When a task was last placed; None if that is not known (any more)."""
        happening = self.placement_of(tix)
        return None if happening is None else happening.last


class Stories:
    """The stories of all jobs, the one that changed latest last."""

    def __init__(self) -> None:
        self.jobs: dict[int, Story] = {}
        self.order: Keys[int] = Keys()
        """The jobs with a story, in order of number."""
        self.happenings = 0

    def move(self, jid: int, version: int, tasks: Sequence[int] | None, *, of: int) -> Story:
        """Record that tasks of a job (None: all) changed. ``of``: its number of tasks."""
        # Taken out and put in again: the dictionary's order is that of the latest changes, so what
        # moved since a version is at its end, and is found without a search.
        story = self.jobs.pop(jid, None)
        if story is None:
            story = Story(of)
            self.order.add(jid)
        self.jobs[jid] = story
        story.tasks = of
        story.version = version
        if of == 1:  # most jobs; its last change says everything
            story.parts = [(version, None)]
            return story
        story.parts.append((version, tasks))
        if len(story.parts) > PARTS:
            story.floor = story.parts.pop(0)[0]
        return story

    def add_event(self, story: Story, happening: Happening) -> None:
        story.happenings.append(happening)
        self.happenings += 1
        if len(story.happenings) > HAPPENINGS:
            del story.happenings[0]
            self.happenings -= 1
        if self.happenings > ALL_HAPPENINGS:
            self._forget_some()

    def _forget_some(self) -> None:
        """Drop the happenings of the longest inactive jobs."""
        for story in self.jobs.values():
            self.happenings -= len(story.happenings)
            story.happenings.clear()
            # A tenth at once, or every event from here on would walk over the stories anew.
            if self.happenings <= ALL_HAPPENINGS * 9 // 10:
                return

    def forget(self, jid: int) -> Story | None:
        story = self.jobs.pop(jid, None)
        if story is not None:
            self.order.discard(jid)
            self.happenings -= len(story.happenings)
        return story

    def since(self, version: int) -> Iterable[tuple[int, Story]]:
        """Jobs that changed after a version, latest first."""
        for jid in reversed(self.jobs):
            story = self.jobs[jid]
            if story.version <= version:
                return
            yield jid, story
