"""Durations as Go writes them: ``1h30m``, ``250ms``."""

from __future__ import annotations

import re

from shared.manifests.fields.reader import Fields

_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_PART = re.compile(r"([0-9.]+)(h|ms|m|s|us|ns)")
_DURATION = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{1,9})?(?:h|ms|m|s|us|ns)){1,6}")


def check_duration(fields: Fields, name: str) -> str:
    """The duration as written; "" for none."""
    text = fields.text(name, longest=64)
    if text and _DURATION.fullmatch(text) is None:
        raise fields.wrong(name, 'not a duration; write it as "10s", "5m" or "1h30m"')
    return text


def duration_seconds(text: str) -> float:
    """The seconds of a checked duration; 0 for ""."""
    return sum(float(count) * _SECONDS[unit] for count, unit in _PART.findall(text))
