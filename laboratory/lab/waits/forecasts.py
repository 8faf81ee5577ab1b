"""Estimates of the wait that ``quadrant explain`` would have shown while a week is played."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from coordinator.core.coordinator import Coordinator
from coordinator.explain.estimate import SHOWN_DIGITS, RemainingWait, remaining_wait
from laboratory.lab.objects import row_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_JOBS = 1000
"""Jobs of a week that are asked about; of more a sample is drawn."""
SAMPLE_SEED = 1
"""The same jobs under every policy and seed."""
AGAIN_SECONDS = 3600.0
"""Seconds of the week from the first question about a job to the second; then twice as many, so
that the number of questions stays small however long a job waits."""
NONE = RemainingWait(float("nan"), float("nan"), 0)


@dataclass(frozen=True, slots=True)
class Forecasts:
    """One row for each question about a waiting job; the arrays run in parallel. Times are seconds
    of the week."""

    job: NDArray[np.int64]
    """Row of the week."""
    waited: Floats
    """How long the job had waited."""
    p50: Floats
    """The estimated remaining wait, as a user is shown it; NaN: too few jobs were alike."""
    p90: Floats
    alike: NDArray[np.int64]
    """Number of jobs that the estimate rests on."""
    remaining: Floats
    """How much longer the job waited indeed, until all of its pods ran."""


def sampled_rows(jobs: int) -> Collection[int]:
    """Rows of a week of so many jobs that are asked about."""
    if jobs <= MOST_JOBS:
        return range(jobs)
    drawn = np.random.default_rng(SAMPLE_SEED).choice(jobs, MOST_JOBS, replace=False)
    return frozenset(drawn.tolist())


class ForecastWatch:
    """Asks about each job of the sample at the first look at which it waits, and 1, 2, 4, 8 and
    so on hours of the week later for as long as it waits."""

    def __init__(
        self, core: Coordinator, submitted: Sequence[int], sample: Collection[int], speedup: float
    ) -> None:
        """``submitted``: numbers of the jobs, which grows while the week is played; ``sample``:
        rows of the week."""
        self._core = core
        self._submitted = submitted
        self._sample = sample
        self._speedup = speedup
        self._read = 0
        """Number of the jobs of ``submitted`` that were read."""
        self._due: list[tuple[float, int, float]] = []
        """A heap of the next questions: virtual time, job, and virtual time of the first."""
        self._asked: list[tuple[int, float, float, float, int]] = []
        """Row, virtual time, and the estimate in virtual seconds."""

    def look(self, at: float) -> None:
        """Ask all that is due at this virtual time."""
        for jid in self._submitted[self._read :]:
            if row_of(self._core.order.jobs[jid].job.name) in self._sample:
                heappush(self._due, (at, jid, at))
        self._read = len(self._submitted)
        while self._due and self._due[0][0] <= at:
            _, jid, first = heappop(self._due)
            self._ask(jid, at, first)

    def _ask(self, jid: int, at: float, first: float) -> None:
        state = self._core.order.jobs[jid]
        if not state.info.pending:
            return
        given = remaining_wait(self._core.tally.waits.likes, state, at) or NONE
        self._asked.append((row_of(state.job.name), at, *given))
        later = max(AGAIN_SECONDS / self._speedup, 2 * (at - first))
        heappush(self._due, (first + later, jid, first))

    def compared(self, *, origin: float, submit: Floats, start: Floats) -> Forecasts:
        """All estimates with what happened. ``origin``: the virtual time of the first submission;
        ``submit`` and ``start``: columns of the jobs."""
        columns = np.array(self._asked, dtype=np.float64).reshape(len(self._asked), 5)
        job, at = columns[:, 0].astype(np.int64), (columns[:, 1] - origin) * self._speedup
        # A job that was evicted waits again, and its first start is no news.
        first = np.flatnonzero(at < start[job])
        job, at, columns = job[first], at[first], columns[first]
        return Forecasts(
            job=job,
            waited=at - submit[job],
            p50=np.round(columns[:, 2] * self._speedup, SHOWN_DIGITS),
            p90=np.round(columns[:, 3] * self._speedup, SHOWN_DIGITS),
            alike=columns[:, 4].astype(np.int64),
            remaining=start[job] - at,
        )
