"""The cluster driver over a unix socket, used by the binder.

After a lost connection the next call reconnects. Calls open on the old one raise ClusterTimeout:
their effect is unknown, and a retry is safe by the contract of the calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from coordinator.cluster.events import ReportedUsage
from coordinator.cluster.protocol import (
    BindAnswers,
    BindRequests,
    ClusterTimeout,
    Foreign,
    Listed,
    Reports,
    StopAnswers,
)
from coordinator.cluster.simulated.calls import (
    bind_columns,
    read_bind_answers,
    read_deleted,
    read_foreign,
    read_listed,
    read_nothing,
    read_position,
    read_reports,
)
from coordinator.cluster.simulated.wire import FrameProtocol
from shared.codec.checked import Malformed

T = TypeVar("T")

IN_FLIGHT = 64
"""Maximum requests that wait for answers; further ones queue here."""


class ClusterError(Exception):
    """The cluster process refused the request: a bug in the caller, not a network fault."""


class SocketCluster:
    """See :class:`coordinator.cluster.protocol.ClusterDriver`. ``timeout`` seconds per answer."""

    def __init__(self, path: str, *, timeout: float = 5.0) -> None:
        self._path = path
        self._timeout = timeout
        self._connection: _ServerConnection | None = None
        self._connecting = asyncio.Lock()
        self._slots = asyncio.Semaphore(IN_FLIGHT)

    async def bind(self, requests: BindRequests) -> BindAnswers:
        return await self._ask(
            "bind",
            bind_columns(requests),
            self._timeout,
            lambda columns: read_bind_answers(columns, len(requests.tasks)),
        )

    async def delete(self, tasks: list[str], uids: list[str] | None = None) -> StopAnswers:
        never = await self._ask("delete", [tasks, uids], self._timeout, read_deleted)
        return StopAnswers(never)

    async def listing(self, token: str) -> Listed:
        return await self._ask("listing", [token], self._timeout, read_listed)

    async def look(self, tasks: list[str]) -> Listed:
        return await self._ask("look", [tasks], self._timeout, read_listed)

    async def foreign(self) -> Foreign:
        return await self._ask("foreign", [], self._timeout, read_foreign)

    async def reports(self, *, after: int, wait: float) -> Reports:
        return await self._ask("reports", [after, wait], wait + self._timeout, read_reports)

    async def history_position(self) -> str:
        """How far the history has followed the ledger's log; later entries must not be trimmed."""
        return await self._ask("position", [], self._timeout, read_position)

    async def acknowledged(self, jobs: list[tuple[int, int]]) -> None:
        await self._ask("acknowledged", [jobs], self._timeout, read_nothing)

    async def measured(self, measured: ReportedUsage) -> None:
        figures = [measured.usage, measured.begins, measured.ends]
        await self._ask("measured", figures, self._timeout, read_nothing)

    async def ready(self, *, within: float) -> None:
        """Wait until the process answers; raises ClusterTimeout after ``within`` seconds."""
        deadline = asyncio.get_running_loop().time() + within
        while True:
            try:
                await self.history_position()
                return
            except ClusterTimeout:
                if asyncio.get_running_loop().time() >= deadline:
                    raise
                await asyncio.sleep(0.02)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.end()
            self._connection = None

    async def _ask(
        self, method: str, arguments: list[Any], timeout: float, read: Callable[[Any], T]
    ) -> T:
        try:
            # The wait for a slot is within the deadline: a caller's patience does not depend on how
            # many others ask.
            async with asyncio.timeout(timeout), self._slots:
                connection = await self._connected()
                return read(await connection.ask(method, arguments))
        except Malformed as error:
            raise ClusterError(f"an answer that is not understood: {error}") from error
        except TimeoutError:
            message = f"the cluster did not answer {method!r} within {timeout:g} s"
            raise ClusterTimeout(message) from None

    async def _connected(self) -> _ServerConnection:
        # One connection for all who ask at once after a loss, not one for each.
        async with self._connecting:
            if self._connection is None or self._connection.lost:
                loop = asyncio.get_running_loop()
                try:
                    _, self._connection = await loop.create_unix_connection(
                        _ServerConnection, self._path
                    )
                except OSError as error:
                    raise ClusterTimeout(f"no cluster at socket {self._path}: {error}") from error
            return self._connection


class _ServerConnection(FrameProtocol):
    """A connection and its unanswered requests."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = False
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    async def ask(self, method: str, arguments: list[Any]) -> Any:
        self._number += 1
        number = self._number
        answer = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self.send([number, method, arguments])
            return await answer
        finally:
            self._waiting.pop(number, None)

    def message_received(self, message: Any) -> None:
        match message:
            case [int(number), str(error), result]:
                self._take(number, error, result)
            case _:
                self._drop()

    def _take(self, number: int, error: str, result: Any) -> None:
        answer = self._waiting.get(number)
        if answer is None or answer.done():  # asked by someone who gave up waiting
            return
        if error:
            answer.set_exception(ClusterError(error))
        else:
            answer.set_result(result)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ClusterTimeout("the connection to the cluster was lost"))

    def end(self) -> None:
        self.lost = True
        if self.transport is not None:
            self.transport.close()
