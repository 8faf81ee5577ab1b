"""Parsing of Kubernetes' own PodGroups (``scheduling.k8s.io``), to which pods belong by
``spec.schedulingGroup``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import orjson

from shared.errors import InvalidInput
from shared.manifests.fields.metadata import (
    KAI_QUEUE,
    QUEUE_NAME,
    annotations_of,
    labels_of,
    read_metadata,
)
from shared.manifests.fields.reader import INT32, Fields, dns_label, loose_name, subdomain
from shared.manifests.kubernetes.inert import InertObject
from shared.model.model import Pairs

HIGHEST_PRIORITY = 1_000_000_000
MOST_TEMPLATES = 8
PARENT = "parentCompositePodGroupName"
SINGLE = "single"
_POLICIES = ("basic", "gang")
_MODES = (SINGLE, "all")
_PREEMPTION = ("PreemptLowerPriority", "Never")

M = TypeVar("M", bound="NativePodGroupManifest")


@dataclass(frozen=True, slots=True)
class NativePodGroupManifest:
    """A PodGroup; as :class:`CompositePodGroupManifest`, one of groups."""

    namespace: str
    name: str
    uid: str
    created: float | None
    min_count: int | None
    """Pods that start together, or groups; None for a basic group, whose are placed one by one."""
    queue: str
    """Queue that the group names by Volcano's key; "" for none."""
    kai_queue: str
    """The same by KAI's key."""
    priority_class: str
    priority: int | None
    """None: not set; its priority class decides."""
    preempts: bool | None
    """None: not set; its priority class decides."""
    leaves_whole: bool
    """Its disruption mode is ``all``: its pods are one victim."""
    topology_key: str
    """Node label of which all its pods need one value; "" for none."""
    parent: str = ""
    """The CompositePodGroup that it is in; "" for none."""
    workload: str = ""
    """The Workload that it was made from; "" for none."""
    labels: Pairs = ()
    annotations: Pairs = ()

    @property
    def minimum(self) -> int:
        return 1 if self.min_count is None else self.min_count


@dataclass(frozen=True, slots=True)
class CompositePodGroupManifest(NativePodGroupManifest):
    pass


NativeManifest = NativePodGroupManifest | CompositePodGroupManifest


def read_native_pod_group(obj: dict[str, object]) -> NativePodGroupManifest:
    spec = Fields(obj.get("spec"), "spec")
    spec.check("NativePodGroupSpec")
    return _read_group(NativePodGroupManifest, obj, spec, _min_count(spec.need("schedulingPolicy")))


def read_composite_pod_group(obj: dict[str, object]) -> CompositePodGroupManifest:
    spec = Fields(obj.get("spec"), "spec")
    spec.check("CompositePodGroupSpec")
    spec.need("workloadRef")
    minimum = _min_group_count(spec.need("schedulingPolicy"))
    return _read_group(CompositePodGroupManifest, obj, spec, minimum)


def _read_group(of: type[M], obj: dict[str, object], spec: Fields, minimum: int | None) -> M:
    meta = read_metadata(obj, namespaced=True)
    preemption = spec.choice("preemptionPolicy", _PREEMPTION, "")
    priority, parent = spec.data.get("priority"), spec.data.get(PARENT)
    workload = spec.child("workloadRef")
    if parent is not None and workload is None:
        raise spec.wrong("workloadRef", f"missing; a group with {PARENT} names its Workload")
    return of(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=meta.created,
        min_count=minimum,
        queue=named_queue(meta.labels, meta.annotations, QUEUE_NAME),
        kai_queue=named_queue(meta.labels, meta.annotations, KAI_QUEUE),
        priority_class=spec.text("priorityClassName"),
        priority=None
        if priority is None
        else spec.integer("priority", 0, low=-INT32 - 1, high=HIGHEST_PRIORITY),
        preempts=preemption != "Never" if preemption else None,
        leaves_whole=_disruption_mode(spec) != SINGLE,
        topology_key=_topology_key(spec.child("schedulingConstraints")),
        parent="" if parent is None else subdomain(parent, spec.path(PARENT)),
        workload="" if workload is None else _workload_of(workload),
        labels=labels_of(meta),
        annotations=annotations_of(meta),
    )


def _workload_of(reference: Fields) -> str:
    reference.check("NativeWorkloadRef")
    for name in ("workloadName", "templateName"):
        subdomain(reference.data.get(name), reference.path(name))
    return reference.text("workloadName")


def read_workload(obj: dict[str, object]) -> InertObject:
    """The templates are checked as the API server does it; only ``minCount`` may change later."""
    meta = read_metadata(obj, namespaced=True)
    spec = Fields(obj.get("spec"), "spec")
    spec.check("WorkloadSpec")
    templates = list(spec.children("podGroupTemplates"))
    if not 1 <= len(templates) <= MOST_TEMPLATES:
        raise spec.wrong("podGroupTemplates", f"must have 1 to {MOST_TEMPLATES} items")
    names: set[str] = set()
    for template in templates:
        template.check("NativeGroupTemplate")
        name = dns_label(template.data.get("name"), template.path("name"))
        if name in names:
            raise template.wrong("name", "another template has this name; write another")
        names.add(name)
        _min_count(template.need("schedulingPolicy"))
        _disruption_mode(template)
        _topology_key(template.child("schedulingConstraints"))
    labels_of(meta)
    fixed = orjson.dumps(_without_counts(spec.data), option=orjson.OPT_SORT_KEYS)
    return InertObject("Workload", meta.namespace, meta.name, fixed=fixed)


def _without_counts(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_counts(v) for name, v in value.items() if name != "minCount"}
    return [_without_counts(item) for item in value] if isinstance(value, list) else value


def _disruption_mode(spec: Fields) -> str:
    mode = spec.child("disruptionMode")
    if mode is None:
        return SINGLE
    mode.check("NativeDisruption")
    return _member_of(mode, _MODES)


def _min_count(policy: Fields) -> int | None:
    policy.check("NativePolicy")
    gang = _gang_of(policy)
    if gang is None:
        return None
    gang.check("NativeGang")
    return _minimum(gang, "minCount", "pods")


def _min_group_count(policy: Fields) -> int | None:
    policy.check("CompositePolicy")
    gang = _gang_of(policy)
    if gang is None:
        return None
    gang.check("CompositeGang")
    return _minimum(gang, "minGroupCount", "groups")


def _gang_of(policy: Fields) -> Fields | None:
    return policy.need("gang") if _member_of(policy, _POLICIES) == "gang" else None


def _minimum(gang: Fields, field: str, members: str) -> int:
    if gang.data.get(field) in (None, 0):
        raise gang.wrong(field, f"missing; write how many {members} start together, 1 or more")
    return gang.integer(field, 1, low=1)


def _topology_key(constraints: Fields | None) -> str:
    if constraints is None:
        return ""
    constraints.check("NativeConstraints")
    topologies = list(constraints.children("topology"))
    if len(topologies) > 1:
        raise constraints.wrong("topology", "must have at most 1 item; leave the others out")
    for topology in topologies:
        topology.check("NativeTopology")
    return topologies[0].label_key("key") if topologies else ""


def _member_of(union: Fields, members: tuple[str, ...]) -> str:
    """The one member of a union that is set."""
    present = [name for name in members if union.data.get(name) is not None]
    if len(present) != 1:
        number = "exactly one" if present else "one"
        named = ", ".join(f"`{name}`" for name in members)
        raise InvalidInput(union.at, None, f"must specify {number} of: {named}")
    return present[0]


def named_queue(labels: Mapping[str, object], annotations: Mapping[str, object], key: str) -> str:
    """The queue in the annotation or else the label of this key; "" for none."""
    for part, texts in (("annotations", annotations), ("labels", labels)):
        if value := texts.get(key):
            return loose_name(value, f"metadata.{part}.{key}")
    return ""


def scheduling_group_of(spec: dict[str, object]) -> str:
    """The native group that a pod's spec names; "" for none."""
    if spec.get("schedulingGroup") is None:
        return ""
    group = Fields(spec["schedulingGroup"], "spec.schedulingGroup")
    group.check("SchedulingGroup")
    return subdomain(group.data.get("podGroupName"), group.path("podGroupName"))
