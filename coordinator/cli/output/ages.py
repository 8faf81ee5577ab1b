"""Times in objects (RFC 3339) as ages."""

from __future__ import annotations

import time
from typing import Any

from shared.units.times import moment, span

UNKNOWN = "<unknown>"


def ago(text: Any, now: float | None = None) -> str:
    """The age of a time, ``<unknown>`` where there is none."""
    try:
        return span((time.time() if now is None else now) - moment(text))
    except (TypeError, ValueError):
        return UNKNOWN
