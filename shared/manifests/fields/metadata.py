"""``metadata`` of every object, and the annotations that the scheduler uses."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from shared.byte_cache import MIB, byte_cache
from shared.errors import InvalidInput
from shared.manifests.fields.reader import (
    INT32,
    Fields,
    bad_label,
    dns_label,
    is_label,
    loose_name,
    subdomain,
)
from shared.model.model import Pairs
from shared.model.named_devices import ASSIGNED_DEVICES, DEVICES
from shared.schemas.catalogue import TABLES

GROUP_NAME = "scheduling.k8s.io/group-name"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
KAI_QUEUE = "kai.scheduler/queue"
"""KAI's label for the queue of what has no PodGroup of KAI's."""
TASK_SPEC = "volcano.sh/task-spec"
TASK_PRIORITY = "volcano.sh/task-priority"
DURATION = "quadrant.dev/duration"
EXIT_CODE = "quadrant.dev/exit-code"

SCHEDULER_NAME = "quadrant.dev/scheduler-name"
"""Kept with a job, or its role: ``spec.schedulerName`` as written."""
LATE_GROUP = "quadrant.dev/late-group"
"""Kept with a job of one pod: the group that the pod names since it was admitted."""
GROUP_DEADLINE = "quadrant.dev/group-deadline"
"""Kept with a job of one pod: until when it waits for a controller to name its group, in seconds
since 1970."""
NUMA_POLICY = "volcano.sh/numa-topology-policy"
TASK_INDEX = "volcano.sh/task-index"
_DOMAINS = frozenset(("volcano.sh", "hami.io", "huawei.com", "nvidia.com"))
"""Domains of annotations that plugins read: Volcano's, and those for device sharing."""
_GPU_SHARES = frozenset(("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"))
"""Annotations of KAI and its like that ask for a part of a GPU."""
_DEVICES = frozenset((DEVICES, ASSIGNED_DEVICES))
_READ_ELSEWHERE = frozenset((GROUP_NAME, QUEUE_NAME, TASK_SPEC, TASK_PRIORITY, TASK_INDEX))

_READ = TABLES["ObjectMeta"].known - TABLES["ObjectMeta"].kept.keys()
_UID = re.compile(r"[!-~]{1,128}")
_ROLE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
LONGEST_RUN = 1e10
_EXIT_CODES = 255
_ANNOTATIONS = 1000
_ANNOTATION_BYTES = 256 << 10
"""Maximum size of all annotations of an object, keys and values in UTF-8, as in Kubernetes."""
_LONGEST_LETTER = 4
"""Maximum bytes of one character in UTF-8."""


@dataclass(slots=True)  # not frozen: one is made for every pod, in half the time
class Metadata:
    """``labels`` and ``annotations`` as submitted; checked only to be objects."""

    namespace: str
    name: str
    uid: str
    created: float | None
    deleted: float | None
    """deletionTimestamp, in seconds since 1970; None if it is not being deleted."""
    labels: dict[str, object]
    annotations: dict[str, object]


def read_metadata(obj: dict[str, object], *, namespaced: bool, loose: bool = False) -> Metadata:
    """Read metadata of a namespaced (default namespace ``default``) or cluster-wide object.

    ``loose`` allows the wider form of names (see :func:`loose_name`).
    """
    data = obj.get("metadata")
    if type(data) is not dict:
        raise InvalidInput("metadata", data, "missing or not an object; it must hold the name")
    if not data.keys() <= _READ:  # asked of every pod: an object costs more than the question
        Fields(data, "metadata").check("ObjectMeta")
    namespace = ""
    if namespaced:
        written = data.get("namespace")
        namespace = "default" if written is None else dns_label(written, "metadata.namespace")
    uid = data.get("uid")
    if uid and (type(uid) is not str or _UID.fullmatch(uid) is None):
        raise InvalidInput("metadata.uid", uid, "not a uid; use 1 to 128 visible characters")
    created = data.get("creationTimestamp")
    deleted = data.get("deletionTimestamp")
    return Metadata(
        namespace,
        (loose_name if loose else subdomain)(data.get("name"), "metadata.name"),
        str(uid or ""),
        None if created is None else _time(created, "metadata.creationTimestamp"),
        None if deleted is None else _time(deleted, "metadata.deletionTimestamp"),
        _map(data.get("labels"), "metadata.labels"),
        _annotations(data.get("annotations"), "metadata.annotations"),
    )


def read_template_metadata(fields: Fields | None, at: str) -> Metadata:
    """Read metadata of a Job's pod template, which needs no name."""
    data: dict[str, object] = fields.data if fields is not None else {}
    if fields is not None:
        fields.check("ObjectMeta")
    labels = _map(data.get("labels"), f"{at}.labels")
    annotations = _annotations(data.get("annotations"), f"{at}.annotations")
    return Metadata("", "", "", None, None, labels, annotations)


def _map(value: object, field: str) -> dict[str, object]:
    if value is None:
        return {}
    if type(value) is not dict or len(value) > _ANNOTATIONS:
        raise InvalidInput(field, value, f"not an object of at most {_ANNOTATIONS} texts")
    return value


def _annotations(value: object, field: str) -> dict[str, object]:
    """Check the size limit of annotations. For small ones this costs only a sum of lengths."""
    annotations = _map(value, field)
    # Most objects are far below the limit: lengths decide for them, and nothing is encoded.
    letters = 0
    for key, text in annotations.items():
        letters += len(key) + (len(text) if type(text) is str else _size(text))
    if letters * _LONGEST_LETTER > _ANNOTATION_BYTES:
        size = sum(_size(key) + _size(text) for key, text in annotations.items())
        if size > _ANNOTATION_BYTES:
            message = (
                f"too long: {size} bytes of keys and values, and at most {_ANNOTATION_BYTES} are "
                "kept; keep large texts elsewhere (kubectl apply --server-side adds none)"
            )
            raise InvalidInput(field, annotations, message)
    return annotations


def _size(value: object) -> int:
    """Size in bytes: of a string as UTF-8, of another value as JSON."""
    if type(value) is str:
        return len(value.encode(errors="replace"))
    try:
        return len(orjson.dumps(value))
    except TypeError:  # no JSON: it is refused as such where the object is kept
        return 0


def _time(value: object, field: str) -> float:
    if type(value) is str and len(value) <= 40:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is not None:
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    raise InvalidInput(field, value, "not a time; write it as 2026-01-31T12:00:00Z")


def read_time(fields: Fields, name: str) -> float | None:
    """Read a timestamp, in seconds since 1970; None if it is absent."""
    value = fields.data.get(name)
    return None if value is None else _time(value, fields.path(name))


# --- labels, and annotations that mean something -----------------------------------------------


def labels_of(meta: Metadata, at: str = "metadata") -> Pairs:
    """The labels, sorted. Raises InvalidInput if one does not have Kubernetes' format."""
    labels = meta.labels
    if not labels:
        return ()
    try:
        pairs = _sorted(tuple(labels.items()))
    except TypeError:  # a list or an object
        pairs = None
    if pairs is None:
        wrong = next(k for k, v in labels.items() if type(v) is not str or not is_label(k, v))
        raise bad_label(f"{at}.labels.{wrong}", labels[wrong])
    return pairs


@byte_cache("label-sets", 8 * MIB)
def _sorted(labels: tuple[tuple[str, object], ...]) -> Pairs | None:
    """The labels, sorted; None if one is malformed. Cached, since most pods share their labels."""
    valid = sorted((k, v) for k, v in labels if type(v) is str and is_label(k, v))
    return tuple(valid) if len(valid) == len(labels) else None


def annotations_of(meta: Metadata, at: str = "metadata") -> Pairs:
    """The annotations that plugins may read, sorted; those that other code reads are left out."""
    keys = [key for key in meta.annotations if _is_kept(key)]
    if not keys:
        return ()
    for key in keys:
        value = meta.annotations[key]
        if type(value) is not str:
            raise InvalidInput(f"{at}.annotations.{key}", value, "not a text; put it in quotes")
    return tuple((key, str(meta.annotations[key])) for key in sorted(keys))


def scheduler_name(annotations: Pairs) -> str:
    """The name that :func:`with_scheduler` kept; "" for none."""
    return _value_of(SCHEDULER_NAME, annotations)


def late_group(annotations: Pairs) -> str:
    """The group that a job of one pod is to be moved to; "" for none."""
    return _value_of(LATE_GROUP, annotations)


def group_deadline(annotations: Pairs) -> float | None:
    """Until when a job of one pod waits for its group's name; None where it does not."""
    deadline = _value_of(GROUP_DEADLINE, annotations)
    return float(deadline) if deadline else None


def _value_of(name: str, annotations: Pairs) -> str:
    # Asked several times of every pod, most of which have none: an empty loop costs a quarter of
    # an empty generator.
    for key, value in annotations:
        if key == name:
            return value
    return ""


def with_scheduler(annotations: Pairs, scheduler: str) -> Pairs:
    """The annotations with the name of the scheduler, if one is written."""
    if not scheduler:
        return annotations
    return tuple(sorted((*annotations, (SCHEDULER_NAME, scheduler))))


@byte_cache("annotation-keys", MIB)
def _is_kept(key: str) -> bool:
    if key in _GPU_SHARES or key in _DEVICES:
        return True
    domain, _, name = key.rpartition("/")
    ours = domain in _DOMAINS or domain.endswith(".volcano.sh")
    return ours and bool(name) and key not in _READ_ELSEWHERE


# --- annotations ------------------------------------------------------------------------------


def role_of(meta: Metadata, at: str = "metadata") -> str:
    """The role of a pod in its PodGroup: annotation or label ``volcano.sh/task-spec``."""
    where = "annotations" if TASK_SPEC in meta.annotations else "labels"
    value = (meta.annotations if where == "annotations" else meta.labels).get(TASK_SPEC)
    if value is None:
        return ""
    return role_name(value, f"{at}.{where}.{TASK_SPEC}")


def role_name(value: object, field: str) -> str:
    if type(value) is not str or _ROLE.fullmatch(value) is None:
        raise InvalidInput(
            field, value, "not a role; use at most 63 letters, digits, '-', '_' or '.'"
        )
    return value


def task_priority_of(meta: Metadata, at: str = "metadata") -> int | None:
    value = meta.annotations.get(TASK_PRIORITY)
    if value is None:
        return None
    if type(value) is str and _INTEGER.fullmatch(value) and abs(int(value)) <= INT32:
        return int(value)
    raise InvalidInput(
        f"{at}.annotations.{TASK_PRIORITY}", value, 'not a priority; write a whole number as "10"'
    )


def duration_of(meta: Metadata, at: str = "metadata") -> float | None:
    """How long a simulated member runs, in seconds."""
    value = meta.annotations.get(DURATION)
    if value is None:
        return None
    if type(value) is str and len(value) <= 40 and value.isascii():
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if 0 <= seconds <= LONGEST_RUN:
            return seconds
    raise InvalidInput(
        f"{at}.annotations.{DURATION}", value, 'not a duration; write seconds as text, "1.5"'
    )


def exit_code_of(meta: Metadata, at: str = "metadata") -> int:
    """The exit code of a simulated member; 0 = success."""
    value = meta.annotations.get(EXIT_CODE)
    if value is None:
        return 0
    if type(value) is str and _INTEGER.fullmatch(value) and 0 <= int(value) <= _EXIT_CODES:
        return int(value)
    message = f'not an exit code; write a whole number from 0 to {_EXIT_CODES} as text, "1"'
    raise InvalidInput(f"{at}.annotations.{EXIT_CODE}", value, message)
