"""Reading a single object, or a list, in pages or as a whole.

A list without a limit may be long: it is written in pieces, with other requests served in between.
Each object is shown as of when its piece is made; the list has the version of its first piece, so
that a watch from there repeats whatever changed meanwhile.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from coordinator.api.http.negotiation import AnswerForm
from coordinator.api.http.responses import json_answer
from coordinator.api.read.forms import list_head, one_shape, rows, table
from coordinator.api.read.query import ReadQuestion, Token, question_of
from coordinator.api.read.source import Entry, Page, Source
from coordinator.api.read.streaming import Streams, send
from coordinator.api.read.watch import Watching
from coordinator.errors import Problem, not_found
from coordinator.intake.documents.kinds import EVENT, KINDS, SHARD, Kind
from coordinator.objects.watchers import WatchExpired
from shared.slices import in_slices

PIECE = 50
"""Objects rendered or filtered before other tasks run: 50 to 150 us each. Fewer if they are large,
since a page also ends at a number of bytes."""


def listing_routes(
    objects: Source, streams: Streams, kinds: tuple[Kind, ...] = KINDS
) -> list[web.RouteDef]:
    reading = ReadHandlers(objects, streams)
    routes = []
    for kind in kinds:
        at = f"/{'apis' if kind.group else 'api'}/{kind.api_version}"
        lists, single = reading.lists(kind), reading.one(kind)
        # No HEAD: a watch without a body would go on for nothing.
        routes.append(web.get(f"{at}/{kind.plural}", lists, allow_head=False))
        if kind.namespaced:
            at = f"{at}/namespaces/{{namespace}}"
            routes.append(web.get(f"{at}/{kind.plural}", lists, allow_head=False))
        routes.append(web.get(f"{at}/{kind.plural}/{{name}}", single))
    return routes


class ReadHandlers:
    def __init__(self, objects: Source, streams: Streams) -> None:
        self._objects = objects
        self._streams = streams
        self._watching = Watching(objects, streams)

    def one(self, kind: Kind) -> Handler:
        async def handler(request: web.Request) -> web.StreamResponse:
            question = question_of(request, kind)
            name = request.match_info["name"]
            value = self._objects.get(kind, question.namespace or "", name)
            if value is None:
                raise not_found(kind.plural, name, group=kind.group)
            return json_answer(one_shape(self._objects, question, value))

        return handler

    def lists(self, kind: Kind) -> Handler:
        async def handler(request: web.Request) -> web.StreamResponse:
            question = question_of(request, kind)
            if question.watch:
                return await self._watching.watch(request, question)
            return await self._list(request, question)

        return handler

    async def _list(self, request: web.Request, question: ReadQuestion) -> web.StreamResponse:
        version = await self._version(question)
        pieces = Pieces(self._objects, question)
        async with self._streams.piece():
            first = pieces.take()
            if not pieces.more:
                head = self._head(question, first)
                return json_answer(head | {"metadata": pieces.metadata(version)})
        return await self._stream(request, question, version, pieces, first)

    async def _version(self, question: ReadQuestion) -> int:
        """The version of the list. Raises Problem (410) if the requested one is no longer, or was
        never, available."""
        now = self._objects.version
        if question.token is not None:
            await self._changed(question.token.version, SHARD)  # a kind of which there are few
            return question.token.version
        version = question.version or 0
        if version > now:
            raise expired(f"there is no version {version}, the newest is {now}")
        # Kubernetes' `Exact` asks for the list as of that version; only the newest is kept, so it
        # is served where nothing of the kind changed since, and 410 otherwise.
        if question.match == "Exact" and version:
            if await self._changed(version, question.kind):
                raise expired(f"version {version} is not kept, only the newest is")
            return version
        return now

    async def _changed(self, version: int, kind: Kind) -> bool:
        """Whether objects of this kind changed after a version. Raises Problem (410) if that is no
        longer known, or the version is of another coordinator."""
        try:
            return bool(await in_slices(self._objects.changes(version, kind)))
        except WatchExpired as error:
            raise expired(str(error)) from error

    def _head(self, question: ReadQuestion, shown: list[Entry]) -> dict[str, Any]:
        """The list with these items, without metadata."""
        if question.form is AnswerForm.TABLE:
            return table(self._objects, question, shown)
        return list_head(question) | {"items": rows(self._objects, question, shown)}

    async def _stream(
        self,
        request: web.Request,
        question: ReadQuestion,
        version: int,
        pieces: Pieces,
        piece: list[Entry],
    ) -> web.StreamResponse:
        """Write the list piece by piece; metadata, known only at the end, comes last."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        head = list_head(question)
        if question.form is AnswerForm.TABLE:
            head["columnDefinitions"] = self._objects.table(question.kind, [])["columnDefinitions"]
        items = b"rows" if question.form is AnswerForm.TABLE else b"items"
        await send(request, response, orjson.dumps(head)[:-1] + b',"' + items + b'":[')
        separator = b""
        while True:
            async with self._streams.piece():
                shown = rows(self._objects, question, piece)
                encoded = orjson.dumps(shown)[1:-1] if shown else b""
            if encoded:
                await send(request, response, separator + encoded)
                separator = b","
            if not pieces.more:
                break
            async with self._streams.piece():
                piece = pieces.take()
        ending = orjson.dumps(pieces.metadata(version))
        await send(request, response, b'],"metadata":' + ending + b"}")
        return response


class Pieces:
    """The objects of a list in pieces, up to its limit."""

    def __init__(self, objects: Source, question: ReadQuestion) -> None:
        self._objects = objects
        self._question = question
        self._next = question.token.after if question.token else ""
        self._left = question.limit
        self._remaining = 0
        self.more = True
        """Whether the same answer has another piece."""

    def take(self) -> list[Entry]:
        """The next piece; empty if the selector matches none of it."""
        if (name := self._one_name()) is not None:
            return self._by_name(name)
        if (of_pod := self._of_one_pod()) is not None:
            return of_pod
        selector = self._question.selector
        size = PIECE if selector or self._left is None else min(PIECE, self._left)
        page = self._page(size)
        entries = []
        for i, entry in enumerate(page.items, 1):
            if not selector or selector.matches(entry.labels, entry.field):
                entries.append(entry)
            if len(entries) == self._left:
                page = self._page(i) if i < size else page  # so that the next one begins here
                break
        self._next, self._remaining = page.next, page.remaining
        if self._left is not None:
            self._left -= len(entries)
        self.more = bool(self._next) and self._left != 0
        return entries

    def _page(self, size: int) -> Page:
        question, token = self._question, self._question.token
        try:
            return self._objects.list(
                question.kind, namespace=question.namespace, after=self._next, limit=size
            )
        except ValueError as error:
            if token is None or self._next != token.after:
                raise
            raise Problem(
                HTTPStatus.BAD_REQUEST,
                f"continue is no token of a list of {question.kind.plural}; begin the list anew",
            ) from error

    def _one_name(self) -> str | None:
        """The single name that the selector allows, if that identifies one object: a client that
        waits for one object lists it this way."""
        question = self._question
        if question.namespace is None and question.kind.namespaced:
            return None
        return question.selector.only("metadata.name")

    def _by_name(self, name: str) -> list[Entry]:
        question = self._question
        self.more = False
        entry = self._objects.entry(question.kind, question.namespace or "", name)
        if entry is None or not question.selector.matches(entry.labels, entry.field):
            return []
        return [entry]

    def _of_one_pod(self) -> list[Entry] | None:
        """The events of one member of a gang, where the selector asks for these alone; else None.

        ``kubectl describe pod`` asks by name and uid, ``kubectl events --for`` by name and kind.
        """
        question, selector = self._question, self._question.selector
        name, kind = selector.only("involvedObject.name"), selector.only("involvedObject.kind")
        of_pod = kind == "Pod" or (kind is None and selector.only("involvedObject.uid"))
        if question.kind is not EVENT or name is None or not of_pod or question.token is not None:
            return None
        events = self._objects.events_of_pod(question.namespace or "", name)
        chosen = [e for e in events or () if selector.matches(e.labels, e.field)]
        # Of another object with the name of a pod: its uid is not the pod's.
        if not chosen:
            return None
        self.more, self._next = False, ""
        return chosen if question.limit is None else chosen[-question.limit :]

    def metadata(self, version: int) -> dict[str, Any]:
        meta: dict[str, Any] = {"resourceVersion": str(version)}
        if self._next:
            meta["continue"] = Token(version, self._next).text()
            if not self._question.selector:
                meta["remainingItemCount"] = self._remaining
        return meta


def expired(message: str) -> Problem:
    return Problem(HTTPStatus.GONE, f"{message}; list again")
