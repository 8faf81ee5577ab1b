"""Times in objects (RFC 3339) as ages."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from coordinator.cli.output.durations import age

UNKNOWN = "<unknown>"


def seconds_since_1970(text: Any) -> float | None:
    """None where it is no time."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def ago(text: Any, now: float | None = None) -> str:
    """The age of a time, ``<unknown>`` where there is none."""
    then = seconds_since_1970(text)
    return UNKNOWN if then is None else age((time.time() if now is None else now) - then)
