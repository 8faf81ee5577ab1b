"""Bulk submission: ``POST .../lists`` takes a JSON List of objects and answers for each of them.

Each object is judged alone; with ``?atomic=true`` all are stored or none. It is the fast path,
since the objects of a list are parsed, numbered and stored together.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

from coordinator.api.http.responses import json_answer
from coordinator.api.parser.pool import Parsers
from coordinator.api.parser.tasks import ParserTask
from coordinator.errors import Problem
from coordinator.intake.admission.result import Admission
from coordinator.intake.admission.step import Notice
from coordinator.intake.writer import IntakeFull
from shared.errors import Refusal, shown
from shared.manifests.fields.generated_names import LETTERS, LETTERS_OF_SUFFIX, with_name
from shared.manifests.text.errors import TextError, TextLimits
from shared.manifests.text.text import read_list

BASE = "/apis/quadrant.dev/v1alpha1"
RETRY_AFTER = 0.2
"""Retry-After, in seconds, when too many requests wait: a store takes a few milliseconds."""


class SubmitItems(Protocol):
    def __call__(
        self, items: list[dict[str, Any]], *, atomic: bool = False
    ) -> Awaitable[Admission]:
        """Judge and store; raises IntakeFull at once if too many requests wait."""
        ...


SMALL_BYTES = 1 << 18
SMALL_BRACKETS = 16_000
"""Lists up to both limits are parsed on the event loop, within 5 ms. 500 pods, as sent by the
command line, have 200 kB and 5,000 brackets; a parser process would cost 4 us more per pod."""


@dataclass(frozen=True, slots=True)
class BulkLimits:
    """Limits for one request, and for all waiting ones together."""

    body_bytes: int = 16 << 20
    objects: int = 2_500
    """The longest step of judging so many (a gang with all members in the list) takes 10 ms."""
    atomic_objects: int = 500
    """The same where all or none are to be stored: such a list cannot give way half done."""
    waiting_bytes: int = 128 << 20
    """Bodies being read, judged or stored; above this the answer is 429."""
    body_seconds: float = 20.0
    store_seconds: float = 25.0


def counted(handler: Handler, codes: Counter[int] | None) -> Handler:
    """The handler, with its answers counted by HTTP status."""
    if codes is None:
        return handler

    async def counting(request: web.Request) -> web.StreamResponse:
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR
        try:
            response = await handler(request)
            status = response.status
        except Problem as problem:
            status = problem.status
            raise
        finally:
            codes[int(status)] += 1
        return response

    return counting


class Lists:
    """Accepts lists within the limits."""

    def __init__(self, submit: SubmitItems, limits: BulkLimits, parsers: Parsers) -> None:
        self._submit = submit
        self._parsers = parsers
        self._limits = limits
        self._text = TextLimits(size=limits.body_bytes, objects=limits.objects)
        self._waiting = 0

    async def post(self, request: web.Request) -> web.Response:
        atomic = _atomic(request)
        if request.content_type != "application/json":
            raise Problem(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"Content-Type is {request.content_type}; send application/json",
            )
        size = self._size(request)
        # By the announced size, before the body is read: read first, bodies that wait would be in
        # memory already.
        self._waiting += size
        try:
            items = await self._items(await self._body(request))
            if atomic and len(items) > self._limits.atomic_objects:
                raise _too_many(len(items), self._limits)
            names = _name(items)
            admission = await self._store(items, atomic=atomic)
        finally:
            self._waiting -= size
        refused = [_refusal(r) for r in admission.refused]
        if atomic and refused:
            raise Problem(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"nothing was taken: {len(refused)} of {len(items)} objects are wrong, "
                f"the first: {admission.refused[0]}",
                refused=refused,
            )
        return json_answer(
            {
                "accepted": admission.accepted,
                "unchanged": admission.unchanged,
                "refused": refused,
                "notices": [_notice(n) for n in admission.notices],
            }
            | ({"generatedNames": names} if names else {})
        )

    def _size(self, request: web.Request) -> int:
        """Bytes to reserve for a body; the maximum if it does not announce its size."""
        size = request.content_length
        size = self._limits.body_bytes if size is None else size
        if size > self._limits.body_bytes:
            raise _too_large(self._limits)
        if self._waiting and self._waiting + size > self._limits.waiting_bytes:
            raise _full(f"{self._waiting} bytes of lists wait to be stored")
        return size

    async def _body(self, request: web.Request) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                return await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise _too_large(self._limits) from error
        except TimeoutError as error:
            message = "the body did not arrive in time; send it again"
            raise Problem(HTTPStatus.REQUEST_TIMEOUT, message) from error

    async def _items(self, body: bytes) -> list[dict[str, Any]]:
        try:
            if is_small(body):
                return read_list(body, limits=self._text)
            limits = {"size": self._limits.body_bytes, "objects": self._limits.objects}
            return await self._parsers.ask({"task": ParserTask.LIST, "limits": limits}, body)
        except TextError as error:
            raise _bad(str(error)) from error

    async def _store(self, items: list[dict[str, Any]], *, atomic: bool) -> Admission:
        try:
            async with asyncio.timeout(self._limits.store_seconds):
                return await self._submit(items, atomic=atomic)
        except IntakeFull as error:
            raise _full(str(error)) from error
        except TimeoutError as error:
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "not stored in time, but it may still be; send the same list again, that is safe",
                retry_after=RETRY_AFTER,
            ) from error


def _name(items: list[Any]) -> list[str]:
    """Give a name to each object that has only ``generateName``, in place. Returns these names."""
    names: list[str] = []
    for at, item in enumerate(items):
        # What is no object at all is refused where objects are read.
        named = with_name(item, random_suffix) if isinstance(item, dict) else item
        if named is not item:
            items[at] = named
            names.append(named["metadata"]["name"])
    return names


def random_suffix() -> str:
    """The end of a generated name."""
    return "".join(secrets.choice(LETTERS) for _ in range(LETTERS_OF_SUFFIX))


def _atomic(request: web.Request) -> bool:
    for name in request.query:
        if name != "atomic":
            raise _bad(f"query parameter {shown(name)} is unknown; leave it out")
    value = request.query.get("atomic", "false")
    if value not in ("true", "false"):
        raise _bad(f"atomic is {shown(value)}; write true or false")
    return value == "true"


def is_small(body: bytes) -> bool:
    """Whether the event loop may parse the list itself."""
    if len(body) > SMALL_BYTES:
        return False
    # Brackets cost more to parse than bytes, and are counted without parsing.
    return body.count(b"[") + body.count(b"{") <= SMALL_BRACKETS


def _refusal(refusal: Refusal) -> dict[str, object]:
    reason, _, remedy = refusal.message.partition("; ")
    return {
        "kind": refusal.kind,
        "name": refusal.name,
        "field": refusal.field,
        "value": refusal.value,
        "message": refusal.message,
        "reason": reason,
        "remedy": remedy,
        **({"more": list(map(asdict, refusal.more))} if refusal.more else {}),
    }


def _notice(notice: Notice) -> dict[str, str | int]:
    return {
        "kind": notice.kind,
        "name": notice.name,
        "message": notice.message,
        "count": notice.count,
    }


def _bad(message: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, message)


def _full(why: str) -> Problem:
    message = f"{why}; send the list again after the time in Retry-After"
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, message, retry_after=RETRY_AFTER)


def _too_many(count: int, limits: BulkLimits) -> Problem:
    message = (
        f"{count} objects; a list has at most {limits.atomic_objects} with atomic=true: "
        "send fewer, or leave atomic out"
    )
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)


def _too_large(limits: BulkLimits) -> Problem:
    message = f"the body is larger than {limits.body_bytes} bytes; send smaller lists"
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
