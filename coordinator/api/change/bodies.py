"""Request bodies for a single object: size limits, media types, parsing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web

from coordinator.api.change.protobuf import PROTOBUF, NotReadable, read_protobuf
from coordinator.errors import Problem
from shared.errors import shown
from shared.manifests.text.bounds import MANAGED_VALUES, OBJECT_VALUES
from shared.manifests.text.errors import LIMITS, TextError, TextLimits
from shared.manifests.text.text import Form, read_object, read_values

JSON = "application/json"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
PATCHES = (STRATEGIC, MERGE, JSON_PATCH, APPLY)

_FORMS: dict[str, Form] = {
    JSON: "json",
    "application/yaml": "yaml",
    "application/x-yaml": "yaml",
}
_YAML_BYTES = 1 << 20
"""The number of values is limited too: YAML costs 4 us per value, so at most a quarter of a
second."""
SMALL_JSON = 8 << 10
"""Maximum bytes of a body plus the object it changes that the event loop handles itself.

The worst patch takes 2 us per byte; larger ones go to a parser process. Most pods have less than a
kilobyte and avoid that cost.
"""
SMALL_YAML = 8 << 10
"""The same for YAML: at most 1.1 us per byte without aliases."""
RETRY_AFTER = 0.2


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Limits for one body, and for all waiting bodies together."""

    body_bytes: int = 3 << 19
    """etcd's limit for a request, and so a Kubernetes API server's for an object: 1.5 MiB."""
    waiting_bytes: int = 64 << 20
    """Bodies being read, judged or stored; above this the answer is 429."""
    body_seconds: float = 20.0


class Bodies:
    """Reads bodies within the limits."""

    def __init__(self, limits: BodyLimits | None = None) -> None:
        self._limits = limits or BodyLimits()
        self._waiting = 0

    @contextlib.contextmanager
    def take(self, request: web.Request) -> Iterator[None]:
        """Reserve memory for the body until the request is answered."""
        size = request.content_length
        size = self._limits.body_bytes if size is None and request.can_read_body else size or 0
        if size > self._limits.body_bytes:
            raise _too_large(self._limits.body_bytes)
        if self._waiting and self._waiting + size > self._limits.waiting_bytes:
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{self._waiting} bytes of objects wait; send it again after some time",
                retry_after=RETRY_AFTER,
            )
        self._waiting += size
        try:
            yield
        finally:
            self._waiting -= size

    async def read(self, request: web.Request) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = await request.read()
            if len(body) > self._limits.body_bytes:
                raise _too_large(self._limits.body_bytes)
            return body
        except web.HTTPRequestEntityTooLarge as error:
            raise _too_large(self._limits.body_bytes) from error
        except TimeoutError as error:
            message = "the body did not arrive in time; send it again"
            raise Problem(HTTPStatus.REQUEST_TIMEOUT, message) from error


def _too_large(most: int) -> Problem:
    message = f"the body is larger than {most} bytes; send less"
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)


def is_small(body: bytes, content_type: str, *, besides: int = 0) -> bool:
    """Whether the event loop may handle the body itself. ``besides``: bytes of the object that it
    changes."""
    if content_type in (JSON, STRATEGIC, MERGE, JSON_PATCH):
        return len(body) + besides <= SMALL_JSON
    # An alias may repeat a megabyte within a few bytes.
    return len(body) + besides <= SMALL_YAML and b"*" not in body


def object_of(body: bytes, content_type: str) -> dict[str, Any]:
    """The single object of a body. Raises Problem: 415, or 400 with the line."""
    if content_type == PROTOBUF:
        return _unpacked(body)
    form = _FORMS.get(content_type)
    if form is None:
        raise unsupported(content_type, tuple(_FORMS)[:2])
    try:
        return read_object(body, form=form, limits=_limits(form))
    except TextError as error:
        raise unreadable(error) from error


def _unpacked(body: bytes) -> dict[str, Any]:
    try:
        return read_protobuf(body)
    except NotReadable as error:
        raise Problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"{error} is not read here; send {JSON}"
        ) from error
    except TextError as error:
        raise unreadable(error) from error


def patch_of(body: bytes, content_type: str) -> Any:
    """The patch in a body: an object, or a list for a JSON patch. Raises Problem."""
    if content_type not in PATCHES:
        raise unsupported(content_type, PATCHES)
    # Clients send JSON as what they call YAML; only real YAML has to be small.
    written = content_type == APPLY and not body.lstrip().startswith(b"{")
    form: Form = "yaml" if written else "json"
    try:
        if content_type != JSON_PATCH:
            return read_object(body, form=form, limits=_limits(form))
        values = read_values(body, form="json")
    except TextError as error:
        raise unreadable(error) from error
    if len(values) != 1:
        raise bad(f"{len(values)} patches where one is expected; send exactly one")
    return values[0]


def _limits(form: Form) -> TextLimits:
    if form == "json":
        return LIMITS
    return TextLimits(size=_YAML_BYTES, values=OBJECT_VALUES + MANAGED_VALUES)


def unreadable(error: TextError) -> Problem:
    """400 with the line of the error."""
    return bad(f"the body cannot be read: {error}")


def unsupported(content_type: str, types: tuple[str, ...]) -> Problem:
    return Problem(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        f"Content-Type is {shown(content_type)}; send {' or '.join(types)}",
    )


def bad(message: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, message)
