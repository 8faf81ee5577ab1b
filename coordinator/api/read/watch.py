"""Watches: changes of objects, as one line of JSON each.

A watch stores neither what was sent nor what waits to be sent: it repeatedly asks for the changes
after the version it has reached, where several changes of an object are combined. So a client
slower than the changes skips some; one that reads nothing is disconnected; one too far behind gets
410 and lists again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

from coordinator.api.http.negotiation import AnswerForm
from coordinator.api.read.forms import metadata_only, table, version_of, whole
from coordinator.api.read.query import ReadQuestion
from coordinator.api.read.source import Change, Entry, Source
from coordinator.api.read.streaming import Streams, next_part, send
from coordinator.errors import Problem, status_body
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import Kind
from coordinator.objects.entries import field_of
from coordinator.objects.watchers import WatchExpired

SLICE = 50
"""Maximum events rendered before other tasks run; fewer if they are long. 200 us each on a slow
machine: 100 held the loop for 20 to 23 ms there, and the bound is 20."""
BOOKMARK_SECONDS = 30.0
LONGEST_SECONDS = 3600.0
"""Maximum duration of a watch; its client resumes where it was."""
MOST_KNOWN = 100_000
"""Maximum number of objects that a watch with a selector remembers as matching."""
_FIXED = frozenset(("metadata.name", "metadata.namespace"))

Json = dict[str, Any]


class Watching:
    def __init__(self, objects: Source, streams: Streams) -> None:
        self._objects = objects
        self._streams = streams

    async def watch(self, request: web.Request, question: ReadQuestion) -> web.StreamResponse:
        _check(question)
        with self._streams.one():
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            watch = _Watch(self._objects, self._streams, question, request, response)
            try:
                await watch.run()
            except WatchExpired as error:
                problem = Problem(HTTPStatus.GONE, f"{error}; list again")
                await watch.say([event_line("ERROR", status_body(problem))])
            return response


class _Watch:
    """One watch: the version it has reached, and the objects that its client has."""

    def __init__(
        self,
        objects: Source,
        streams: Streams,
        question: ReadQuestion,
        request: web.Request,
        response: web.StreamResponse,
    ) -> None:
        self._objects = objects
        self._streams = streams
        self._question = question
        self._request = request
        self._response = response
        self._matched = Matched(question)
        self._columns_sent = False
        self._since = question.version or 0

    async def run(self) -> None:
        """Run until the timeout, the server's stop or the end of the token. Raises Expired."""
        clock = asyncio.get_running_loop().time
        end = clock() + min(self._question.seconds or LONGEST_SECONDS, LONGEST_SECONDS)
        if self._question.initial or not self._question.version:
            await self._begin()
        elif self._since > self._objects.version:
            raise WatchExpired(f"there is no version {self._since} yet")
        else:
            await self._learn()
        bookmark = clock() + BOOKMARK_SECONDS
        while not self._streams.ended and clock() < end:
            await self._catch_up()
            if clock() >= bookmark:
                bookmark = clock() + BOOKMARK_SECONDS
                await self._bookmark()
            await self._streams.moved(self._request, self._since, min(end, bookmark) - clock())
        await self._bookmark()

    async def say(self, lines: Sequence[bytes]) -> None:
        if lines:
            await send(
                self._request,
                self._response,
                b"".join(lines),
                seconds=self._streams.send_seconds,
            )

    async def _say_all(self, lines: Iterator[bytes]) -> None:
        """Render and send lines; fewer at a time if they are long."""
        while True:
            async with self._streams.turn():
                part = next_part(lines, size=len)
            if not part:
                return
            await self.say(part)

    async def _begin(self) -> None:
        """Send every object as ADDED, unless sendInitialEvents=false."""
        self._since = self._objects.version
        if self._question.initial is not False:
            after, more = "", True
            while more:
                matching, after = await self._page(after)
                await self._say_all(self._line("ADDED", entry) for entry in matching)
                more = bool(after)
        if self._question.initial:
            await self._bookmark({"k8s.io/initial-events-end": "true"})

    async def _learn(self) -> None:
        """Collect the objects that match the selector now. The set is complete once the changes up
        to the end of this reading are sent."""
        after = ""
        while self._matched.moves:
            _, after = await self._page(after)
            if not after:
                await self._catch_up()
                self._matched.complete()
                return

    async def _page(self, after: str) -> tuple[list[Entry], str]:
        """The objects of a page that match the selector, and where the next one begins; "" after
        the last."""
        question = self._question
        async with self._streams.turn():
            page = self._objects.list(
                question.kind, namespace=question.namespace, after=after, limit=SLICE
            )
            return [e for e in page.items if self._matched.begins(e)], page.next

    async def _catch_up(self) -> None:
        """Send all changes up to now in order of version, so that a client which resumes from the
        last version it saw misses nothing."""
        # Read before the changes: what comes while they are sent belongs to the next round, and
        # none is skipped.
        upto = self._objects.version
        if upto <= self._since:
            return
        reading = self._objects.changes(self._since, self._question.kind)
        changes = await self._streams.in_turns(reading)
        for start in range(0, len(changes), SLICE):
            await self._say_all(self._lines(changes[start : start + SLICE]))
        self._since = upto

    def _lines(self, changes: Sequence[Change]) -> Iterator[bytes]:
        for change in changes:
            key = change.key
            if self._question.namespace not in (None, key.namespace):
                continue
            value = None
            if change.type != "DELETED":
                value = self._objects.get(self._question.kind, key.namespace, key.name)
                if value is None:
                    continue  # it went meanwhile: the next round has it
                value = at_version(value, change.version)
            event = self._matched.event(change, value)
            if event:
                yield self._line(event, value or last_of(change, self._question.kind))

    async def _bookmark(self, annotations: dict[str, str] | None = None) -> None:
        if not self._question.bookmarks:
            return
        kind = self._question.kind
        metadata: Json = {"resourceVersion": str(self._since)}
        if annotations:
            metadata["annotations"] = annotations
        value: Json = {"kind": kind.written, "apiVersion": kind.api_version, "metadata": metadata}
        if self._question.form is AnswerForm.METADATA:
            value = metadata_only(value)
        if self._question.form is AnswerForm.TABLE:
            value = table(self._objects, self._question, [])
            value["metadata"] = metadata
        await self.say([event_line("BOOKMARK", value)])

    def _line(self, event: str, shown: Entry | Json) -> bytes:
        match self._question.form:
            case AnswerForm.OBJECT:
                return event_line(event, whole(shown))
            case AnswerForm.METADATA:
                return event_line(event, metadata_only(whole(shown)))
            case AnswerForm.TABLE:
                value = whole(shown)
                shown_table = table(
                    self._objects, self._question, [value], version=version_of(value)
                )
                if self._columns_sent:
                    shown_table["columnDefinitions"] = []
                self._columns_sent = True
                return event_line(event, shown_table)


class Matched:
    """The objects that match the selector, as far as the client knows.

    Needed only if an object can start or stop matching. The set is incomplete until the objects
    from before the watch are collected, and beyond :data:`MOST_KNOWN`: then a DELETED too many is
    sent rather than one too few.
    """

    def __init__(self, question: ReadQuestion) -> None:
        self._selector = question.selector
        self.moves = bool(self._selector.labels) or any(
            c.key not in _FIXED and not c.key.startswith("involvedObject.")
            for c in self._selector.fields
        )
        self._known: set[Key] = set()
        self._complete = question.initial is True or not question.version

    def complete(self) -> None:
        """From now on the set contains all matching objects, unless there are too many."""
        self._complete = len(self._known) < MOST_KNOWN

    def begins(self, entry: Entry) -> bool:
        """Whether an object that exists at the start of the watch matches."""
        if self._selector and not self._selector.matches(entry.labels, entry.field):
            return False
        if self.moves:
            self._learn(entry.key)
        return True

    def event(self, change: Change, value: Json | None) -> str:
        """The event for a change: ADDED, MODIFIED, DELETED, or "" for none. ``value`` None:
        deleted."""
        if not self._selector:
            return change.type
        if value is None:
            was_shown = change.key in self._known
            self._known.discard(change.key)
            if self.moves and self._complete:
                return "DELETED" if was_shown else ""
            last = change.last
            return "DELETED" if last is None or was_shown or self._holds(last()) else ""
        if not self.moves:
            return change.type if self._holds(value) else ""
        if self._holds(value):
            was_shown = change.key in self._known
            self._learn(change.key)
            # As a Kubernetes API server does: an object that begins to match a selector is ADDED to
            # the watcher, one that ceases to is DELETED.
            return change.type if was_shown or not self._complete else "ADDED"
        was = change.key in self._known or not (self._complete or change.type == "ADDED")
        self._known.discard(change.key)
        return "DELETED" if was else ""

    def _holds(self, value: Json) -> bool:
        labels = value["metadata"].get("labels") or {}
        return self._selector.matches(labels, lambda path: field_of(value, path))

    def _learn(self, key: Key) -> None:
        if len(self._known) < MOST_KNOWN:
            self._known.add(key)
        else:
            self._complete = False


def event_line(event: str, value: Json) -> bytes:
    return orjson.dumps({"type": event, "object": value}) + b"\n"


def at_version(value: Json, version: int) -> Json:
    """The current object, labelled with the version of the change that it is sent for.

    Its later changes follow as the client reads on. A gang member counts as changed with every
    other member, so it might never be sent at its own version.
    """
    return value | {"metadata": value["metadata"] | {"resourceVersion": str(version)}}


def last_of(change: Change, kind: Kind) -> Json:
    """The last form of a deleted object, with the version of the deletion."""
    key = change.key
    unknown: Json = {"kind": kind.written, "apiVersion": kind.api_version, "metadata": {}}
    value = unknown if change.last is None else change.last()
    named = {"name": key.name} | ({"namespace": key.namespace} if key.namespace else {})
    metadata = value["metadata"] | named | {"resourceVersion": str(change.version)}
    return value | {"metadata": metadata}


def _check(question: ReadQuestion) -> None:
    """Raise Problem (400) if the parameters of a watch do not belong together."""
    if question.limit is not None and question.token is not None:
        raise _bad("continue", "cannot be used in a watch; leave it out")
    if question.initial is not None and question.match != "NotOlderThan":
        raise _bad("sendInitialEvents", "needs resourceVersionMatch=NotOlderThan; add it")
    if question.initial is None and question.match:
        raise _bad("resourceVersionMatch", "needs sendInitialEvents in a watch; leave it out")


def _bad(name: str, why: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, f"{name} {why}")
