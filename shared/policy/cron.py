"""When a schedule in cron's notation came last: five fields, in UTC.

Minute, hour, day of the month, month and day of the week; ``*``, numbers, names of months and days,
ranges, steps and lists; ``@hourly`` and its like. Where both kinds of days are bounded, either of
the two is enough, as in cron. Fields of seconds and years, and the letters ``L``, ``W`` and ``#``,
which KAI's parser reads too, are refused.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

FIELDS = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("day of the week", 0, 7),
)
"""(name, least, most) of each field; 7 is Sunday as 0 is."""
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_LOOK_BACK_DAYS = 8 * 366 + 1
"""From one 29 February to the next it may be eight years."""


class CronError(ValueError):
    """The message says what is wrong and what to write instead."""


@dataclass(frozen=True, slots=True)
class CronSchedule:
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    either: bool
    """Whether one of the two kinds of days is enough."""

    def last(self, now: float) -> float:
        """The newest moment of the schedule that is not after ``now``; seconds since 1970.

        Raises ValueError where there was none in eight years."""
        at = datetime.fromtimestamp(now, UTC).replace(second=0, microsecond=0)
        for back in range(_LOOK_BACK_DAYS):
            day = at - timedelta(days=back)
            if self._has_day(day):
                before = (24, 0) if back else (at.hour, at.minute)
                for hour in reversed(self.hours):
                    for minute in reversed(self.minutes):
                        if (hour, minute) <= before:
                            return day.replace(hour=hour, minute=minute).timestamp()
        raise ValueError("the schedule never comes")

    def _has_day(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.either else of_month and of_week


def parse_cron(text: str) -> CronSchedule:
    """Read a schedule. Raises CronError."""
    fields = _MACROS.get(text.strip().lower(), text).split()
    if len(fields) != len(FIELDS):
        names = ", ".join(name for name, _, _ in FIELDS)
        raise CronError(f"has {len(fields)} fields; write five ({names}), such as '0 0 * * 1'")
    minutes, hours, days, months, weekdays = (
        _field(value, *field) for value, field in zip(fields, FIELDS, strict=True)
    )
    schedule = CronSchedule(
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        frozenset(days),
        frozenset(months),
        frozenset(day % 7 for day in weekdays),
        either=not fields[2].startswith(("*", "?")) and not fields[4].startswith(("*", "?")),
    )
    try:
        schedule.last(datetime(2001, 1, 1, tzinfo=UTC).timestamp())
    except ValueError:
        raise CronError("names a day that no month has; write one such as '0 0 1 * *'") from None
    return schedule


def _field(text: str, name: str, least: int, most: int) -> set[int]:
    values: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isascii() and step.isdecimal() and int(step) > 0):
            raise CronError(f"has the step {step!r} of its {name}; write a number such as 15")
        low, dash, high = span.partition("-")
        if span in ("*", "?"):
            first, last = least, most
        else:
            first = _number(low, name, least, most)
            last = _number(high, name, least, most) if dash else (most if slash else first)
        if last < first:
            raise CronError(f"has a {name} {span} that goes down; write the lower number first")
        values.update(range(first, last + 1, int(step or 1)))
    return values


def _number(text: str, name: str, least: int, most: int) -> int:
    names = _MONTHS if name == "month" else _DAYS if name == "day of the week" else {}
    if (named := names.get(text.lower())) is not None:
        return named
    number = int(text) if text.isascii() and text.isdecimal() else -1
    if not least <= number <= most:
        raise CronError(f"has the {name} {text!r}; write {least} to {most}, or *")
    return number
