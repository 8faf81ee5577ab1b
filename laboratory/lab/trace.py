"""A week as gangs of tasks with one GPU each: the workload of the demo and of ``scaling``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from laboratory.lab.week import SHARE, Week, is_share, parse_columns
from laboratory.workloads.trace import Trace


def read_trace(
    path: Path,
    *,
    columns: str | None = None,
    limit: int | None = None,
    allow_dropped: bool = True,
) -> Trace:
    """Read a file of jobs, and keep the first ``limit`` by submission. A task has one GPU, or is a
    pod in a week without GPUs. Raises :class:`WeekError`.
    """
    week = Week.read(path, columns=parse_columns(columns) if columns is not None else {})
    if week.has_gpus:
        week = week.without(week.size == 0, "no GPUs")
        week = week.without(is_share(week.gpus), SHARE)
    if not allow_dropped:
        week.check_dropped()
    if limit is not None:
        week = week.head(limit)
    queues = {name: number for number, name in enumerate(dict.fromkeys(week.queue))}
    return Trace(
        submit=week.submit,
        duration=week.duration,
        width=week.size.astype(np.int64) if week.has_gpus else week.pods,
        queue=np.array([queues[name] for name in week.queue], dtype=np.int64),
        queues=tuple(queues),
        unusable=dict(week.dropped),
    )
