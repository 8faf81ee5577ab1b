"""Strategic merge patch: a merge patch that also merges lists by the keys of their items.

In addition to values a patch contains directives: ``$patch`` (replace, delete or merge the object
it is in), ``$retainKeys`` (all other fields are removed), ``$setElementOrder/LIST`` and
``$deleteFromPrimitiveList/LIST``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from coordinator.api.patch.errors import PatchError
from coordinator.api.patch.merge_keys import Shape
from shared.errors import shown

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def strategic_merge(old: dict[str, Any], patch: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """The changed object. ``old`` is not modified; the result shares parts with it. Raises
    PatchError.
    """
    return _object(old, patch, shape, "")


def _object(old: dict[str, Any], patch: dict[str, Any], shape: Shape, at: str) -> dict[str, Any]:
    match patch.get(_PATCH):
        case "replace":
            return _object({}, _without(patch, _PATCH), shape, at)
        case "delete":
            return {}
        case None | "merge":
            pass
        case other:
            raise PatchError(f"{at}.{_PATCH}: {shown(other)}; write replace, delete or merge")
    new = dict(old)
    if _RETAIN in patch:
        keep = set(_texts(patch[_RETAIN], f"{at}.{_RETAIN}"))
        new = {name: value for name, value in new.items() if name in keep}
    lists = {name: None for name in patch if not name.startswith((_ORDER, _DELETE))}
    lists |= {name.partition("/")[2]: None for name in patch if name not in lists}
    for name in lists:
        if name in (_PATCH, _RETAIN):
            continue
        path = f"{at}.{name}"
        if name in patch and patch[name] is None:
            new.pop(name, None)
        elif isinstance(value := patch.get(name), dict):
            inner = new.get(name)
            base = inner if isinstance(inner, dict) else {}
            new[name] = _object(base, value, shape.of(name), path)
        elif name not in patch or isinstance(value, list):
            _into(new, name, patch, shape.of(name), path)
        else:
            new[name] = value
    return new


def _without(patch: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in patch.items() if name not in names}


def _texts(value: Any, at: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise PatchError(f"{at}: not a list of texts; write one")
    return value


def _into(new: dict[str, Any], name: str, patch: dict[str, Any], shape: Shape, at: str) -> None:
    """Merge a list with the patch's items, order and deletions."""
    order, deleted = patch.get(_ORDER + name), patch.get(_DELETE + name)
    items = patch.get(name)
    current = new.get(name)
    old = current if isinstance(current, list) else []
    key = _key_of(order) or next(iter(shape.keys), "")
    if key:
        new[name] = _objects(old, items or [], shape, at, order=order, key=key)
    elif shape.values:
        new[name] = _plain(old, items or [], order, _texts(deleted or [], at), at)
    elif items is not None:
        new[name] = items
    if current is None and items is None and not new.get(name):
        new.pop(name, None)  # only an order, of a list that does not exist


def _key_of(order: Any) -> str:
    """The key field in an order directive; "" if it has none. It takes precedence over the shape,
    since the client that sent the order merged by it."""
    if not isinstance(order, list) or not order:
        return ""
    fields = {tuple(item) for item in order if isinstance(item, dict)}
    (first, *more) = fields or {()}
    return str(first[0]) if len(first) == 1 and not more else ""


# --- lists ------------------------------------------------------------------------------------


def _plain(old: list[Any], items: list[Any], order: Any, deleted: list[str], at: str) -> list[Any]:
    for item in [*old, *items]:
        if isinstance(item, dict | list):
            raise PatchError(f"{at}: an item is no plain value; write a text")
    left_out = set(deleted)
    merged = [item for item in dict.fromkeys([*old, *items]) if item not in left_out]
    if order is None:
        return merged
    place = {item: i for i, item in enumerate(_texts(order, at))}
    return _ordered(merged, place, {item: i for i, item in enumerate(old)}, lambda item: item)


def _objects(
    old: list[Any], items: list[Any], shape: Shape, at: str, *, order: Any, key: str
) -> list[Any]:
    def name_of(item: Any) -> Hashable:
        name = item.get(key) if isinstance(item, dict) else None
        if not isinstance(name, str | int):
            raise PatchError(f"{at}: an item without {key}; write it, or send a merge patch")
        return name

    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" for item in items):
        fresh = [_without(item, _PATCH) for item in items if isinstance(item, dict)]
        return [_object({}, item, shape, at) for item in fresh if item]
    merged = {name_of(item): item for item in old}
    if len(merged) != len(old):
        raise PatchError(f"{at}: two items with one {key}; send a merge patch", malformed=False)
    for item in items:
        name = name_of(item)
        if item.get(_PATCH) == "delete":
            merged.pop(name, None)
        else:
            merged[name] = _object(merged.get(name, {}), item, shape, f"{at}[{name}]")
    if order is None:
        return list(merged.values())
    if not isinstance(order, list):
        raise PatchError(f"{at}: the order is not a list; write one")
    place = {name_of(item): i for i, item in enumerate(order)}
    before = {name_of(item): i for i, item in enumerate(old)}
    return _ordered(list(merged.values()), place, before, name_of)


def _ordered(
    merged: list[Any],
    place: dict[Any, int],
    before: dict[Any, int],
    name_of: Callable[[Any], Hashable],
) -> list[Any]:
    """Items in the wanted order; items not in it keep their position relative to their old
    neighbours."""
    named = sorted((i for i in merged if name_of(i) in place), key=lambda i: place[name_of(i)])
    others = deque(item for item in merged if name_of(item) not in place)
    result = []
    for item in named:
        position = before.get(name_of(item))
        while (
            others and position is not None and before.get(name_of(others[0]), position) < position
        ):
            result.append(others.popleft())
        result.append(item)
    return [*result, *others]
