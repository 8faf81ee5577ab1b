"""The score for images already present on a node: the more bytes need no download, the higher.

An image counts with its size times the fraction of nodes that have it, so that pods do not pile up
on the few nodes with a rare large image. In kube-scheduler's integer arithmetic: 0 below 23 MiB,
100 from 1000 MiB per container on.
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
"""Bytes per container that give the full score."""

Images = tuple[tuple[str, int], ...]


class ImageLocality:
    node_local = True
    """Valid as long as no node's images change."""

    def __init__(self, *, weight: int) -> None:
        self._weight = weight
        self._known: dict[tuple[str, ...], tuple[Coded[Images], int, Scores]] = {}
        """Images of a class -> the column, its revision, the score per row."""
        self._column: Coded[Images] | None = None
        self._sizes: list[dict[str, int]] = []

    def by_look(self, cls: TaskClass, view: NodeColumns) -> bool:
        """Whether nodes that look alike score alike: only if no image counts, as images are not
        part of the look."""
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
        """The score of every row."""
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
        """Image -> bytes, for each set of images. A column only appends new sets."""
        if self._column is not column:
            self._column, self._sizes = column, []
        self._sizes += [dict(images) for images in column.values[len(self._sizes) :]]
        return self._sizes

    def _per_code(self, images: tuple[str, ...], column: Coded[Images]) -> NDArray[np.float64]:
        """The score of each distinct set of images."""
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
