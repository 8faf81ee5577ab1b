"""The waits of one job: when each began, why it went on, and when it ended.

A wait begins with the submission, and again when too few tasks are left; it ends when enough tasks
run. Between these moments only a change of the reason is recorded, so that a job that is placed at
once costs two references.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from coordinator.jobs.pending_reasons import Why
from coordinator.jobs.state import JobState
from shared.messages.messages import TaskState
from shared.messages.reason import Reason

MARKS = 64
"""Maximum number of marks per job; then the oldest are summed up."""
PLACED = "Placed"
"""From here on enough tasks have a place; they are being bound and started."""
STARTED = "Started"
"""The wait ends: enough tasks run."""
STOPPED = "Stopped"
"""Another wait begins: too few tasks are left."""
PLACE_LOST = "PlaceLost"
"""A place was taken away again before enough tasks ran."""
NOT_RECORDED = "NotRecorded"
"""Nobody who still answers recorded the reasons: another coordinator led."""
SEVERAL = "SeveralReasons"
"""Reasons of long ago that were summed up."""


class WaitMark(NamedTuple):
    """A moment at which a wait began, ended, or went on for another reason."""

    at: float
    """Seconds since 1970."""
    word: str
    """A :class:`~shared.messages.reason.Reason`, or one of the words above."""
    message: str = ""
    short: Mapping[int, float] = {}
    """Missing amounts by slot."""
    queue: str = ""
    """The queue whose quota was used up; "" for none."""
    borrowers: tuple[str, ...] = ()
    """Queues that had more than their share while the job's own had less."""


class WaitLog(msgspec.Struct, gc=False):
    since: float
    """When the first wait of ``marks`` began, seconds since 1970."""
    placed: float | None = None
    """Like ``started``, only as long as there are no other marks."""
    started: float | None = None
    marks: list[WaitMark] | None = None
    is_over: bool = False
    """Whether enough tasks run."""
    earlier: int = 0
    """Number of older waits, which were summed up."""
    earlier_seconds: float = 0.0

    def all_marks(self) -> list[WaitMark]:
        if self.marks is not None:
            return self.marks
        plain = ((self.placed, PLACED), (self.started, STARTED))
        return [WaitMark(at, word) for at, word in plain if at is not None]

    @property
    def word(self) -> str:
        """The word of the last mark; "" for none but of a place."""
        return self.marks[-1].word if self.marks else ""

    def reason(self, state: JobState, why: Why, at: float, borrowers: tuple[str, ...] = ()) -> None:
        """Record why the job waits, if that is another reason than before."""
        if self.is_over or self.word == why.reason:
            return
        queue = state.job.queue if why.reason is Reason.WAITING_FOR_QUOTA else ""
        if why.bound is not None:
            queue = why.bound.queue
        self.add(WaitMark(at, why.reason.value, why.message, why.short, queue, borrowers))

    def turn_placed(self, state: JobState, at: float) -> None:
        """Record that a turn placed tasks, if the gang is complete by them."""
        if state.info.held[0] >= least_running(state):
            self.gang_placed(at)

    def gang_placed(self, at: float) -> None:
        """Record that enough tasks have a place."""
        if self.is_over:
            return
        if self.marks is None:
            self.placed = at
            return
        if self.marks[-1].word == PLACED:
            self.marks.pop()
        self.add(WaitMark(at, PLACED))

    def tasks_changed(
        self, new_state: TaskState, at: float, *, runs: bool, cause: str = ""
    ) -> None:
        """End or begin a wait if that follows from tasks that are ``new_state`` now. ``runs``:
        whether enough tasks run with that; ``cause``: why they lost their places."""
        match new_state:
            case TaskState.RUNNING | TaskState.SUCCEEDED if runs and not self.is_over:
                self.is_over = True
                if self.marks is None:
                    self.started = at
                else:
                    self.add(WaitMark(at, STARTED))
            case TaskState.PENDING if self.is_over and not runs:
                self.is_over = False
                self.add(WaitMark(at, STOPPED, cause))
            case TaskState.PENDING if not self.is_over and self._is_placed:
                self.add(WaitMark(at, PLACE_LOST, cause))
            case _:
                pass

    @property
    def _is_placed(self) -> bool:
        return self.placed is not None if self.marks is None else self.marks[-1].word == PLACED

    def add(self, mark: WaitMark) -> None:
        """Record a mark; beyond the bound the oldest are summed up."""
        if self.marks is None:
            self.marks = self.all_marks()
        self.marks.append(mark)
        if len(self.marks) > MARKS:
            self._sum_up(self.marks)

    def _sum_up(self, marks: list[WaitMark]) -> None:
        """Shorten the list: the oldest wait becomes a number; if it is the only one, its two oldest
        reasons become one."""
        end = next((i for i, mark in enumerate(marks[:-1]) if mark.word == STARTED), None)
        if end is not None:
            self.earlier += 1
            self.earlier_seconds += marks[end].at - self.since
            del marks[: end + 1]
            self.since = marks[0].at
            return
        first = 1 if marks[0].word == STOPPED else 0
        text = f"the reasons from then on were too many to keep: {marks[first].message}"
        if marks[first].word == SEVERAL:
            text = marks[first].message
        marks[first : first + 2] = [WaitMark(marks[first].at, SEVERAL, text)]


def least_running(state: JobState) -> int:
    """The number of running tasks that ends a wait of the job."""
    return max(1, state.job.groups[0].minimum)


def runs(state: JobState, *, without: int = 0) -> bool:
    """Whether enough tasks of the job run, or ran to their end. ``without``: leave out so many."""
    count = state.states.count
    running = count(TaskState.RUNNING) + count(TaskState.SUCCEEDED)
    return running - without >= least_running(state)
