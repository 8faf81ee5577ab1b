"""Labels, selectors, taints and node terms, as Kubernetes defines them."""

from __future__ import annotations

import re
from typing import Any

Requirement = dict[str, Any]
"""key, operator, values; ``field`` if it is about metadata.name."""
Labels = dict[str, str]

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_REPELLING = ("NoSchedule", "NoExecute")


def selected(selector: list[Requirement] | None, labels: Labels) -> bool:
    """Whether a label selector matches: None matches nothing, an empty one everything."""
    return selector is not None and all(_holds(r, labels.get(r["key"])) for r in selector)


def on_node(terms: list[list[Requirement]], name: str, labels: Labels) -> bool:
    """Whether node terms match: at least one term, by all its requirements. An empty term matches
    nothing."""
    return any(
        term and all(_holds(r, name if r.get("field") else labels.get(r["key"])) for r in term)
        for term in terms
    )


def _holds(requirement: Requirement, value: str | None) -> bool:
    values = requirement.get("values", [])
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:
            return _compares(operator, value, values)


def _compares(operator: str, value: str | None, values: list[str]) -> bool:
    if value is None or len(values) != 1:
        return False
    if not _WHOLE.fullmatch(value) or not _WHOLE.fullmatch(values[0]):
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])


def repelled_by(facts: dict[str, Any], tolerations: list[dict[str, str]]) -> str:
    """The first taint of a node that is not tolerated; "" if there is none. A cordon counts as a
    taint."""
    taints = list(facts.get("taints", ()))
    if facts.get("unschedulable"):
        taints.append(CORDON)
    for taint in taints:
        if taint["effect"] in _REPELLING and not any(_tolerates(t, taint) for t in tolerations):
            return f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
    return ""


def _tolerates(toleration: dict[str, str], taint: dict[str, str]) -> bool:
    if toleration.get("effect", "") not in ("", taint["effect"]):
        return False
    if toleration.get("key", "") not in ("", taint["key"]):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return toleration.get("value", "") == taint.get("value", "")
