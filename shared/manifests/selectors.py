"""Label selectors: which objects are meant, by their labels."""

from __future__ import annotations

from collections.abc import Iterable

from shared.constraints import Requirement, Selector
from shared.manifests.fields import Fields

_SELECTOR = frozenset(("matchExpressions", "matchLabels"))
_EXPRESSION = frozenset(("key", "operator", "values"))
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def read_selector(fields: Fields | None) -> Selector | None:
    """Sorted, so that selectors that ask the same are equal. None where none is written."""
    if fields is None:
        return None
    fields.only(_SELECTOR)
    labels = fields.labels("matchLabels", longest=100)
    found = [Requirement(key, "In", (value,)) for key, value in labels.items()]
    found += [_expression(e) for e in fields.children("matchExpressions", longest=100)]
    return ordered(found)


def ordered(found: Iterable[Requirement]) -> Selector:
    return tuple(sorted(set(found), key=lambda r: (r.key, r.operator, r.values)))


def _expression(fields: Fields) -> Requirement:
    fields.only(_EXPRESSION)
    key, operator = fields.label_key("key"), fields.choice("operator", _OPERATORS, "")
    if not operator:
        raise fields.wrong("operator", f"missing; write one of {', '.join(_OPERATORS)}")
    values = fields.texts("values")
    if operator in ("In", "NotIn") and not values:
        raise fields.wrong("values", f"missing; {operator} needs at least one value")
    if operator in ("Exists", "DoesNotExist") and values:
        raise fields.wrong("values", f"not allowed with {operator}; leave it out")
    return Requirement(key, operator, tuple(sorted(set(values))))
