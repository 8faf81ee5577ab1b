"""Caches of functions, each with a bound in bytes, and the list of all of them.

A hit costs what it costs in :func:`functools.lru_cache`. A miss adds the bytes of its arguments and
its result; a cache that has reached its bound is emptied before the next miss is stored. So it
holds at most its bound and one result more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache
from sys import getsizeof
from typing import NamedTuple, ParamSpec, TypeVar, cast

MIB = 1 << 20
ENTRY_BYTES = 200
"""Size of the table's slot and key of one entry, beside its arguments and result."""

P = ParamSpec("P")
R = TypeVar("R")


class CacheFigures(NamedTuple):
    bytes: int
    bound: int
    hits: int
    misses: int


class ByteCache:
    """One cache: the bytes that it holds, and the counts since the start of the process."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self._bytes = 0
        self._hits = self._misses = 0
        """Counts up to when the cache was last emptied."""

    def around(self, function: Callable[P, R], *, typed: bool) -> Callable[P, R]:
        """Wrap the only function of this cache. Its arguments are hashable."""

        def compute(*args: P.args, **kwargs: P.kwargs) -> R:
            if self._bytes >= self.bound:
                self.empty()
            result = function(*args, **kwargs)
            self._bytes += ENTRY_BYTES + footprint(args) + footprint(result)
            return result

        # Without a bound of its own: to keep the order of use would cost a hit a third more.
        self._cached = lru_cache(maxsize=None, typed=typed)(compute)
        return cast("Callable[P, R]", self._cached)

    def empty(self) -> None:
        _, self._hits, self._misses = self.figures()[1:]
        self._cached.cache_clear()
        self._bytes = 0

    def figures(self) -> CacheFigures:
        info = self._cached.cache_info()
        hits, misses = self._hits + info.hits, self._misses + info.misses
        return CacheFigures(self._bytes, self.bound, hits, misses)


CACHES: dict[str, ByteCache] = {}
"""All caches of this process by name, as far as their modules are loaded."""


def byte_cache(
    name: str, bound: int, *, typed: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache the results of a function within ``bound`` bytes. ``typed``: equal arguments of
    different types are different ones."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        cache = CACHES[name] = ByteCache(bound)
        return cache.around(function, typed=typed)

    return decorate


def footprint(value: object) -> int:
    """Bytes of a value with all that it holds; a part that it holds twice counts twice. Classes and
    members of enums exist anyway: they count without their parts."""
    size = getsizeof(value)
    kind = type(value)
    if kind in _PLAIN or isinstance(value, Enum | type):
        return size
    if isinstance(value, dict):
        return size + footprint((*value.keys(), *value.values()))
    if not isinstance(value, tuple | list | frozenset | set):
        value = [getattr(value, name) for name in _fields(value)]
    for item in value:
        size += getsizeof(item) if type(item) in _PLAIN else footprint(item)
    return size


_PLAIN = frozenset({str, bytes, int, float, bool, type(None)})


def _fields(value: object) -> Iterable[str]:
    for names in ("__struct_fields__", "__dataclass_fields__", "__dict__"):
        if fields := getattr(value, names, ()):
            return tuple(fields)
    return ()
