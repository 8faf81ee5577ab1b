"""When a schedule came last, and what is no schedule."""

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
        ("0 0 L * ?", "2026-03-15T00:00", "2026-02-28T00:00"),
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
        ("60 * * * *", "has the minute '60', which cron does not know"),
        ("0 0 5W * *", "has the day-of-month '5W'"),
        ("*/0 * * * *", "has the minute '*/0'"),
        ("0 20-8 * * *", "has the hour '20-8'"),
        ("0 0 31 feb *", "has the day-of-month '31'"),
    ],
)
def test_an_invalid_schedule_is_refused(schedule: str, complaint: str) -> None:
    with pytest.raises(CronError) as raised:
        parse_cron(schedule)
    assert complaint in str(raised.value)
