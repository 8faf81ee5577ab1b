"""Node selector terms, tolerations, and the taints of nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shared.errors import InvalidInput, not_in_this_version
from shared.manifests.fields.reader import Fields, is_qualified
from shared.manifests.kubernetes.pod_affinity import (
    PREFERRED,
    REQUIRED,
    KeyedTerm,
    read_pod_terms,
    read_weight,
)
from shared.model.constraints import Requirement, Taint, Terms, Toleration

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_INTEGER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Affinity:
    """``required``: see :class:`shared.model.model.TaskClass`; ``preferred``: weights and terms."""

    required: Terms | None = None
    preferred: tuple[tuple[int, tuple[Requirement, ...]], ...] = ()
    terms: tuple[KeyedTerm, ...] = ()


_NONE = Affinity()


def read_affinity(spec: Fields) -> Affinity:
    """Parse node affinity and pod affinity terms, required and preferred."""
    affinity = spec.child("affinity")
    if affinity is None:
        return _NONE
    affinity.check("Affinity")
    node = affinity.child("nodeAffinity")
    if node is None:
        return Affinity(None, (), read_pod_terms(affinity))
    node.check("NodeAffinity")
    required = node.child(REQUIRED)
    preferred = tuple(_wish(wish) for wish in node.children(PREFERRED, longest=100))
    return Affinity(
        required=None if required is None else read_node_selector(required),
        preferred=tuple(wish for wish in preferred if wish[1]),
        terms=read_pod_terms(affinity),
    )


def _wish(wish: Fields) -> tuple[int, tuple[Requirement, ...]]:
    """A preferred term and its weight. A term without requirements matches every node, so it has no
    effect."""
    wish.check("Preference")
    return read_weight(wish), _term(wish.need("preference"))


def read_node_selector(selector: Fields) -> Terms:
    """The terms of a node selector.

    An empty term matches no node and is dropped; a selector without terms is refused.
    """
    selector.check("NodeSelector")
    if not selector.array("nodeSelectorTerms"):
        raise selector.wrong("nodeSelectorTerms", "missing or empty; write at least one term")
    terms = [_term(term) for term in selector.children("nodeSelectorTerms", longest=100)]
    return tuple(term for term in terms if term)


def _term(term: Fields) -> tuple[Requirement, ...]:
    term.check("NodeSelectorTerm")
    labels = [_expression(e, of_node=False) for e in term.children("matchExpressions", longest=100)]
    fields = [_expression(e, of_node=True) for e in term.children("matchFields", longest=100)]
    return tuple(labels + fields)


def _expression(fields: Fields, *, of_node: bool) -> Requirement:
    fields.check("Requirement")
    operator = fields.choice("operator", ("In", "NotIn") if of_node else _OPERATORS, "")
    if not operator:
        raise fields.wrong("operator", f"missing; write one of {', '.join(_OPERATORS)}")
    values = fields.texts("values")
    if of_node:
        if fields.text("key") != "metadata.name":
            raise fields.wrong("key", "unknown node field; only metadata.name can be matched")
        if len(values) != 1:
            raise fields.wrong("values", "wrong number; write exactly one node name")
        return Requirement("metadata.name", operator, values, field=True)
    _check_values(fields, operator, values)
    return Requirement(fields.label_key("key"), operator, values)


def _check_values(fields: Fields, operator: str, values: tuple[str, ...]) -> None:
    if operator in ("In", "NotIn") and not values:
        raise fields.wrong("values", f"missing; {operator} needs at least one value")
    if operator in ("Exists", "DoesNotExist") and values:
        raise fields.wrong("values", f"not allowed with {operator}; leave it out")
    if operator in ("Gt", "Lt") and (len(values) != 1 or not _INTEGER.fullmatch(values[0])):
        raise fields.wrong("values", f'not one whole number; {operator} needs a text such as "5"')


def read_tolerations(spec: Fields) -> tuple[Toleration, ...]:
    return tuple(_toleration(t) for t in spec.children("tolerations", longest=100))


def _toleration(fields: Fields) -> Toleration:
    fields.check("Toleration")
    operator = fields.text("operator", "Equal") or "Equal"
    if operator in ("Gt", "Lt"):
        raise not_in_this_version(fields.path("operator"), operator, "use Equal or Exists")
    if operator not in ("Equal", "Exists"):
        raise fields.wrong("operator", "unknown; write Equal or Exists")
    key, value = fields.text("key", longest=317), fields.text("value")
    if key and not is_qualified(key):
        raise fields.wrong("key", "not a taint key; write [domain/]name")
    if not key and operator != "Exists":
        raise fields.wrong("key", "missing; without a key the operator must be Exists")
    if value and operator == "Exists":
        raise fields.wrong("value", "not allowed with Exists; leave it out or use Equal")
    effect = fields.text("effect")
    if effect and effect not in _EFFECTS:
        raise fields.wrong("effect", f"unknown; write one of {', '.join(_EFFECTS)}")
    return Toleration(key, operator, value, effect)


def read_taints(spec: Fields) -> tuple[Taint, ...]:
    taints = tuple(_taint(t) for t in spec.children("taints", longest=100))
    if len({(t.key, t.effect) for t in taints}) != len(taints):
        raise InvalidInput(
            spec.path("taints"), None, "two taints with one key and effect; keep one of them"
        )
    return taints


def _taint(fields: Fields) -> Taint:
    fields.check("Taint")
    effect = fields.choice("effect", _EFFECTS, "")
    if not effect:
        raise fields.wrong("effect", f"missing; write one of {', '.join(_EFFECTS)}")
    return Taint(fields.label_key("key"), fields.text("value"), effect)
