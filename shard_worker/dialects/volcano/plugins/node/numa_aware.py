"""numa-aware: pods that ask for whole cores get nodes whose NUMA domains can provide them.

A pod says which guarantee it wants in an annotation: ``best-effort``, ``restricted`` or
``single-numa-node``, as the kubelet's topology manager has it. Only nodes that enforce that policy,
with the static CPU manager, can take it: ``single-numa-node`` if one domain has the cores free,
``restricted`` if no more domains are needed than the request needs on an empty node. Of several
nodes the one that needs fewer domains is better.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.extension_points import LIVE_PREDICATE
from shard_worker.framework.rules import Check, Mask, Scope, Scores
from shard_worker.framework.session import Session
from shard_worker.session_model.demands import NUMA_POLICY, Demand
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shard_worker.session_model.world import World
from shared.model.storage import Numatopology
from shared.policy.model import PluginOption
from shared.units.slots import CPU

FULL = 100.0
CORE = 1000
POLICY = NUMA_POLICY
NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
FRESH = Status.ALLOCATED | Status.BINDING
"""Tasks placed so recently that an agent's report cannot include them."""
MISMATCH = "node(s) didn't enforce the pod's NUMA topology policy"
NO_DOMAIN = "node(s) had no NUMA domains with enough free cores"


class NumaAware:
    """Argument: ``weight`` (1)."""

    name = "numa-aware"

    def __init__(self, option: PluginOption) -> None:
        self._weight = option.number("weight", 1.0)

    def on_session_open(self, ssn: Session) -> None:
        ssn.read_annotations(POLICY)
        ssn.serve(Demand.NUMA, at=LIVE_PREDICATE)
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
        for row, report in _told(world):
            enforced[row] = _enforces(report, policy)
            if enforced[row] and policy != BEST_EFFORT:
                most = 1 if policy == SINGLE else domains_needed(capacity(report), cores)
                needed = domains_needed(free(report, row, world), cores)
                able[row] = needed is not None and most is not None and needed <= most
        return [Check(MISMATCH, enforced, curable=False), Check(NO_DOMAIN, able)]

    def _compact(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        _, cores = wanted(task)
        score = np.zeros(len(rows))
        if not cores:
            return score
        reports = dict(_told(world))
        needed = {
            i: domains_needed(free(reports[row], row, world), cores)
            for i, row in enumerate(rows.tolist())
            if row in reports
        }
        counts = {i: count for i, count in needed.items() if count is not None}
        most = max(counts.values(), default=0)
        for i, count in counts.items():
            score[i] = self._weight * (FULL - FULL * count / most)
        return score


def wanted(task: TaskInfo) -> tuple[str, int]:
    """(policy, cores) of a task. 0 cores if it asks for no guarantee, or not for whole cores: the
    CPU manager pins only those."""
    policy = dict(task.role.annotations).get(POLICY, NONE)
    millicores = dict(task.requests).get(CPU, 0)
    if policy not in (BEST_EFFORT, RESTRICTED, SINGLE) or not millicores or millicores % CORE:
        return policy, 0
    return policy, millicores // CORE


def capacity(report: Numatopology) -> Counter[int]:
    """Number of cores per NUMA domain."""
    return Counter(numa for _, numa, _, _ in report.cpus)


def free(report: Numatopology, row: int, world: World) -> Counter[int]:
    """Free cores per domain: as reported by the agent, minus tasks placed since.

    Those are assumed to take as few domains as possible, fullest first, as the kubelet does.
    """
    listed = next((ids for name, ids, _ in report.resources if name == "cpu"), "")
    ids = parse_cpus(listed)
    remaining = Counter(numa for cpu, numa, _, _ in report.cpus if cpu in ids)
    for task in world.tasks_on(row):
        _, cores = wanted(task)
        if cores and task.status & FRESH:
            take(remaining, cores)
    return remaining


def take(free_cores: Counter[int], cores: int) -> None:
    """Subtract cores from the tightest domain that has enough; if none has, start with the
    largest."""
    while cores > 0 and free_cores:
        enough = [numa for numa, count in free_cores.items() if count >= cores]
        numa = (
            min(enough, key=lambda n: (free_cores[n], n))
            if enough
            else max(free_cores, key=lambda n: free_cores[n])
        )
        share = min(free_cores[numa], cores)
        free_cores[numa] -= share
        cores -= share
        if not free_cores[numa]:
            del free_cores[numa]


def domains_needed(free_cores: Counter[int], cores: int) -> int | None:
    """The smallest number of domains that have this many cores together; None if all do not."""
    count = 0
    for cores_there in sorted(free_cores.values(), reverse=True):
        if cores <= 0:
            break
        cores -= cores_there
        count += 1
    return count if cores <= 0 else None


def parse_cpus(text: str) -> set[int]:
    """``0-3,8`` -> {0, 1, 2, 3, 8}."""
    ids: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            ids.update(range(int(first), int(last or first) + 1))
    return ids


def _told(world: World) -> list[tuple[int, Numatopology]]:
    numa = world.objects.numa
    return [
        (row, numa[node.name])
        for row, node in enumerate(world.view.nodes)
        if node is not None and node.name in numa
    ]


def _enforces(report: Numatopology, policy: str) -> bool:
    policies = dict(report.policies)
    return (
        policies.get("CPUManagerPolicy") == "static"
        and policies.get("TopologyManagerPolicy") == policy
    )
