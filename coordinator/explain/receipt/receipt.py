"""The wait of one job as parts without gap or overlap, in whole milliseconds.

Each boundary is rounded once, and a part is the difference of its two boundaries: so the parts of a
wait sum to it, and the waits to the total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from coordinator.objects.wait_log import STARTED, STOPPED, WaitLog, WaitMark
from shared.codec.packed import replace
from shared.messages.reason import Reason

SUBMITTED = "submitted"
"""Cause of the first wait."""
UNTRIED = "NotJudgedYet"
"""The first part of a wait, up to its first reason."""
_UNTRIED_TEXT = "no worker had looked at it"
BEHIND: frozenset[str] = frozenset(
    {
        Reason.WAITING_FOR_TURN,
        Reason.WAITING_FOR_QUOTA,
        Reason.NOT_ENOUGH_RESOURCES,
        Reason.FRAGMENTED,
        Reason.TOPOLOGY_PLACEMENT_FAILED,
        Reason.WAITING_FOR_VICTIMS,
    }
)
"""Reasons that end when other jobs give up what they hold."""
NAMED = 3
"""Most jobs named in a part."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Amounts that a job held for a time; milliseconds."""

    job: str
    queues: tuple[str, ...]
    """The job's own, then those above it."""
    begin: int
    end: int
    amounts: Mapping[int, float]
    """By slot."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that held what another one waited for."""

    job: str
    queue: str
    amount: int
    """Amount of the missing resource."""
    length: int
    """Milliseconds of the part for which it held that."""


@dataclass(frozen=True, slots=True)
class WaitPart:
    """A part of a wait with one reason; milliseconds."""

    begin: int
    end: int
    mark: WaitMark
    slot: int = -1
    """The resource that was missing; -1 if the reason is another."""
    behind: tuple[Holder, ...] = ()
    others: int = 0
    """Further jobs that held some of it."""

    @property
    def length(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Wait:
    """From a submission or a stop until enough tasks run; milliseconds."""

    begin: int
    end: int
    cause: str
    """Why it began."""
    is_over: bool
    parts: tuple[WaitPart, ...]

    @property
    def length(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Receipt:
    waits: tuple[Wait, ...]
    earlier: int = 0
    """Number of waits before these, of which only the sum is left."""
    earlier_length: int = 0

    @property
    def length(self) -> int:
        return sum(wait.length for wait in self.waits) + self.earlier_length


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def receipt(log: WaitLog, *, until: float, ended: bool = False) -> Receipt:
    """Divide the waits of a job. ``until``: now; or, with ``ended``, when the job ended without
    having started."""
    waits: list[Wait] = []
    marks = [WaitMark(log.since, STOPPED, "" if log.earlier else SUBMITTED), *log.all_marks()]
    if marks[1:] and marks[1].word == STOPPED:
        del marks[0]  # the first that is not summed up begins with its own mark
    bounds = _bounds(marks, until)
    begin: int | None = 0
    for at, mark in enumerate(marks):
        if mark.word == STOPPED and begin is None:
            begin = at
        elif mark.word == STARTED and begin is not None:
            waits.append(_wait(marks[begin:at], bounds[begin : at + 1], is_over=True))
            begin = None
    if begin is not None:
        waits.append(_wait(marks[begin:], bounds[begin:], is_over=ended))
    return Receipt(tuple(waits), log.earlier, milliseconds(log.earlier_seconds))


def _bounds(marks: Sequence[WaitMark], until: float) -> list[int]:
    """The time of each mark and the end, none before the one before it."""
    times = (milliseconds(at) for at in (*(mark.at for mark in marks), until))
    return list(accumulate(times, max))


def _wait(marks: Sequence[WaitMark], bounds: Sequence[int], *, is_over: bool) -> Wait:
    """``marks``: the one that begins the wait, and its reasons; ``bounds``: one more."""
    first, *reasons = marks
    parts = [WaitPart(bounds[0], bounds[1], WaitMark(first.at, UNTRIED, _UNTRIED_TEXT))]
    parts += map(WaitPart, bounds[1:], bounds[2:], reasons)
    return Wait(
        begin=bounds[0],
        end=bounds[-1],
        cause=first.message,
        is_over=is_over,
        parts=tuple(part for part in parts if part.length),
    )


def with_holders(whole: Receipt, holds: Sequence[Hold], slots: Sequence[int]) -> Receipt:
    """The receipt with the jobs behind which the job waited, those first that held most of the
    missing resource. ``slots``: the resources that the job asks for, accelerators first."""
    return replace(
        whole,
        waits=tuple(
            replace(wait, parts=tuple(_behind(part, holds, slots) for part in wait.parts))
            for wait in whole.waits
        ),
    )


def _behind(part: WaitPart, holds: Sequence[Hold], slots: Sequence[int]) -> WaitPart:
    missing = [slot for slot in slots if slot in part.mark.short] or slots
    slot = next(iter(missing), -1)
    if part.mark.word not in BEHIND or slot < 0:
        return part
    queue = part.mark.queue
    held: dict[tuple[str, str, int], int] = {}
    for hold in holds:
        both = min(hold.end, part.end) - max(hold.begin, part.begin)
        amount = hold.amounts.get(slot, 0)
        if both > 0 and amount and (not queue or queue in hold.queues):
            key = (hold.job, hold.queues[0], int(amount))
            held[key] = held.get(key, 0) + both
    most = sorted(held.items(), key=lambda item: (-item[0][2] * item[1], item[0]))
    behind = tuple(Holder(*key, length) for key, length in most[:NAMED])
    return replace(part, slot=slot, behind=behind, others=len(most) - len(behind))
