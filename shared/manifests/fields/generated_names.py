"""Names for objects that were sent with ``metadata.generateName`` and without a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""As in Kubernetes: no vowels and no characters that look alike."""
LETTERS_OF_SUFFIX = 5
LONGEST_PREFIX = 58
"""Maximum characters of ``generateName`` that are used. As in Kubernetes: a name has at most 63,
suffix included."""


def with_name(item: dict[str, Any], suffix: Callable[[], str]) -> dict[str, Any]:
    """The object with a generated name, if it needs one; else the object itself."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name"):
        return item
    prefix = metadata.get("generateName")
    if not isinstance(prefix, str) or not prefix:
        return item
    return item | {"metadata": metadata | {"name": f"{prefix[:LONGEST_PREFIX]}{suffix()}"}}


def with_numbered_names(items: Sequence[Any]) -> list[Any]:
    """The objects with names that depend on their positions alone, for what is only tried: the
    same list has the same names each time."""
    return [
        with_name(item, partial(numbered_suffix, at)) if isinstance(item, dict) else item
        for at, item in enumerate(items)
    ]


def numbered_suffix(number: int) -> str:
    """The suffix of an object by its position in a list."""
    letters = []
    for _ in range(LETTERS_OF_SUFFIX):
        number, digit = divmod(number, len(LETTERS))
        letters.append(LETTERS[digit])
    return "".join(reversed(letters))
