"""One error for every answer other than the wanted one, rendered in the form of its path.

Below ``/api`` it is Kubernetes' ``Status``, elsewhere ``application/problem+json`` (RFC 9457): a
field ``status`` is a text in the one and a number in the other, so that they cannot be one body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

STATUS_TYPE = "application/json"
PROBLEM_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong. ``reason``: FieldValueInvalid, FieldValueRequired,
    FieldValueNotSupported, FieldValueForbidden, FieldValueTooMany, FieldManagerConflict, ..."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


_REASONS = {
    HTTPStatus.REQUEST_TIMEOUT: "Timeout",
    HTTPStatus.GONE: "Expired",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RequestEntityTooLarge",
    HTTPStatus.REQUEST_URI_TOO_LONG: "RequestURITooLong",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
}
"""Kubernetes' words for statuses whose phrase is another, or moves with Python's version."""


class Problem(Exception):
    """``reason`` is Kubernetes' word, where it is not the status's own.

    ``kind``, ``group`` and ``name`` tell the object, where it is about one. ``retry_after`` in
    seconds. ``refused``: each refused object of a list. ``allow``: the methods that are possible.
    """

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        *,
        reason: str = "",
        kind: str = "",
        group: str = "",
        name: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
        refused: Sequence[Mapping[str, object]] | None = None,
        allow: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason or _REASONS.get(status) or status.phrase.replace(" ", "")
        self.message = message
        self.kind = kind
        self.group = group
        self.name = name
        self.causes = causes
        self.retry_after = retry_after
        self.refused = refused
        self.allow = allow


def not_found(resource: str, name: str, *, group: str = "") -> Problem:
    """``resource`` is the plural, as kubectl shows it."""
    resource_name = f"{resource}.{group}" if group else resource
    return Problem(
        HTTPStatus.NOT_FOUND,
        f'{resource_name} "{name}" not found',
        kind=resource,
        group=group,
        name=name,
    )


def status_body(problem: Problem) -> dict[str, Any]:
    """Kubernetes' Status. ``details`` is there where it says something."""
    fields = {"name": problem.name, "group": problem.group, "kind": problem.kind}
    details: dict[str, Any] = {field: value for field, value in fields.items() if value}
    if problem.causes:
        details["causes"] = [
            {"reason": c.reason, "message": c.message, "field": c.field} for c in problem.causes
        ]
    if problem.retry_after is not None:
        details["retryAfterSeconds"] = max(1, round(problem.retry_after))
    if problem.refused is not None:
        details["refused"] = list(problem.refused)
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": problem.message,
        "reason": problem.reason,
        "code": int(problem.status),
    }
    if details:
        body["details"] = details
    return body


def problem_body(problem: Problem) -> dict[str, Any]:
    """RFC 9457; ``errors`` points at fields by JSON pointer."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": problem.status.phrase,
        "status": int(problem.status),
        "detail": problem.message,
    }
    if problem.causes:
        body["errors"] = [
            {"pointer": _pointer(c.field), "detail": c.message} for c in problem.causes
        ]
    return body


def _pointer(field: str) -> str:
    return "/" + field.replace("[", ".").replace("]", "").replace(".", "/") if field else ""


def rendered(problem: Problem, path: str) -> tuple[int, dict[str, str], bytes]:
    """Code, headers and body of the answer to a request for ``path``."""
    headers = {}
    if problem.retry_after is not None:
        headers["Retry-After"] = f"{problem.retry_after:g}"
    if problem.allow:
        headers["Allow"] = ", ".join(problem.allow)
    if path.startswith(("/api", "/openapi", "/version")):
        headers["Content-Type"] = STATUS_TYPE
        return int(problem.status), headers, orjson.dumps(status_body(problem))
    headers["Content-Type"] = PROBLEM_TYPE
    return int(problem.status), headers, orjson.dumps(problem_body(problem))
