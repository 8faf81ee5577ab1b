"""Field ownership: ``metadata.managedFields``, updated with every change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal

from coordinator.api.patch.errors import PatchError
from coordinator.api.patch.field_sets import Fields, Path, decode_fields, encode_fields, leaves
from coordinator.api.patch.json_patch import same
from coordinator.api.patch.merge_keys import Shape
from shared.codec.packed import replace

Operation = Literal["Apply", "Update"]

_AT = "metadata.managedFields"
_MOST = 100
_LONGEST_NAME = 128
_SERVERS = frozenset(
    (
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    )
)


@dataclass(frozen=True, slots=True)
class FieldManager:
    """One entry, identified by ``name``, ``operation`` and ``subresource``. ``time``: RFC 3339."""

    name: str
    operation: Operation
    version: str
    time: str
    fields: Fields
    subresource: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.name, self.operation, self.subresource

    def encoded(self) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode_fields(self.fields),
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def read_owners(entries: Any) -> tuple[FieldManager, ...]:
    """Parse an object's entries. Raises PatchError."""
    if entries is None:
        return ()
    if not isinstance(entries, list) or len(entries) > _MOST:
        raise PatchError(f"{_AT}: not a list of at most {_MOST} entries; leave it as it was read")
    return tuple(
        _read(entry, f"{_AT}[{i}]") for i, entry in enumerate(entries) if entry not in ({}, None)
    )


def known_owners(obj: dict[str, Any]) -> tuple[FieldManager, ...]:
    """The entries of a stored object; empty if malformed, since list submission does not check
    them."""
    try:
        return read_owners(obj["metadata"].get("managedFields"))
    except PatchError:
        return ()


def _read(entry: Any, at: str) -> FieldManager:
    if not isinstance(entry, dict):
        raise PatchError(f"{at}: not an object; leave it as it was read")
    texts = {}
    for name in ("manager", "operation", "apiVersion", "time", "subresource"):
        value = entry.get(name)
        if not isinstance(value, str | None) or len(value or "") > _LONGEST_NAME:
            raise PatchError(f"{at}.{name}: not a text; leave it as it was read")
        texts[name] = value or ""
    operation = texts["operation"]
    if operation not in ("Apply", "Update"):
        raise PatchError(f"{at}.operation: neither Apply nor Update; leave it as it was read")
    return FieldManager(
        texts["manager"],
        "Apply" if operation == "Apply" else "Update",
        texts["apiVersion"],
        texts["time"],
        decode_fields(entry.get("fieldsV1") or {}, f"{at}.fieldsV1"),
        texts["subresource"],
    )


def with_owners(obj: dict[str, Any], owners: Iterable[FieldManager]) -> dict[str, Any]:
    """The object with these entries: appliers first, entries without fields dropped."""
    holding = [owner for owner in owners if owner.fields]
    holding.sort(key=lambda owner: (owner.operation != "Apply", owner.time, owner.name))
    metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    if holding:
        metadata["managedFields"] = [owner.encoded() for owner in holding]
    return obj | {"metadata": metadata}


def ownable(obj: dict[str, Any]) -> dict[str, Any]:
    """The part of an object whose fields can have owners."""
    value = {name: part for name, part in obj.items() if name not in ("apiVersion", "kind")}
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        value["metadata"] = {k: v for k, v in metadata.items() if k not in _SERVERS}
        if not value["metadata"]:
            del value["metadata"]
    return value


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """Paths that are new or have another value, and paths that are gone."""

    changed: Fields
    removed: Fields

    @property
    def any(self) -> bool:
        return bool(self.changed or self.removed)

    @property
    def all(self) -> Fields:
        return self.changed | self.removed


def difference(old: dict[str, Any], new: dict[str, Any], shape: Shape) -> FieldDifference:
    before, after = leaves(ownable(old), shape), leaves(ownable(new), shape)
    changed = {p for p, v in after.items() if p not in before or not same(before[p], v)}
    removed = before.keys() - after.keys()
    return FieldDifference(
        frozenset(changed - _still_there(changed, after, before)),
        frozenset(removed - _still_there(removed, before, after)),
    )


def _still_there(
    paths: AbstractSet[Path], values: Mapping[Path, Any], others: Mapping[Path, Any]
) -> set[Path]:
    """The paths whose object or list is empty in ``values`` and not empty in ``others``."""
    empty = {path for path in paths if values[path] in ({}, []) and path not in others}
    if not empty:
        return empty
    return empty & {path[:i] for path in others for i in range(1, len(path))}


def updated(
    old: dict[str, Any] | None,
    new: dict[str, Any],
    shape: Shape,
    *,
    manager: str,
    now: str,
) -> dict[str, Any]:
    """``new`` with its owners after a change other than an apply: changed fields belong to the
    author alone.

    Entries in ``new`` that differ from those in ``old`` are used as given (``[{}]``: drop all).
    Raises PatchError.
    """
    sent = new["metadata"].get("managedFields")
    stored = None if old is None else old["metadata"].get("managedFields")
    if sent and sent != stored:
        owners = read_owners(sent)
    else:
        owners = known_owners(old) if old is not None else ()
    changes = difference(old or {}, new, shape)
    if not changes.any:
        return with_owners(new, owners)
    author = FieldManager(manager, "Update", str(new.get("apiVersion", "")), now, frozenset())
    others = []
    for owner in owners:
        if owner.key == author.key:
            author = replace(author, fields=owner.fields)
        else:
            others.append(replace(owner, fields=owner.fields - changes.all))
    author = replace(author, fields=(author.fields | changes.changed) - changes.removed)
    return with_owners(new, [*others, author])
