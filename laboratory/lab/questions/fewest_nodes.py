"""The fewest nodes with which a policy keeps its guards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laboratory.lab.cluster import Cluster
from laboratory.lab.comparison import compare
from laboratory.lab.experiment import Experiment, play_all
from laboratory.lab.guard import MeasureGuard, broken_guards, check_guards
from laboratory.lab.play import RunSettings, fitted
from laboratory.lab.policies import NamedPolicy, named
from laboratory.lab.week import Week, WeekError, WeekSource

DOUBLINGS = 6
"""A number that is too small is doubled so often at most."""


@dataclass(frozen=True, slots=True)
class TriedNodes:
    """A number of nodes, and why it is too small; "" if it is not."""

    nodes: int
    broken: str


@dataclass(frozen=True, slots=True)
class FewestNodes:
    """The fewest nodes that keep the guards, if no smaller number keeps what a larger one does
    not."""

    policy: str
    nodes: int
    tried: tuple[TriedNodes, ...]
    """In the order of the tries."""


def fewest_nodes(
    week: Week,
    guards: Sequence[str],
    shape: Callable[[int], Cluster],
    *,
    nodes: int,
    policy: NamedPolicy | Path | str | None = None,
    seeds: Sequence[int] = (1, 2, 3),
    shards: int = 1,
    processes: int = 1,
    progress: Callable[[TriedNodes], None] = lambda _: None,
    **settings: Any,
) -> FewestNodes:
    """Bisect between no node and ``nodes`` of a shape; a number that is too small is doubled.

    ``shape`` makes a cluster of so many nodes; ``guards`` are bounds without a sign, such as
    ``wait.p99 <= 3600``; ``settings``: those of :class:`RunSettings` by name; ``progress`` is
    called with each number tried. Raises :class:`WeekError`.
    """
    bounds = [MeasureGuard.parse(text) for text in guards]
    if not bounds or any(bound.relative for bound in bounds):
        raise WeekError(
            "--fewest-nodes: needs a --guard, and bounds without a sign, such as 'wait.p99 <= 3600'"
        )
    base = policy if isinstance(policy, NamedPolicy) else named(policy)
    probe = _Probe(
        week, bounds, shape, base, shards, tuple(seeds), RunSettings(**settings), processes
    )
    tried: list[TriedNodes] = []

    def keeps(count: int) -> bool:
        tried.append(TriedNodes(count, probe.broken(count)))
        progress(tried[-1])
        return not tried[-1].broken

    low, high = 0, nodes
    while not keeps(high):
        if len(tried) > DOUBLINGS:
            raise WeekError(
                f"--fewest-nodes: {high:,} nodes do not keep it either: {tried[-1].broken}; "
                "look whether the policy can keep it at all"
            )
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return FewestNodes(base.name, high, tuple(tried))


@dataclass(frozen=True, slots=True)
class _Probe:
    week: Week
    guards: list[MeasureGuard]
    shape: Callable[[int], Cluster]
    policy: NamedPolicy
    shards: int
    seeds: tuple[int, ...]
    settings: RunSettings
    processes: int

    def broken(self, nodes: int) -> str:
        """Which guards so many nodes break; "" if none."""
        cluster = self.shape(nodes)
        cut = self.week.cut(int(cluster.gpus.max(initial=0)))
        if lost := int(cluster.without_room(cut).sum()):
            return f"no room even without other jobs for {lost:,} of {len(cut):,} jobs"
        fit = fitted(self.week, cluster, self.policy.parse())
        check_guards(self.guards, fit, 1)
        experiment = Experiment(
            week=fit,
            source=WeekSource(),
            cluster=cluster,
            policies=(self.policy,),
            shards=(self.shards,),
            seeds=self.seeds,
            settings=self.settings,
        )
        runs = play_all(experiment, processes=self.processes)
        return "; ".join(broken_guards(self.guards, compare(experiment, runs)))
