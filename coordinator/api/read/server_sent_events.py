"""``GET /stream``: changes of objects as server-sent events, for pages and scripts.

``?kind=Pod&kind=Job`` selects kinds. An event is named ADDED, MODIFIED or DELETED; its data is the
object, its id the version. Without an id to resume from, the first event is ``ready``. A client
that reconnects with ``Last-Event-ID`` resumes there; if that is too old, or gets too old, ``reset``
is sent: then the client must reload everything, and changes follow from the id of ``reset`` on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson
from aiohttp import ClientConnectionResetError, web
from aiohttp_sse import EventSourceResponse

from coordinator.api.change.bodies import bad
from coordinator.api.read.source import Change, Source
from coordinator.api.read.streaming import Streams, next_part
from coordinator.api.read.watch import LONGEST_SECONDS, SLICE, at_version, last_of
from coordinator.intake.documents.kinds import (
    BY_KIND,
    JOB,
    KAI_QUEUE,
    NODE,
    POD_GROUPS,
    QUEUE,
    SHARD,
    Kind,
)
from coordinator.intake.principal import CALLER, may_reach
from coordinator.objects.changes import STRIDE, in_order
from coordinator.objects.watchers import WatchExpired
from shared.errors import shown
from shared.slices import Steps

USUAL = (JOB, *POD_GROUPS, QUEUE, KAI_QUEUE, NODE, SHARD)
"""Kinds sent if none is selected; pods are not among them."""
HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000


def stream_routes(objects: Source, streams: Streams) -> list[web.RouteDef]:
    async def handler(request: web.Request) -> web.StreamResponse:
        kinds = _kinds(request)
        since = _since(request)
        with streams.one():
            response = EventSourceResponse(
                send_timeout=streams.send_seconds, ping_interval=HEARTBEAT_SECONDS
            )
            await response.prepare(request)
            try:
                async with response:
                    await _EventStream(objects, streams, kinds, request, response).run(since)
            except TimeoutError:
                raise ClientConnectionResetError("the client was too slow") from None
            return response

    return [web.get("/stream", handler, allow_head=False)]


def _kinds(request: web.Request) -> tuple[Kind, ...]:
    names = request.query.getall("kind", [])
    for name in names:
        if name not in BY_KIND:
            raise bad(f"kind {shown(name)} is unknown; write one of {', '.join(BY_KIND)}")
    return tuple(BY_KIND[name] for name in dict.fromkeys(names)) or USUAL


def _since(request: web.Request) -> int | None:
    """The version to resume from; None if none is given. An invalid one counts as too old."""
    text = request.headers.get("Last-Event-ID") or request.query.get("lastEventId")
    if text is None:
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else 0


@dataclass(frozen=True, slots=True)
class _Message:
    """One event with JSON data."""

    data: str
    id: str
    event: str


class _EventStream:
    """One open stream."""

    def __init__(
        self,
        objects: Source,
        streams: Streams,
        kinds: tuple[Kind, ...],
        request: web.Request,
        response: EventSourceResponse,
    ) -> None:
        self._objects = objects
        self._streams = streams
        self._kinds = kinds
        self._request = request
        self._response = response
        self._since = 0

    async def run(self, since: int | None) -> None:
        """Run until the server stops, the token is no longer valid, or an hour is over."""
        clock = asyncio.get_running_loop().time
        end = clock() + LONGEST_SECONDS
        await self._greet(since)
        while not self._streams.ended and clock() < end:
            try:
                await self._catch_up()
            except WatchExpired:
                await self._greet(0)
            await self._streams.moved(self._request, self._since, end - clock())

    async def _greet(self, since: int | None) -> None:
        now = self._objects.version
        if since is not None and 0 < since <= now:
            self._since = since
            return
        self._since = now
        event = "ready" if since is None else "reset"
        data = orjson.dumps({"resourceVersion": str(now)}).decode()
        await self._response.send(data, id=str(now), event=event, retry=RETRY_MILLISECONDS)

    async def _catch_up(self) -> None:
        upto = self._objects.version
        if upto <= self._since:
            return
        changes = await self._streams.in_turns(self._changes())
        ids = resumable([change.version for change, _ in changes])
        for start in range(0, len(changes), SLICE):
            part = slice(start, start + SLICE)
            await self._send_all(self._messages(changes[part], ids[part]))
        self._since = upto

    def _changes(self) -> Steps[list[tuple[Change, Kind]]]:
        """Each kind comes in order of version, all together must: a client resumes from the last
        id that it saw, whatever kind that was."""
        caller = CALLER.get()
        readings = [(kind, self._objects.changes(self._since, kind)) for kind in self._kinds]
        messages: list[tuple[Change, Kind]] = []
        for kind, reading in readings:
            for change in (yield from reading):
                if not kind.namespaced or may_reach(caller, change.key.namespace):
                    messages.append((change, kind))
                if len(messages) % STRIDE == 0:
                    yield
        return (yield from in_order(messages, lambda pair: pair[0].version))

    async def _send_all(self, messages: Iterator[_Message]) -> None:
        """Render and send messages; fewer at a time if they are long."""
        while True:
            async with self._streams.turn():
                part = next_part(messages, size=lambda message: len(message.data))
            if not part:
                return
            for message in part:
                await self._response.send(message.data, id=message.id, event=message.event)

    def _messages(
        self, changes: Sequence[tuple[Change, Kind]], ids: Sequence[int]
    ) -> Iterator[_Message]:
        for (change, kind), number in zip(changes, ids, strict=True):
            value = self._value(change, kind)
            if value is not None:
                yield _Message(orjson.dumps(value).decode(), str(number), change.type)

    def _value(self, change: Change, kind: Kind) -> dict[str, Any] | None:
        """The object; None if it was deleted meanwhile, which the next round reports."""
        if change.type == "DELETED":
            return last_of(change, kind)
        value = self._objects.get(kind, change.key.namespace, change.key.name)
        return None if value is None else at_version(value, change.version)


def resumable(versions: list[int]) -> list[int]:
    """The version to resume from after each of these changes, which are in order.

    A Job and its PodGroup change together: a client that has seen only one of them has not seen
    that version completely.
    """
    return [version - (version == later) for version, later in pairwise([*versions, 0])]
