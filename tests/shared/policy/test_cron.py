"""When a schedule came last, held against a walk over all minutes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shared.policy.cron import CronError, parse_cron


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "now", "last"),
    [
        ("0 0 * * 1", "2026-01-07T12:00", "2026-01-05T00:00"),
        ("0 0 * * mon", "2026-01-05T00:00", "2026-01-05T00:00"),
        ("0 0 * * 7", "2026-01-05T00:00", "2026-01-04T00:00"),
        ("*/15 * * * *", "2026-01-05T00:14:59", "2026-01-05T00:00"),
        ("5-59/20 8,20 * * *", "2026-01-05T07:00", "2026-01-04T20:45"),
        ("@monthly", "2026-03-15T00:00", "2026-03-01T00:00"),
        ("0 6 29 feb *", "2026-03-15T00:00", "2024-02-29T06:00"),
        ("0 0 13 * fri", "2026-01-14T00:00", "2026-01-13T00:00"),
        ("0 0 13 * fri", "2026-01-12T00:00", "2026-01-09T00:00"),
        ("0 0 */2 * fri", "2026-01-14T00:00", "2026-01-09T00:00"),
    ],
)
def test_the_last_time_is_the_newest_that_is_not_after_now(
    schedule: str, now: str, last: str
) -> None:
    assert parse_cron(schedule).last(at(now)) == at(last)


@pytest.mark.parametrize(
    ("schedule", "complaint"),
    [
        ("0 0 * *", "has 4 fields; write five"),
        ("0 0 0 * * 1 2026", "has 7 fields"),
        ("60 * * * *", "has the minute '60'; write 0 to 59"),
        ("0 0 L * *", "has the day of the month 'L'; write 1 to 31"),
        ("*/0 * * * *", "has the step '0' of its minute"),
        ("0 20-8 * * *", "has a hour 20-8 that goes down"),
        ("0 0 31 feb *", "names a day that no month has"),
    ],
)
def test_what_is_no_schedule_is_refused(schedule: str, complaint: str) -> None:
    with pytest.raises(CronError) as raised:
        parse_cron(schedule)
    assert complaint in str(raised.value)
