"""network-topology-aware: jobs that talk much stay together, below one switch.

A job with a topology is tried in the domains of a low tier first (HyperNodeGradient), in the one
that it would fill best (HyperNodeOrder), and its tasks follow those that are placed already
(BatchNodeOrder). Tasks of other jobs go where they break up the fewest empty domains.

The scores are Volcano's. Of equal domains it takes one at random, here it is the first by name; and
domains that cannot hold the job are left out by counting, before any is tried (decision 0030).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.extension_points import (
    HYPER_NODE_GRADIENT_FOR_JOB,
    HYPER_NODE_GRADIENT_FOR_SUB_JOB,
)
from shard_worker.framework.rules import Purpose, Scores
from shard_worker.framework.session import Session
from shard_worker.session_model.demands import Demand, Preference
from shard_worker.session_model.job import SessionJob, SubJob, TaskInfo, requested
from shard_worker.session_model.status import Status
from shard_worker.session_model.world import World
from shard_worker.topology.domain_totals import DomainTotals
from shard_worker.view.hyper_tree import NOWHERE, HyperDomain
from shared.model.model import Requests
from shared.model.topology import Topology
from shared.policy.model import PluginOption

FULL = 100.0
PREFIX = "hypernode.binpack.resources."


class NetworkTopologyAware:
    """Arguments: ``weight`` (1), ``hypernode.binpack.cpu`` and ``.memory`` (1),
    ``hypernode.binpack.resources`` (further resources, by comma) with
    ``hypernode.binpack.resources.<name>`` (1), ``hypernode.binpack.normal-pod.enable`` (true),
    ``hypernode.binpack.normal-pod.fading`` (0.8), ``gradient.evict.max-hypernodes`` (8)."""

    name = "network-topology-aware"

    def __init__(self, option: PluginOption) -> None:
        self._scale = FULL * _positive(option.whole("weight", 1))
        listed = [n.strip() for n in option.text("hypernode.binpack.resources").split(",")]
        self._weights = {name: option.whole(PREFIX + name, 1) for name in listed if name}
        self._unlisted = [
            argument
            for argument in option.arguments
            if argument.startswith(PREFIX) and argument.removeprefix(PREFIX) not in self._weights
        ]
        self._weights["cpu"] = option.whole("hypernode.binpack.cpu", 1)
        self._weights["memory"] = option.whole("hypernode.binpack.memory", 1)
        self._weights = {name: _positive(weight) for name, weight in self._weights.items()}
        self._normal = option.switch("hypernode.binpack.normal-pod.enable", True)
        fading = option.number("hypernode.binpack.normal-pod.fading", 0.8)
        self._fading = fading if fading >= 0 else 0.8
        self._most = option.whole("gradient.evict.max-hypernodes", 8)
        self._kept: DomainTotals | None = None

    def on_session_open(self, ssn: Session) -> None:
        ssn.entering.append(self._open)
        ssn.add_hyper_node_order_fn(self._hyper_node_order, alone=_unplaced)
        ssn.add_batch_node_order_fn(self._node_order, concerns=lambda _: self._normal)
        ssn.add_hyper_node_gradient_for_job_fn(self._for_job)
        ssn.add_hyper_node_gradient_for_sub_job_fn(self._for_sub_job)
        ssn.serve(Demand.HARD_TOPOLOGY, at=HYPER_NODE_GRADIENT_FOR_JOB)
        ssn.serve(Demand.SUB_GROUP_TOPOLOGY, at=HYPER_NODE_GRADIENT_FOR_SUB_JOB)
        ssn.serve(Preference.SOFT_TOPOLOGY)
        for argument in self._unlisted:
            ssn.warn(f"{argument}: has no effect until hypernode.binpack.resources lists it")

    def _open(self, world: World) -> None:
        self._kept = DomainTotals(world)

    def _totals(self, world: World) -> DomainTotals:
        if self._kept is None or self._kept.world is not world:
            self._kept = DomainTotals(world)
        return self._kept

    # --- gradients ----------------------------------------------------------------------------

    def _for_job(
        self, job: SessionJob, within: HyperDomain, purpose: Purpose, world: World
    ) -> list[list[HyperDomain]]:
        return self._gradients(
            job.job.topology,
            within,
            allocated=job.allocated_hyper_node,
            needed=job.job.min_resources or (),
            purpose=purpose,
            world=world,
        )

    def _for_sub_job(
        self, sub: SubJob, within: HyperDomain, purpose: Purpose, world: World
    ) -> list[list[HyperDomain]]:
        if not sub.job.has_sub_groups:
            # The sub job is the job, whose gradients have been asked. All its waiting tasks need
            # not fit: what is beyond the minimum may wait.
            return [[within]]
        pending = [task for task in sub.tasks if task.status is Status.PENDING]
        return self._gradients(
            sub.topology,
            within,
            allocated=sub.allocated_hyper_node,
            needed=tuple(requested(pending).items()),
            purpose=purpose,
            world=world,
        )

    def _gradients(
        self,
        topology: Topology | None,
        within: HyperDomain,
        *,
        allocated: str,
        needed: Requests,
        purpose: Purpose,
        world: World,
    ) -> list[list[HyperDomain]]:
        """Domains grouped by tier, the lowest tier first; for evictions the highest first, up to a
        maximum number of domains."""
        totals = self._totals(world)
        highest = totals.tree.highest(topology)
        if highest is None:
            return [[within]]
        root = _search_root(totals, within, allocated, highest)
        if root is None:
            return []
        soft = topology is not None and not topology.hard
        if soft and purpose is Purpose.ALLOCATE and (own := totals.tree.domains.get(allocated)):
            closest = [[domain] for domain in _upwards(own, to=within)]
            if closest:
                return closest
        # A soft topology is a wish. It must not keep a gang from the nodes as a whole where
        # minResources are more than its minimum needs.
        always = totals.tree.root if soft else None
        groups: dict[int, list[HyperDomain]] = {}
        for domain in _below(root):
            if domain.tier <= highest and (
                # Volcano does not filter by resources once some tasks are placed: the domain is
                # given, only where to go on within it is asked.
                allocated or domain is always or self._eligible(totals, domain, needed, purpose)
            ):
                groups.setdefault(domain.tier, []).append(domain)
        ordered = [groups[tier] for tier in sorted(groups)]
        # The widest domains first for evictions, as in Volcano: more victims to choose from. The
        # limit is there because each of them is a dry run of the whole gang.
        return ordered if purpose is Purpose.ALLOCATE else self._widest(ordered)

    @staticmethod
    def _eligible(
        totals: DomainTotals, domain: HyperDomain, needed: Requests, purpose: Purpose
    ) -> bool:
        if purpose is Purpose.ALLOCATE:
            return totals.had_room(domain, needed)
        return totals.could_hold(domain, needed)

    def _widest(self, groups: list[list[HyperDomain]]) -> list[list[HyperDomain]]:
        """The groups from the highest tier down, cut off at the maximum number of domains;
        unchanged if that is not above 0."""
        if self._most <= 0:
            return groups
        remaining, chosen = self._most, []
        for group in reversed(groups):
            if remaining:
                chosen.append(group[:remaining])
                remaining -= len(chosen[-1])
        return chosen

    # --- scores -------------------------------------------------------------------------------

    def _hyper_node_order(
        self, sub: SubJob, domains: Mapping[str, Sequence[int]], world: World
    ) -> dict[str, float]:
        """Score each domain by how full the whole sub job would make it; ties by the share of its
        tasks that are already there."""
        totals = self._totals(world)
        full = totals.fullness(requested(sub.tasks), self._by_slot(world))
        listed = {name: totals.tree.domains[name] for name in domains}
        scores = {name: float(full[domain.index]) for name, domain in listed.items()}
        best = [name for name, score in scores.items() if score == max(scores.values())]
        # Only between equals, as in Volcano: tasks that are there already do not outweigh fullness.
        if len(best) > 1:
            for name in best:
                scores[name] += totals.share(sub, listed[name])
        return {name: score * self._scale for name, score in scores.items()}

    def _node_order(self, task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
        totals = self._totals(world)
        if task.sub.topology is None:
            return self._apart(task, rows, totals)
        return self._together(task.sub, rows, totals)

    def _together(self, sub: SubJob, rows: NDArray[np.intp], totals: DomainTotals) -> Scores:
        """Score nodes by the domain that they share with placed tasks: the lower its tier the
        higher."""
        tree = totals.tree
        if not sub.reached_hyper_node or not len(rows):
            return np.zeros(len(rows))
        leaves, which = np.unique(tree.leaf[rows], return_inverse=True)
        near = np.array([self._nearness(leaf, sub, totals) for leaf in leaves.tolist()])
        scores = near[which]
        best = scores == scores.max()
        if int(best.sum()) > 1:
            shares = np.array(
                [0.0 if i == NOWHERE else totals.share(sub, tree.listed[i]) for i in leaves]
            )
            scores = scores + np.where(best, shares[which], 0.0)
        return np.asarray(scores * self._scale, np.float64)

    @staticmethod
    def _nearness(leaf: int, sub: SubJob, totals: DomainTotals) -> float:
        """1 for the same domain; 0 if only the root contains both, or the node is in no domain."""
        if leaf == NOWHERE:
            return 0.0
        tree = totals.tree
        name = tree.listed[leaf].name
        if name == sub.reached_hyper_node:
            return 1.0
        lowest, highest = tree.tiers[0], tree.root.tier
        shared = tree.domains[tree.lca(name, sub.reached_hyper_node)].tier
        return (highest - shared) / (highest - lowest) if highest > lowest else 1.0

    def _apart(self, task: TaskInfo, rows: NDArray[np.intp], totals: DomainTotals) -> Scores:
        """Score nodes by the usage of the task's domains, the closest tier with the largest weight.
        A node without a domain in a tier counts as being in a full one."""
        tree, tiers = totals.tree, totals.tree.tiers
        if not self._normal:
            return np.zeros(len(rows))
        full = totals.fullness(dict(task.requests), self._by_slot(totals.world))
        total = np.zeros(len(rows))
        weighed = 0.0
        for tier in tiers:
            weight = self._fading ** (tier - 1)
            at = totals.at_tier(tier)[rows]
            # Counted as full: a task without a topology rather takes a node that is in no domain
            # than one that a gang could want.
            total += weight * np.where(at == NOWHERE, 1.0, full[at])
            weighed += weight
        every = _geometric(self._fading, tiers[0], tree.root.tier)
        if not math.isfinite(every) or every <= 0:
            return np.zeros(len(rows))
        return np.asarray((total + every - weighed) / every * self._scale, np.float64)

    def _by_slot(self, world: World) -> dict[int, int]:
        names = world.view.slot_names
        return {s: self._weights[name] for s, name in enumerate(names) if name in self._weights}


def _unplaced(sub: SubJob) -> bool:
    """Whether no task of the sub job is placed, so that there is no tie to break."""
    return all(task.row < 0 for task in sub.tasks)


def _positive(weight: int) -> int:
    """The weight, with negative ones replaced by 1, as in Volcano."""
    return weight if weight >= 0 else 1


def _search_root(
    totals: DomainTotals, within: HyperDomain, allocated: str, highest: int
) -> HyperDomain | None:
    """The domain to search: ``within``, or the part of it that the placed tasks allow."""
    if not allocated:
        return within
    bound = totals.tree.widest(allocated, highest)
    if bound is None:
        return None
    if within.within(bound):
        return within
    return bound if bound.within(within) else None


def _upwards(domain: HyperDomain, *, to: HyperDomain) -> Iterator[HyperDomain]:
    """The domain and those above it, up to another one; none if it is not below that one."""
    at: HyperDomain | None = domain if domain.within(to) else None
    while at is not None and at.within(to):
        yield at
        at = at.parent


def _below(root: HyperDomain) -> Iterator[HyperDomain]:
    """The domain and all domains below it, breadth first."""
    listed = [root]
    for domain in listed:
        yield domain
        listed += domain.children


def _geometric(fading: float, first: int, last: int) -> float:
    """The sum of the weights of all tiers from first to last, including those with no hyper
    node."""
    if fading == 1:
        return float(last - first + 1)
    return float(fading ** (first - 1) - fading**last) / (1 - fading)
