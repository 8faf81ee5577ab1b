"""Server-side apply: an author sends all fields it wants; fields it no longer sends are removed.

A field belongs to the managers that applied it or changed it last. Applying another value to a
field of another manager is a conflict unless forced; applying the same value shares ownership. A
field that a manager leaves out of its next apply is removed unless another manager owns it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from coordinator.api.patch.field_sets import (
    Fields,
    Path,
    encode_fields,
    item_step,
    leaves,
    path_text,
    value_step,
)
from coordinator.api.patch.managed_fields import (
    FieldManager,
    difference,
    known_owners,
    ownable,
    with_owners,
)
from coordinator.api.patch.merge_keys import Shape
from shared.codec.packed import replace

BEFORE = "before-first-apply"
"""Owner of fields from before owners were recorded."""


@dataclass(frozen=True, slots=True)
class Conflict:
    owner: FieldManager
    path: Path

    @property
    def field(self) -> str:
        return path_text(self.path)

    @property
    def said(self) -> str:
        """The conflicting manager, in Kubernetes' words."""
        text = f'"{self.owner.name}"'
        if self.owner.operation == "Apply":
            return text
        at = f" at {self.owner.time}" if self.owner.time else ""
        return f"{text} using {self.owner.version}{at}"


class Conflicts(Exception):
    """Fields of other managers that the apply would change."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        super().__init__(_told(conflicts))
        self.found = conflicts


def _told(conflicts: list[Conflict]) -> str:
    if len(conflicts) == 1:
        return (
            f"Apply failed with 1 conflict: conflict with {conflicts[0].said}: {conflicts[0].field}"
        )
    lines = []
    for manager in sorted({conflict.said for conflict in conflicts}):
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {c.field}" for c in conflicts if c.said == manager]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def apply(
    live: dict[str, Any] | None,
    applied: dict[str, Any],
    shape: Shape,
    *,
    manager: str,
    now: str,
    force: bool,
) -> dict[str, Any]:
    """The object after an apply, with its owners; equal to ``live`` if nothing changes.

    Arguments are not modified; the result shares parts with them. Raises Conflicts, PatchError.
    """
    config = _without_nulls(applied)
    applier = FieldManager(
        manager,
        "Apply",
        str(applied.get("apiVersion", "")),
        now,
        frozenset(leaves(ownable(config), shape)),
    )
    if live is None:
        return with_owners(config, [applier])
    owners = _owners(live, shape)
    others = [owner for owner in owners if owner.key != applier.key]
    last = next((owner for owner in owners if owner.key == applier.key), None)
    new = merged(live, _unowned(config), shape)
    if last is not None:
        others_fields: Fields = frozenset().union(*(owner.fields for owner in others))
        new = pruned(new, last.fields - applier.fields, applier.fields | others_fields, shape)
    changes = difference(live, new, shape)
    conflicts = [
        Conflict(owner, path) for owner in others for path in sorted(owner.fields & changes.all)
    ]
    if conflicts and not force:
        raise Conflicts(conflicts)
    # Without conflicts, or with `force`: changed fields are the applier's from here on. A field
    # with an equal value has both as owners, as in Kubernetes.
    others = [replace(owner, fields=owner.fields - changes.all) for owner in others]
    # Its time stays as well: applied again unchanged, the object must be equal to what it was, or
    # each apply would make a version.
    if last is not None and last.fields == applier.fields and not changes.any:
        applier = last
    return with_owners(new, [*others, applier])


def _owners(live: dict[str, Any], shape: Shape) -> tuple[FieldManager, ...]:
    owners = known_owners(live)
    if owners:
        return owners
    fields = frozenset(leaves(ownable(live), shape))
    return (FieldManager(BEFORE, "Update", str(live.get("apiVersion", "")), "", fields),)


def _without_nulls(value: Any) -> Any:
    """The value without fields that are null, which count as absent."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _unowned(config: dict[str, Any]) -> dict[str, Any]:
    """An applied configuration without fields that the server sets (uid, version, times)."""
    return ownable(config)


# --- putting in -------------------------------------------------------------------------------


def merged(old: Any, new: Any, shape: Shape) -> Any:
    """Merge ``new`` into ``old``: objects by field, lists by their keys, all else is replaced."""
    if isinstance(old, dict) and isinstance(new, dict) and not shape.whole:
        result = dict(old)
        for name, value in new.items():
            result[name] = merged(old[name], value, shape.of(name)) if name in old else value
        return result
    if shape.keyed(old) and shape.keyed(new):
        by_step_before = {item_step(item, shape): item for item in old}
        fresh = {item_step(item, shape): item for item in new}
        inner = shape if not shape.whole else None
        both = {
            step: _item(by_step_before[step], item, inner) if step in by_step_before else item
            for step, item in fresh.items()
        }
        return [
            both.get(step, by_step_before.get(step)) for step in _interleaved(by_step_before, fresh)
        ]
    if shape.distinct(old) and shape.distinct(new):
        by_step = {value_step(item): item for item in [*old, *new]}
        order = _interleaved(map(value_step, old), dict.fromkeys(map(value_step, new)))
        return [by_step[step] for step in order]
    return new


def _item(old: dict[str, Any], new: dict[str, Any], shape: Shape | None) -> dict[str, Any]:
    """Merge one item of a list by its fields, or replace it if it has no shape."""
    if shape is None:
        return new
    result = dict(old)
    for name, value in new.items():
        result[name] = merged(old[name], value, shape.of(name)) if name in old else value
    return result


def _interleaved(old: Iterable[str], new: Iterable[str]) -> list[str]:
    """The union of both, in the order of ``new``; items only in ``old`` stay after their
    predecessor."""
    queue = deque(new)
    new_steps = set(queue)
    placed: set[str] = set()
    result: list[str] = []
    for step in old:
        if step not in new_steps:
            result.append(step)
            continue
        while queue and step not in placed:
            first = queue.popleft()
            placed.add(first)
            result.append(first)
    return [*result, *queue]


# --- taking out -------------------------------------------------------------------------------


def pruned(
    value: dict[str, Any], removed: Fields, needed_by_others: Fields, shape: Shape
) -> dict[str, Any]:
    """Remove the paths of ``removed``, except those that ``needed_by_others`` has, or has paths
    below."""
    needed = {path[:i] for path in needed_by_others for i in range(1, len(path) + 1)}
    paths = frozenset(path for path in removed if path not in needed)
    if not paths:
        return value
    rest: dict[str, Any] = _cut(value, encode_fields(paths), shape, (), needed) or {}
    return rest


def _cut(value: Any, tree: dict[str, Any], shape: Shape, path: Path, needed: set[Path]) -> Any:
    """The value without the paths of a tree (from :func:`encode_fields`). None if nothing remains
    and nobody needs it empty.
    """
    if not tree or "." in tree:
        return None

    def rest(inner: Any, step: str, inner_shape: Shape) -> Any:
        if step not in tree:
            return inner
        return _cut(inner, tree[step], inner_shape, (*path, step), needed)

    remaining: Any
    if isinstance(value, dict):
        cut = {name: rest(v, f"f:{name}", shape.of(name)) for name, v in value.items()}
        remaining = {name: v for name, v in cut.items() if v is not None or f"f:{name}" not in tree}
    elif shape.keyed(value):
        items = [rest(item, item_step(item, shape), shape) for item in value]
        remaining = [item for item in items if item is not None]
    elif shape.distinct(value):
        remaining = [item for item in value if value_step(item) not in tree]
    else:
        return value
    return remaining if remaining or path in needed else None
