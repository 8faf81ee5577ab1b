"""Label selectors with Kubernetes' semantics."""

from __future__ import annotations

from collections.abc import Mapping

from shared.model.constraints import Selector


def matches(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Whether the selector matches these labels. None matches nothing, an empty one everything."""
    if selector is None:
        return False
    return all(_meets(labels.get(r.key), r.operator, r.values) for r in selector)


def _meets(value: str | None, operator: str, values: tuple[str, ...]) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            raise ValueError(f"a label selector has no operator {operator!r}")
