"""Which faults strike when: drawn from a seed, before anything runs.

Every role is killed at least once, workers and leader and ledger are paused, a coordinator is
restarted in order, the ledger's append-only file is rewritten once; what time is left is filled
with more of the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from coordinator.keeper import DEATHS, WINDOW_SECONDS

WORKER = "worker"
LEADER = "leader"
STANDBY = "standby"
REDIS = "redis"
RAY = "ray"
CLUSTER = "cluster"
TARGETS = (WORKER, LEADER, STANDBY, REDIS, RAY, CLUSTER)

WARM_UP = 3.0
"""Seconds before the first fault."""
COOL_DOWN = 5.0
"""Seconds of load after the last one, so that there is work to recover with."""
SPACING = 3.0
"""Seconds between two faults on average, where not more of them must strike."""


class Kind(StrEnum):
    KILL = "kill"
    """SIGKILL"""
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT after a while"""
    RESTART = "restart"
    """asked to end, and started again"""
    REWRITE = "rewrite"
    """of the append-only file, while work goes on"""


@dataclass(frozen=True, slots=True)
class Blow:
    at: float
    """Seconds after the load has begun."""
    kind: Kind
    target: str
    length: float
    """Seconds of a pause, else 0."""
    pick: float
    """0 to below 1: which of several (shard, part of the head) it hits."""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.target}"


_PAUSES = {
    WORKER: (2.0, 6.0),  # some of them longer than a shard's lease, some shorter
    LEADER: (0.5, 4.0),
    STANDBY: (0.5, 3.0),
    REDIS: (0.3, 2.0),
    RAY: (0.5, 2.0),
    CLUSTER: (0.5, 3.0),
}

_EXTRAS: tuple[tuple[Kind, str, int], ...] = (
    (Kind.KILL, WORKER, 6),
    (Kind.PAUSE, WORKER, 4),
    (Kind.KILL, LEADER, 2),
    (Kind.PAUSE, LEADER, 2),
    (Kind.KILL, STANDBY, 1),
    (Kind.PAUSE, STANDBY, 1),
    (Kind.RESTART, LEADER, 1),
    (Kind.KILL, REDIS, 2),
    (Kind.PAUSE, REDIS, 2),
    (Kind.RESTART, REDIS, 1),
    (Kind.KILL, RAY, 1),
    (Kind.PAUSE, RAY, 1),
    (Kind.KILL, CLUSTER, 1),
    (Kind.PAUSE, CLUSTER, 1),
)
"""What may strike besides, with weights."""

_MORE = ((Kind.PAUSE, REDIS), (Kind.RESTART, LEADER), (Kind.KILL, WORKER), (Kind.RESTART, REDIS))
"""What a run of 45 s and more has in any case."""

_DEATHS = {
    (Kind.KILL, LEADER): "coordinators",
    (Kind.PAUSE, LEADER): "coordinators",
    (Kind.KILL, STANDBY): "coordinators",
    (Kind.KILL, RAY): "coordinators",
    (Kind.KILL, REDIS): REDIS,
    (Kind.KILL, CLUSTER): CLUSTER,
}
"""Whom the keeper sees dead after it; it gives up on who dies too often."""


def plan(seed: int, duration: float, *, targets: Iterable[str] = TARGETS) -> list[Blow]:
    """The blows of a run, by time; the same seed, duration and targets give the same."""
    rng = Random(seed)
    chosen = [target for target in TARGETS if target in set(targets)]
    window = max(duration - WARM_UP - COOL_DOWN, 0.1)
    must, extra = _what(rng, chosen, window)
    order = rng.sample(range(len(must) + len(extra)), len(must) + len(extra))
    slot = window / len(order)
    blows = []
    for number, (kind, target) in zip(order, [*must, *extra], strict=True):
        at = WARM_UP + slot * (number + rng.uniform(0.1, 0.9))
        length = rng.uniform(*_PAUSES[target]) if kind is Kind.PAUSE else 0.0
        blows.append(Blow(round(at, 3), kind, target, round(length, 3), rng.random()))
    return sorted(_bearable(blows, len(must)), key=lambda blow: blow.at)


def _what(
    rng: Random, targets: list[str], window: float
) -> tuple[list[tuple[Kind, str]], list[tuple[Kind, str]]]:
    """What has to strike, and what besides."""
    kinds = [(Kind.KILL, target) for target in targets]
    kinds += [(Kind.PAUSE, target) for target in (WORKER, LEADER) if target in targets]
    if REDIS in targets:
        kinds.append((Kind.REWRITE, REDIS))
    if window > 45.0 - WARM_UP - COOL_DOWN:
        kinds += [(kind, target) for kind, target in _MORE if target in targets]
    extras = [(kind, target, weight) for kind, target, weight in _EXTRAS if target in targets]
    weights = [weight for *_, weight in extras]
    more = max(0, round(window / SPACING) - len(kinds))
    chosen = rng.choices(extras, weights, k=more)
    return kinds, [(kind, target) for kind, target, _ in chosen]


def _bearable(blows: list[Blow], must: int) -> list[Blow]:
    """Those beyond the first ``must`` strike a worker where they would make the keeper give up: so
    many deaths of one role within its window are not what it is there for."""
    deaths: dict[str, list[float]] = {}
    kept = []
    for number, blow in enumerate(blows):
        role = _DEATHS.get((blow.kind, blow.target))
        if role is not None:
            near = [at for at in deaths.get(role, []) if abs(at - blow.at) < WINDOW_SECONDS + 5.0]
            if number >= must and len(near) >= DEATHS - 2:
                kept.append(replace(blow, kind=Kind.KILL, target=WORKER, length=0.0))
                continue
            deaths.setdefault(role, []).append(blow.at)
        kept.append(blow)
    return kept
