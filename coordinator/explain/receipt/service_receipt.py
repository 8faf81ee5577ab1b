"""The receipt of a job of a running service, from the stories of all jobs.

It walks over all jobs, in slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.core.observer import EventReason
from coordinator.explain.receipt.receipt import Hold, milliseconds, receipt, with_holders
from coordinator.explain.receipt.receipt_json import receipt_json
from coordinator.jobs.capability import upwards
from coordinator.jobs.state import JobState, SchedulingStatus
from coordinator.objects.timeline import Stories, Story
from coordinator.objects.wait_log import (
    NOT_RECORDED,
    STARTED,
    STOPPED,
    WaitLog,
    WaitMark,
    runs,
)
from shard_worker.session_model.workload import Amounts, add
from shared.codec.packed import replace
from shared.messages.messages import ENDED, HOLDING
from shared.slices import Steps
from shared.units.slots import BASE


def job_receipt(
    core: Coordinator,
    stories: Stories,
    state: JobState,
    now: float,
    names: Sequence[str],
    *,
    before: EarlierWaits | None = None,
) -> Steps[dict[str, Any]]:
    """The waits of a job with their parts and the jobs behind which it waited. ``names``: the
    resource of each slot. ``before``: of a job that an earlier coordinator admitted."""
    story = stories.jobs.get(state.job.jid)
    created = state.job.created
    log = WaitLog(created) if story is None else story.wait_log(created)
    if before is not None:
        log = before.then(log, runs_now=runs(state))
    end = _last_end(story) if story is not None and state.status is SchedulingStatus.DONE else None
    whole = receipt(log, until=now if end is None else end, ended=end is not None)
    begin = milliseconds(log.since)
    holds: list[Hold] = []
    for other in list(core.order.jobs.values()):
        yield
        held = stories.jobs.get(other.job.jid)
        if other is not state and held is not None:
            holds += (h for h in _holds(core, other, held, milliseconds(now)) if h.end > begin)
    slots = accelerators_first(job_amounts(state))
    return receipt_json(with_holders(whole, holds, slots), names)


@dataclass(frozen=True, slots=True)
class EarlierWaits:
    """The waits of a job before this coordinator led, without their reasons."""

    until: float
    """When it began to lead."""
    log: WaitLog | None
    """From the history; None if it cannot be read."""

    def then(self, later: WaitLog, *, runs_now: bool) -> WaitLog:
        """The waits before and after."""
        marks = later.all_marks()
        ran = marks[0].word == STOPPED if marks else runs_now
        text = "another coordinator led; the history has no reasons"
        if self.log is not None:
            earlier = [WaitMark(later.since, NOT_RECORDED, text)]
            for mark in self.log.all_marks():
                earlier.append(mark)
                if mark.word == STOPPED:
                    earlier.append(WaitMark(mark.at, NOT_RECORDED, text))
            return replace(later, marks=earlier + marks)
        text = "another coordinator led, and there is no history of that time"
        first = WaitMark(later.since, NOT_RECORDED, text)
        unknown = [WaitMark(self.until, STARTED)] if ran else []
        return replace(later, marks=[first, *unknown, *marks])


def _holds(core: Coordinator, state: JobState, story: Story, now: int) -> Iterator[Hold]:
    """The times for which a job held places: from each placement that followed a time without any
    until it was stopped or had ended."""
    moments = [(h.first, True) for h in story.happenings if h.reason == EventReason.SCHEDULED]
    if story.waits is not None:
        moments += [(mark.at, False) for mark in story.waits.all_marks() if mark.word == STOPPED]
    if not any(code in state.states for code in HOLDING):
        moments.append((_last_end(story) or 0.0, False))
    begin: int | None = None
    above = upwards(core.order.lines.queues, core.order.accounts.queue(state))
    queues = tuple(info.queue.name for info in above)
    for at, is_placement in sorted(moments):
        if is_placement and begin is None:
            begin = milliseconds(at)
        elif not is_placement and begin is not None:
            yield Hold(state.job.key, queues, begin, milliseconds(at), job_amounts(state))
            begin = None
    if begin is not None:
        yield Hold(state.job.key, queues, begin, now, job_amounts(state))


def _last_end(story: Story) -> float | None:
    return max((at for state, at, _ in story.moments if state in ENDED), default=None)


def job_amounts(state: JobState) -> Amounts:
    """Amounts of all tasks of a job."""
    total: Amounts = {}
    for role, cls in zip(state.job.roles, state.info.classes, strict=True):
        add(total, cls.charged, role.count)
    return total


def accelerators_first(amounts: Amounts) -> list[int]:
    """The slots with GPUs and other extended resources before cpu, memory and pods."""
    return sorted(amounts, key=lambda slot: (slot < len(BASE), slot))
