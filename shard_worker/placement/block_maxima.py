"""The best of many numbers that change one at a time: block maxima, and tie-breaking noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.float64]
UNPICKABLE = -np.inf
"""The key of a row that cannot be picked."""

NOISE_BITS = 12
NOISE_UNIT = 2.0**-32
"""All noise together stays below 2**-20 = a millionth of a score unit."""
_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def noise(seed: int, rows: int) -> Keys:
    """A small number per row that decides between equal scores, different for every seed.

    It depends on seed and row alone, so that a cluster that grows keeps the noise it had, and
    shards with different seeds prefer different nodes among equals.
    """
    first = np.uint64((seed * _MIX[1] + _MIX[0]) % 2**64)
    x = (np.arange(rows, dtype=np.uint64) + first) * np.uint64(_MIX[0])
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_MIX[1])
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_MIX[2])
    x ^= x >> np.uint64(31)
    return (x >> np.uint64(64 - NOISE_BITS)).astype(np.float64) * NOISE_UNIT


class BlockMaxima:
    """Keys by row with the best row of every block, so that the best of all costs one short scan.

    Blocks have about the square root of the number of rows. Equal keys: the lowest row wins.
    """

    __slots__ = ("_best", "_blocks", "_keys", "_shift", "_where")

    def __init__(self, keys: Keys) -> None:
        """``keys``: one per row; NEVER for a row that cannot be picked."""
        self._shift = max(5, (len(keys).bit_length() + 1) // 2)
        size = 1 << self._shift
        count = max(1, -(-len(keys) // size))
        self._keys: Keys = np.full(count * size, UNPICKABLE, dtype=np.float64)
        self._keys[: len(keys)] = keys
        self._blocks = self._keys.reshape(count, size)
        self._best = self._blocks.max(axis=1)
        self._where: list[int] = self._blocks.argmax(axis=1).tolist()
        """Block -> the lowest of its rows with its best key, counted from its first."""

    def key(self, row: int) -> float:
        return self._keys.item(row)

    def set(self, row: int, key: float) -> None:
        """Change the key of one row."""
        block = row >> self._shift
        at = row - (block << self._shift)
        best, where = self._best.item(block), self._where[block]
        self._keys[row] = key
        if key > best or (key == best and at < where):
            self._best[block], self._where[block] = key, at
        # Only a block that loses its best row is scanned again.
        elif at == where and key < best:
            keys = self._blocks[block]
            where = self._where[block] = int(keys.argmax())
            self._best[block] = keys.item(where)

    def set_many(self, rows: NDArray[np.intp], keys: Keys | Sequence[float]) -> None:
        """Change many keys; ``rows`` without repetition."""
        self._keys[rows] = keys
        blocks = np.unique(rows >> self._shift)
        some = self._blocks[blocks]
        self._best[blocks] = some.max(axis=1)
        for block, where in zip(blocks.tolist(), some.argmax(axis=1).tolist(), strict=True):
            self._where[block] = where

    def top(self, rows: NDArray[np.intp] | None = None) -> tuple[int, float]:
        """(row, key) of the highest key, of these ``rows`` (ascending, at least one) or of all; the
        key is NEVER where no row can be picked."""
        if rows is not None:
            row = rows.item(int(self._keys[rows].argmax()))
            return row, self._keys.item(row)
        block = int(self._best.argmax())
        return (block << self._shift) + self._where[block], self._best.item(block)
