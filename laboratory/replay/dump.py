"""Prepares a cluster dump (``kubectl get nodes,pods,... -A -o yaml``) for a replay.

A dump has everything in a cluster, not only what is scheduled here. Pods without a PodGroup that
another scheduler placed are foreign: they use their nodes, and are never evicted. Kinds that no
decision depends on are left out, and counted. Whose pods and PodGroups count is the policy's
dialect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator.intake.documents.kinds import WITHOUT_EFFECT
from laboratory.replay.left_out import ENDED, reduced_to_usage
from laboratory.replay.older_versions import as_served
from laboratory.replay.recorded import RecordError
from laboratory.replay.recorded_policy import (
    check_dialect,
    holds_policy,
    recorded_policy,
)
from shared.errors import InvalidInput
from shared.manifests.fields.generated_names import with_numbered_names
from shared.manifests.fields.metadata import GROUP_NAME
from shared.manifests.kai.groups import pod_group_of
from shared.manifests.kai.queue_usage import UsageParts, read_queue_usage
from shared.manifests.parse import KINDS
from shared.manifests.text.errors import TextError
from shared.policy.file import SHARD
from shared.policy.model import Dialect, Policy
from shared.policy.volcano import DEFAULT_POLICY
from shared.units.times import moment

Json = dict[str, Any]

OUR_SCHEDULERS = ("", "quadrant", "volcano", "volcano-agent-scheduler")
"""``spec.schedulerName`` of pods that belong to this scheduler even without a PodGroup; "" = not
set."""
TAKEN = "quadrant.dev/taken"
"""Annotation of the ConfigMap that ``quadrant snapshot`` writes: time of the snapshot in seconds
since 1970."""
USAGE_KEY = "queue-usage.yaml"
"""Key of a ConfigMap: what queues used in the past (:mod:`shared.manifests.kai.queue_usage`)."""
_JOB = ("batch.volcano.sh/v1alpha1", "Job")


@dataclass(slots=True)
class Dump:
    """Objects to replay, and other findings in the dump."""

    policy: Policy
    """The one to decide under."""
    items: list[Json] = field(default_factory=list)
    foreign: set[str] = field(default_factory=set)
    """``namespace/name`` of pods that only use their nodes."""
    events: list[Json] = field(default_factory=list)
    """Events in the dump."""
    usage: UsageParts | None = None
    """Past usage of queues; None: the dump has none."""
    unread: list[str] = field(default_factory=list)
    """One line for each amount of a pod of others that could not be read."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Kind -> number of objects left out."""
    now: float = 0.0
    """Time of the dump: as it says, else the latest time in any object."""


def read_dump(objects: Iterable[Mapping[str, Any]], policy: Policy | None = None) -> Dump:
    """Read a dump. ``policy``: decide under this one, whatever is in the dump; else under one of
    its objects, or else the default. Raises PolicyError if an object has an invalid policy,
    RecordError if no object counts under the policy's dialect."""
    objects = with_numbered_names([as_served(obj) for obj in objects])
    found = recorded_policy(objects)
    dump, taken_at = Dump(policy or found or DEFAULT_POLICY), 0.0
    groups = {_key(obj) for obj in objects if obj.get("kind") == "PodGroup"}
    for obj in objects:
        kind = (str(obj.get("apiVersion")), str(obj.get("kind")))
        taken_at = max(taken_at, _taken(obj))
        dump.now = max(dump.now, latest(obj))
        if kind == ("v1", "Pod"):
            _take_pod(dump, obj)
        elif kind == ("v1", "ConfigMap"):
            _take_config_map(dump, obj)
        elif kind == ("v1", "Event"):
            dump.events.append(dict(obj))
        elif kind == _JOB:
            _take_job(dump, obj, groups)
        elif kind[1] in _KIND_NAMES:
            dump.items.append(dict(obj))
        elif kind[1] not in _BESIDE:
            dump.left_out[kind[1]] += 1
    dump.now = taken_at or dump.now
    pods = sum(item["kind"] == "Pod" for item in dump.items) - len(dump.foreign)
    check_dialect(dump.policy.dialect, dump.items, pods=pods, left_out=dump.left_out)
    return dump


_BESIDE = ("Namespace", "Shard", SHARD)
"""Kinds without influence on decisions."""
_KIND_NAMES = frozenset(kind for _, kind in KINDS) - WITHOUT_EFFECT


def _key(obj: Mapping[str, Any]) -> str:
    meta = _part(obj, "metadata")
    return f"{meta.get('namespace') or 'default'}/{meta.get('name')}"


def _part(obj: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = obj.get(name)
    return value if isinstance(value, Mapping) else {}


# --- pods -------------------------------------------------------------------------------------


def _take_pod(dump: Dump, obj: Mapping[str, Any]) -> None:
    spec = _part(obj, "spec")
    if _is_in_group(dump.policy, obj) or spec.get("schedulerName", "") in _ours(dump.policy):
        dump.items.append(dict(obj))
    elif _part(obj, "status").get("phase") in ENDED:
        dump.left_out["ended pods of other schedulers"] += 1
    elif not spec.get("nodeName"):
        dump.left_out["waiting pods of other schedulers"] += 1
    else:
        pod, unread = reduced_to_usage(obj)
        dump.foreign.add(_key(obj))
        dump.items.append(pod)
        dump.unread += unread


def _is_in_group(policy: Policy, pod: Mapping[str, Any]) -> bool:
    """Whether the pod belongs to a PodGroup of the policy's dialect."""
    marks = _part(_part(pod, "metadata"), "annotations")
    kai = policy.dialect is Dialect.KAI
    return bool(pod_group_of(dict(marks))) if kai else GROUP_NAME in marks


def _ours(policy: Policy) -> Container[str]:
    if policy.dialect is Dialect.KAI:
        return {"", "quadrant", *policy.scheduler_names}
    return OUR_SCHEDULERS


def _take_job(dump: Dump, obj: Mapping[str, Any], groups: set[str]) -> None:
    """Add a Job, unless its PodGroup (which stands for it, with its pods) is in the dump. One that
    has ended is left out."""
    meta = _part(obj, "metadata")
    namespace = meta.get("namespace") or "default"
    if f"{namespace}/{meta.get('name')}-{meta.get('uid')}" in groups:
        return
    if _part(_part(obj, "status"), "state").get("phase") in ("Completed", "Failed", "Terminated"):
        dump.left_out["ended Jobs"] += 1
    else:
        dump.items.append(dict(obj))


# --- what is beside the objects -----------------------------------------------------------------


def _take_config_map(dump: Dump, obj: Mapping[str, Any]) -> None:
    data = _part(obj, "data")
    if USAGE_KEY in data:
        dump.usage = _usage(str(data[USAGE_KEY]))
    elif not holds_policy(obj):
        dump.left_out["ConfigMap"] += 1


def _usage(text: str) -> UsageParts:
    try:
        return read_queue_usage(text)
    except InvalidInput as error:
        raise RecordError(str(error.refusal("ConfigMap", f"data[{USAGE_KEY}]"))) from None
    except TextError as error:
        raise RecordError(f"ConfigMap data[{USAGE_KEY}]: {error}") from None


def _taken(obj: Mapping[str, Any]) -> float:
    annotation = _part(_part(obj, "metadata"), "annotations").get(TAKEN)
    try:
        return float(annotation) if isinstance(annotation, str) else 0.0
    except ValueError:
        return 0.0


def latest(obj: Mapping[str, Any]) -> float:
    """The latest time in an object, in seconds since 1970; 0 if it has none."""
    meta, status = _part(obj, "metadata"), _part(obj, "status")
    times = (meta.get("creationTimestamp"), meta.get("deletionTimestamp"), status.get("startTime"))
    return max(map(_seconds, times))


def _seconds(time: object) -> float:
    """A time in seconds; 0 if invalid, which the object's parser reports."""
    try:
        return moment(time) if isinstance(time, str) else 0.0
    except ValueError:
        return 0.0
