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
