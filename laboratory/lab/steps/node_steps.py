"""The use of each node over time, and what follows from the nodes' free parts: fragmentation, and
the largest gang that fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from laboratory.lab.play import Played
from laboratory.lab.steps.occupancy import pod_share
from laboratory.lab.steps.step_function import StepFunction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

STATES_AT_ONCE = 4096
"""States of nodes compared with all kinds of pods in one operation."""


@dataclass(frozen=True, slots=True)
class NodeSteps:
    """The free part of a node after each start or end of a pod on it, by node and time. The amount
    is GPUs, or cores in a week without GPUs."""

    node: Ints
    time: Floats
    free: Floats
    """Amount"""
    free_cores: Floats
    offer: Floats
    """Amount of each node, when it is empty."""
    cores: Floats
    """Cores of each node."""
    end: float

    @classmethod
    def of(cls, played: Played) -> NodeSteps:
        runs, week, cluster = played.runs, played.week, played.cluster
        share = pod_share(played)
        offer = cluster.gpus.astype(np.float64) if week.has_gpus else cluster.cpu
        amount = (week.gpus if week.has_gpus else week.cpu)[runs.job] * share
        time = np.concatenate([runs.end, runs.start])  # at one moment, ends come first
        node = np.concatenate([runs.node, runs.node])
        order = np.lexsort((time, node))
        node, time = node[order], time[order]

        def free(available: Floats, taken: Floats) -> Floats:
            # What a pod takes it gives back: the sum is 0 again where the next node begins.
            used = np.cumsum(np.concatenate([-taken, taken])[order])
            left: Floats = np.round(available[node] - used, 6)
            return left

        return cls(
            node=node,
            time=time,
            free=free(offer, amount),
            free_cores=free(cluster.cpu, week.cpu[runs.job] * share),
            offer=offer,
            cores=cluster.cpu,
            end=float(played.end.max()),
        )

    def total(self, value: Callable[[Floats, Floats, Floats], Floats]) -> StepFunction:
        """The sum over all nodes of a value of (offer, free amount, free cores)."""
        empty = value(self.offer, self.offer, self.cores)
        after = value(self.offer[self.node], self.free, self.free_cores)
        first = np.append(True, self.node[1:] != self.node[:-1])
        before = np.where(first, empty[self.node], np.roll(after, 1))
        order = np.argsort(self.time, kind="stable")
        values = empty.sum() + np.concatenate([[0.0], np.cumsum((after - before)[order])])
        return StepFunction(np.concatenate([[0.0], self.time[order], [self.end]]), values)


def fragmented_nodes(played: Played) -> float:
    """Share of the nodes that offer something and are in use in part, mean over the time."""
    steps = NodeSteps.of(played)
    partial = steps.total(lambda offer, free, _: ((free > 0) & (free < offer)).astype(np.float64))
    return partial.mean() / max(1, int((steps.offer > 0).sum()))


def largest_gang(played: Played) -> StepFunction:
    """Amount of the largest gang that would fit, of pods like the largest of the week."""
    week = played.week
    pod = float((week.gpus if week.has_gpus else week.cpu).max())
    if pod <= 0:
        return StepFunction(np.array([0.0, float(played.end.max())]), np.zeros(1))
    return NodeSteps.of(played).total(lambda _, free, __: pod * np.floor(free / pod))


def fragments(played: Played) -> tuple[StepFunction, StepFunction]:
    """The expected amount of fragments for a pod drawn from the week, and the free amount."""
    want, cores, share = _kinds_of_pods(played)

    def amount(_: Floats, free: Floats, free_cores: Floats) -> Floats:
        states, where = np.unique(np.stack([free, free_cores]), axis=1, return_inverse=True)
        fitting = np.empty(states.shape[1])
        for at in range(0, len(fitting), STATES_AT_ONCE):
            part = states[:, at : at + STATES_AT_ONCE, None]
            fits = (want > 0) & (want <= part[0]) & (cores <= part[1])
            fitting[at : at + STATES_AT_ONCE] = fits @ share
        expected: Floats = free * (1 - fitting[where.reshape(-1)])
        return expected

    steps = NodeSteps.of(played)
    return steps.total(amount), steps.total(lambda _, free, __: free)


def _kinds_of_pods(played: Played) -> tuple[Floats, Floats, Floats]:
    """Amount and cores of each kind of pod in the week, and the share of the pods that it is."""
    week = played.week
    rest = np.flatnonzero(week.rest)
    part = week.rest[rest] / week.gpus[rest]
    cores = np.concatenate([week.cpu, week.cpu[rest] * part])
    gpus = np.concatenate([week.gpus, week.rest[rest]]).astype(np.float64)
    count = np.concatenate([week.pods, np.ones(len(rest), dtype=np.int64)])
    pods = np.round(np.stack([gpus if week.has_gpus else cores, cores]), 6)
    kinds, where = np.unique(pods, axis=1, return_inverse=True)
    return kinds[0], kinds[1], np.bincount(where.reshape(-1), weights=count) / count.sum()
