"""One kind, followed: listed once, then watched; listed again only where the server forgot.

A watch that ends is normal: the server cuts slow watchers whenever it is short of processor time,
and every watch after some minutes. It is resumed at once from the last version, and nothing is
lost. Only a version that the server does not have any more (410) takes a new list.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from coordinator.cluster.kubernetes.api.client import ApiError, ApiReader, Expired, KindMissing
from coordinator.cluster.kubernetes.api.objects import head_of

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 30.0
MISSING_SECONDS = 30.0
"""A kind that the server does not have is asked for again after this time: its definition may be
installed meanwhile."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """A kind to follow, by the name that intake has for it."""

    name: str
    path: str
    """Path of the list over all namespaces: ``/api/v1/pods``."""
    api_version: str
    written: str
    """The kind as its objects have it: the API server leaves it out in lists."""
    instead: WatchedKind | None = None
    """The kind in another version, for servers that lack this one."""


class ObjectSink(Protocol):
    """Receiver of the objects of a kind, in order. A call that waits holds the stream back."""

    def absent(self, kind: WatchedKind) -> None:
        """The server does not have this kind."""
        ...

    async def listed(self, kind: WatchedKind, items: list[msgspec.Raw], *, first: bool) -> None:
        """A page of a new list."""
        ...

    async def list_ended(self, kind: WatchedKind) -> None:
        """The list is whole: what was in none of its pages is gone."""
        ...

    async def changed(self, kind: WatchedKind, item: list[tuple[bool, msgspec.Raw]]) -> None:
        """Events, in order: (whether the object is gone, the object)."""
        ...


@dataclass(slots=True)
class ReflectorCounts:
    """Counts of one kind's list and watch stream."""

    lists: int = 0
    watches: int = 0
    events: int = 0
    errors: int = 0
    missing: bool = False


class Backoff:
    """Growing pauses, each drawn, so that many clients do not come back together."""

    def __init__(self) -> None:
        self._pause = 0.0

    def reset(self) -> None:
        self._pause = 0.0

    def next(self) -> float:
        # "Decorrelated jitter": between the first pause and three times the last one.
        high = max(FIRST_PAUSE, 3 * self._pause)
        self._pause = min(LONGEST_PAUSE, random.uniform(FIRST_PAUSE, high))
        return self._pause


class Reflector:
    def __init__(self, reader: ApiReader, kind: WatchedKind, sink: ObjectSink) -> None:
        self.kind = kind
        self.counts = ReflectorCounts()
        self._reader = reader
        self._sink = sink
        self._backoff = Backoff()
        self._version = ""
        """Where the next watch begins; "" where a list is needed."""
        self._first = kind

    async def run_forever(self) -> None:
        while True:
            try:
                await self._follow()
            except Expired as error:
                log.info("The watch is too old and is begun anew", why=str(error))
                self._version = ""
            except KindMissing:
                await self._missing()
            except ApiError as error:
                self.counts.errors += 1
                pause = self._backoff.next()
                log.warning("Cannot follow a kind", why=str(error), again_seconds=round(pause, 1))
                await asyncio.sleep(pause)
            except Exception:
                # A page or a line that is no JSON, say: this kind waits, and the others go on.
                self.counts.errors += 1
                self._version = ""
                pause = self._backoff.next()
                log.exception("Cannot read a kind", kind=self.kind.name, again_seconds=pause)
                await asyncio.sleep(pause)

    async def _follow(self) -> None:
        """List where needed, then watch until the stream ends."""
        if not self._version:
            self._version = await self._list()
        self.counts.watches += 1
        silent = True
        async for lines in self._reader.watch(self.kind.path, self._version):
            silent = False
            self._backoff.reset()
            changed = [
                (line.type == "DELETED", line.object) for line in lines if line.type != "BOOKMARK"
            ]
            self.counts.events += len(changed)
            if changed:
                await self._sink.changed(self.kind, changed)
            # Only now: what was not taken would be missing if the stream broke here.
            self._version = head_of(lines[-1].object).metadata.resource_version or self._version
        if silent:  # or a server that ends every watch at once would be asked in a circle
            await asyncio.sleep(self._backoff.next())

    async def _list(self) -> str:
        version, first = "", True
        async for page in self._reader.pages(self.kind.path):
            version = page.metadata.resource_version
            await self._sink.listed(self.kind, page.items or [], first=first)
            first = False
        self.counts.lists += 1
        self.counts.missing = False
        self._backoff.reset()
        await self._sink.list_ended(self.kind)
        return version

    async def _missing(self) -> None:
        self._version = ""
        if self.kind.instead is not None:
            self.kind = self.kind.instead
            return
        self.kind = self._first
        if not self.counts.missing:
            log.info("The server does not have this kind; done without", kind=self.kind.name)
        self.counts.missing = True
        self._sink.absent(self.kind)
        await asyncio.sleep(MISSING_SECONDS)
