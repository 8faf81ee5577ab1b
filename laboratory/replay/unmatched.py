"""Queues with an invalid parent: the queue itself, a missing one, or a descendant.

Intake refuses such queues, but a recorded cluster may have them. Then no queue of a tree gets
anything, while plugins without a tree ignore parents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coordinator.intake.admission.queues import DEFAULT, ROOT

NOWHERE = 1 << 30
"""The qid of a parent that does not exist."""

Item = Mapping[str, Any]


def without_stray(items: Sequence[Item]) -> tuple[Sequence[Item], frozenset[str]]:
    """(objects, with such queues stripped of their parent; the names of these queues)."""
    queues = [item for item in items if item.get("kind") == "Queue"]
    stray = _stray({name: parent for name, parent in map(_parentage, queues) if name})
    if not stray:
        return items, stray
    return [_orphaned(item) if _is_one(item, stray) else item for item in items], stray


def _stray(parents: Mapping[str, str]) -> frozenset[str]:
    """Queues whose chain of parents does not reach the root."""
    return frozenset(name for name in parents if not _reaches_root(name, parents))


def _reaches_root(name: str, parents: Mapping[str, str]) -> bool:
    visited: set[str] = set()
    while name not in ("", ROOT):
        if name not in parents:
            return name == DEFAULT
        if name in visited:
            return False
        visited.add(name)
        name = parents[name]
    return True


def _parentage(queue: Item) -> tuple[str, str]:
    """(name, parent); "" for missing or malformed values."""
    parts = (queue.get("metadata"), "name"), (queue.get("spec"), "parent")
    name, parent = (part.get(key) if isinstance(part, Mapping) else None for part, key in parts)
    return (name if isinstance(name, str) else "", parent if isinstance(parent, str) else "")


def _is_one(item: Item, stray: Iterable[str]) -> bool:
    return item.get("kind") == "Queue" and _parentage(item)[0] in stray


def _orphaned(queue: Item) -> Item:
    return {**queue, "spec": {k: v for k, v in queue["spec"].items() if k != "parent"}}
