"""How long tasks and jobs waited for their places, counted as the outcomes come in."""

from __future__ import annotations

from coordinator.jobs import JobState
from shared.histogram import Histogram, exponential

TASK_SECONDS = exponential(0.01, 2, 20)
JOB_SECONDS = (1.0, *exponential(2.5, 2, 15))
ATTEMPTS = ("1", "2", "3", "4", "5+")
"""The last turn in a row that a task took part in, the one that placed it."""
_LAST = len(ATTEMPTS) - 1


class Waits:
    """Counted once for each statement, whatever its number of tasks."""

    def __init__(self) -> None:
        self.tasks = {attempts: Histogram(TASK_SECONDS) for attempts in ATTEMPTS}
        self._by_attempts = list(self.tasks.values())
        self.jobs: dict[int, Histogram] = {}
        """By queue (qid)."""

    def placed(self, state: JobState, tasks: int, *, first: bool, now: float) -> None:
        """Tasks of a job were placed; ``first``: it held no place before."""
        waited = max(0.0, now - state.job.created)  # below 0: the clock was set back
        self._by_attempts[min(state.attempts, _LAST)].observe(waited, tasks)
        if first:
            jobs = self.jobs.get(state.info.qid)
            if jobs is None:
                jobs = self.jobs[state.info.qid] = Histogram(JOB_SECONDS)
            jobs.observe(waited)
