"""The scorer by images that are on a node already: the more bytes need no download, the better.

An image counts by its size times the share of the nodes that have it, so that a pod does not pile
up where a rare large image happens to be. Below 23 MiB the score is 0, from 1000 MiB for each
container on it is 100, in kube-scheduler's whole-number arithmetic.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Coded, NodeColumns, Rows, Scores
from shard_worker.kube_scheduler.scores.node_affinity import REMEMBERED, length
from shared.model.model import TaskClass

FULL = 100
MIB = 1024 * 1024
LEAST = 23 * MIB
MOST = 1000 * MIB
"""For each container."""

Images = tuple[tuple[str, int], ...]


class ImageLocality:
    node_local = True
    """As long as no node's images change."""

    def __init__(self, *, weight: int) -> None:
        self._weight = weight
        self._known: dict[tuple[str, ...], tuple[Coded[Images], int, Scores]] = {}
        """Images of a class -> the column, its revision, the score of each row."""
        self._column: Coded[Images] | None = None
        self._sizes: list[dict[str, int]] = []

    def by_look(self, cls: TaskClass, view: NodeColumns) -> bool:
        """Do nodes that look alike score alike? Only if no image counts: images are not part of the
        look."""
        return not _images(cls) or not any(view.images().values)

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> NDArray[np.float64]:
        images = _images(cls)
        if not images:
            return np.zeros(length(rows, view.size))
        return self._scores(images, view)[rows]

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        images = _images(cls)
        return float(self._scores(images, view).item(row)) if images else 0.0

    def _scores(self, images: tuple[str, ...], view: NodeColumns) -> Scores:
        """Of every row."""
        column = view.images()
        entry = self._known.get(images)
        if entry is not None and entry[0] is column and entry[1] == column.revision:
            return entry[2]
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        scores = np.append(self._per_code(images, column), 0.0)[column.codes]
        self._known[images] = (column, column.revision, scores)
        return scores

    def _sizes_of(self, column: Coded[Images]) -> list[dict[str, int]]:
        """Image -> bytes, for each set of images; a column's sets never change, they only grow
        in number."""
        if self._column is not column:
            self._column, self._sizes = column, []
        self._sizes += [dict(images) for images in column.values[len(self._sizes) :]]
        return self._sizes

    def _per_code(self, images: tuple[str, ...], column: Coded[Images]) -> NDArray[np.float64]:
        """The score of each set of images that nodes have."""
        codes = column.codes
        present = codes[codes >= 0]
        nodes = np.bincount(present, minlength=len(column.values)).tolist()
        sizes = self._sizes_of(column)
        totals = np.zeros(len(sizes), np.int64)
        for image in images:
            having = sum(count for count, has in zip(nodes, sizes, strict=True) if image in has)
            share = having / max(len(present), 1)
            for code, has in enumerate(sizes):
                totals[code] += int(has.get(image, 0) * share)
        most = MOST * len(images)
        inside = np.clip(totals, LEAST, most)
        return ((inside - LEAST) * FULL // (most - LEAST) * self._weight).astype(np.float64)


def _images(cls: TaskClass) -> tuple[str, ...]:
    return () if cls.constraints is None else cls.constraints.images
