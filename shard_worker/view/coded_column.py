"""Columns of repeated values: labels and taints of nodes as small numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from shared.model.model import Node

V = TypeVar("V", bound=Hashable)
ABSENT = -1
UNKNOWN = -2
FIRST_ROWS = 64


class CodedColumn(Generic[V]):
    """``values[codes[row]]``; code ABSENT if a row has no value. Codes are never reused."""

    __slots__ = ("_codes", "_index", "_of", "_size", "_values", "revision")

    def __init__(self, of: Callable[[Node], V | None], nodes: Sequence[Node | None]) -> None:
        """``of`` reads the value from a node; None = the node has none."""
        self._of = of
        self._values: list[V] = []
        self._index: dict[V, int] = {}
        self._codes = np.full(FIRST_ROWS, ABSENT, dtype=np.int32)
        self._size = 0
        self.revision = 0
        """Rises whenever rows are read again."""
        self.update(range(len(nodes)), nodes)

    @property
    def codes(self) -> NDArray[np.int32]:
        return self._codes[: self._size]

    @property
    def values(self) -> Sequence[V]:
        return self._values

    def code(self, value: object) -> int:
        """The code of a value; UNKNOWN where no row ever had it."""
        return self._index.get(value, UNKNOWN)  # type: ignore[arg-type]

    def update(self, rows: Iterable[int], nodes: Sequence[Node | None]) -> None:
        """Read these rows again, after their specs changed or rows were added."""
        self._resize(len(nodes))
        self.revision += 1
        codes, index = self._codes, self._index
        for row in rows:
            node = nodes[row]
            value = None if node is None else self._of(node)
            if value is None:
                codes[row] = ABSENT
                continue
            # Codes are never reused, so that a mask computed per code stays right for rows that
            # kept theirs.
            code = index.get(value)
            if code is None:
                code = index[value] = len(self._values)
                self._values.append(value)
            codes[row] = code

    def _resize(self, size: int) -> None:
        if size > len(self._codes):
            grown = np.full(max(size, 2 * len(self._codes)), ABSENT, dtype=np.int32)
            grown[: self._size] = self._codes[: self._size]
            self._codes = grown
        self._size = size
