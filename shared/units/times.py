"""Times in RFC 3339, and durations as kubectl prints them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from shared.byte_cache import MIB, byte_cache


def rfc3339(at: float, fraction: Literal["", "milliseconds", "microseconds"] = "") -> str:
    """In UTC, by itself whole seconds: ``2026-01-31T12:00:00Z``."""
    if fraction:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec=fraction)[:-6] + "Z"
    return _written(int(at))


@byte_cache("times", MIB)
def _written(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> float:
    """Seconds since 1970 of a time; one without a zone is in UTC. Raises ValueError."""
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def span(seconds: float) -> str:
    """A duration as kubectl prints ages: ``42s``, ``4m12s``, ``3h5m``, ``2d3h``, ``400d``,
    ``3y35d``."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 2920 else f"{days // 365}y"


def _two(large: int, unit: str, small: int, part: str) -> str:
    return f"{large}{unit}{small}{part}" if small else f"{large}{unit}"
