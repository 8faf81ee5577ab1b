"""Waiting times of tasks and jobs until their placement, counted as outcomes come in."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from coordinator.jobs.state import JobState
from shared.telemetry.histogram import Histogram, exponential

TASK_SECONDS = exponential(0.01, 2, 20)
JOB_SECONDS = (1.0, *exponential(2.5, 2, 15))
ATTEMPTS = ("1", "2", "3", "4", "5+")
"""Number of turns in a row that a task took part in, the placing one included."""
_LAST = len(ATTEMPTS) - 1


class RecentWaits:
    """Recent waiting times until the first placement, by sort. A sort is: jobs of one queue with
    about as many tasks (within a factor of two)."""

    REMEMBERED = 64
    """Waiting times kept per sort."""
    SORTS = 4096
    """Sorts kept; beyond that the oldest is dropped."""
    ENOUGH = 5
    """Minimum number of jobs behind an estimate."""

    def __init__(self) -> None:
        self._waits: dict[tuple[int, int], deque[float]] = {}

    def placed(self, state: JobState, *waited: float) -> None:
        """Note the waiting times of the job, and of others of its sort."""
        sort = self._sort(state)
        waits = self._waits.get(sort)
        if waits is None:
            if len(self._waits) >= self.SORTS:
                del self._waits[next(iter(self._waits))]
            waits = self._waits[sort] = deque(maxlen=self.REMEMBERED)
        waits.extend(waited)

    def of(self, state: JobState) -> list[float]:
        """Waiting times of the job's sort, in seconds."""
        return list(self._waits.get(self._sort(state), ()))

    @staticmethod
    def _sort(state: JobState) -> tuple[int, int]:
        return state.info.qid, len(state.states).bit_length()


class Waits:
    """Waiting times, counted once per statement whatever its number of tasks."""

    def __init__(self) -> None:
        self.tasks = {attempts: Histogram(TASK_SECONDS) for attempts in ATTEMPTS}
        self._by_attempts = list(self.tasks.values())
        self.likes = RecentWaits()
        self.jobs: dict[int, Histogram] = {}
        """By queue (qid)."""

    def placed(self, state: JobState, tasks: int, *, first: bool, now: float) -> None:
        """Note placed tasks of a job; ``first``: it held no place before."""
        waited = max(0.0, now - state.job.created)  # below 0: the clock was set back
        self._by_attempts[min(state.attempts, _LAST)].observe(waited, tasks)
        if first:
            self._of_queue(state.info.qid).observe(waited)
            self.likes.placed(state, waited)

    def placed_run(self, run: Sequence[JobState], *, now: float) -> None:
        """As :meth:`placed` of each, of jobs of one task in one queue, none of which held a place:
        those of one List were created at one time."""
        waits = [(max(0.0, now - state.job.created), min(state.attempts, _LAST)) for state in run]
        jobs = self._of_queue(run[0].info.qid)
        for (waited, attempts), count in Counter(waits).items():
            self._by_attempts[attempts].observe(waited, count)
            jobs.observe(waited, count)
        self.likes.placed(run[0], *(waited for waited, _ in waits))

    def _of_queue(self, qid: int) -> Histogram:
        jobs = self.jobs.get(qid)
        if jobs is None:
            jobs = self.jobs[qid] = Histogram(JOB_SECONDS)
        return jobs
