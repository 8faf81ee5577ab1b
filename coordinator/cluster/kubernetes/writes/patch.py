"""Merge patches of objects, each for one version of its object, and what their answers mean."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Protocol

import msgspec

from coordinator.cluster.kubernetes.api.objects import status_of
from coordinator.cluster.kubernetes.api.pool import MERGE_PATCH, HttpAnswer

Json = dict[str, Any]
_AGAIN = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.UNAUTHORIZED})


class ObjectServer(Protocol):
    """Client that reads objects, and writes them within the lease."""

    async def read(self, path: str) -> Json | None:
        """The object; None where it does not exist. Raises ApiError."""
        ...

    async def report(self, method: str, path: str, body: bytes, form: str) -> HttpAnswer | None:
        """Send one write; None where there is no answer."""
        ...


class PatchOutcome(Enum):
    DONE = auto()
    CHANGED = auto()
    """The object has another version: read it again."""
    GONE = auto()
    UNKNOWN = auto()
    """No answer, or none that says whether it was done: read the object."""
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Patched:
    outcome: PatchOutcome
    written: Json | None = None
    """The object after the write; None where it was not done for certain."""
    message: str = ""
    """The server's words, where it refused."""


async def patch(server: ObjectServer, path: str, version: str, fields: Json) -> Patched:
    """Write these fields if the object is of this version. ``fields``: as in a merge patch, None
    removes one."""
    metadata = {**fields.get("metadata", {}), "resourceVersion": version}
    body = msgspec.json.encode({**fields, "metadata": metadata})
    return judged(await server.report("PATCH", path, body, MERGE_PATCH))


def judged(answer: HttpAnswer | None) -> Patched:
    if answer is None or answer.code in _AGAIN or answer.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Patched(PatchOutcome.UNKNOWN)
    match answer.code:
        case HTTPStatus.OK:
            return Patched(PatchOutcome.DONE, msgspec.json.decode(answer.body))
        case HTTPStatus.CONFLICT:
            return Patched(PatchOutcome.CHANGED)
        case HTTPStatus.NOT_FOUND:
            return Patched(PatchOutcome.GONE)
        case code:
            return Patched(PatchOutcome.REFUSED, message=status_of(answer.body, code).message)
