"""Answers of an API server, errors among them, in its own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: Json | str
    """A string: text that is no JSON, as for paths that are not served."""
    retry_after: int = 0
    """Seconds; 0: the server does not ask to wait."""


class NotServed(Exception):
    """The double has no rule for this request, and does not guess one."""


@dataclass(frozen=True, slots=True)
class Named:
    """What an error is about."""

    name: str
    resource: str
    """The plural; of a sub resource ``pods/binding``."""
    group: str = ""

    def __str__(self) -> str:
        return f'{self.full_resource} "{self.name}"'

    @property
    def full_resource(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def details(self) -> Json:
        group = {"group": self.group} if self.group else {}
        return {"name": self.name, "kind": self.resource} | group


class Refused(Exception):
    """The request is answered by a Status of a failure."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = int(code), reason, message
        self.details, self.retry_after = details, retry_after

    def status(self) -> Json:
        """As the body of an answer, and in an ERROR event."""
        body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body |= {"message": self.message}
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return body | {"code": self.code}

    def answer(self) -> Answer:
        return Answer(self.code, self.status(), self.retry_after)


def succeeded(code: HTTPStatus = HTTPStatus.OK, *, details: Json | None = None) -> Json:
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return body | ({"code": int(code)} if details is None else {"details": details})


def not_found(about: Named) -> Refused:
    message = f"{about} not found"
    return Refused(HTTPStatus.NOT_FOUND, "NotFound", message, details=about.details())


def already_exists(about: Named, *, leaving: bool) -> Refused:
    """``leaving``: it is being deleted."""
    message = f"{'object is being deleted: ' if leaving else ''}{about} already exists"
    return Refused(HTTPStatus.CONFLICT, "AlreadyExists", message, details=about.details())


def conflict(about: Named, why: str) -> Refused:
    message = f"Operation cannot be fulfilled on {about}: {why}"
    return Refused(HTTPStatus.CONFLICT, "Conflict", message, details=about.details())


def forbidden(about: Named, why: str) -> Refused:
    message = f"{about} is forbidden: {why}"
    return Refused(HTTPStatus.FORBIDDEN, "Forbidden", message, details=about.details())


def bad_request(message: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def expired(message: str) -> Refused:
    return Refused(HTTPStatus.GONE, "Expired", message)


@dataclass(frozen=True, slots=True)
class Cause:
    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def details(self) -> Json:
        return {"reason": self.reason, "message": self.message, "field": self.field}


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why an object is not valid. ``kind``: as in its manifest."""

    name: str
    kind: str
    group: str
    causes: Sequence[Cause] = field(default_factory=tuple)

    def refusal(self) -> Refused:
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        causes = ", ".join(f"{cause.field}: {cause.message}" for cause in self.causes)
        details = Named(self.name, self.kind, self.group).details()
        details["causes"] = [cause.details() for cause in self.causes]
        return Refused(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "Invalid",
            f'{kind} "{self.name}" is invalid: {causes}',
            details=details,
        )
