"""The BindRequests of the cluster, as their watch and our own writes tell them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec
import structlog

from coordinator.cluster.kubernetes.api.objects import version_number
from coordinator.cluster.kubernetes.api.reflector import WatchedKind
from coordinator.cluster.kubernetes.bind_requests.objects import BindPhase, BindRequest, request_of
from coordinator.cluster.kubernetes.state.pods import PodKey, PodRow

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class KnownRequest:
    request: BindRequest
    since: float
    """When it was first seen here; by our clock, since the server's is another machine's."""
    looked: float = 0.0
    """When the API server was last asked about it; 0: never."""
    failed: float = 0.0
    """When its failure was first seen; 0: it has not failed."""


class BindRequestBook:
    """See :class:`~coordinator.cluster.kubernetes.api.reflector.ObjectSink`."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.complete = False
        """Whether they were listed once."""
        self.missing = False
        """Whether the server does not have the kind."""
        self._clock = clock
        self._requests: dict[PodKey, KnownRequest] = {}
        self._listing: set[PodKey] | None = None
        self._waiters: dict[PodKey, asyncio.Event] = {}
        self._asked: dict[PodKey, float] = {}
        """When a bind that has no answer yet was asked for last."""
        self.unread = 0
        """Requests that could not be read."""

    def __iter__(self) -> Iterator[KnownRequest]:
        return iter(self._requests.values())

    def of(self, key: PodKey) -> KnownRequest | None:
        return self._requests.get(key)

    def take(self, request: BindRequest) -> None:
        """A request as it is now."""
        request_state = self._requests.get(request.key)
        if request_state is None or request_state.request.metadata.uid != request.metadata.uid:
            request_state = self._requests[request.key] = KnownRequest(request, self._clock())
        elif _version(request) >= _version(
            request_state.request
        ):  # our own write may be ahead of its watch
            request_state.request = request
        if request_state.request.phase is not BindPhase.FAILED:
            request_state.failed = 0.0
        elif not request_state.failed:
            request_state.failed = self._clock()
        self.wake(request.key)

    def drop(self, key: PodKey, uid: str) -> None:
        """A request that is gone."""
        request_state = self._requests.get(key)
        if request_state is not None and request_state.request.metadata.uid == uid:
            del self._requests[key]
            self.wake(key)

    # --- who waits --------------------------------------------------------------------------------

    def note(self, key: PodKey, *, is_open: bool) -> None:
        """A bind of the pod was asked for, and has an answer, or has none yet."""
        if is_open:
            self._asked[key] = self._clock()
        else:
            self._asked.pop(key, None)

    def asked_at(self, key: PodKey) -> float:
        """When a bind of the pod that is open was asked for last; 0: none is."""
        return self._asked.get(key, 0.0)

    def asked(self) -> list[KnownRequest]:
        """The requests of binds that are open."""
        return [request_state for key in self._asked if (request_state := self.of(key)) is not None]

    def wake(self, key: PodKey) -> None:
        """Something is new of the pod or of its request."""
        if (event := self._waiters.get(key)) is not None:
            event.set()

    def is_awaited(self, key: PodKey) -> bool:
        """Whether somebody waits for news of the pod."""
        return key in self._waiters

    @contextlib.contextmanager
    def waiting(self, keys: Iterable[PodKey]) -> Iterator[asyncio.Event]:
        """An event that is set once something is new of one of these pods."""
        event = asyncio.Event()
        waiters = dict.fromkeys(keys, event)
        self._waiters |= waiters
        try:
            yield event
        finally:
            for key in waiters:
                if self._waiters.get(key) is event:
                    del self._waiters[key]

    # --- what the watch says ----------------------------------------------------------------------

    def absent(self, kind: WatchedKind) -> None:
        self.missing, self.complete = True, False

    async def listed(self, kind: WatchedKind, items: list[msgspec.Raw], *, first: bool) -> None:
        if first or self._listing is None:
            self._listing = set()
        for item in items:
            if (request := self._read(item)) is not None:
                self._listing.add(request.key)
                self.take(request)

    def _read(self, raw: msgspec.Raw) -> BindRequest | None:
        """None for a request that is not as its definition says; the binder sees to it."""
        try:
            return request_of(raw)
        except Exception as error:
            self.unread += 1
            log.warning("A BindRequest cannot be read and is left out", why=str(error))
            return None

    async def list_ended(self, kind: WatchedKind) -> None:
        listed, self._listing = self._listing or set(), None
        for key in self._requests.keys() - listed:
            del self._requests[key]
            self.wake(key)
        self.complete, self.missing = True, False

    async def changed(self, kind: WatchedKind, item: list[tuple[bool, msgspec.Raw]]) -> None:
        for deleted, raw in item:
            request = self._read(raw)
            if request is None:
                continue
            if deleted:
                self.drop(request.key, request.metadata.uid)
            else:
                self.take(request)


def _version(request: BindRequest) -> int:
    return version_number(request.metadata.resource_version)


class PodOutcomes:
    """Tells of pods that were bound or are gone; see
    :class:`~coordinator.cluster.kubernetes.state.mirror.MirrorObserver`."""

    def __init__(self, book: BindRequestBook) -> None:
        self._book = book

    def arrived(self, row: PodRow, now: float) -> None:
        """Nobody waits for that."""

    def placed(self, row: PodRow, now: float) -> None:
        self._book.wake(row.key)

    def ended(self, row: PodRow, now: float) -> None:
        self._book.wake(row.key)

    def not_understood(self, pod: str, why: str) -> None:
        """Its event says so."""
