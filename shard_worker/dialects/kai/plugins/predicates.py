"""predicates: which nodes a task may run on at all, by the filters of kube-scheduler."""

from __future__ import annotations

from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.extension_points import PREDICATE
from shard_worker.framework.rules import Mask, NodeColumns, Scope
from shard_worker.framework.session import Session
from shard_worker.kube_scheduler.devices import claims
from shard_worker.kube_scheduler.filters.node_checks import (
    affinity_checks,
    taint_checks,
    unschedulable_checks,
)
from shard_worker.kube_scheduler.filters.pod_affinity import InterPod, required
from shard_worker.kube_scheduler.filters.pod_index import neighbours_of
from shard_worker.kube_scheduler.filters.volumes import VolumeBinding, concerned
from shard_worker.session_model.demands import Demand, Preference
from shared.model.model import TaskClass


def register(ssn: Session) -> None:
    """predicates: the checks, and the choices of volumes and devices."""
    ssn.serve(
        Demand.NODE_AFFINITY,
        Demand.POD_AFFINITY,
        Demand.VOLUMES,
        Demand.RESOURCE_CLAIMS,
        Preference.TAINTS,
        at=PREDICATE,
    )
    ssn.add_predicate_fn(masks=checks)
    inter_pod = InterPod(neighbours_of(ssn))
    ssn.add_live_predicate_fn(
        inter_pod.checks,
        scope=Scope.DOMAIN,
        concerns=lambda cls: bool(required(cls)),
        symmetric=True,
    )
    binding = VolumeBinding(ssn)
    ssn.add_pre_predicate_fn(binding.pre_predicate, concerns=concerned)
    ssn.add_live_predicate_fn(binding.checks, scope=Scope.DOMAIN, concerns=concerned)
    devices = claims.DeviceClaimFilter(ssn, frees=True)
    if isinstance(ssn, KaiSession):
        ssn.claim_filter = devices
    ssn.add_pre_predicate_fn(devices.pre_predicate, concerns=claims.concerned)
    ssn.add_live_predicate_fn(devices.checks, scope=Scope.DOMAIN, concerns=claims.concerned)


def checks(cls: TaskClass, view: NodeColumns) -> list[tuple[str, Mask]]:
    """The static checks that a node can fail: cordons, node affinity, taints."""
    return [
        *unschedulable_checks(cls, view),
        *affinity_checks(cls, view),
        *taint_checks(cls, view),
    ]
