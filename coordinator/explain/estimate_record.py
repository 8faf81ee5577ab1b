"""The estimates that users were given lately, and what happened.

Judged when another estimate is given, from the stories that are recorded anyway: turns pay nothing
for it. In memory, since this coordinator leads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

from coordinator.explain.estimate import SHOWN_DIGITS
from coordinator.jobs.state import JobState
from coordinator.jobs.wait_times import RecentWaits
from coordinator.objects.timeline import Stories, Story
from coordinator.objects.wait_log import PLACED, STARTED


class GivenEstimate(NamedTuple):
    """The first estimate that anybody was given for a job. Seconds; ``at`` since 1970."""

    queue: str
    story: Story
    """Kept here, so that it is known when the job was placed also if it has been deleted since."""
    created: float
    at: float
    p50: float
    p90: float

    def placed(self) -> float | None:
        """When the job was placed after that, seconds since 1970; None if it was not."""
        marks = self.story.wait_log(self.created).all_marks()
        later = (mark.at for mark in marks if mark.word in (PLACED, STARTED) and mark.at >= self.at)
        return next(later, None)


class EstimateRecord:
    MOST = 256
    """Jobs remembered; of more the oldest are dropped."""

    def __init__(self, stories: Stories) -> None:
        self._stories = stories
        self._given: dict[int, GivenEstimate] = {}
        """By job."""

    def give(self, state: JobState, estimate: Mapping[str, Any], now: float) -> None:
        """Remember an estimate, unless there is one of the job: who asks each minute would count
        more than others. A job that holds a place waits for more tasks, which nobody estimates."""
        jid, story = state.job.jid, self._stories.jobs.get(state.job.jid)
        if story is None or jid in self._given or state.info.held[0]:
            return
        if len(self._given) >= self.MOST:
            del self._given[next(iter(self._given))]
        times = (state.job.created, now, estimate["p50"], estimate["p90"])
        self._given[jid] = GivenEstimate(state.job.queue, story, *times)

    def of_queue(self, queue: str, now: float) -> dict[str, Any] | None:
        """How many estimates in the queue are judged, how many came true (the job was placed
        between p50 and p90), how many jobs were placed sooner, and the median distance from p50 in
        seconds. None where too few are judged."""
        judged = [pair for pair in self._judged(now) if pair[0].queue == queue]
        if len(judged) < RecentWaits.ENOUGH:
            return None
        shown = [(given, round(wait, SHOWN_DIGITS)) for given, wait in judged]
        return {
            "estimates": len(shown),
            "cameTrue": sum(given.p50 <= wait <= given.p90 for given, wait in shown),
            "sooner": sum(wait < given.p50 for given, wait in shown),
            "medianError": median(abs(wait - given.p50) for given, wait in shown),
        }

    def _judged(self, now: float) -> Iterator[tuple[GivenEstimate, float]]:
        """Estimates with the wait that was left. One whose p90 is over is wrong already, and what
        its job has waited so far counts: without the jobs that wait longest all would look better
        than it is."""
        for jid, given in self._given.items():
            placed = given.placed()
            if placed is not None:
                yield given, placed - given.at
            elif now - given.at > given.p90 and self._stories.jobs.get(jid) is given.story:
                yield given, now - given.at
