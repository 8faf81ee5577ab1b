"""Requests to the API server, by its own audit log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from tests.coordinator.api.client import Json

READING = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """One answered request. ``resource`` has its subresource behind a slash; for a path that is
    no object, such as ``/readyz``, the path stands there."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""
    code: int = 0

    @property
    def writes(self) -> bool:
        return self.verb not in READING


def requests_of(audit_log: Path, user: str) -> Iterator[Request]:
    """All requests of a user, in the order of their answers."""
    for entry in entries(audit_log):
        if entry["user"].get("username") == user:
            yield _request(entry)


def entries(audit_log: Path) -> Iterator[Json]:
    """Every line as it stands, rotated files included."""
    rotated = re.compile(re.escape(audit_log.stem) + r"-.*" + re.escape(audit_log.suffix))
    older = sorted(path for path in audit_log.parent.iterdir() if rotated.fullmatch(path.name))
    for path in (*older, audit_log):
        with path.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):  # the last one may still be on its way
                    yield orjson.loads(line)


def _request(entry: Json) -> Request:
    subject = entry.get("objectRef", {})
    path = entry["requestURI"].partition("?")[0]
    resource = "/".join(filter(None, (subject.get("resource"), subject.get("subresource"))))
    return Request(
        verb=entry["verb"],
        group=subject.get("apiGroup", ""),
        resource=resource or path,
        namespace=subject.get("namespace", ""),
        name=subject.get("name", ""),
        code=entry.get("responseStatus", {}).get("code", 0),
    )
