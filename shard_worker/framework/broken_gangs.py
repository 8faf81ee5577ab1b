"""Gangs below their minimum, as a dialect judges them by the states of their tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from shard_worker.session_model.workload import ClusterInfo, JobInfo


class BrokenGang(NamedTuple):
    """A job that holds nodes and is no whole gang."""

    grace: float
    """Seconds that it may stay so."""
    since: float | None
    """Since when it is, seconds since 1970, where an object says so."""


BrokenGangs = Callable[[JobInfo, bytearray, ClusterInfo], BrokenGang | None]
"""(job, states of its tasks, cluster) -> what is known of it; None where it is whole."""
