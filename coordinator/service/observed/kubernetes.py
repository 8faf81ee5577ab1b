"""The Kubernetes cluster that the settings name."""

from __future__ import annotations

import os

from coordinator.cluster.kubernetes.api.client import ApiReader
from coordinator.cluster.kubernetes.api.credentials import ApiServer, from_kubeconfig, in_cluster
from coordinator.cluster.kubernetes.api.reflector import WatchedKind
from coordinator.cluster.kubernetes.cluster import KubernetesCluster, Writes
from coordinator.cluster.kubernetes.shadow.book import ShadowBook
from coordinator.cluster.kubernetes.shadow.record import NAME, ShadowRecord
from coordinator.cluster.kubernetes.shadow.writes import ShadowWrites
from coordinator.cluster.kubernetes.state.mirror import Mirror
from coordinator.cluster.kubernetes.writes.writes import ApiWrites
from coordinator.intake.documents.kinds import (
    CLAIM_TEMPLATE,
    CSI_NODE,
    DEVICE_CLASS,
    DISRUPTION_BUDGET,
    HYPER_NODE,
    KAI_POD_GROUP,
    KAI_QUEUE,
    KAI_TOPOLOGY,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    QUOTA,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    STORAGE_CLASS,
    VOLUME,
    VOLUME_CLAIM,
    Kind,
)
from coordinator.service.observed.observed import ObservedCluster
from coordinator.service.policy_watch import PolicyFollower
from shared.policy.model import Dialect
from shared.settings.cluster import ALL_SCHEDULERS
from shared.settings.settings import Settings

HOLD_SECONDS = 2.0
"""In the shadow, how long the node that the cluster chose for a new pod is kept from our books:
some ten times what a decision of ours takes, so that the comparison is of two decisions."""

_KINDS = (
    NODE,
    NAMESPACE,
    PRIORITY_CLASS,
    DISRUPTION_BUDGET,
    QUOTA,
    VOLUME,
    VOLUME_CLAIM,
    STORAGE_CLASS,
    CSI_NODE,
    RESOURCE_CLAIM,
    CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    DEVICE_CLASS,
    POD,
)
_OF_DIALECT = {
    Dialect.VOLCANO: (QUEUE, POD_GROUP, HYPER_NODE),
    Dialect.KAI: (KAI_QUEUE, KAI_POD_GROUP, KAI_TOPOLOGY),
}


def followed_kinds(dialect: Dialect) -> list[WatchedKind]:
    """What is read of a cluster under a policy of this dialect."""
    return [_watched(kind) for kind in (*_OF_DIALECT[dialect], *_KINDS)]


def _watched(kind: Kind) -> WatchedKind:
    base = "apis" if kind.group else "api"
    path = f"/{base}/{kind.api_version}/{kind.plural}"
    return WatchedKind(kind.kind, path, kind.api_version, kind.written)


def api_server(settings: Settings) -> ApiServer:
    """Raises ConfigError."""
    if settings.kubeconfig is not None:
        return from_kubeconfig(settings.kubeconfig, settings.kube_context)
    return in_cluster(os.environ)


def open_kubernetes(settings: Settings) -> ObservedCluster:
    """Raises ConfigError, SettingsError."""
    policies = PolicyFollower(settings)
    dialect = policies.session().policy.dialect
    kinds = followed_kinds(dialect)
    names = policies.ours
    book = ShadowBook(ShadowRecord(settings.data_dir / NAME)) if settings.shadow else None
    mirror = Mirror(
        [kind.name for kind in kinds],
        ours=lambda name: ALL_SCHEDULERS in names or name in names,
        hold_seconds=HOLD_SECONDS if settings.shadow else 0.0,
        observer=book,
    )
    reader = ApiReader(api_server(settings))
    writes: Writes = (
        ShadowWrites(mirror, book)
        if book is not None
        else ApiWrites(reader, mirror, schedulers=names)
    )
    cluster = KubernetesCluster(reader, kinds, mirror=mirror, writes=writes)
    return ObservedCluster(
        cluster,
        tuple(kind.name for kind in kinds),
        book=book,
        writes=writes if isinstance(writes, ApiWrites) else None,
        address=reader.server.url,
    )
