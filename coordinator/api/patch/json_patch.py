"""JSON patch (RFC 6902): a list of operations, applied all or none."""

from __future__ import annotations

import re
from typing import Any

import orjson

from coordinator.api.patch.errors import PatchError
from shared.errors import shown

MAX_OPERATIONS = 10_000
MAX_COPIED = 16 << 20
"""Maximum bytes that ``copy`` and ``add`` insert, since copies of copies double with each
operation."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_NEEDS = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("path", "from"),
    "copy": ("path", "from"),
    "test": ("path", "value"),
}


def json_patch(old: dict[str, Any], operations: Any) -> Any:
    """The changed object; ``old`` is not modified. Raises PatchError."""
    if not isinstance(operations, list):
        raise PatchError("a JSON patch is a list of operations; write them between [ and ]")
    if len(operations) > MAX_OPERATIONS:
        raise PatchError(f"more than {MAX_OPERATIONS} operations; send fewer")
    # A copy: the operations before one that fails must leave no trace.
    run = _PatchRun(orjson.loads(orjson.dumps(old)))
    for i, operation in enumerate(operations):
        run.do(operation, f"[{i}]")
    return run.root


class _PatchRun:
    def __init__(self, root: Any) -> None:
        self.root = root
        self._copied = 0

    def do(self, operation: Any, at: str) -> None:
        op, path = _checked(operation, at)
        where = f"{at} {op} {shown(operation['path'])}"
        match op:
            case "test":
                if not same(self._get(path, where), operation["value"]):
                    message = "the value there is another; read the object again"
                    raise PatchError(f"{where}: {message}", malformed=False)
            case "remove":
                self._remove(path, where)
            case "add":
                self._add(path, self._fresh(operation["value"], where), where)
            case "replace":
                self._get(path, where)
                self._set(path, self._fresh(operation["value"], where), where)
            case _:
                source = _pointer(operation["from"], f"{at}.from")
                value = self._fresh(self._get(source, where), where)
                if op == "move":
                    if path[: len(source)] == source and path != source:
                        raise PatchError(f"{where}: moved into itself; choose another path")
                    self._remove(source, where)
                self._add(path, value, where)

    def _fresh(self, value: Any, where: str) -> Any:
        """A copy, so that two places never share a value."""
        try:
            data = orjson.dumps(value)
        except TypeError as error:
            raise PatchError(f"{where}: nested too deep; flatten it") from error
        self._copied += len(data)
        if self._copied > MAX_COPIED:
            raise PatchError(f"{where}: more than {MAX_COPIED} bytes are added; send less")
        return orjson.loads(data)

    # --- places -------------------------------------------------------------------------------

    def _get(self, path: list[str], where: str) -> Any:
        value = self.root
        for part in path:
            value = _step(value, part, where)
        return value

    def _add(self, path: list[str], value: Any, where: str) -> None:
        if not path:
            self.root = value
            return
        holder = self._get(path[:-1], where)
        if isinstance(holder, list):
            last = path[-1]
            i = len(holder) if last == "-" else _index(last, len(holder) + 1, where)
            holder.insert(i, value)
        elif isinstance(holder, dict):
            holder[path[-1]] = value
        else:
            raise _missing(path[-1], where)

    def _set(self, path: list[str], value: Any, where: str) -> None:
        """Replace the value at a path that exists."""
        if not path:
            self.root = value
            return
        holder = self._get(path[:-1], where)
        if isinstance(holder, list):
            holder[_index(path[-1], len(holder), where)] = value
        else:
            holder[path[-1]] = value

    def _remove(self, path: list[str], where: str) -> None:
        if not path:
            raise PatchError(f"{where}: the whole object; delete it instead")
        self._get(path, where)
        holder = self._get(path[:-1], where)
        if isinstance(holder, list):
            del holder[_index(path[-1], len(holder), where)]
        else:
            del holder[path[-1]]


def _checked(operation: Any, at: str) -> tuple[str, list[str]]:
    if not isinstance(operation, dict):
        raise PatchError(f"{at}: not an object; write op, path and value")
    op = operation.get("op")
    if not isinstance(op, str) or op not in _NEEDS:
        raise PatchError(f"{at}.op: {shown(op) or 'missing'}; write one of {', '.join(_NEEDS)}")
    for name in _NEEDS[op]:
        if name not in operation:
            raise PatchError(f"{at}.{name}: missing; {op} needs it")
    return op, _pointer(operation["path"], f"{at}.path")


def _pointer(text: Any, at: str) -> list[str]:
    """Parse a JSON pointer (RFC 6901)."""
    if text == "":
        return []
    if not isinstance(text, str) or not text.startswith("/"):
        raise PatchError(f"{at}: {shown(text)} is no pointer; begin with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _step(value: Any, part: str, where: str) -> Any:
    if isinstance(value, list):
        return value[_index(part, len(value), where)]
    if isinstance(value, dict) and part in value:
        return value[part]
    raise _missing(part, where)


def _index(part: str, size: int, where: str) -> int:
    if _INDEX.fullmatch(part) is None or int(part) >= size:
        raise _missing(part, where)
    return int(part)


def _missing(part: str, where: str) -> PatchError:
    message = f"{where}: {shown(part)} does not exist; read the object again"
    return PatchError(message, malformed=False)


def same(a: Any, b: Any) -> bool:
    """Equality of JSON values: true differs from 1, and 1 equals 1.0."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)
