"""Parsing of label selectors."""

from __future__ import annotations

from collections.abc import Iterable

from shared.manifests.fields.reader import Fields
from shared.model.constraints import Requirement, Selector

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def read_selector(fields: Fields | None) -> Selector | None:
    """A selector in canonical order, so that equal selectors compare equal. None if absent."""
    if fields is None:
        return None
    fields.check("LabelSelector")
    labels = fields.labels("matchLabels", longest=100)
    requirements = [Requirement(key, "In", (value,)) for key, value in labels.items()]
    requirements += [_expression(e) for e in fields.children("matchExpressions", longest=100)]
    return ordered(requirements)


def ordered(requirements: Iterable[Requirement]) -> Selector:
    return tuple(sorted(set(requirements), key=lambda r: (r.key, r.operator, r.values)))


def _expression(fields: Fields) -> Requirement:
    fields.check("LabelRequirement")
    key, operator = fields.label_key("key"), fields.choice("operator", _OPERATORS, "")
    if not operator:
        raise fields.wrong("operator", f"missing; write one of {', '.join(_OPERATORS)}")
    values = fields.texts("values")
    if operator in ("In", "NotIn") and not values:
        raise fields.wrong("values", f"missing; {operator} needs at least one value")
    if operator in ("Exists", "DoesNotExist") and values:
        raise fields.wrong("values", f"not allowed with {operator}; leave it out")
    return Requirement(key, operator, tuple(sorted(set(values))))
