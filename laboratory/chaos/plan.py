"""The plan of faults of a chaos run, drawn from a seed in advance.

Every role is killed at least once, workers, leader and ledger are paused, a coordinator is
restarted gracefully, and the ledger's append-only file is rewritten once; the remaining time is
filled with more of the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from coordinator.supervisor.restarts import DEATHS, WINDOW_SECONDS
from shared.codec.packed import replace

WORKER = "worker"
LEADER = "leader"
STANDBY = "standby"
LEDGER = "ledger"
RAY = "ray"
CLUSTER = "cluster"
API_SERVER = "api-server"
ETCD = "etcd"
TARGETS = (WORKER, LEADER, STANDBY, LEDGER, RAY, CLUSTER)
"""Targets of a run on the simulated cluster."""
KUBERNETES_TARGETS = (WORKER, LEADER, STANDBY, LEDGER, RAY, API_SERVER, ETCD)
"""Targets of a run on a real API server."""
_ALL = (*TARGETS, API_SERVER, ETCD)

WARM_UP = 3.0
"""Seconds before the first fault."""
COOL_DOWN = 5.0
"""Seconds of load after the last fault, so that there is work to recover with."""
SPACING = 3.0
"""Average seconds between two faults, unless mandatory ones need less."""


class InjectionKind(StrEnum):
    KILL = "kill"
    """SIGKILL"""
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT after a while"""
    RESTART = "restart"
    """asked to end, and started again"""
    REWRITE = "rewrite"
    """of the append-only file, while work goes on"""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    at: float
    """Seconds after the start of the load."""
    kind: InjectionKind
    target: str
    length: float
    """Seconds of a pause; 0 for other kinds."""
    pick: float
    """In [0, 1): chooses among several targets (shard, part of the Ray head)."""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.target}"


_PAUSES = {
    WORKER: (2.0, 6.0),  # some of them longer than a shard's lease, some shorter
    LEADER: (0.5, 4.0),
    STANDBY: (0.5, 3.0),
    LEDGER: (0.3, 2.0),
    RAY: (0.5, 2.0),
    CLUSTER: (0.5, 3.0),
    API_SERVER: (0.5, 4.0),
    ETCD: (0.5, 3.0),
}

_EXTRAS: tuple[tuple[InjectionKind, str, int], ...] = (
    (InjectionKind.KILL, WORKER, 6),
    (InjectionKind.PAUSE, WORKER, 4),
    (InjectionKind.KILL, LEADER, 2),
    (InjectionKind.PAUSE, LEADER, 2),
    (InjectionKind.KILL, STANDBY, 1),
    (InjectionKind.PAUSE, STANDBY, 1),
    (InjectionKind.RESTART, LEADER, 1),
    (InjectionKind.KILL, LEDGER, 2),
    (InjectionKind.PAUSE, LEDGER, 2),
    (InjectionKind.RESTART, LEDGER, 1),
    (InjectionKind.KILL, RAY, 1),
    (InjectionKind.PAUSE, RAY, 1),
    (InjectionKind.KILL, CLUSTER, 1),
    (InjectionKind.PAUSE, CLUSTER, 1),
    (InjectionKind.KILL, API_SERVER, 2),
    (InjectionKind.PAUSE, API_SERVER, 2),
    (InjectionKind.KILL, ETCD, 1),
    (InjectionKind.PAUSE, ETCD, 1),
)
"""Optional faults, with weights."""

_MORE = (
    (InjectionKind.PAUSE, LEDGER),
    (InjectionKind.RESTART, LEADER),
    (InjectionKind.KILL, WORKER),
    (InjectionKind.RESTART, LEDGER),
)
"""Faults that every run of more than 45 s has, as far as their targets are chosen."""

_DEATHS = {
    (InjectionKind.KILL, LEADER): "coordinators",
    (InjectionKind.PAUSE, LEADER): "coordinators",
    (InjectionKind.KILL, STANDBY): "coordinators",
    (InjectionKind.KILL, RAY): "coordinators",
    (InjectionKind.KILL, LEDGER): LEDGER,
    (InjectionKind.KILL, CLUSTER): CLUSTER,
}
"""The role that dies from a fault, as seen by the keeper, which gives up on roles that die too
often."""


def plan(seed: int, duration: float, *, targets: Iterable[str] = TARGETS) -> list[PlannedFault]:
    """The faults of a run in order of time; a pure function of its arguments."""
    rng = Random(seed)
    chosen = [target for target in _ALL if target in set(targets)]
    window = max(duration - WARM_UP - COOL_DOWN, 0.1)
    must, extra = _what(rng, chosen, window)
    order = rng.sample(range(len(must) + len(extra)), len(must) + len(extra))
    slot = window / len(order)
    blows = []
    for number, (kind, target) in zip(order, [*must, *extra], strict=True):
        at = WARM_UP + slot * (number + rng.uniform(0.1, 0.9))
        length = rng.uniform(*_PAUSES[target]) if kind is InjectionKind.PAUSE else 0.0
        blows.append(PlannedFault(round(at, 3), kind, target, round(length, 3), rng.random()))
    return sorted(_bearable(blows, len(must)), key=lambda blow: blow.at)


def _what(
    rng: Random, targets: list[str], window: float
) -> tuple[list[tuple[InjectionKind, str]], list[tuple[InjectionKind, str]]]:
    """(mandatory faults, further ones drawn to fill the window)"""
    kinds = [(InjectionKind.KILL, target) for target in targets]
    kinds += [(InjectionKind.PAUSE, target) for target in (WORKER, LEADER) if target in targets]
    if LEDGER in targets:
        kinds.append((InjectionKind.REWRITE, LEDGER))
    if window > 45.0 - WARM_UP - COOL_DOWN:
        kinds += [(kind, target) for kind, target in _MORE if target in targets]
    extras = [(kind, target, weight) for kind, target, weight in _EXTRAS if target in targets]
    weights = [weight for *_, weight in extras]
    more = max(0, round(window / SPACING) - len(kinds))
    chosen = rng.choices(extras, weights, k=more)
    return kinds, [(kind, target) for kind, target, _ in chosen]


def _bearable(blows: list[PlannedFault], must: int) -> list[PlannedFault]:
    """The faults, with optional ones (from index ``must``) replaced by the kill of a worker where a
    role would otherwise die so often within the supervisor's window that it gives up."""
    deaths: dict[str, list[float]] = {}
    bearable = []
    for number, blow in enumerate(blows):
        role = _DEATHS.get((blow.kind, blow.target))
        if role is not None:
            near = [at for at in deaths.get(role, []) if abs(at - blow.at) < WINDOW_SECONDS + 5.0]
            if number >= must and len(near) >= DEATHS - 2:
                bearable.append(replace(blow, kind=InjectionKind.KILL, target=WORKER, length=0.0))
                continue
            deaths.setdefault(role, []).append(blow.at)
        bearable.append(blow)
    return bearable
