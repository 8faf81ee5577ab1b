"""The Kubernetes cluster that the settings name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence, Set

from coordinator.cluster.kubernetes.api.client import ApiReader
from coordinator.cluster.kubernetes.api.credentials import ApiServer, from_kubeconfig, in_cluster
from coordinator.cluster.kubernetes.api.reflector import WatchedKind
from coordinator.cluster.kubernetes.bind_requests.book import BindRequestBook, PodOutcomes
from coordinator.cluster.kubernetes.bind_requests.objects import KIND as BIND_REQUEST
from coordinator.cluster.kubernetes.bind_requests.writes import RequestWrites
from coordinator.cluster.kubernetes.cluster import KubernetesCluster
from coordinator.cluster.kubernetes.shadow.book import ShadowBook
from coordinator.cluster.kubernetes.shadow.record import NAME, ShadowRecord
from coordinator.cluster.kubernetes.shadow.writes import ShadowWrites
from coordinator.cluster.kubernetes.state.mirror import Mirror, MirrorObserver
from coordinator.cluster.kubernetes.writes.writes import ApiWrites
from coordinator.intake.documents.kinds import (
    CLAIM_TEMPLATE,
    COMPOSITE_POD_GROUP,
    CSI_NODE,
    DEVICE_CLASS,
    DISRUPTION_BUDGET,
    HYPER_NODE,
    KAI_POD_GROUP,
    KAI_QUEUE,
    KAI_TOPOLOGY,
    NAMESPACE,
    NATIVE_POD_GROUP,
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
from coordinator.service.observed.access_reviews import ApiReviews
from coordinator.service.observed.native_kinds import NativeKinds
from coordinator.service.observed.observed import ObservedCluster
from coordinator.service.policy_watch import PolicyFollower
from shared.codec.packed import replace
from shared.model.node_pool import NodePool, node_pool_of
from shared.policy.model import Dialect, Policy
from shared.settings.cluster import ALL_SCHEDULERS
from shared.settings.settings import Settings, SettingsError

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
    NATIVE_POD_GROUP,
    COMPOSITE_POD_GROUP,
    POD,
)
_VERSIONS = {COMPOSITE_POD_GROUP.kind: ("v1beta1", "v1alpha3")}
"""Kind -> the versions that servers may have, best first, where there are several."""
_OF_DIALECT = {
    Dialect.VOLCANO: (QUEUE, POD_GROUP, HYPER_NODE),
    Dialect.KAI: (KAI_QUEUE, KAI_POD_GROUP, KAI_TOPOLOGY),
}


def followed_kinds(dialect: Dialect) -> list[WatchedKind]:
    """Kinds to watch in a cluster under a policy of this dialect."""
    return [_watched(kind) for kind in (*_OF_DIALECT[dialect], *_KINDS)]


def _watched(kind: Kind) -> WatchedKind:
    watched: WatchedKind | None = None
    for version in reversed(_VERSIONS.get(kind.kind, (kind.version,))):
        one = replace(kind, version=version)
        path = f"{one.root}/{one.plural}"
        watched = WatchedKind(one.kind, path, one.api_version, one.written, watched)
    assert watched is not None
    return watched


def api_server(settings: Settings) -> ApiServer:
    """Raises ConfigError."""
    if settings.kubeconfig is not None:
        return from_kubeconfig(settings.kubeconfig, settings.kube_context)
    return in_cluster(os.environ)


def check_binder(settings: Settings, policy: Policy) -> None:
    """Raises SettingsError."""
    if settings.binder == "kai" and policy.dialect is not Dialect.KAI:
        raise SettingsError(
            f"QUADRANT_BINDER: kai takes a policy of KAI's, and {policy.dialect.scheduler}'s is in "
            "force; name one in QUADRANT_POLICY (dialect: kai), or unset QUADRANT_BINDER"
        )


def _reviews(server: ApiServer, settings: Settings) -> ApiReviews | None:
    if not settings.access_reviews:
        return None
    audiences = filter(None, map(str.strip, settings.token_audiences.split(",")))
    return ApiReviews(server, audiences=tuple(audiences))


def names_of_leases(schedulers: Iterable[str], pool: NodePool | None) -> frozenset[str]:
    """A Lease for each scheduler's name; of a node pool with a value one of its own, because the
    schedulers of two pools write to different pods."""
    if pool is None or not pool.value:
        return frozenset(schedulers)
    suffix = pool.value.lower().replace("_", "-").rstrip(".-")  # as names of objects may be
    return frozenset(f"{name}-{suffix}" for name in schedulers)


def open_kubernetes(settings: Settings) -> ObservedCluster:
    """Raises ConfigError, SettingsError."""
    policies = PolicyFollower(settings)
    check_binder(settings, policies.session().policy)
    server = api_server(settings)
    observed = _observed(ApiReader(server), policies, settings)
    return replace(observed, reviews=_reviews(server, settings))


def _observed(reader: ApiReader, policies: PolicyFollower, settings: Settings) -> ObservedCluster:
    policy = policies.session().policy
    kinds = followed_kinds(policy.dialect)
    if settings.shadow:
        return _beside(reader, kinds, policies.ours, settings)
    requests = BindRequestBook() if settings.binder == "kai" else None
    observer = None if requests is None else PodOutcomes(requests)
    mirror = _mirror(kinds, policies.ours, observer=observer)
    pool = node_pool_of(policy)
    leases = names_of_leases(policies.ours, pool)
    writes = ApiWrites(reader, mirror, schedulers=leases)
    binder = None if requests is None else RequestWrites(writes, mirror, requests, pool=pool)
    cluster = KubernetesCluster(
        reader,
        kinds,
        mirror=mirror,
        writes=binder or writes,
        followed=[] if requests is None else [(BIND_REQUEST, requests)],
    )
    return ObservedCluster(
        cluster,
        _names(kinds),
        writes=writes,
        binder=binder,
        address=reader.server.url,
        native_kinds=NativeKinds(writes),
    )


def _beside(
    reader: ApiReader, kinds: Sequence[WatchedKind], ours: Set[str], settings: Settings
) -> ObservedCluster:
    book = ShadowBook(ShadowRecord(settings.data_dir / NAME))
    mirror = _mirror(kinds, ours, hold_seconds=HOLD_SECONDS, observer=book)
    cluster = KubernetesCluster(reader, kinds, mirror=mirror, writes=ShadowWrites(mirror, book))
    return ObservedCluster(cluster, _names(kinds), book=book, address=reader.server.url)


def _mirror(
    kinds: Sequence[WatchedKind],
    ours: Set[str],
    *,
    hold_seconds: float = 0.0,
    observer: MirrorObserver | None = None,
) -> Mirror:
    return Mirror(
        _names(kinds),
        ours=lambda name: ALL_SCHEDULERS in ours or name in ours,
        hold_seconds=hold_seconds,
        observer=observer,
    )


def _names(kinds: Sequence[WatchedKind]) -> tuple[str, ...]:
    return tuple(kind.name for kind in kinds)
