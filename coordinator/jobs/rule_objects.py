"""The objects that rules over totals read, and nothing else in the coordinator maintains."""

from __future__ import annotations

from typing import Any

from shared.model.kai import KaiPodGroup, KaiQueue, KaiTopology
from shared.model.model import WorldObject
from shared.model.objects import ClusterObjects
from shared.model.storage import ResourceQuota


def put_rule_object(objects: ClusterObjects, value: WorldObject) -> bool:
    """Add or update an object; False where no such rule reads its kind."""
    place = _place(objects, value)
    if place is None:
        return False
    table, key = place
    if isinstance(value, KaiQueue):
        _count_below(objects, key, value)
    table[key] = value
    return True


def drop_rule_object(objects: ClusterObjects, value: WorldObject) -> bool:
    place = _place(objects, value)
    if place is None:
        return False
    table, key = place
    if isinstance(value, KaiQueue):
        _count_below(objects, key, None)
    table.pop(key, None)
    return True


def _count_below(objects: ClusterObjects, name: str, now: KaiQueue | None) -> None:
    """Count a queue below its parent: each job is asked whether there is any below its queue."""
    before, below = objects.kai_queues.get(name), objects.kai_parents
    if before is not None:
        below[before.parent] -= 1
        if not below[before.parent]:
            del below[before.parent]
    if now is not None:
        below[now.parent] += 1


def _place(objects: ClusterObjects, value: WorldObject) -> tuple[dict[str, Any], str] | None:
    """(the table of its kind, its key there)."""
    match value:
        case ResourceQuota():
            return objects.quotas, f"{value.namespace}/{value.name}"
        case KaiPodGroup():
            return objects.kai_groups, value.key
        case KaiQueue():
            return objects.kai_queues, value.name
        case KaiTopology():
            return objects.kai_topologies, value.name
        case _:
            return None
