"""The runs of all pods of a played week: where, from when to when, and whether it was evicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from coordinator.cluster.events import ClusterEvent
from laboratory.lab.objects import row_of
from laboratory.simulation.history import Notes

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ENDED = ("succeeded", "failed", "lost")


@dataclass(frozen=True, slots=True)
class PodRuns:
    """One row for each run of a pod; the arrays run in parallel."""

    job: NDArray[np.int64]
    """Row of the week."""
    pod: NDArray[np.int64]
    """Index in the job; the last one of a job that has a rest is the smaller pod."""
    node: NDArray[np.int64]
    start: NDArray[np.float64]
    """Seconds after the first submission."""
    end: NDArray[np.float64]
    """NaN: it runs still."""
    evicted: NDArray[np.bool_]
    """Whether it ended before its time."""


class PodRecord(Notes):
    """Records starts and ends of pods from the cluster's events."""

    reads_ledger = False

    def __init__(self, nodes: list[str]) -> None:
        super().__init__()
        self._rows = {name: row for row, name in enumerate(nodes)}
        self._open: dict[str, int] = {}
        """Task -> its run that has not ended."""
        self._runs: list[tuple[int, int, int, float]] = []
        """Number of the job, pod, node, start."""
        self._ends: dict[int, tuple[float, bool]] = {}
        self.started = 0
        """Runs that have begun."""
        self.submitted: list[int] = []
        """Numbers of the jobs that are stored, in their order."""

    @property
    def ended(self) -> int:
        return len(self._ends)

    def acknowledged(self, t: float, jids: list[int]) -> None:
        """The times are ignored: a job's submission is the week's."""
        self.submitted += jids

    def cluster_events(self, events: list[ClusterEvent]) -> None:
        for event in events:
            if event.kind == "start":
                for task, node in zip(event.tasks, event.nodes, strict=True):
                    self._open[task] = len(self._runs)
                    jid, _, pod = task.partition(".")
                    self._runs.append((int(jid), int(pod), self._rows[node], event.t))
            elif event.kind in _ENDED:
                for task in event.tasks:
                    self._ends[self._open.pop(task)] = (event.t, event.kind != "succeeded")
        self.started = len(self._runs)

    def runs(self, names: Mapping[int, str], *, origin: float, speedup: float) -> PodRuns:
        """All runs. ``names``: of the jobs by number; ``origin``: the virtual time of the first
        submission."""
        count = len(self._runs)
        columns = np.array(self._runs, dtype=np.float64).reshape(count, 4)
        ends, evicted = np.full(count, np.nan), np.zeros(count, dtype=np.bool_)
        for run, (end, lost) in self._ends.items():
            ends[run], evicted[run] = end, lost
        jid, pod, node = (columns[:, i].astype(np.int64) for i in range(3))
        weeks_row = {jid: row_of(name) for jid, name in names.items()}
        return PodRuns(
            job=np.array([weeks_row[number] for number in jid.tolist()], dtype=np.int64),
            pod=pod,
            node=node,
            start=(columns[:, 3] - origin) * speedup,
            end=(ends - origin) * speedup,
            evicted=evicted,
        )
