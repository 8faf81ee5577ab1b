"""predicates: which nodes a class may run on at all, by what nodes say about themselves.

The checks are static: they follow from the class and the nodes' specs, not from what runs there.
Each is worked out once per distinct value of a label or set of taints and then spread over the
rows, so that it costs as much as the values differ, and one array lookup for all nodes.

Room for one more pod and free host ports are amounts (slots) like any other and judged by fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from shard_worker.session import Coded, Mask, NodeColumns, Session
from shared.model import Node, Requirement, Taint, TaskClass, Toleration
from shared.policy import PluginOption

V = TypeVar("V")

UNSCHEDULABLE = "node(s) were unschedulable"
SELECTOR = "node(s) didn't match Pod's node selector"
AFFINITY = "node(s) didn't match Pod's node affinity"
TAINT = "node(s) had untolerated taints"

CORDON = Taint(key="node.kubernetes.io/unschedulable", value="", effect="NoSchedule")
"""What a cordoned node counts as: tolerating this taint is tolerating the cordon."""
WHOLE = re.compile(r"[+-]?[0-9]+")
REPELLING = frozenset({"NoSchedule", "NoExecute"})

WITHOUT_EFFECT = (
    "predicate.DynamicResourceAllocationEnable",
    "predicate.NodeVolumeLimitsEnable",
    "predicate.PodAffinityEnable",
    "predicate.PodTopologySpreadEnable",
    "predicate.VolumeBindingEnable",
    "predicate.VolumeZoneEnable",
)


class Predicates:
    """Switches: ``predicate.NodeAffinityEnable`` and ``predicate.TaintTolerationEnable``."""

    name = "predicates"

    def __init__(self, option: PluginOption) -> None:
        self._affinity = option.switch("predicate.NodeAffinityEnable", True)
        self._taints = option.switch("predicate.TaintTolerationEnable", True)
        self._warnings = [
            f"{argument}: this check is not in this version"
            for argument in WITHOUT_EFFECT
            if argument in option.arguments and option.switch(argument, True)
        ]
        if not option.switch("predicate.NodePortsEnable", True):
            self._warnings.append("predicate.NodePortsEnable: host ports are always checked")

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_predicate_fn(masks=self.checks)
        for warning in self._warnings:
            ssn.warn(warning)

    def checks(self, cls: TaskClass, view: NodeColumns) -> list[tuple[str, Mask]]:
        """(reason, mask over all rows; True = passes) for each check that can fail."""
        checks: list[tuple[str, Mask]] = []
        cordoned = view.unschedulable()
        if cordoned.any() and not tolerated(CORDON, cls.tolerations):
            checks.append((UNSCHEDULABLE, ~cordoned))
        if self._affinity:
            if cls.selector:
                checks.append((SELECTOR, _every(_pair(p, view) for p in cls.selector)))
            if cls.affinity is not None:
                checks.append((AFFINITY, _affinity(cls.affinity, view)))
        if self._taints:
            passes = _per_value(view.taints(), lambda taints: _bearable(taints, cls.tolerations))
            if not passes.all():
                checks.append((TAINT, passes))
        return checks


# --- taints -----------------------------------------------------------------------------------


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Does one of the tolerations match the taint?"""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def _bearable(taints: tuple[Taint, ...] | None, tolerations: Sequence[Toleration]) -> bool:
    """Is every taint that repels tolerated?"""
    return all(t.effect not in REPELLING or tolerated(t, tolerations) for t in taints or ())


# --- selector and affinity --------------------------------------------------------------------


def _pair(pair: tuple[str, str], view: NodeColumns) -> Mask:
    key, wanted = pair
    return _per_value(view.label(key), frozenset((wanted,)).__contains__)


def _affinity(terms: tuple[tuple[Requirement, ...], ...], view: NodeColumns) -> Mask:
    """One term suffices; in a term all must hold. No terms, and an empty term, match no node."""
    passes = np.zeros(view.size, dtype=np.bool_)
    for term in terms:
        if term:
            passes |= _every(_requirement(requirement, view) for requirement in term)
    return passes


def _requirement(requirement: Requirement, view: NodeColumns) -> Mask:
    if requirement.field:
        return _named(requirement, view.nodes)
    return _per_value(view.label(requirement.key), matcher(requirement))


def _named(requirement: Requirement, nodes: Sequence[Node | None]) -> Mask:
    """matchFields: the only field is metadata.name, which every node has."""
    names = frozenset(requirement.values)
    among = requirement.operator == "In"
    flags = (node is not None and (node.name in names) is among for node in nodes)
    return np.fromiter(flags, dtype=np.bool_, count=len(nodes))


def matcher(requirement: Requirement) -> Callable[[str | None], bool]:
    """The requirement as a test of one label value; None stands for a node without the label."""
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
    """Gt and Lt compare whole numbers; what is not one, or is missing, matches nothing."""
    bound = _whole(requirement.values[0]) if len(requirement.values) == 1 else None
    if bound is None:
        return lambda value: False
    sign = 1 if requirement.operator == "Gt" else -1

    def test(value: str | None) -> bool:
        number = _whole(value)
        return number is not None and (number - bound) * sign > 0

    return test


def _whole(text: str | None) -> int | None:
    """A decimal whole number with an optional sign, as Kubernetes reads it."""
    return int(text) if text is not None and WHOLE.fullmatch(text) else None


# --- columns ----------------------------------------------------------------------------------


def _per_value(column: Coded[V], test: Callable[[V | None], bool]) -> Mask:
    """Ask once per distinct value, and once for the rows without one (code -1: the last)."""
    answers = [*map(test, column.values), test(None)]
    return np.array(answers, dtype=np.bool_)[column.codes]


def _every(masks: Iterable[Mask]) -> Mask:
    every: Mask = np.logical_and.reduce(list(masks))
    return every
