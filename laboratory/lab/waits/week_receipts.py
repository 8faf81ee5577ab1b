"""What each job of a played week waited for, as ``receipts.jsonl`` has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator.core.coordinator import Coordinator
from coordinator.explain.estimate import attempts
from coordinator.explain.receipt.receipt import Hold, milliseconds, receipt, with_holders
from coordinator.explain.receipt.receipt_json import receipt_json
from coordinator.explain.receipt.service_receipt import accelerators_first, job_amounts
from coordinator.objects.wait_log import STARTED, WaitLog
from laboratory.lab.objects import row_of
from laboratory.lab.waits.wait_watch import WaitWatch
from laboratory.lab.week import Week
from shared.codec.packed import replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobTimes:
    """Columns by job, in seconds after the first submission."""

    submit: Floats
    start: Floats
    end: Floats
    evictions: NDArray[np.int64]


def week_receipts(
    week: Week,
    times: JobTimes,
    core: Coordinator,
    watch: WaitWatch,
    *,
    origin: float,
    speedup: float,
) -> Iterator[Json]:
    """One for each job, in the order of the week. ``origin``: virtual time of the first
    submission."""
    states = {row_of(state.job.name): state for state in core.order.jobs.values()}
    order = [states[row] for row in range(len(week))]
    names = core.order.accounts.cluster.names
    begins, ends = times.start.tolist(), times.end.tolist()
    amounts = [job_amounts(state) for state in order]
    holds = [
        Hold(
            week.name[row],
            (week.queue[row],),
            milliseconds(begins[row]),
            milliseconds(ends[row]),
            amounts[row],
        )
        for row in range(len(week))
    ]
    for row, state in enumerate(order):
        log = _week_log(watch.log(state), times, row, origin=origin, speedup=speedup)
        whole = receipt(log, until=ends[row])
        last = max((wait.end for wait in whole.waits), default=0) / 1000
        others = np.flatnonzero((times.start < last) & (times.end > times.submit[row]))
        meanwhile = [holds[i] for i in others.tolist() if i != row]
        shown = with_holders(whole, meanwhile, accelerators_first(amounts[row]))
        yield {
            "job": week.name[row],
            "receipt": receipt_json(shown, names, time=lambda at: at / 1000),
            "attempts": attempts(state),
        }


def _week_log(log: WaitLog, times: JobTimes, row: int, *, origin: float, speedup: float) -> WaitLog:
    """The waits in seconds of the week.

    They begin with the submission of the week. Without evictions they end when the last pod ran,
    not when the service was told of it: so they sum to the wait that ``jobs.csv`` has.
    """
    start = float(times.start[row])
    marks = [mark._replace(at=(mark.at - origin) * speedup) for mark in log.all_marks()]
    if not times.evictions[row]:
        marks = [mark._replace(at=min(mark.at, start)) for mark in marks]
        marks = [mark._replace(at=start) if mark.word == STARTED else mark for mark in marks]
    return replace(log, since=float(times.submit[row]), marks=marks)
