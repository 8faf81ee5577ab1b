"""Cuts what is walked into pieces that are small enough for one step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def portions(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """The values, so many at a time; they are read as the pieces are taken."""
    rest = iter(values)
    while some := [*islice(rest, size)]:
        yield some
