"""Spans of time as people and kubectl write them: 30s, 1m30s, 2h."""

from __future__ import annotations

import re

from coordinator.cli.options.failure import EXIT_USAGE, CommandError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?")


def seconds_of(text: str, option: str) -> float:
    """A plain number is seconds. Raises :class:`CommandError` (usage)."""
    if _PLAIN.fullmatch(text):
        return float(text)
    sign = -1.0 if text.startswith("-") else 1.0
    body = text.removeprefix("-")
    if body and _PART.sub("", body) == "":
        return sign * sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(body))
    raise CommandError(f"{option} {text}: not a time; write 30s, 1m30s or 2h", code=EXIT_USAGE)


def age(seconds: float) -> str:
    """As kubectl shows it: one or two units, shorter than 8 characters."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"
