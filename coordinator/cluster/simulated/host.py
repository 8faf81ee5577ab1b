"""The simulated cluster as a service: requests, answers, and time from a clock.

Everything that the cluster receives or does is in the history before anybody is told of it. Nothing
depends on a client staying connected: pods keep running, and their reports are kept until a client
takes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from coordinator.cluster.events import ClusterEvent, ReportedUsage
from coordinator.cluster.protocol import BindRequests, ClusterTimeout
from coordinator.cluster.simulated.calls import (
    bind_answer_columns,
    listed_columns,
    read_acknowledged,
    read_bind,
    read_delete,
    read_look,
    read_measured,
    read_reports_question,
    read_token,
    report_columns,
)
from coordinator.cluster.simulated.kubelets import Kubelets
from coordinator.cluster.simulated.wire import FrameProtocol

TICK = 0.002
"""Minimum seconds between two steps of the cluster's time; what is due meanwhile is one step."""

LONGEST_WAIT = 60.0


class EventSink(Protocol):
    position: str
    """Id of the last entry of the ledger's log that is in the history."""

    def cluster_events(self, events: list[ClusterEvent]) -> None:
        """Write the events; raises OSError if that fails."""
        ...

    def acknowledged(self, t: float, jobs: list[tuple[int, int]]) -> None:
        """Write that users were told that these jobs are stored: (first jid, number of jobs).
        Raises OSError."""
        ...

    def measured(self, t: float, measured: ReportedUsage) -> None:
        """Write how busy nodes are. Raises OSError."""
        ...


class ClusterHost:
    """Serves any number of connections. :meth:`run` advances time until it is cancelled."""

    def __init__(self, kubelets: Kubelets, history: EventSink, clock: Callable[[], float]) -> None:
        self._kubelets = kubelets
        self._history = history
        self._clock = clock
        self._wake = asyncio.Event()
        self._polls: list[_Poll] = []
        self._broken: Exception | None = None
        self._connections: set[_FramedConnection] = set()

    def connection(self) -> FrameProtocol:
        """A protocol for one accepted connection."""
        return _FramedConnection(self)

    async def run(self) -> None:
        """Advance the cluster's time. Raises the error of a request that cannot be recovered from
        (a full disk)."""
        stepped = self._clock()
        while self._broken is None:
            self._wake.clear()
            now = self._clock()
            due = self._kubelets.next_due()
            # In steps of TICK: many pods end at nearly the same time, and one step writes one batch
            # of reports.
            if due is not None and max(due, stepped + TICK) <= now:
                stepped = now
                self._kubelets.advance(now)
                self._settle()
            wait = None if due is None else max(due, stepped + TICK) - now
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()  # something was bound: its end may be the next
        raise self._broken

    def close(self) -> None:
        for connection in list(self._connections):
            if connection.transport is not None:
                connection.transport.close()

    def answer(
        self, connection: _FramedConnection, number: int, method: str, rest: list[Any]
    ) -> None:
        """Execute a request; the answer to ``reports`` may be sent later."""
        try:
            match method:
                case "bind":
                    connection.send([number, "", self._bind(read_bind(rest))])
                case "delete":
                    tasks, uids = read_delete(rest)
                    never = self._kubelets.delete(tasks, self._clock(), uids)
                    self._settle()
                    connection.send([number, "", never])
                case "reports":
                    self._poll(connection, number, *read_reports_question(rest))
                case "listing":
                    listing = self._kubelets.listing(read_token(rest))
                    connection.send([number, "", listed_columns(listing)])
                case "look":
                    listing = self._kubelets.look(read_look(rest))
                    connection.send([number, "", listed_columns(listing)])
                case "foreign":
                    connection.send([number, "", self._kubelets.foreign()])
                case "acknowledged":
                    self._history.acknowledged(self._clock(), read_acknowledged(rest))
                    connection.send([number, "", None])
                case "measured":
                    self._history.measured(self._clock(), read_measured(rest))
                    connection.send([number, "", None])
                case "position":
                    connection.send([number, "", self._history.position])
                case _:
                    connection.send([number, f"unknown method {method!r}", None])
        except ClusterTimeout:
            self._settle()  # a silent fault: it may have had its effect
        except (ValueError, TypeError, IndexError) as error:
            connection.send([number, f"{method}: {error}", None])

    def joined(self, connection: _FramedConnection) -> None:
        self._connections.add(connection)

    def left(self, connection: _FramedConnection) -> None:
        """A client disconnected; reports that it waited for are kept for the next one."""
        self._connections.discard(connection)
        for poll in [poll for poll in self._polls if poll.connection is connection]:
            self._end(poll)

    def fail(self, error: Exception) -> None:
        """End :meth:`run` with this error."""
        self._broken = error
        self._wake.set()

    def _bind(self, requests: BindRequests) -> list[Any]:
        now = self._clock()
        answers = self._kubelets.bind(requests, now)
        self._kubelets.advance(now)
        self._settle()
        return bind_answer_columns(answers)

    def _settle(self) -> None:
        """After every change: first write the history, then answer waiting requests for reports,
        then let :meth:`run` see what is due next."""
        self._history.cluster_events(self._kubelets.drain())
        for poll in list(self._polls):
            reports = self._kubelets.reports(poll.after)
            if reports.tasks:
                self._end(poll)
                poll.connection.send([poll.number, "", report_columns(reports)])
        self._wake.set()

    def _poll(self, connection: _FramedConnection, number: int, after: int, wait: float) -> None:
        reports = self._kubelets.reports(after)
        if reports.tasks or wait <= 0:
            connection.send([number, "", report_columns(reports)])
            return
        poll = _Poll(connection, number, after)
        loop = asyncio.get_running_loop()
        poll.timer = loop.call_later(min(wait, LONGEST_WAIT), self._expire, poll)
        self._polls.append(poll)

    def _expire(self, poll: _Poll) -> None:
        self._polls.remove(poll)
        poll.connection.send([poll.number, "", report_columns(self._kubelets.reports(poll.after))])

    def _end(self, poll: _Poll) -> None:
        self._polls.remove(poll)
        if poll.timer is not None:
            poll.timer.cancel()


class _Poll:
    """A request for reports that waits for the first one."""

    __slots__ = ("after", "connection", "number", "timer")

    def __init__(self, connection: _FramedConnection, number: int, after: int) -> None:
        self.connection = connection
        self.number = number
        self.after = after
        self.timer: asyncio.TimerHandle | None = None


class _FramedConnection(FrameProtocol):
    """The connection of a client. Reading pauses while the client does not read its answers."""

    def __init__(self, host: ClusterHost) -> None:
        super().__init__()
        self._host = host

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._host.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.left(self)

    def message_received(self, message: Any) -> None:
        match message:
            case [int(number), str(method), list(rest)]:
                try:
                    self._host.answer(self, number, method, rest)
                except OSError as error:  # the history cannot be written: stop, loudly
                    self._host.fail(error)
            case _:
                self._drop()

    def pause_writing(self) -> None:
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.transport is not None:
            self.transport.resume_reading()
