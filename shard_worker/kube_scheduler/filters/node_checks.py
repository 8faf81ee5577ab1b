"""Static checks of a class against the nodes' specifications (labels, taints, cordon).

They depend only on the class and the specifications, not on running pods. Each is evaluated once
per distinct label value or set of taints and then mapped to the rows: the cost is one evaluation
per distinct value and one array lookup for all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from shard_worker.framework.rules import Coded, Mask, NodeColumns
from shared.model.constraints import Requirement, Taint, Terms, Toleration
from shared.model.model import Node, TaskClass
from shared.units.bounded_numbers import int64

V = TypeVar("V")

UNSCHEDULABLE = "node(s) were unschedulable"
SELECTOR = "node(s) didn't match Pod's node selector"
AFFINITY = "node(s) didn't match Pod's node affinity"
TAINT = "node(s) had untolerated taints"

CORDON = Taint(key="node.kubernetes.io/unschedulable", value="", effect="NoSchedule")
"""The taint that a cordoned node has: tolerating it means tolerating the cordon."""
REPELLING = frozenset({"NoSchedule", "NoExecute"})


def unschedulable_checks(cls: TaskClass, view: NodeColumns) -> list[tuple[str, Mask]]:
    """The check for cordoned nodes, if the class does not tolerate the cordon."""
    cordoned = view.unschedulable()
    if not cordoned.any() or tolerated(CORDON, cls.tolerations):
        return []
    return [(UNSCHEDULABLE, ~cordoned)]


def affinity_checks(cls: TaskClass, view: NodeColumns) -> list[tuple[str, Mask]]:
    """The checks of node selector and required node affinity."""
    checks = []
    if cls.selector:
        checks.append((SELECTOR, _every(_pair(pair, view) for pair in cls.selector)))
    if cls.affinity is not None:
        checks.append((AFFINITY, terms_mask(cls.affinity, view)))
    return checks


def taint_checks(cls: TaskClass, view: NodeColumns) -> list[tuple[str, Mask]]:
    """The check for taints that the class does not tolerate."""
    passes = bearable_mask(cls, view)
    return [] if passes.all() else [(TAINT, passes)]


def affinity_mask(cls: TaskClass, view: NodeColumns) -> Mask:
    """Nodes that match the selector and the required affinity."""
    passes: Mask = np.ones(view.size, np.bool_)
    for _, mask in affinity_checks(cls, view):
        passes &= mask
    return passes


def bearable_mask(cls: TaskClass, view: NodeColumns) -> Mask:
    """Nodes whose repelling taints are all tolerated."""
    return per_value(view.taints(), lambda taints: _bearable(taints, cls.tolerations))


# --- taints -----------------------------------------------------------------------------------


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether one of the tolerations matches the taint."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def _bearable(taints: tuple[Taint, ...] | None, tolerations: Sequence[Toleration]) -> bool:
    """Whether every taint with a repelling effect is tolerated."""
    return all(t.effect not in REPELLING or tolerated(t, tolerations) for t in taints or ())


# --- selector and affinity --------------------------------------------------------------------


def _pair(pair: tuple[str, str], view: NodeColumns) -> Mask:
    key, value = pair
    return among(view.label(key), (value,))


def terms_mask(terms: Terms, view: NodeColumns) -> Mask:
    """Nodes that meet at least one term; a term needs all its requirements. No terms, and an empty
    term, match no node."""
    passes = np.zeros(view.size, dtype=np.bool_)
    for term in terms:
        if term:
            passes |= requirements_mask(term, view)
    return passes


def requirements_mask(requirements: Sequence[Requirement], view: NodeColumns) -> Mask:
    """Rows that meet all requirements, of which there is at least one."""
    return _every(_requirement(requirement, view) for requirement in requirements)


def _requirement(requirement: Requirement, view: NodeColumns) -> Mask:
    if requirement.field:
        return _named(requirement, view.nodes)
    if requirement.operator == "In":
        return among(view.label(requirement.key), requirement.values)
    return per_value(view.label(requirement.key), matcher(requirement))


def _named(requirement: Requirement, nodes: Sequence[Node | None]) -> Mask:
    """matchFields: the only supported field is metadata.name, which every node has."""
    names = frozenset(requirement.values)
    among = requirement.operator == "In"
    # The one check by row: every name is another value, so that codes would save nothing.
    flags = (node is not None and (node.name in names) is among for node in nodes)
    return np.fromiter(flags, dtype=np.bool_, count=len(nodes))


def matcher(requirement: Requirement) -> Callable[[str | None], bool]:
    """The requirement as a predicate on one label value; None: the node lacks the label."""
    values = frozenset(requirement.values)
    match requirement.operator:
        case "In":
            return values.__contains__
        case "NotIn":
            return lambda value: value not in values
        case "Exists":
            return lambda value: value is not None
        case "DoesNotExist":
            return lambda value: value is None
        case "Gt" | "Lt":
            return _compared(requirement)
        case unknown:
            raise ValueError(f"unknown operator {unknown!r} in a node affinity requirement")


def _compared(requirement: Requirement) -> Callable[[str | None], bool]:
    """Gt and Lt compare integers; other text, or a missing label, never matches."""
    bound = _whole(requirement.values[0]) if len(requirement.values) == 1 else None
    if bound is None:
        return lambda value: False
    sign = 1 if requirement.operator == "Gt" else -1

    def test(value: str | None) -> bool:
        number = _whole(value)
        return number is not None and (number - bound) * sign > 0

    return test


def _whole(text: str | None) -> int | None:
    """Parse an integer with an optional sign, as Kubernetes does."""
    return None if text is None else int64(text)


# --- columns ----------------------------------------------------------------------------------


def per_value(column: Coded[V], test: Callable[[V | None], bool]) -> Mask:
    """Evaluate once per distinct value, and once for rows without a value (code -1: the last
    element)."""
    answers = [*map(test, column.values), test(None)]
    return np.array(answers, dtype=np.bool_)[column.codes]


def among(column: Coded[V], values: Sequence[V]) -> Mask:
    """Rows with one of the values; as :func:`per_value` without evaluating every value."""
    if len(values) == 1:
        mask: Mask = column.codes == column.code(values[0])
        return mask
    return np.isin(column.codes, [column.code(value) for value in values])


def _every(masks: Iterable[Mask]) -> Mask:
    every: Mask = np.logical_and.reduce(list(masks))
    return every
