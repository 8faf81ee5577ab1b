"""Strict reading of one JSON object: every read checks the value, and errors name its path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from shared.byte_cache import MIB, byte_cache
from shared.errors import InvalidInput, did_you_mean, nearest, not_in_this_version
from shared.manifests.fields.shapes import check_shape
from shared.schemas.catalogue import TABLES

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_LOOSE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")
_QUALIFIED = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_EMPTY: tuple[object, ...] = (None, "", [], {})
INT32 = 2**31 - 1
"""The largest of Kubernetes' int32, the type of most of its numbers."""
_LONG_LIST = 1000


class Fields:
    """A JSON object and its path. Fields that are null count as absent."""

    __slots__ = ("at", "data")

    def __init__(self, data: object, at: str) -> None:
        if not isinstance(data, dict):
            raise InvalidInput(at, data, "not an object; write fields between { and }")
        self.data: dict[str, object] = data
        self.at = at

    def path(self, name: str) -> str:
        return f"{self.at}.{name}" if self.at else name

    def wrong(self, name: str, message: str) -> InvalidInput:
        return InvalidInput(self.path(name), self.data.get(name), message)

    def check(self, schema: str) -> None:
        """Refuse fields that the schema (:mod:`shared.schemas`) does not have, and values of
        fields that nobody looks at which are not as it promises to readers."""
        table = TABLES[schema]
        self.only(table.known, later=table.later)
        # One of a wrong type would be shown as it is, and a typed client (kubectl, client-go) then
        # fails to decode the whole list that it is in.
        if table.kept and not table.kept.keys().isdisjoint(self.data):
            for name, value in self.data.items():
                if name in table.kept:
                    check_shape(value, table.kept[name], self.path(name))

    def only(
        self, allowed: Set[str], *, later: Set[str] = frozenset(), empty_ok: bool = True
    ) -> None:
        """Refuse unknown fields. Those planned for ``later`` are accepted if they are empty."""
        if self.data.keys() <= allowed:
            return
        for name in self.data:
            if name in allowed:
                continue
            if name not in later:
                near = nearest(str(name), allowed)
                remedy = f"did you mean {near}? If not," if near else "check its spelling or"
                raise self.wrong(str(name), f"unknown field; {remedy} leave it out")
            if not (empty_ok and self.data[name] in _EMPTY):
                raise not_in_this_version(self.path(name), self.data[name])

    def text(self, name: str, default: str = "", *, longest: int = 253) -> str:
        value = self.data.get(name)
        if value is None:
            return default
        if type(value) is not str or len(value) > longest:
            raise self.wrong(name, f"not a text; write one of at most {longest} characters")
        return value

    def choice(self, name: str, options: tuple[str, ...], default: str) -> str:
        value = self.data.get(name)
        if value is None:
            return default
        if value not in options:
            hint = did_you_mean(value, options)
            raise self.wrong(name, f"unknown value; {hint}write one of {', '.join(options)}")
        return str(value)

    def integer(self, name: str, default: int, *, low: int = 0, high: int = INT32) -> int:
        value = self.data.get(name)
        if value is None:
            return default
        if type(value) is not int or not low <= value <= high:
            raise self.wrong(name, f"not allowed; write a whole number from {low} to {high}")
        return value

    def boolean(self, name: str, default: bool) -> bool:
        value = self.data.get(name)
        if value is None:
            return default
        if type(value) is not bool:
            raise self.wrong(name, "not a boolean; write true or false")
        return value

    def child(self, name: str) -> Fields | None:
        value = self.data.get(name)
        return None if value is None else Fields(value, self.path(name))

    def need(self, name: str) -> Fields:
        value = self.data.get(name)
        if value is None:
            raise self.wrong(name, "missing; it is required")
        return Fields(value, self.path(name))

    def array(self, name: str, *, longest: int = _LONG_LIST) -> list[object]:
        value = self.data.get(name)
        if value is None:
            return []
        if type(value) is not list:
            raise self.wrong(name, "not a list; write its items between [ and ]")
        if len(value) > longest:
            raise self.wrong(name, f"too long; at most {longest} items are allowed")
        return value

    def children(self, name: str, *, longest: int = _LONG_LIST) -> Iterator[Fields]:
        for i, value in enumerate(self.array(name, longest=longest)):
            yield Fields(value, f"{self.path(name)}[{i}]")

    def texts(self, name: str, *, longest: int = _LONG_LIST) -> tuple[str, ...]:
        values = self.array(name, longest=longest)
        for i, value in enumerate(values):
            if type(value) is not str:
                raise InvalidInput(f"{self.path(name)}[{i}]", value, "not a text; put it in quotes")
        return tuple(str(v) for v in values)

    def labels(self, name: str, *, longest: int = _LONG_LIST) -> dict[str, str]:
        """A map of label keys to label values, both in Kubernetes' format."""
        fields = self.child(name)
        if fields is None:
            return {}
        if len(fields.data) > longest:
            raise self.wrong(name, f"too many; at most {longest} are allowed")
        for key, value in fields.data.items():
            if type(key) is not str or type(value) is not str or not is_label(key, value):
                raise bad_label(fields.path(str(key)), value)
        return {key: str(value) for key, value in fields.data.items()}

    def label_key(self, name: str) -> str:
        key = self.text(name, longest=317)
        if not is_qualified(key):
            raise self.wrong(name, "not a label key; write [domain/]name")
        return key


@byte_cache("labels", 4 * MIB)
def is_label(key: str, value: str) -> bool:
    return is_qualified(key) and _LABEL_VALUE.fullmatch(value) is not None


def bad_label(field: str, value: object) -> InvalidInput:
    message = "not a label; write [domain/]name and a text of at most 63 letters, digits, '-', '_' "
    return InvalidInput(field, value, message + "or '.'")


def part_of(obj: dict[str, object], name: str, schema: str = "") -> Fields:
    """The part of an object with this name (``spec``, ``status``), empty if it is absent; checked
    against its schema, if one is given."""
    fields = Fields({} if obj.get(name) is None else obj[name], name)
    if schema:
        fields.check(schema)
    return fields


def is_qualified(name: str) -> bool:
    return _QUALIFIED.fullmatch(name) is not None


def subdomain(value: object, field: str) -> str:
    """Check a DNS subdomain, the form of most names: up to 253 of a-z, 0-9, '-' and '.'."""
    return _name(value, field, _SUBDOMAIN, "253 small letters, digits, '-' or '.'")


def dns_label(value: object, field: str) -> str:
    """Check a DNS label, the form of namespaces and roles: up to 63 of a-z, 0-9 and '-'."""
    return _name(value, field, _LABEL, "63 small letters, digits or '-'")


def loose_name(value: object, field: str) -> str:
    """Check the name of a queue or PodGroup. Capitals and '_' are also allowed, since traces and
    older files have them."""
    return _name(value, field, _LOOSE, "253 letters, digits, '-', '_' or '.'")


def _name(value: object, field: str, pattern: re.Pattern[str], form: str) -> str:
    if type(value) is str and pattern.fullmatch(value) is not None:
        return value
    if value is None:
        raise InvalidInput(field, value, "missing; it is required")
    raise InvalidInput(
        field, value, f"not a valid name; use at most {form}, with a letter or digit at both ends"
    )
