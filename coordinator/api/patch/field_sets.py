"""Sets of owned fields, as paths and in the form of ``managedFields`` (FieldsV1).

A path is a tuple of steps in that form: ``f:name`` a field, ``k:{"name":"a"}`` an item by its keys,
``v:"text"`` an item that is a plain value. A set contains the leaf fields, the items of lists, and
empty objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import orjson

from coordinator.api.patch.errors import PatchError
from coordinator.api.patch.merge_keys import Shape

Path: TypeAlias = tuple[str, ...]
Fields: TypeAlias = frozenset[Path]

_ITEM = object()
"""The value at an item's own path: it exists."""
_DEEPEST = 200


def leaves(value: Any, shape: Shape) -> dict[Path, Any]:
    """Every path in the set of the whole value, with its value."""
    return dict(_walk(value, shape, ()))


def _walk(value: Any, shape: Shape, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value and not shape.whole:
        for name, inner in value.items():
            yield from _walk(inner, shape.of(name), (*path, f"f:{name}"))
    elif value and shape.keyed(value):
        for item in value:
            step = (*path, item_step(item, shape))
            yield step, (item if shape.whole else _ITEM)
            if not shape.whole:
                for name, inner in item.items():
                    yield from _walk(inner, shape.of(name), (*step, f"f:{name}"))
    elif value and shape.distinct(value):
        for item in value:
            yield (*path, value_step(item)), _ITEM
    elif path:
        yield path, value


def item_step(item: dict[str, Any], shape: Shape) -> str:
    keys = {key: item.get(key, shape.defaults.get(key)) for key in shape.keys}
    return "k:" + orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()


def value_step(item: Any) -> str:
    return "v:" + orjson.dumps(item).decode()


# --- FieldsV1 ---------------------------------------------------------------------------------


def encode_fields(fields: Fields) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path in sorted(fields):
        node = root
        for step in path:
            node = node.setdefault(step, {})
        node["."] = {}
    return _short(root)


def _short(node: dict[str, Any]) -> dict[str, Any]:
    """Shorten steps with nothing below: being in the set is implied."""
    if node.keys() == {"."}:
        return {}
    return {step: _short(inner) if step != "." else {} for step, inner in node.items()}


def decode_fields(value: Any, at: str) -> Fields:
    """Parse FieldsV1. Raises PatchError."""
    if not isinstance(value, dict):
        raise PatchError(f"{at}: not an object; leave it as it was read")
    paths: set[Path] = set()
    open_: list[tuple[Path, dict[str, Any]]] = [((), value)]
    while open_:
        path, node = open_.pop()
        if len(path) > _DEEPEST:
            raise PatchError(f"{at}: nested too deep; leave it as it was read")
        for step, inner in node.items():
            if not isinstance(inner, dict) or not _is_step(step):
                raise PatchError(f"{at}.{step[:40]}: not a field; leave it as it was read")
            if step == ".":
                paths.add(path)
            elif inner:
                open_.append(((*path, step), inner))
            else:
                paths.add((*path, step))
    return frozenset(path for path in paths if path)


def _is_step(step: str) -> bool:
    if step == "." or step.startswith("f:"):
        return True
    if not step.startswith(("k:", "v:", "i:")):
        return False
    try:
        value = orjson.loads(step[2:])
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) == step.startswith("k:")


def path_text(path: Path) -> str:
    """The path in Kubernetes' notation: ``.spec.containers[name="a"].image``."""
    text = ""
    for step in path:
        form, rest = step[:2], step[2:]
        if form == "k:":
            keys = orjson.loads(rest)
            pairs = ",".join(f"{k}={orjson.dumps(v).decode()}" for k, v in sorted(keys.items()))
            text += f"[{pairs}]"
        elif form == "v:":
            text += f"[={rest}]"
        elif form == "i:":
            text += f"[{rest}]"
        else:
            text += f".{rest}"
    return text
