"""Queues whose parent is none: itself, one that does not exist, or one below them.

Intake refuses such queues. A cluster that was recorded may have them all the same: then no queue of
a tree gets anything, and rules that know no tree do not care.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coordinator.intake.admission.queues import DEFAULT, ROOT

NOWHERE = 1 << 30
"""The number of a parent that does not exist."""

Item = Mapping[str, Any]


def without_stray(items: Sequence[Item]) -> tuple[Sequence[Item], frozenset[str]]:
    """(the objects, such queues without their parent; the names of these)."""
    queues = [item for item in items if item.get("kind") == "Queue"]
    stray = _stray({name: parent for name, parent in map(_parentage, queues) if name})
    if not stray:
        return items, stray
    return [_orphaned(item) if _is_one(item, stray) else item for item in items], stray


def _stray(parents: Mapping[str, str]) -> frozenset[str]:
    """Those that do not come to the root by way of their parents."""
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
    """(name, parent); "" for what is not said, or not as it should be."""
    parts = (queue.get("metadata"), "name"), (queue.get("spec"), "parent")
    name, parent = (part.get(key) if isinstance(part, Mapping) else None for part, key in parts)
    return (name if isinstance(name, str) else "", parent if isinstance(parent, str) else "")


def _is_one(item: Item, stray: Iterable[str]) -> bool:
    return item.get("kind") == "Queue" and _parentage(item)[0] in stray


def _orphaned(queue: Item) -> Item:
    return {**queue, "spec": {k: v for k, v in queue["spec"].items() if k != "parent"}}
