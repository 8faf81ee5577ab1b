"""numa-aware: pods that ask for whole cores get nodes whose NUMA domains can give them.

A pod says which guarantee it wants in an annotation: ``best-effort``, ``restricted`` or
``single-numa-node``, as the kubelet's topology manager has it. Only nodes that enforce that policy,
with the static CPU manager, can take it: ``single-numa-node`` where one domain has the cores free,
``restricted`` where no more domains are needed than the request needs on an empty node. Of several
nodes the one that needs fewer domains is better.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from shard_worker.rules import Check, Mask, Scope, Scores
from shard_worker.session import Session
from shard_worker.tasks import Status, TaskInfo
from shard_worker.world import World
from shared.model import Numatopology
from shared.policy import PluginOption
from shared.slots import CPU

FULL = 100.0
CORE = 1000
POLICY = "volcano.sh/numa-topology-policy"
NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
FRESH = Status.ALLOCATED | Status.BINDING
"""What an agent's report cannot have counted yet."""
MISMATCH = "node(s) didn't enforce the pod's NUMA topology policy"
NO_DOMAIN = "node(s) had no NUMA domains with enough free cores"


class NumaAware:
    """Argument: ``weight`` (1)."""

    name = "numa-aware"

    def __init__(self, option: PluginOption) -> None:
        self._weight = option.number("weight", 1.0)

    def on_session_open(self, ssn: Session) -> None:
        ssn.read_annotations(POLICY)
        ssn.add_live_predicate_fn(
            self._fits, scope=Scope.NODE, concerns=lambda cls: False, symmetric=True
        )
        ssn.add_batch_node_order_fn(self._compact, concerns=lambda cls: False)

    def _fits(self, task: TaskInfo, world: World) -> list[Check]:
        policy, cores = wanted(task)
        if not cores:
            return []
        enforced: Mask = np.zeros(world.size, np.bool_)
        able: Mask = np.ones(world.size, np.bool_)
        for row, told in _told(world):
            enforced[row] = _enforces(told, policy)
            if enforced[row] and policy != BEST_EFFORT:
                most = 1 if policy == SINGLE else domains_needed(capacity(told), cores)
                needed = domains_needed(free(told, row, world), cores)
                able[row] = needed is not None and most is not None and needed <= most
        return [Check(MISMATCH, enforced, curable=False), Check(NO_DOMAIN, able)]

    def _compact(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        _, cores = wanted(task)
        score = np.zeros(len(rows))
        if not cores:
            return score
        told = dict(_told(world))
        needed = {
            i: domains_needed(free(told[row], row, world), cores)
            for i, row in enumerate(rows.tolist())
            if row in told
        }
        known = {i: count for i, count in needed.items() if count is not None}
        most = max(known.values(), default=0)
        for i, count in known.items():
            score[i] = self._weight * (FULL - FULL * count / most)
        return score


def wanted(task: TaskInfo) -> tuple[str, int]:
    """(policy, cores) of a task; 0 cores where it wants no guarantee or does not ask for whole
    cores, which the CPU manager does not pin."""
    policy = dict(task.role.annotations).get(POLICY, NONE)
    asked = dict(task.requests).get(CPU, 0)
    if policy not in (BEST_EFFORT, RESTRICTED, SINGLE) or not asked or asked % CORE:
        return policy, 0
    return policy, asked // CORE


def capacity(told: Numatopology) -> Counter[int]:
    """Cores of each domain."""
    return Counter(numa for _, numa, _, _ in told.cpus)


def free(told: Numatopology, row: int, world: World) -> Counter[int]:
    """Cores of each domain that are free: as the agent told, less what was placed since. Those are
    taken from as few domains as possible, fullest first, as the kubelet does."""
    listed = next((ids for name, ids, _ in told.resources if name == "cpu"), "")
    ids = parse_cpus(listed)
    left = Counter(numa for cpu, numa, _, _ in told.cpus if cpu in ids)
    for task in world.tasks_on(row):
        _, cores = wanted(task)
        if cores and task.status & FRESH:
            take(left, cores)
    return left


def take(left: Counter[int], cores: int) -> None:
    """Take cores from domains: one that has enough, the tightest first, else the largest."""
    while cores > 0 and left:
        enough = [numa for numa, count in left.items() if count >= cores]
        numa = (
            min(enough, key=lambda n: (left[n], n)) if enough else max(left, key=lambda n: left[n])
        )
        given = min(left[numa], cores)
        left[numa] -= given
        cores -= given
        if not left[numa]:
            del left[numa]


def domains_needed(left: Counter[int], cores: int) -> int | None:
    """How few domains can give so many cores; None where all together cannot."""
    count = 0
    for cores_there in sorted(left.values(), reverse=True):
        if cores <= 0:
            break
        cores -= cores_there
        count += 1
    return count if cores <= 0 else None


def parse_cpus(text: str) -> set[int]:
    """``0-3,8`` -> {0, 1, 2, 3, 8}."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            found.update(range(int(first), int(last or first) + 1))
    return found


def _told(world: World) -> list[tuple[int, Numatopology]]:
    numa = world.objects.numa
    return [
        (row, numa[node.name])
        for row, node in enumerate(world.view.nodes)
        if node is not None and node.name in numa
    ]


def _enforces(told: Numatopology, policy: str) -> bool:
    policies = dict(told.policies)
    return (
        policies.get("CPUManagerPolicy") == "static"
        and policies.get("TopologyManagerPolicy") == policy
    )
