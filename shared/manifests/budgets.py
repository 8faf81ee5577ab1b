"""PodDisruptionBudgets: checked and kept, so that what belongs together can be applied together."""

from __future__ import annotations

import re

from shared.errors import InvalidInput
from shared.manifests.fields import INT32, Fields
from shared.manifests.metadata import read_metadata
from shared.manifests.objects import PodDisruptionBudgetManifest

_SPEC = frozenset(("maxUnavailable", "minAvailable", "selector", "unhealthyPodEvictionPolicy"))
_PERCENT = re.compile(r"(?:[0-9]|[1-9][0-9]|100)%")
_EXPRESSION = frozenset(("key", "operator", "values"))
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def read_budget(obj: dict[str, object]) -> PodDisruptionBudgetManifest:
    meta = read_metadata(obj, namespaced=True)
    spec = Fields({} if obj.get("spec") is None else obj["spec"], "spec")
    spec.only(_SPEC)
    for name in ("minAvailable", "maxUnavailable"):
        _check_count(spec, name)
    if spec.data.get("minAvailable") is not None and spec.data.get("maxUnavailable") is not None:
        raise spec.wrong("maxUnavailable", "not allowed beside minAvailable; leave one of them out")
    spec.choice("unhealthyPodEvictionPolicy", ("IfHealthyBudget", "AlwaysAllow"), "")
    selector = spec.child("selector")
    if selector is not None:
        _check_selector(selector)
    return PodDisruptionBudgetManifest(meta.namespace, meta.name)


def _check_count(spec: Fields, name: str) -> None:
    value = spec.data.get(name)
    if type(value) is not str:
        spec.integer(name, 0, high=INT32)
    elif _PERCENT.fullmatch(value) is None:
        message = 'not a share; write a whole number, or a text such as "50%"'
        raise InvalidInput(spec.path(name), value, message)


def _check_selector(selector: Fields) -> None:
    selector.only(frozenset(("matchExpressions", "matchLabels")))
    selector.labels("matchLabels", longest=100)
    for expression in selector.children("matchExpressions", longest=100):
        expression.only(_EXPRESSION)
        expression.label_key("key")
        if not expression.choice("operator", _OPERATORS, ""):
            raise expression.wrong("operator", f"missing; write one of {', '.join(_OPERATORS)}")
        expression.texts("values")
