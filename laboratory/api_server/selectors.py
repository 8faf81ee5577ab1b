"""Selectors of lists and watches: by labels and by fields, with ``=``, ``==`` and ``!=``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from laboratory.api_server.answers import Json, NotServed
from laboratory.api_server.kinds import POD, ServedKind

Term = tuple[str, bool, str]
"""(key, whether it is to be equal, value)"""

_OF_PODS = frozenset({"spec.nodeName", "spec.schedulerName", "status.phase"})
_OF_ALL = frozenset({"metadata.name", "metadata.namespace"})


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind a list or a watch is about."""

    namespace: str = ""
    fields: tuple[Term, ...] = ()
    labels: tuple[Term, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether no selector narrows it."""
        return not self.fields and not self.labels

    def has(self, item: Json) -> bool:
        metadata = item["metadata"]
        labels = metadata.get("labels", {})
        return (
            self.namespace in ("", metadata.get("namespace"))
            and _hold(self.fields, lambda key: _field(item, key))
            and _hold(self.labels, labels.get)
        )


def selection(served: ServedKind, namespace: str, *, fields: str, labels: str) -> Selection:
    """Raises NotServed."""
    of_fields = tuple(map(_term, filter(None, fields.split(","))))
    known = _OF_ALL | (_OF_PODS if served is POD else frozenset())
    for key, _, _ in of_fields:
        if key not in known:
            raise NotServed(f"a field selector by {key}")
    return Selection(namespace, of_fields, tuple(map(_term, filter(None, labels.split(",")))))


def _term(text: str) -> Term:
    for sign, equal in (("!=", False), ("==", True), ("=", True)):
        key, found, value = text.partition(sign)
        if found and not set(key + value) & set(" ()"):
            return key, equal, value
    raise NotServed(f"the selector {text!r}")


def _hold(terms: tuple[Term, ...], value_of: Callable[[str], str | None]) -> bool:
    return all((value_of(key) == value) == equal for key, equal, value in terms)


def _field(item: Json, path: str) -> str:
    value = item
    for part in path.split("."):
        value = value.get(part, {})
    return str(value or "")
