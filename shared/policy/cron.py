"""When a schedule in cron's notation came last: five fields, or ``@hourly`` and its like, in UTC.

The library ``cronsim`` reads the fields, as Debian's cron does. ``?`` stands for ``*``, as KAI's
parser has it; its fields of seconds and years, and the letter ``W``, are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")
"""In their order, by the library's names."""
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class CronError(ValueError):
    """The message says what is wrong and what to write instead."""


@dataclass(frozen=True, slots=True)
class CronSchedule:
    fields: str
    """Five of them, with a space between two."""

    def last(self, now: float) -> float:
        """The newest moment of the schedule that is not after ``now``; seconds since 1970."""
        minute = datetime.fromtimestamp(now, UTC).replace(second=0, microsecond=0)
        # The library leaves out the moment that it begins from.
        return next(_before(self.fields, minute + timedelta(minutes=1))).timestamp()


def parse_cron(text: str) -> CronSchedule:
    """Read a schedule. Raises CronError."""
    fields = _MACROS.get(text.strip().lower(), text).replace("?", "*").split()
    if len(fields) != len(FIELDS):
        names = ", ".join(FIELDS)
        raise CronError(f"has {len(fields)} fields; write five ({names}), such as '0 0 * * 1'")
    schedule = " ".join(fields)
    try:
        next(_before(schedule, datetime(2001, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        name = str(error).removeprefix("Bad ")
        bad = f"the {name} {fields[FIELDS.index(name)]!r}" if name in FIELDS else str(error)
        raise CronError(
            f"has {bad}, which cron does not know; write one such as '0 0 * * 1'"
        ) from None
    except StopIteration:
        raise CronError("names a day that never comes; write one such as '0 0 1 * *'") from None
    return CronSchedule(schedule)


def _before(fields: str, moment: datetime) -> CronSim:
    """The moments of a schedule before this one, the newest first."""
    return CronSim(fields, moment, reverse=True)
