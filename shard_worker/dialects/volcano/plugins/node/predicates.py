"""predicates: which nodes a task may run on at all.

Each kind of check has a file beside this one. Checks by the class and the nodes' specs are static
and serve the fast path too (:mod:`shard_worker.kube_scheduler.filters.node_checks`); checks by
other pods (:mod:`shard_worker.kube_scheduler.filters.pod_affinity`,
:mod:`shard_worker.kube_scheduler.filters.topology_spread`), volumes or devices are made in sessions
over a world.

Free host ports are named things of a node and judged by fit, as amounts are.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_worker.framework.extension_points import PREDICATE
from shard_worker.framework.rules import Check, Mask, NodeColumns, Scope
from shard_worker.framework.session import Session
from shard_worker.kube_scheduler.devices import claims
from shard_worker.kube_scheduler.filters.node_checks import (
    affinity_checks,
    taint_checks,
    unschedulable_checks,
)
from shard_worker.kube_scheduler.filters.pod_affinity import InterPod, required
from shard_worker.kube_scheduler.filters.pod_index import Neighbours, neighbours_of
from shard_worker.kube_scheduler.filters.topology_spread import TopologySpread, hard_spreads
from shard_worker.kube_scheduler.filters.volume_limits import VolumeLimits, zone_checks
from shard_worker.kube_scheduler.filters.volumes import VolumeBinding, concerned
from shard_worker.session_model.demands import Demand, Preference, Served
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.world import World
from shared.model.model import TaskClass
from shared.policy.model import PluginOption
from shared.units.slots import PODS

PODS_FULL = "node(s) pod number exceeded"


_SERVED: dict[Served, str] = {
    Demand.NODE_AFFINITY: "NodeAffinity",
    Demand.POD_AFFINITY: "PodAffinity",
    Demand.TOPOLOGY_SPREAD: "PodTopologySpread",
    Demand.VOLUMES: "VolumeBinding",
    Demand.RESOURCE_CLAIMS: "DynamicResourceAllocation",
    Preference.TAINTS: "TaintToleration",
}
"""Demand or preference -> the kind of checks that serves it."""


class Predicates:
    """The plugin. Each ``predicate.<X>Enable`` is on unless the policy turns it off."""

    name = "predicates"

    def __init__(self, option: PluginOption) -> None:
        self._option = option
        self._affinity = self._on("NodeAffinity")
        self._taints = self._on("TaintToleration")

    def _on(self, kind: str) -> bool:
        return self._option.switch(f"predicate.{kind}Enable", True)

    def on_session_open(self, ssn: Session) -> None:
        ssn.serve(*(kind for kind, name in _SERVED.items() if self._on(name)), at=PREDICATE)
        ssn.add_predicate_fn(masks=self.checks)
        ssn.add_live_predicate_fn(room_for_pods, scope=Scope.NODE, concerns=_nobody, symmetric=True)
        if not self._on("NodePorts"):
            ssn.warn("predicate.NodePortsEnable: host ports are always checked")
        neighbours = neighbours_of(ssn)
        if self._on("PodAffinity"):
            self._between_pods(ssn, neighbours)
        if self._on("PodTopologySpread"):
            ssn.add_live_predicate_fn(
                TopologySpread(neighbours).checks,
                scope=Scope.DOMAIN,
                concerns=lambda cls: bool(hard_spreads(cls)),
            )
        self._volumes(ssn)
        if self._on("DynamicResourceAllocation"):
            dra = claims.DeviceClaimFilter(ssn)
            ssn.add_pre_predicate_fn(dra.pre_predicate, concerns=claims.concerned)
            ssn.add_live_predicate_fn(dra.checks, scope=Scope.DOMAIN, concerns=claims.concerned)

    def _volumes(self, ssn: Session) -> None:
        if self._on("NodeVolumeLimits"):
            limits = VolumeLimits(ssn)
            ssn.add_live_predicate_fn(limits.checks, scope=Scope.NODE, concerns=concerned)
        if self._on("VolumeZone"):
            ssn.add_live_predicate_fn(zone_checks, scope=Scope.STATIC, concerns=concerned)
        if self._on("VolumeBinding"):
            binding = VolumeBinding(ssn)
            ssn.add_pre_predicate_fn(binding.pre_predicate, concerns=concerned)
            ssn.add_live_predicate_fn(binding.checks, scope=Scope.DOMAIN, concerns=concerned)

    def checks(self, cls: TaskClass, view: NodeColumns) -> list[tuple[str, Mask]]:
        """(reason, mask over all rows; True = passes) of each static check that a node can fail."""
        checks = unschedulable_checks(cls, view)
        if self._affinity:
            checks += affinity_checks(cls, view)
        if self._taints:
            checks += taint_checks(cls, view)
        return checks

    def _between_pods(self, ssn: Session, neighbours: Neighbours) -> None:
        inter_pod = InterPod(neighbours)
        ssn.add_live_predicate_fn(
            inter_pod.checks,
            scope=Scope.DOMAIN,
            concerns=lambda cls: bool(required(cls)),
            symmetric=True,
        )
        PredicateDryRun(inter_pod, neighbours).register(ssn)


class PredicateDryRun:
    """The dry run of a preemption for checks that depend on other pods.

    Victims are taken off a node one by one and may be put back. As in Volcano, only the rules
    between pods are evaluated in it.
    """

    def __init__(self, inter_pod: InterPod, neighbours: Neighbours) -> None:
        self._inter_pod = inter_pod
        self._neighbours = neighbours

    def register(self, ssn: Session) -> None:
        ssn.add_simulate_remove_task_fn(self._remove)
        ssn.add_simulate_add_task_fn(self._add)
        ssn.add_simulate_predicate_fn(self._passes)

    def _remove(self, task: TaskInfo, removed: TaskInfo, row: int, world: World) -> None:
        self._neighbours.take(removed)

    def _add(self, task: TaskInfo, added: TaskInfo, row: int, world: World) -> None:
        self._neighbours.add(added)

    def _passes(self, task: TaskInfo, row: int, world: World) -> str | None:
        return first_failure(self._inter_pod.checks(task, world), row)


def room_for_pods(task: TaskInfo, world: World) -> Sequence[Check]:
    """Nodes with a free pod slot. Leaving pods count as gone."""
    return [Check(PODS_FULL, world.future_idle(PODS) >= 1)]


def first_failure(checks: Sequence[Check], row: int) -> str | None:
    """The reason of the first check that the row fails; None if it passes all."""
    return next((check.reason for check in checks if not check.mask[row]), None)


def _nobody(cls: TaskClass) -> bool:
    del cls
    return False
