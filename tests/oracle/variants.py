"""Variants of a scenario, or of a form: one to four of its numbers are others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

MOST_CHANGES = 4
_QUANTITY = re.compile(r"(\d+)([A-Za-z]*)")
_UNTOUCHED = frozenset(
    {
        "policy",
        "actions",
        "tiers",
        "metadata",
        "id",
        "expect",
        "tier",
        "highestTierAllowed",
        "status.phase",
    }
)
"""Parts without numbers that a user varies: whoever draws a policy draws all of it."""


def variant(value: Any, draw: Random) -> Any:
    """A copy with one to four numbers changed. Same type and suffix; never below zero."""
    changed = json.loads(json.dumps(value))  # builders may use one object in several places
    places = list(_numbers(changed))
    for holder, key in draw.sample(places, min(len(places), draw.randint(1, MOST_CHANGES))):
        holder[key] = _other(holder[key], draw)
    return changed


def _numbers(value: Any) -> Iterator[tuple[Any, Any]]:
    """(mapping or list, key) of each number."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in pairs:
        if key in _UNTOUCHED:
            continue
        if isinstance(item, dict | list):
            yield from _numbers(item)
        elif isinstance(item, bool):
            continue
        elif isinstance(item, int | float) or (isinstance(item, str) and _QUANTITY.fullmatch(item)):
            yield value, key


def _other(item: Any, draw: Random) -> Any:
    if isinstance(item, str):
        match = _QUANTITY.fullmatch(item)
        assert match is not None, item
        return f"{_near(int(match[1]), draw)}{match[2]}"
    return item * draw.choice([0.5, 2, 3]) if isinstance(item, float) else _near(item, draw)


def _near(number: int, draw: Random) -> int:
    """One more or less, half, double, or a small number."""
    near = (number - 1, number + 1, number + 1, number // 2, number * 2, draw.randint(0, 4))
    return max(0, draw.choice(near))
