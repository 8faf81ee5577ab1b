"""Server-side apply: an author says all that he wants, and what he no longer says goes.

A field belongs to those who applied it or changed it last. Who applies another value to a field of
somebody else's gets a conflict, unless he forces it; who applies the same value owns it too. What
an author leaves out of his next apply is taken away where nobody else owns it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
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
    Owner,
    difference,
    known_owners,
    ownable,
    with_owners,
)
from coordinator.api.patch.merge_keys import Shape

BEFORE = "before-first-apply"
"""Owns what was there when nobody kept account of it."""


@dataclass(frozen=True, slots=True)
class Conflict:
    owner: Owner
    path: Path

    @property
    def field(self) -> str:
        return path_text(self.path)

    @property
    def said(self) -> str:
        """The other one, as Kubernetes names it."""
        text = f'"{self.owner.name}"'
        if self.owner.operation == "Apply":
            return text
        at = f" at {self.owner.time}" if self.owner.time else ""
        return f"{text} using {self.owner.version}{at}"


class Conflicts(Exception):
    """Fields that others own and that would get another value."""

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
    """The object after an apply, its owners in it; equal to ``live`` where nothing changes.

    Nothing given is changed, parts of it are in the result. Raises Conflicts, PatchError.
    """
    config = _without_nulls(applied)
    applier = Owner(
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
    others = [replace(owner, fields=owner.fields - changes.all) for owner in others]
    if last is not None and last.fields == applier.fields and not changes.any:
        applier = last
    return with_owners(new, [*others, applier])


def _owners(live: dict[str, Any], shape: Shape) -> tuple[Owner, ...]:
    owners = known_owners(live)
    if owners:
        return owners
    fields = frozenset(leaves(ownable(live), shape))
    return (Owner(BEFORE, "Update", str(live.get("apiVersion", "")), "", fields),)


def _without_nulls(value: Any) -> Any:
    """A field that is null is not said."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _unowned(config: dict[str, Any]) -> dict[str, Any]:
    """An applied configuration without the fields that the server sets (uid, version, times)."""
    return ownable(config)


# --- putting in -------------------------------------------------------------------------------


def merged(old: Any, new: Any, shape: Shape) -> Any:
    """``new`` laid over ``old``: objects by field, lists by their keys, all else replaced."""
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
    """One item of a list: its fields are merged by the list's shape, or it is one value."""
    if shape is None:
        return new
    result = dict(old)
    for name, value in new.items():
        result[name] = merged(old[name], value, shape.of(name)) if name in old else value
    return result


def _interleaved(old: Iterable[str], new: Iterable[str]) -> list[str]:
    """All of both, in the order of ``new``; what only ``old`` has stays behind what it followed."""
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
    """Without the paths of ``removed`` below which ``needed_by_others`` has nothing."""
    needed = {path[:i] for path in needed_by_others for i in range(1, len(path) + 1)}
    paths = frozenset(path for path in removed if path not in needed)
    if not paths:
        return value
    rest: dict[str, Any] = _cut(value, encode_fields(paths), shape, (), needed) or {}
    return rest


def _cut(value: Any, tree: dict[str, Any], shape: Shape, path: Path, needed: set[Path]) -> Any:
    """The value without the paths of a tree (as :func:`encode_fields` makes it).

    None where nothing is left of it and nobody needs it empty.
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
