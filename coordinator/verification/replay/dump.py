"""A dump of a cluster, as ``kubectl get nodes,pods,... -A -o yaml`` writes it, made fit to replay.

A dump has everything of a cluster, not only what is scheduled here. Pods without a PodGroup that
another scheduler placed are foreign: they use their nodes, and nobody here evicts them. Kinds that
no decision looks at are left out, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from shared.manifests.fields.metadata import GROUP_NAME
from shared.manifests.kubernetes.objects import PodManifest
from shared.manifests.parse import KINDS, parse
from shared.policy.file import KEY, unwrap
from shared.policy.model import Policy

Json = dict[str, Any]

OUR_SCHEDULERS = ("", "quadrant", "volcano", "volcano-agent-scheduler")
"""``spec.schedulerName`` of pods that are ours without a PodGroup; "" = not said."""
TAKEN = "quadrant.dev/taken"
"""Annotation of the ConfigMap that ``quadrant snapshot`` writes: when, seconds since 1970."""
_ENDED = ("Succeeded", "Failed")
_JOB = ("batch.volcano.sh/v1alpha1", "Job")
_KEPT_OF_POD = ("nodeName", "overhead", "hostNetwork")


@dataclass(slots=True)
class Dump:
    """Objects to replay, and what was found beside them."""

    items: list[Json] = field(default_factory=list)
    foreign: set[str] = field(default_factory=set)
    """``namespace/name`` of the pods that only use their nodes."""
    policy: Policy | None = None
    """Of a ConfigMap among the objects."""
    events: list[Json] = field(default_factory=list)
    """The record of what happened before, as far as it is in the dump."""
    left_out: Counter[str] = field(default_factory=Counter)
    """What was left out, and how many of it."""
    now: float = 0.0
    """When it was taken: as it says, else the latest time that any object tells."""


def read_dump(objects: Iterable[Mapping[str, Any]]) -> Dump:
    """Raises PolicyError where a ConfigMap holds a policy that cannot be used."""
    dump, taken_at = Dump(), 0.0
    objects = list(objects)
    groups = {_key(obj) for obj in objects if obj.get("kind") == "PodGroup"}
    for obj in objects:
        kind = (str(obj.get("apiVersion")), str(obj.get("kind")))
        taken_at = max(taken_at, _taken(obj))
        dump.now = max(dump.now, latest(obj))
        if kind == ("v1", "Pod"):
            _take_pod(dump, obj)
        elif kind == ("v1", "ConfigMap"):
            _take_policy(dump, obj)
        elif kind == ("v1", "Event"):
            dump.events.append(dict(obj))
        elif kind == _JOB:
            _take_job(dump, obj, groups)
        elif kind[1] in _KIND_NAMES:
            dump.items.append(dict(obj))
        elif kind[1] not in _BESIDE:
            dump.left_out[kind[1]] += 1
    dump.now = taken_at or dump.now
    return dump


_BESIDE = ("Namespace", "Shard")
"""Kinds that say nothing of what there is to decide."""
_KIND_NAMES = frozenset(kind for _, kind in KINDS)


def _key(obj: Mapping[str, Any]) -> str:
    meta = _part(obj, "metadata")
    return f"{meta.get('namespace') or 'default'}/{meta.get('name')}"


def _part(obj: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = obj.get(name)
    return value if isinstance(value, Mapping) else {}


# --- pods -------------------------------------------------------------------------------------


def _take_pod(dump: Dump, obj: Mapping[str, Any]) -> None:
    spec = _part(obj, "spec")
    ours = GROUP_NAME in _part(_part(obj, "metadata"), "annotations")
    if ours or spec.get("schedulerName", "") in OUR_SCHEDULERS:
        dump.items.append(dict(obj))
    elif _part(obj, "status").get("phase") in _ENDED:
        dump.left_out["ended pods of other schedulers"] += 1
    elif not spec.get("nodeName"):
        dump.left_out["waiting pods of other schedulers"] += 1
    else:
        pod = _usage_of(obj)
        if isinstance(parse(pod), PodManifest):
            dump.foreign.add(_key(obj))
            dump.items.append(pod)
        else:
            dump.items.append(dict(obj))  # intake says what is wrong with it


def _usage_of(obj: Mapping[str, Any]) -> Json:
    """A pod with nothing but what it uses and is found by: others may write what we do not read."""
    meta, spec = _part(obj, "metadata"), _part(obj, "spec")
    metadata = {name: meta[name] for name in ("name", "namespace", "uid", "labels") if name in meta}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            **{name: spec[name] for name in _KEPT_OF_POD if name in spec},
            "containers": [_container(c) for c in spec.get("containers") or ()],
            "initContainers": [_container(c) for c in spec.get("initContainers") or ()],
        },
        "status": {"phase": _part(obj, "status").get("phase", "Running")},
    }


def _container(container: object) -> object:
    if not isinstance(container, Mapping):
        return container
    copied = ("resources", "ports", "restartPolicy")
    return {"name": "c", **{name: container[name] for name in copied if name in container}}


def _take_job(dump: Dump, obj: Mapping[str, Any], groups: set[str]) -> None:
    """A Job is its PodGroup and its pods, where these are there."""
    meta = _part(obj, "metadata")
    namespace = meta.get("namespace") or "default"
    if f"{namespace}/{meta.get('name')}-{meta.get('uid')}" in groups:
        return
    if _part(_part(obj, "status"), "state").get("phase") in ("Completed", "Failed", "Terminated"):
        dump.left_out["ended Jobs"] += 1
    else:
        dump.items.append(dict(obj))


# --- what is beside the objects -----------------------------------------------------------------


def _take_policy(dump: Dump, obj: Mapping[str, Any]) -> None:
    if KEY in _part(obj, "data"):
        dump.policy = unwrap(orjson.dumps(obj).decode()).parse()
    else:
        dump.left_out["ConfigMap"] += 1


def _taken(obj: Mapping[str, Any]) -> float:
    annotation = _part(_part(obj, "metadata"), "annotations").get(TAKEN)
    try:
        return float(annotation) if isinstance(annotation, str) else 0.0
    except ValueError:
        return 0.0


def latest(obj: Mapping[str, Any]) -> float:
    """The latest time that an object tells, seconds since 1970; 0 where it tells none."""
    meta, status = _part(obj, "metadata"), _part(obj, "status")
    times = (meta.get("creationTimestamp"), meta.get("deletionTimestamp"), status.get("startTime"))
    return max(map(_seconds, times))


def _seconds(time: object) -> float:
    """0 for what is no time; who reads the object says so."""
    if not isinstance(time, str):
        return 0.0
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
