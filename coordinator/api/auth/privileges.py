"""Fields that only an admin may set: priorities and tolerations meant for the cluster's own
services (decision 0044).

The checks read objects as submitted, before admission. A malformed value (a priority that is not a
number) passes here, since admission refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from coordinator.intake.principal import Principal, TokenRole
from shared.errors import shown
from shared.model.model import PriorityClass
from shared.units.amount_text import some

Item = Mapping[str, Any]

SYSTEM_PREFIX = "system-"
"""Prefix of Kubernetes' own priority classes; Kubernetes refuses it for others."""

HIGHEST_PRIORITY = 1_000_000_000
"""Kubernetes' maximum for user classes (scheduling.HighestUserDefinablePriority)."""

_ROLE = "node-role.kubernetes.io/"
CONTROL_PLANE = frozenset(
    f"{_ROLE}{name}" for name in ("control-plane", "master", "controlplane", "etcd")
)
"""Keys of taints that keep workloads off control plane nodes: kubeadm's current and older one, and
those of RKE. Other keys with this prefix (``worker``, ``gpu``) are used for batch nodes."""


class KnownClasses(Protocol):
    @property
    def priority_classes(self) -> Mapping[str, PriorityClass]: ...


def not_permitted(principal: Principal, item: Item, classes: KnownClasses) -> str:
    """Why the principal may not request this, with the field; "" if they may."""
    if principal.role >= TokenRole.ADMIN:
        return ""
    match item.get("kind"):
        case "Pod":
            return _of_pod(principal, _part(item, "spec"), "spec", classes)
        case "PodGroup":
            return _of_class(principal, _part(item, "spec"), "spec", classes)
        case "Job":
            spec = _part(item, "spec")
            if why := _of_class(principal, spec, "spec", classes):
                return why
            complaints = (_of_pod(principal, pod, at, classes) for at, pod in _pods_of(spec))
            return next(filter(None, complaints), "")
        case _:
            return ""


def _pods_of(spec: Item) -> Iterator[tuple[str, Item]]:
    """(path, spec) of each pod template of a Job."""
    tasks = spec.get("tasks")
    for i, task in enumerate(tasks if isinstance(tasks, list) else ()):
        if isinstance(task, dict):
            yield f"spec.tasks[{i}].template.spec", _part(_part(task, "template"), "spec")


def _of_pod(principal: Principal, spec: Item, at: str, classes: KnownClasses) -> str:
    return (
        _of_class(principal, spec, at, classes)
        or _of_priority(principal, spec.get("priority"), at, classes)
        or _of_tolerations(principal, spec.get("tolerations"), at)
    )


def _of_class(principal: Principal, spec: Item, at: str, classes: KnownClasses) -> str:
    name = spec.get("priorityClassName")
    if not name or not isinstance(name, str):
        return ""
    entry = classes.priority_classes.get(name)
    if name.startswith(SYSTEM_PREFIX):
        why = f" is a system class; {_admins(principal)}"
    elif entry is not None and entry.value > HIGHEST_PRIORITY:
        why = f" has priority {entry.value}, above {HIGHEST_PRIORITY}; {_admins(principal)}"
    elif principal.priority_classes is not None and name not in principal.priority_classes:
        why = f"; {_who(principal)} may use {_listed(principal.priority_classes)} only"
    else:
        return ""
    return f"{at}.priorityClassName: {shown(name)}{why}"


def _of_priority(principal: Principal, priority: Any, at: str, known_classes: KnownClasses) -> str:
    if type(priority) is not int:
        return ""
    field = f"{at}.priority: {priority}"
    if priority > HIGHEST_PRIORITY:
        return f"{field} is above {HIGHEST_PRIORITY}; {_admins(principal)}"
    if principal.priority_classes is None:
        return ""
    # else a bare number would be a way around the list of classes
    highest = _highest(principal.priority_classes, known_classes)
    if priority > highest:
        classes = _listed(principal.priority_classes)
        return f"{field}; {_who(principal)} may use {classes} and a priority up to {highest} only"
    return ""


def _highest(names: frozenset[str], known_classes: KnownClasses) -> int:
    """The highest priority that one of these classes, or no class, results in."""
    classes = known_classes.priority_classes
    return max(
        [0, *(c.value for c in classes.values() if c.default)]
        + [classes[name].value for name in names if name in classes]
    )


def _of_tolerations(principal: Principal, tolerations: Any, at: str) -> str:
    for i, toleration in enumerate(tolerations if isinstance(tolerations, list) else ()):
        if not isinstance(toleration, dict) or not _opens_control_plane(toleration):
            continue
        key = toleration.get("key")
        if key:
            why = f"{shown(key)} keeps work off the control plane"
        else:
            why = "without a key it tolerates the taints of the control plane too; name the keys"
        return f"{at}.tolerations[{i}]: {why}; {_admins(principal)}"
    return ""


def _opens_control_plane(toleration: Item) -> bool:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    if key:
        return key in CONTROL_PLANE
    # kubeadm taints with NoSchedule: what tolerates NoExecute alone still gets no such node
    return toleration.get("operator") == "Exists" and effect in ("", "NoSchedule")


def _admins(principal: Principal) -> str:
    return f"role admin alone may ask for that, {_who(principal)} has role {principal.role.word}"


def _who(principal: Principal) -> str:
    return f"the token {principal.name}"


def _listed(names: frozenset[str]) -> str:
    return some(sorted(names), 5) or "none"


def _part(value: Item, name: str) -> Item:
    part = value.get(name)
    return part if isinstance(part, dict) else {}
