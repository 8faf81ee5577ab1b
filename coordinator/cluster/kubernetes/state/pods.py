"""Pods as the API server has them, by uid: which tasks they are, and where.

A pod's uid is the incarnation of a task. Pods come one by one and in any order; each is a row here
from its first event on, and becomes a task once intake has admitted it. What the cluster reports
about a task is the difference between the row and what was reported before, so that an event that
comes twice reports nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from coordinator.cluster.kubernetes.api.objects import (
    PodObject,
    claim_statuses_of,
    claims_of,
    container_statuses_of,
    containers_of,
    spec_of,
)
from coordinator.cluster.kubernetes.state.legible import LegibleObject
from coordinator.cluster.protocol import Phase
from shared.manifests.kubernetes.requests import resources_of_status, usage
from shared.model.groups import NATIVE, group_key
from shared.model.kai_devices import RECEIVED, is_group_label
from shared.model.node_devices import DEVICE_MARKS

GROUP = "scheduling.k8s.io/group-name"
STATEMENT = "quadrant.dev/statement"
"""Annotation of a bound pod: ledger, epoch and entry of the bind stream that placed it. The driver
writes it; it is no part of what a pod asks for."""

PodKey = tuple[str, str]
"""(namespace, name)"""
Task = tuple[int, int]
"""(jid, tix)"""

_PHASES = {"Running": Phase.RUNNING, "Succeeded": Phase.SUCCEEDED, "Failed": Phase.FAILED}
_GONE_PODS = 100_000
"""Number of deleted pods to remember for questions about their tasks."""
UNBOUND = -1
"""``reported`` of a pod that was not reported to be on a node."""

_OF_BINDING = (STATEMENT, RECEIVED, *DEVICE_MARKS)
_NO_MARKS: Mapping[str, str] = {}
_AS_ASKED: Mapping[str, object] = {}
_TEMPLATE = b'"resourceClaimTemplateName"'
"""No pod without this text has a claim of a template. One with it may have none either: anybody may
write it into an argument or a selector."""


@dataclass(slots=True)
class PodRow:
    """One pod. ``node``, ``phase`` and ``leaving`` are the server's; ``reported`` and
    ``reported_node`` what the coordinator was told."""

    uid: str
    namespace: str
    name: str
    version: str = ""
    node: str = ""
    phase: Phase = Phase.BOUND
    """BOUND also for a pending pod without a node: then ``node`` is ""."""
    leaving: bool = False
    ours: bool = True
    group: str = ""
    """:func:`group_key` of its PodGroup."""
    statement: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)
    """Annotations and labels by which its binding told devices."""
    resized: Mapping[str, object] = field(default_factory=dict)
    """Resources in its status, where they differ from the requests of its spec."""
    fingerprint: int = 0
    jid: int = -1
    tix: int = -1
    reported_node: str = ""
    reported: int = UNBOUND
    gone: bool = False
    incarnation: int = 0
    """How often a placement of ours was taken back while the pod went on waiting (shadow)."""
    decided: bool = False
    """A placement of ours was asked for."""
    was_pending: bool = False
    """It was seen without a node."""
    since: float = 0.0
    """When it was first seen with a node, while nothing is decided here."""

    @property
    def key(self) -> PodKey:
        return self.namespace, self.name

    @property
    def task(self) -> str:
        return f"{self.jid}.{self.tix}"

    @property
    def ended(self) -> bool:
        return self.gone or self.phase in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def on_node(self) -> bool:
        return bool(self.node) and not self.ended


class PodTable:
    def __init__(self) -> None:
        self.by_key: dict[PodKey, PodRow] = {}
        self._by_task: dict[Task, PodRow] = {}
        self._gone: OrderedDict[Task, PodRow] = OrderedDict()
        self.members: dict[str, int] = {}
        """:func:`group_key` of a PodGroup -> number of pods that exist."""

    def __iter__(self) -> Iterator[PodRow]:
        return iter(self.by_key.values())

    def of_task(self, task: Task) -> PodRow | None:
        """The pod of a task, also one that was deleted some time ago."""
        return self._by_task.get(task) or self._gone.get(task)

    def rows(self, tasks: list[Task]) -> list[PodRow | None]:
        return [self.of_task(task) for task in tasks]

    def tasks(self) -> list[PodRow]:
        """All pods that are tasks and exist, in order of their jobs."""
        return [self._by_task[task] for task in sorted(self._by_task)]

    def add(self, pod: PodObject, *, ours: bool) -> PodRow:
        meta = pod.metadata
        row = PodRow(meta.uid, meta.namespace, meta.name, ours=ours)
        self.by_key[row.key] = row
        self.note_group(row, pod)
        return row

    def note_group(self, row: PodRow, pod: PodObject) -> None:
        """Take the group that the pod names. A controller may name it once the pod exists."""
        native = spec_of(pod.spec).scheduling_group
        kind, group = "PodGroup", (pod.metadata.annotations or {}).get(GROUP, "")
        if native is not None and native.pod_group_name:
            kind, group = NATIVE, native.pod_group_name
        if group and not row.group:
            row.group = group_key(kind, f"{row.namespace}/{group}")
            self.members[row.group] = self.members.get(row.group, 0) + 1

    def add_unread(self, uid: str, namespace: str, name: str) -> PodRow:
        """A pod of which nothing is known but that it exists: not ours, and of no group."""
        row = PodRow(uid, namespace, name, ours=False)
        self.by_key[row.key] = row
        return row

    def named(self, row: PodRow, task: Task) -> None:
        """The pod is this task, whichever it was before."""
        self._by_task.pop((row.jid, row.tix), None)
        row.jid, row.tix = task
        self._by_task[task] = row

    def remove(self, row: PodRow) -> bool:
        """The pod is gone; True where it was the last one of its group."""
        row.gone = True
        if self.by_key.get(row.key) is row:
            del self.by_key[row.key]
        if row.jid >= 0:
            task = (row.jid, row.tix)
            self._by_task.pop(task, None)
            self._gone[task] = row
            if len(self._gone) > _GONE_PODS:
                self._gone.popitem(last=False)
        if not row.group:
            return False
        left = self.members.pop(row.group) - 1
        if left:
            self.members[row.group] = left
        return not left


def update(row: PodRow, pod: PodObject) -> bool:
    """Take what the server says of the pod; True where intake has to hear of it: it is new, or its
    labels, annotations or spec changed."""
    meta = pod.metadata
    head = spec_of(pod.spec)
    row.version = meta.resource_version
    row.node = head.node_name
    row.was_pending = row.was_pending or not head.node_name
    row.phase = _PHASES.get(pod.status.phase, Phase.BOUND)
    row.leaving = meta.deletion_timestamp is not None
    annotations = meta.annotations or {}
    row.statement = annotations.get(STATEMENT, row.statement)
    row.marks = _marks(annotations, meta.labels) if row.node else _NO_MARKS
    row.resized = _resized(pod) if row.ours and row.on_node else _AS_ASKED
    before, row.fingerprint = row.fingerprint, _fingerprint(pod, head.node_name)
    if row.resized:
        row.fingerprint ^= hash(msgspec.json.encode(row.resized))
    return before != row.fingerprint


def update_legible(row: PodRow, parts: LegibleObject) -> None:
    """Take what can be read of a pod whose reader gave up; for the rest it is as it was."""
    row.node = parts.node or row.node
    row.was_pending = row.was_pending or not row.node
    row.phase = _PHASES.get(parts.phase, row.phase)
    row.leaving = row.leaving or parts.leaving


def reported_status(pod: PodObject) -> dict[str, object]:
    """Resources in the pod's status, in the form from which usage is read."""
    status = pod.status
    parts = {
        "conditions": status.conditions,
        "containerStatuses": status.container_statuses,
        "initContainerStatuses": status.init_container_statuses,
        "allocatedResources": status.allocated_resources,
        "resources": status.resources,
        "nodeAllocatableResourceClaimStatuses": status.node_allocatable_resource_claim_statuses,
    }
    decoded = {name: msgspec.json.decode(raw) for name, raw in parts.items() if bytes(raw)}
    return decoded | {"resize": status.resize}


def usage_fingerprint(pod: PodObject) -> int:
    """A number that changes with what :func:`usage` reads of the pod."""
    status = pod.status
    parts = (
        pod.spec,
        status.conditions,
        status.container_statuses,
        status.init_container_statuses,
        status.allocated_resources,
        status.resources,
        status.node_allocatable_resource_claim_statuses,
    )
    return hash((status.resize, *map(bytes, parts)))


def _resized(pod: PodObject) -> Mapping[str, object]:
    status = pod.status
    beside = (
        status.allocated_resources,
        status.resources,
        status.node_allocatable_resource_claim_statuses,
    )
    # Every pod that runs reports what it has: to read all of it took longer than all else here.
    if not any(map(bytes, beside)) and _is_as_asked(pod):
        return _AS_ASKED
    spec, reported = msgspec.json.decode(pod.spec), reported_status(pod)
    if usage(spec, reported).amounts == usage(spec).amounts:
        return _AS_ASKED
    return resources_of_status(reported)


def _is_as_asked(pod: PodObject) -> bool:
    """Whether each container has, word for word, what the spec asks for."""
    status = pod.status
    statuses = bytes(status.container_statuses), bytes(status.init_container_statuses)
    if not any(b'"requests"' in part or b'"allocatedResources"' in part for part in statuses):
        return True
    asked = containers_of(pod.spec)
    requests = {c.name: c.resources and c.resources.requests for c in asked.all}
    given = (one for part in statuses if part for one in container_statuses_of(part) or ())
    return all(
        value is None or value == requests.get(one.name)
        for one in given
        for value in (one.allocated_resources, one.resources and one.resources.requests)
    )


def _marks(annotations: Mapping[str, str], labels: Mapping[str, str] | None) -> Mapping[str, str]:
    """Annotations and labels that name the pod's devices. Almost no pod has any: one mapping serves
    them all."""
    marks = {name: annotations[name] for name in DEVICE_MARKS if name in annotations}
    marks |= {name: text for name, text in (labels or {}).items() if is_group_label(name)}
    return marks or _NO_MARKS


def _fingerprint(pod: PodObject, node: str) -> int:
    """A number that changes with what intake reads of the pod. The node is no part of it: intake
    hears of that by reports."""
    spec = bytes(pod.spec)
    if node:
        spec = spec.replace(b'"nodeName":"%s",' % node.encode(), b"", 1)
    meta = pod.metadata
    labels = tuple(sorted(own_labels(meta.labels).items()))
    annotations = tuple(sorted(own_words(meta.annotations).items()))
    # Never 0, which a fresh row has.
    claims = bytes(pod.status.resource_claim_statuses)
    return hash((labels, annotations, spec, claims)) or 1


def has_claims(pod: PodObject) -> bool:
    """Whether a claim was made of each template that the pod names. Before that nothing can be
    decided for it, and intake takes no pod whose claims change; the claim controller tells why it
    makes none."""
    if _TEMPLATE not in bytes(pod.spec):
        return True
    claims = claims_of(pod.spec).resource_claims or ()
    from_templates = {claim.name for claim in claims if claim.resource_claim_template_name}
    statuses = bytes(pod.status.resource_claim_statuses) or b"null"
    return from_templates <= {status.name for status in claim_statuses_of(statuses) or ()}


def own_words(annotations: dict[str, str] | None) -> dict[str, str]:
    """The pod's annotations without those that come with its binding."""
    return {name: text for name, text in (annotations or {}).items() if name not in _OF_BINDING}


def own_labels(labels: dict[str, str] | None) -> dict[str, str]:
    """The pod's labels without those that come with its binding: the devices that it shares."""
    return {name: text for name, text in (labels or {}).items() if not is_group_label(name)}


def as_item(pod: PodObject, resized: Mapping[str, object]) -> dict[str, object]:
    """The pod as intake reads it: what its author asks for, with its uid; ``resized``: see
    :class:`PodRow`."""
    meta = pod.metadata
    spec = msgspec.json.decode(pod.spec)
    spec.pop("nodeName", None)
    # It is ours to place, or it would not be given to intake; which of our names it has matters in
    # a group of Kubernetes' own alone.
    if not spec.get("schedulingGroup"):
        spec.pop("schedulerName", None)
    metadata: dict[str, object] = {
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "creationTimestamp": meta.creation_timestamp,
    }
    if labels := own_labels(meta.labels):
        metadata["labels"] = labels
    if annotations := own_words(meta.annotations):
        metadata["annotations"] = annotations
    item: dict[str, object] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    item["spec"] = spec
    status = dict(resized)
    if claims := bytes(pod.status.resource_claim_statuses):
        status["resourceClaimStatuses"] = msgspec.json.decode(claims)
    if status:
        item["status"] = status
    return item
