"""The kinds that the API serves, and their names in paths and on the command line."""

from __future__ import annotations

from dataclasses import dataclass

from shared.model.groups import COMPOSITE, NATIVE
from shared.policy.model import Dialect

WRITE = ("create", "delete", "get", "list", "patch", "update", "watch")
READ = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Kind:
    group: str
    version: str
    kind: str
    """Unique over all groups: what documents are stored under."""
    plural: str
    short: tuple[str, ...]
    namespaced: bool
    verbs: tuple[str, ...] = WRITE
    shared_name: str = ""
    """The kind in its objects, where another group has one of the same name."""

    @property
    def written(self) -> str:
        """The kind as its objects, and all answers about them, have it."""
        return self.shared_name or self.kind

    @property
    def singular(self) -> str:
        return self.written.lower()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """Path of its version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    @property
    def resource(self) -> str:
        """``plural.group``, as kubectl names it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


POD = Kind("", "v1", "Pod", "pods", ("po",), True)
NODE = Kind("", "v1", "Node", "nodes", ("no",), False)
EVENT = Kind("", "v1", "Event", "events", ("ev",), True, READ)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", ("ns",), False)
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", ("cm",), True)
SECRET = Kind("", "v1", "Secret", "secrets", (), True)
SERVICE = Kind("", "v1", "Service", "services", ("svc",), True)
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", ("sa",), True)
POD_GROUP = Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", ("pg",), True)
QUEUE = Kind("scheduling.volcano.sh", "v1beta1", "Queue", "queues", ("q",), False)
JOB = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs", ("vcjob", "vj"), True)
HYPER_NODE = Kind("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", ("hn",), False)
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", ("pc",), False)
DISRUPTION_BUDGET = Kind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", ("pdb",), True
)
QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas", ("quota",), True)
VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes", ("pv",), False)
VOLUME_CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", ("pvc",), True)
STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", ("sc",), False)
CSI_NODE = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", (), False)
RESOURCE_CLAIM = Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", (), True)
CLAIM_TEMPLATE = Kind(
    "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", (), True
)
RESOURCE_SLICE = Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", (), False)
DEVICE_CLASS = Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", (), False)
NUMATOPOLOGY = Kind(
    "nodeinfo.volcano.sh", "v1alpha1", "Numatopology", "numatopologies", ("numatopo",), False
)
KAI_QUEUE = Kind("scheduling.run.ai", "v2", "KaiQueue", "queues", (), False, shared_name="Queue")
KAI_POD_GROUP = Kind(
    "scheduling.run.ai",
    "v2alpha2",
    "KaiPodGroup",
    "podgroups",
    ("pg",),
    True,
    shared_name="PodGroup",
)
KAI_TOPOLOGY = Kind(
    "kai.scheduler", "v1alpha1", "KaiTopology", "topologies", (), False, shared_name="Topology"
)
NATIVE_POD_GROUP = Kind(
    "scheduling.k8s.io",
    "v1beta1",
    NATIVE,
    "podgroups",
    (),
    True,
    shared_name="PodGroup",
)
COMPOSITE_POD_GROUP = Kind(
    "scheduling.k8s.io", "v1alpha3", COMPOSITE, "compositepodgroups", (), True
)
WORKLOAD = Kind("scheduling.k8s.io", "v1beta1", "Workload", "workloads", (), True)
SHARD = Kind("quadrant.dev", "v1alpha1", "Shard", "shards", (), False, READ)

POD_GROUPS = (POD_GROUP, KAI_POD_GROUP, NATIVE_POD_GROUP, COMPOSITE_POD_GROUP)
"""PodGroups of Volcano, of KAI and of Kubernetes itself, and groups of the last."""
KINDS = (
    POD,
    NODE,
    EVENT,
    NAMESPACE,
    CONFIG_MAP,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    POD_GROUP,
    QUEUE,
    JOB,
    HYPER_NODE,
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
    NUMATOPOLOGY,
    KAI_QUEUE,
    KAI_POD_GROUP,
    KAI_TOPOLOGY,
    NATIVE_POD_GROUP,
    COMPOSITE_POD_GROUP,
    WORKLOAD,
    SHARD,
)


_OF_DIALECT = {
    Dialect.KAI: frozenset(kind.kind for kind in (KAI_QUEUE, KAI_POD_GROUP, KAI_TOPOLOGY)),
    Dialect.VOLCANO: frozenset(kind.kind for kind in (QUEUE, POD_GROUP, HYPER_NODE)),
}
"""The kinds that only policies of one dialect look at. Jobs work under both."""


def unread(kind: str, dialect: Dialect) -> str | None:
    """Why nothing looks at objects of this kind under a policy of this dialect; None where its
    rules read them."""
    others = (kinds for of, kinds in _OF_DIALECT.items() if of is not dialect)
    return not_looked_at(dialect) if any(kind in kinds for kinds in others) else None


def not_looked_at(dialect: Dialect) -> str:
    """The sentence for an object of the other dialect."""
    other = Dialect.VOLCANO if dialect is Dialect.KAI else Dialect.KAI
    return (
        f"kept and not looked at: the policy in force is {dialect.scheduler}'s; it counts under "
        f"one of {other.scheduler}'s, which takes a restart with that policy"
    )


def kinds_of(dialect: Dialect) -> tuple[Kind, ...]:
    """All kinds, those of the dialect before the other's: of two of one name clients take the
    first."""
    kai = (KAI_QUEUE, KAI_POD_GROUP, KAI_TOPOLOGY)
    if dialect is not Dialect.KAI:
        return KINDS
    at = KINDS.index(POD_GROUP)
    others = tuple(kind for kind in KINDS if kind not in kai)
    return (*others[:at], *kai, *others[at:])


BY_KIND = {kind.kind: kind for kind in KINDS}
SUBMITTED = frozenset(kind.kind for kind in (POD, POD_GROUP, COMPOSITE_POD_GROUP, JOB))
"""Kinds, as they are written, whose objects go to a queue. A token of the role ``submit`` may write
them."""
ATTACHED = (CONFIG_MAP, SECRET, SERVICE, SERVICE_ACCOUNT, WORKLOAD)
"""Kinds without effect that stand in a namespace beside jobs. Such a token may write them too."""
WITHOUT_EFFECT = frozenset(kind.kind for kind in (NAMESPACE, *ATTACHED))
