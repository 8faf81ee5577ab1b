"""Which part of the cluster is in use over time, exactly, from the runs of all pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from laboratory.lab.play import Played
from laboratory.lab.steps.step_function import StepFunction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Occupancy:
    share: StepFunction
    """Share of the capacity that is in use."""

    @classmethod
    def of(cls, played: Played) -> Occupancy:
        runs = played.runs
        moments, change = _steps(runs.start, runs.end, run_amounts(played))
        end = float(played.end.max())
        times = np.concatenate([[0.0], moments, [end]])
        used = np.concatenate([[0.0], np.cumsum(change)])
        return cls(StepFunction(times, used / capacity(played)))

    def share_while_waiting(self, played: Played) -> float:
        """Mean share over the time in which some job waits; 1 if none ever does."""
        waits, change = _steps(played.submit, played.start, np.ones(len(played.submit)))
        grid = np.unique(np.concatenate([self.share.times, waits]))
        seconds = np.diff(grid)
        waiting = _at(waits, np.cumsum(change), grid[:-1]) > 0
        share = _at(self.share.times, np.append(self.share.values, 0.0), grid[:-1])
        total = float(seconds[waiting].sum())
        return float((share * seconds)[waiting].sum() / total) if total else 1.0


def capacity(played: Played) -> float:
    """GPUs of the cluster, or cores in a week without GPUs."""
    cluster = played.cluster
    return float((cluster.gpus if played.week.has_gpus else cluster.cpu).sum())


def run_amounts(played: Played) -> Floats:
    """GPUs (or cores) of each run of a pod."""
    week = played.week
    amounts = week.gpus if week.has_gpus else week.cpu
    result: Floats = amounts[played.runs.job] * pod_share(played)
    return result


def waiting_jobs(played: Played, points: int) -> tuple[Floats, Floats]:
    """Mean number of waiting jobs in equal parts of the time: their middles, and the numbers."""
    moments, change = _steps(played.submit, played.start, np.ones(len(played.submit)))
    area = np.concatenate([[0.0], np.cumsum(np.cumsum(change)[:-1] * np.diff(moments))])
    edges = np.linspace(0.0, float(played.end.max()), points + 1)
    passed = np.diff(np.interp(edges, moments, area))
    return (edges[:-1] + edges[1:]) / 2, passed / np.maximum(np.diff(edges), 1e-12)


def pod_share(played: Played) -> Floats:
    """Size of each run's pod / size of the job's other pods: below 1 for a rest."""
    week, runs = played.week, played.runs
    rest = (week.rest[runs.job] > 0) & (runs.pod == week.pods[runs.job])
    share: Floats = np.where(rest, week.rest[runs.job] / np.maximum(week.gpus[runs.job], 1), 1.0)
    return share


def _steps(start: Floats, end: Floats, amount: Floats) -> tuple[Floats, Floats]:
    """Moments in order, and the change at each; ends come before starts."""
    moments = np.concatenate([end, start])
    change = np.concatenate([-amount, amount])
    order = np.argsort(moments, kind="stable")
    return moments[order], change[order]


def _at(times: Floats, values: Floats, when: Floats) -> Floats:
    """The value of a step function at these moments; 0 before its first step."""
    steps = np.searchsorted(times, when, side="right") - 1
    result: Floats = np.where(steps < 0, 0.0, values[np.maximum(steps, 0)])
    return result
