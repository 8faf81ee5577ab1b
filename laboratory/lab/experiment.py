"""A week under several policies, numbers of shards and seeds, played in parallel processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from ctypes import Array, c_double
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing.sharedctypes import RawArray

from laboratory.lab.cluster import Cluster
from laboratory.lab.play import Played, RunSettings, play
from laboratory.lab.policies import NamedPolicy
from laboratory.lab.week import Week, WeekError, WeekSource
from laboratory.scenarios.worker_processes import worker_processes
from shared.codec.packed import replace
from shared.policy.model import Policy

REPORT_SECONDS = 0.2
"""Interval between reports of progress."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One policy with one number of shards, to compare with others."""

    policy: str
    shards: int

    def __str__(self) -> str:
        return f"{self.policy}, {self.shards} shard{'s' if self.shards > 1 else ''}"


@dataclass(frozen=True, slots=True)
class Experiment:
    """All that the results depend on. The first policy with the first number of shards is the
    baseline."""

    week: Week
    """Fitted to the cluster."""
    source: WeekSource
    """How the week was read."""
    cluster: Cluster
    policies: tuple[NamedPolicy, ...]
    shards: tuple[int, ...]
    seeds: tuple[int, ...]
    settings: RunSettings
    """Settings of every run; shards and seed are set for each."""

    def __post_init__(self) -> None:
        lists = (
            ("--policy", [policy.name for policy in self.policies], "its file names it"),
            ("--shards", self.shards, "give each once"),
            ("--seeds", self.seeds, "give each once"),
        )
        for option, values, remedy in lists:
            if len(set(values)) < len(values):
                raise WeekError(
                    f"{option}: two of {', '.join(map(str, values))} are the same; {remedy}"
                )

    @property
    def variants(self) -> list[Variant]:
        pairs = product((policy.name for policy in self.policies), self.shards)
        return [Variant(name, shards) for name, shards in pairs]


@dataclass(frozen=True, slots=True)
class SeedRun:
    """One played seed of a variant."""

    variant: Variant
    seed: int
    played: Played


def play_all(
    experiment: Experiment, *, processes: int, progress: Callable[[float], None] = lambda _: None
) -> list[SeedRun]:
    """All runs, by variant and seed; ``progress`` is called with the number of runs played so far,
    parts of runs included. Raises :class:`WeekError`."""
    runs, plan = [], list(_plan(experiment))
    fractions = RawArray("d", len(plan))
    with worker_processes(processes, partial(_share_memory, fractions)) as pool:
        futures = [
            pool.submit(_play, number, experiment.week, experiment.cluster, policy, settings)
            for number, (_, policy, settings) in enumerate(plan)
        ]
        for future, (variant, _, settings) in zip(futures, plan, strict=True):
            while wait([future], timeout=REPORT_SECONDS).not_done:
                progress(sum(fractions))
            try:
                runs.append(SeedRun(variant, settings.seed, future.result()))
            except WeekError as error:
                raise WeekError(f"{variant}, seed {settings.seed}: {error}") from None
    progress(len(runs))
    return runs


_fractions: list[Array[c_double]] = []
"""In a process of the pool: the fraction of each run that is done, in memory that all share."""


def _share_memory(fractions: Array[c_double]) -> None:
    _fractions[:] = [fractions]


def _play(
    number: int, week: Week, cluster: Cluster, policy: Policy, settings: RunSettings
) -> Played:
    (fractions,) = _fractions

    def step(fraction: float) -> None:
        fractions[number] = fraction

    return play(week, cluster, policy, settings, step)


def _plan(experiment: Experiment) -> Iterator[tuple[Variant, Policy, RunSettings]]:
    for policy, shards, seed in product(experiment.policies, experiment.shards, experiment.seeds):
        settings = replace(experiment.settings, shards=shards, seed=seed)
        yield Variant(policy.name, shards), policy.parse(), settings


def of_variant(runs: Sequence[SeedRun], variant: Variant) -> list[SeedRun]:
    return [run for run in runs if run.variant == variant]
