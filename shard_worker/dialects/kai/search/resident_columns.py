"""Jobs on nodes as columns, for rules that ask of thousands of possible victims at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.model import QueueState
from shard_worker.dialects.kai.rules.amounts import Amounts
from shard_worker.view.resident_table import ResidentTable
from shared.model.model import Requests

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentColumns:
    """One line for each job, sorted by number. Each has a place for all of its tasks, or had one,
    and one pod set: the questions that rules ask of its tree are answered by counts."""

    jid: Ints
    leaves: Sequence[QueueState]
    leaf: Ints
    """Index of its queue in ``leaves``."""
    priority: Ints
    age: Ints
    """Its place by creation, then uid, then number."""
    created: NDArray[np.float64]
    """Seconds since 1970."""
    uid: NDArray[np.object_]
    """Its key where it has none."""
    started: NDArray[np.float64]
    """Seconds since 1970; not a number where that is not known."""
    preemptible: Mask
    may_lose: Mask
    """Whether it may be a victim at all."""
    elastic_class: Ints
    """As :func:`shard_worker.dialects.kai.rules.groups.elastic_class`."""
    is_elastic: Mask
    """As :func:`shard_worker.dialects.kai.rules.groups.is_elastic`."""
    shape: Ints
    """Index in ``shapes``."""
    shapes: Sequence[tuple[Amounts, ...]]
    """Amounts that each task holds in its queue; () where no job has the shape."""
    classes: Sequence[tuple[tuple[int, Requests], ...]]
    """By shape: number and requests of each task's class."""
    at_once: Mask
    """Whether all of its tasks may go, and go together: none is beyond its minimum."""
    lines: Ints
    """Where its tasks begin in the table of residents, in the order of their numbers."""
    table: ResidentTable
