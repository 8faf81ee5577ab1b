"""Durations as Go writes them: ``1h30m``, ``250ms``."""

from __future__ import annotations

import re

from shared.manifests.fields.reader import Fields

_DURATION = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{1,9})?(?:h|ms|m|s|us|ns)){1,6}")


def check_duration(fields: Fields, name: str) -> str:
    """The duration as written; "" for none."""
    text = fields.text(name, longest=64)
    if text and _DURATION.fullmatch(text) is None:
        raise fields.wrong(name, 'not a duration; write it as "10s", "5m" or "1h30m"')
    return text
