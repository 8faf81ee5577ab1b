"""Parsing of KAI's PodGroups, and of what its pods say of the group that they belong to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared.errors import InvalidInput
from shared.manifests.fields.durations import check_duration, duration_seconds
from shared.manifests.fields.metadata import KAI_QUEUE, labels_of, read_metadata, read_time
from shared.manifests.fields.reader import Fields, dns_label, loose_name
from shared.model.kai import (
    DEFAULT_POD_SET,
    DEFAULT_POOL,
    NEVER_BACK_OFF,
    KaiPodGroup,
    KaiSubGroup,
    KaiTopologyConstraint,
)

GROUP_NAME = "pod-group-name"
"""Annotation of a pod: its PodGroup."""
SUB_GROUP = "kai.scheduler/subgroup-name"
"""Label of a pod: its sub group."""
QUEUE_LABEL = KAI_QUEUE
LAST_START = "kai.scheduler/last-start-timestamp"
UNSCHEDULABLE = "UnschedulableOnNodePool"
"""Type of the condition of a PodGroup that could not be placed in a node pool."""
STALE_SINCE = "kai.scheduler/stale-podgroup-timestamp"
LAST_EVICTION = "kai.scheduler/last-eviction-timestamp"
STAMPS = (LAST_START, STALE_SINCE, LAST_EVICTION)
"""A name of ours: kept on the object, as the other two times are."""

_MOST_MEMBERS = 1_000_000
_PREEMPTIBILITY = {"preemptible": True, "non-preemptible": False, "": None}
_BACKOFFS = (NEVER_BACK_OFF, 1)
DEEPEST = 20
"""Levels of sub groups. KAI has no bound; whoever reads them goes down level by level."""

_NEGATIVE = re.compile(r"-\s*[0-9].*")


def read_kai_pod_group(obj: dict[str, object]) -> KaiPodGroup:
    """Read a PodGroup and check its tree of sub groups, as the webhook of KAI 0.12 does: what later
    ones refuse as well stands in clusters, and is passed over there."""
    meta = read_metadata(obj, namespaced=True, loose=True)
    spec = Fields({} if obj.get("spec") is None else obj["spec"], "spec")
    spec.check("KaiPodGroupSpec")
    for old in ("parallelism", "completions", "backoffLimit"):
        spec.integer(old, 0)
    backoff = spec.integer("schedulingBackoff", NEVER_BACK_OFF, low=-1, high=1)
    if backoff not in _BACKOFFS:
        raise spec.wrong("schedulingBackoff", "not allowed; write 1, or -1 for never")
    annotations = Fields(meta.annotations, "metadata.annotations")
    groups = tuple(_sub_group(fields) for fields in spec.children("subGroups"))
    _both(spec)
    group = KaiPodGroup(
        namespace=meta.namespace,
        name=meta.name,
        queue=loose_name(spec.text("queue") or "default", "spec.queue"),
        uid=meta.uid,
        created=meta.created,
        priority_class=spec.text("priorityClassName"),
        preemptible=_PREEMPTIBILITY[spec.choice("preemptibility", tuple(_PREEMPTIBILITY), "")],
        min_member=spec.integer("minMember", 1, high=_MOST_MEMBERS),
        min_sub_group=_minimum(spec, "minSubGroup", low=1),
        sub_groups=groups,
        topology=_constraint(spec),
        preemption_delay=_delay(spec),
        staleness_grace=_grace(spec),
        backoff=backoff,
        mark_unschedulable=None
        if spec.data.get("markUnschedulable") is None
        else spec.boolean("markUnschedulable", False),
        last_start=read_time(annotations, LAST_START),
        stale_since=read_time(annotations, STALE_SINCE),
        last_eviction=read_time(annotations, LAST_EVICTION),
        labels=labels_of(meta),
        failed_pool=_failed_pool(obj.get("status")),
    )
    _check_tree(group)
    return group


def _failed_pool(status: object) -> str | None:
    """The node pool of the last condition UnschedulableOnNodePool; "" where there is none, None
    where the status does not have conditions."""
    if not isinstance(status, dict) or "schedulingConditions" not in status:
        return None
    fields = Fields(status, "status")
    pools = [
        condition.text("nodePool") or DEFAULT_POOL
        for condition in fields.children("schedulingConditions")
        if condition.text("type") == UNSCHEDULABLE and condition.text("status", "True") == "True"
    ]
    return pools[-1] if pools else ""


def _sub_group(fields: Fields) -> KaiSubGroup:
    fields.check("KaiSubGroup")
    _both(fields)
    parent = fields.text("parent").lower()
    return KaiSubGroup(
        name=dns_label(fields.text("name").lower() or None, fields.path("name")),
        parent=dns_label(parent, fields.path("parent")) if parent else "",
        min_member=_minimum(fields, "minMember", low=0),
        min_sub_group=_minimum(fields, "minSubGroup", low=1),
        topology=_constraint(fields),
    )


def _both(fields: Fields) -> None:
    if fields.data.get("minMember") is not None and fields.data.get("minSubGroup") is not None:
        message = "not allowed beside minMember; a group with sub groups has minSubGroup, one "
        raise fields.wrong("minSubGroup", message + "with pods has minMember")


def _minimum(fields: Fields, name: str, *, low: int) -> int | None:
    if fields.data.get(name) is None:
        return None
    return fields.integer(name, 0, low=low, high=_MOST_MEMBERS)


def _constraint(fields: Fields) -> KaiTopologyConstraint | None:
    constraint = fields.child("topologyConstraint")
    if constraint is None or not constraint.data:
        return None
    constraint.check("KaiTopologyConstraint")
    topology = constraint.text("topology")
    required = constraint.text("requiredTopologyLevel", longest=317)
    preferred = constraint.text("preferredTopologyLevel", longest=317)
    return KaiTopologyConstraint(topology, required, preferred) if topology else None


def _delay(spec: Fields) -> float:
    text = spec.data.get("preemptionDelay")
    if isinstance(text, str) and _NEGATIVE.fullmatch(text):
        raise spec.wrong("preemptionDelay", 'negative; write a duration as "10m", or leave it out')
    return duration_seconds(check_duration(spec, "preemptionDelay"))


def _grace(spec: Fields) -> float | None:
    """Seconds; negative where the gang may stay below its minimum for ever."""
    text = spec.data.get("stalenessGracePeriod")
    if text is None:
        return None
    if isinstance(text, str) and _NEGATIVE.fullmatch(text):
        positive = Fields({"stalenessGracePeriod": text[1:].strip()}, spec.at)
        return -duration_seconds(check_duration(positive, "stalenessGracePeriod"))
    return duration_seconds(check_duration(spec, "stalenessGracePeriod"))


# --- the tree -------------------------------------------------------------------------------------


def _check_tree(group: KaiPodGroup) -> None:
    """Refuse names twice, parents that are missing, circles, and minima of groups without any."""
    at: dict[str, str] = {}
    for i, sub in enumerate(group.sub_groups):
        if at.setdefault(sub.name, f"spec.subGroups[{i}]") != f"spec.subGroups[{i}]":
            field = f"spec.subGroups[{i}].name"
            raise InvalidInput(field, sub.name, "stands there twice; give each its own name")
    for i, sub in enumerate(group.sub_groups):
        if sub.parent and sub.parent not in at:
            message = f"no sub group has this name; write one of {', '.join(at)}"
            raise InvalidInput(f"spec.subGroups[{i}].parent", sub.parent, message)
    _check_circles(group.sub_groups, at)
    below = group.below()
    for sub in group.sub_groups:
        if sub.min_sub_group is not None and sub.name not in below:
            message = "not allowed, no sub group is below it; write minMember instead"
            raise InvalidInput(f"{at[sub.name]}.minSubGroup", sub.min_sub_group, message)
    if group.min_sub_group is not None and not group.sub_groups:
        message = "not allowed without subGroups; write minMember instead"
        raise InvalidInput("spec.minSubGroup", group.min_sub_group, message)


def _check_circles(groups: Sequence[KaiSubGroup], at: dict[str, str]) -> None:
    parents = {sub.name: sub.parent for sub in groups}
    for sub in groups:
        visited, name = {sub.name}, sub.parent
        while name:
            if name in visited:
                message = f"{sub.name} would be above itself; take one parent of the circle out"
                raise InvalidInput(f"{at[sub.name]}.parent", sub.parent, message)
            visited.add(name)
            if len(visited) > DEEPEST:
                message = f"{sub.name} is more than {DEEPEST} levels deep; take levels out above it"
                raise InvalidInput(f"{at[sub.name]}.parent", sub.parent, message)
            name = parents[name]


# --- pods -----------------------------------------------------------------------------------------


def pod_group_of(annotations: dict[str, object]) -> str:
    """The PodGroup that a pod's annotations name; "" for none."""
    value = annotations.get(GROUP_NAME)
    return loose_name(value, f"metadata.annotations.{GROUP_NAME}") if value else ""


def pod_set_of(labels: dict[str, object]) -> str:
    """The pod set that a pod's labels name; ``default`` without one."""
    value = labels.get(SUB_GROUP)
    if not value:
        return DEFAULT_POD_SET
    name = value.lower() if isinstance(value, str) else value
    return dns_label(name, f"metadata.labels.{SUB_GROUP}")
