"""The objects of KAI Scheduler as values: queues with quotas, PodGroups with a tree of sub groups,
and topologies.

Amounts are in the unit of their slot (thousandths of a core and of a device, bytes). Weights are
thousandths too, so that shares are computed from whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.codec.packed import Count, Finite, Packed

Labels = tuple[tuple[str, str], ...]
"""Sorted by key."""

UNLIMITED = -1
"""As a quota: all there is; as a limit: none."""
QUEUE_PRIORITY = 100
"""The priority of a queue that says nothing."""
PREEMPTIBLE_BELOW = 100
"""A PodGroup that does not say so itself is preemptible where its priority is below this."""
NEVER_BACK_OFF = -1
"""``schedulingBackoff`` of a PodGroup that stays in its node pool."""
DEFAULT_POOL = "default"
"""KAI's name for the node pool of objects without the pool label."""
DEFAULT_POD_SET = "default"
"""The only pod set of a PodGroup without sub groups."""

PRIORITY_CLASSES: Mapping[str, int] = {
    "train": 50,
    "build-preemptible": 75,
    "build": 100,
    "inference": 125,
}
"""The priority classes of KAI's installation. A PodGroup without one is of class train."""
DEFAULT_PRIORITY = PRIORITY_CLASSES["train"]


_OF_LABEL = "label:"


def label_topology(key: str) -> str:
    """The name of the topology whose only level is this node label. No object has such a name."""
    return _OF_LABEL + key


class KaiShare(Packed, frozen=True):
    """A queue's quota, weight and limit for one resource."""

    quota: int = 0
    """Deserved amount; UNLIMITED: all."""
    weight: int = 0
    """Thousandths of its weight among its siblings for what is left after quotas; may be -1000."""
    limit: int = 0
    """The most it may ever use; UNLIMITED: no bound."""


class KaiQueue(Packed, frozen=True):
    """A queue in KAI's tree. Only a queue without children holds jobs."""

    name: str
    cpu: KaiShare
    memory: KaiShare
    gpu: KaiShare
    parent: str = ""
    """"" for a root."""
    priority: int = QUEUE_PRIORITY
    created: Finite = 0.0
    uid: str = ""
    display_name: str = ""
    preempt_min_runtime: Finite | None = None
    """Seconds that a job runs before another of its queue may evict it; None: not set here."""
    reclaim_min_runtime: Finite | None = None
    """The same for jobs of other queues."""
    labels: Labels = ()


class KaiTopologyConstraint(Packed, frozen=True):
    """How close the pods of a group must be, by levels of a topology; "" = not asked for."""

    topology: str
    required: str = ""
    preferred: str = ""


class KaiSubGroup(Packed, frozen=True):
    """One node of a PodGroup's tree: a pod set where nothing hangs below it."""

    name: str
    parent: str = ""
    """"" for a child of the root; in small letters, as KAI compares them."""
    min_member: Count | None = None
    """Pods that must run together; None = not set (0 for a pod set)."""
    min_sub_group: Count | None = None
    """Children that must be satisfied; None = all."""
    topology: KaiTopologyConstraint | None = None


Below = Mapping[str, Sequence[KaiSubGroup]]


class KaiPodGroup(Packed, frozen=True):
    """A gang, with its tree of sub groups. Its queue need not exist yet."""

    namespace: str
    name: str
    queue: str
    uid: str = ""
    created: Finite | None = None
    priority_class: str = ""
    preemptible: bool | None = None
    """None: its priority decides."""
    min_member: Count = 1
    """Minimum of the pod set ``default``, where there are no sub groups."""
    min_sub_group: Count | None = None
    """Children of the root that must be satisfied; None = all."""
    sub_groups: tuple[KaiSubGroup, ...] = ()
    topology: KaiTopologyConstraint | None = None
    preemption_delay: Finite = 0.0
    """Seconds after its creation, or last eviction, in which it evicts nobody."""
    staleness_grace: Finite | None = None
    """Seconds that it may stay below its minimum; None: as the policy says; negative: for ever."""
    backoff: int = NEVER_BACK_OFF
    mark_unschedulable: bool | None = None
    last_start: Finite | None = None
    """Annotation ``kai.scheduler/last-start-timestamp``, seconds since 1970."""
    stale_since: Finite | None = None
    """Annotation ``kai.scheduler/stale-podgroup-timestamp``, seconds since 1970."""
    labels: Labels = ()
    failed_pool: str | None = None
    """The node pool of its last condition UnschedulableOnNodePool; None where its status says
    nothing, "" where it says that there is none."""
    last_eviction: Finite | None = None
    """Annotation ``kai.scheduler/last-eviction-timestamp``, seconds since 1970."""

    def delayed_until(self, created: float) -> float:
        """Until when it may have nobody evicted. ``created``: its time where it has none of its
        own."""
        since = created if self.created is None else self.created
        return max(since, self.last_eviction or since) + self.preemption_delay

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def below(self) -> Below:
        """The sub groups by the one that they are directly below; "" is the root. Pods join those
        below which there is none."""
        below: dict[str, list[KaiSubGroup]] = {}
        for sub in self.sub_groups:
            below.setdefault(sub.parent, []).append(sub)
        return below

    def pool(self, label: str) -> str:
        """The node pool that it is in, by this label."""
        return dict(self.labels).get(label) or DEFAULT_POOL

    def is_passed_over(self, label: str) -> bool:
        """Whether it failed in its pool, and is not tried there again."""
        return self.backoff != NEVER_BACK_OFF and self.failed_pool == self.pool(label)

    def is_preemptible(self, priority: int) -> bool:
        """Whether it may be evicted, with the value of its priority class."""
        return priority < PREEMPTIBLE_BELOW if self.preemptible is None else self.preemptible


class KaiLevel(Packed, frozen=True):
    """One level of a topology: nodes with the same value of a label are one domain."""

    label: str
    alias: str = ""


class KaiTopology(Packed, frozen=True):
    """Levels from the widest to the narrowest. A node belongs to it if it has all their labels."""

    name: str
    levels: tuple[KaiLevel, ...]

    def level(self, name: str) -> int | None:
        """The index of the level with this label or alias; None where there is none."""
        for index, level in enumerate(self.levels):
            if name == level.label or (level.alias and name == level.alias):
                return index
        return None


def topology_of(
    constraint: KaiTopologyConstraint, topologies: Mapping[str, KaiTopology]
) -> KaiTopology | None:
    """The topology that a constraint names; None where it does not exist."""
    if constraint.topology.startswith(_OF_LABEL):
        level = KaiLevel(constraint.topology.removeprefix(_OF_LABEL))
        return KaiTopology(constraint.topology, (level,))
    return topologies.get(constraint.topology)
