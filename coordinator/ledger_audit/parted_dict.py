"""A dictionary with integer keys, split into parts so that no single part is large when it grows.

Growing one of 100,000 entries takes 5 to 20 ms, longer than a slice may.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from itertools import chain
from typing import Any, TypeVar

V = TypeVar("V")

_PARTS = 64


def _part(key: int) -> int:
    return (key ^ key >> 16) % _PARTS


class PartedDict(MutableMapping[int, V]):
    """As with any dict, it must not change during iteration."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[dict[int, V]] = [{} for _ in range(_PARTS)]

    def __getitem__(self, key: int) -> V:
        return self._parts[_part(key)][key]

    def get(self, key: int, default: Any = None) -> Any:
        """Look up a key; four times as fast as Mapping's method, which tries and catches."""
        return self._parts[_part(key)].get(key, default)

    def __setitem__(self, key: int, value: V) -> None:
        self._parts[_part(key)][key] = value

    def __delitem__(self, key: int) -> None:
        del self._parts[_part(key)][key]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and key in self._parts[_part(key)]

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def clearing(self) -> Iterator[None]:
        """Clear step by step: freeing 100,000 records takes 10 ms."""
        for part in self._parts:
            part.clear()
            yield
