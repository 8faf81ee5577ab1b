"""Disruption budgets and resource quotas."""

from __future__ import annotations

import re

from shared.errors import InvalidInput
from shared.manifests.fields.amounts import frozen, read_totals
from shared.manifests.fields.metadata import read_metadata
from shared.manifests.fields.reader import INT32, Fields, part_of
from shared.manifests.fields.selectors import read_selector
from shared.model.storage import Budget, ResourceQuota

_PERCENT = re.compile(r"(?:[0-9]|[1-9][0-9]|100)%")


def read_budget(obj: dict[str, object]) -> Budget:
    meta = read_metadata(obj, namespaced=True)
    spec = part_of(obj, "spec", "PodDisruptionBudgetSpec")
    status = part_of(obj, "status")
    low, high = _share(spec, "minAvailable"), _share(spec, "maxUnavailable")
    # Kubernetes' rule: a budget says one of the two.
    if low and high:
        raise spec.wrong("maxUnavailable", "not allowed beside minAvailable; leave one of them out")
    spec.choice("unhealthyPodEvictionPolicy", ("IfHealthyBudget", "AlwaysAllow"), "")
    allowed = status.data.get("disruptionsAllowed")
    return Budget(
        namespace=meta.namespace,
        name=meta.name,
        selector=read_selector(spec.child("selector")),
        min_available=low,
        max_unavailable=high,
        allowed=None if allowed is None else status.integer("disruptionsAllowed", 0),
    )


def _share(spec: Fields, name: str) -> str:
    """A number of pods, or a percentage, as text; "" = not set."""
    value = spec.data.get(name)
    if value is None:
        return ""
    if type(value) is not str:
        return str(spec.integer(name, 0, high=INT32))
    if _PERCENT.fullmatch(value) is None:
        message = 'not a share; write a whole number, or a text such as "50%"'
        raise InvalidInput(spec.path(name), value, message)
    return value


def read_quota(obj: dict[str, object]) -> ResourceQuota:
    meta = read_metadata(obj, namespaced=True)
    spec = part_of(obj, "spec", "ResourceQuotaSpec")
    status = part_of(obj, "status")
    enforced = status.child("hard")
    return ResourceQuota(
        namespace=meta.namespace,
        name=meta.name,
        # Zeros stay: a limit of 0 forbids any use.
        hard=frozen(read_totals(enforced or spec.child("hard")), zeros=True),
        used=frozen(read_totals(status.child("used")), zeros=True),
        scoped=bool(spec.array("scopes") or spec.data.get("scopeSelector")),
    )
