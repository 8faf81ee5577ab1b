"""This process's connection to the Ray cluster; made anew when the head was lost and another came.

Ray itself joins a process once, and tells of a lost head only after a minute of silence. So we hold
a connection of our own to the head's port: the kernel closes it when the head dies, and where
nothing listens there any more, the head is gone for sure. What this process knows of the ledger
stays meanwhile: a coordinator that had to begin anew read 140,000 tasks before it placed any
(decision 0099).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TypeVar

import structlog

HEAD_SECONDS = 60.0
"""How long to wait for the Ray head."""

ANSWER_SECONDS = 2.0
"""Deadline for Ray to answer what needs no worker."""

CONNECT_SECONDS = 3.0
"""Deadline for the head's machine to take a connection: a packet that was lost is sent again after
one second."""

PAUSE_SECONDS = 0.1
"""Pause before the head is tried again, after it closed a connection or did not let us join."""

_T = TypeVar("_T")

log = structlog.get_logger(__name__)


class RayLost(Exception):
    """There is no Ray head at the address, and none came in time."""


class RayConnection:
    """Run :meth:`keep` beside what uses it."""

    def __init__(self, *, address: str, namespace: str) -> None:
        """``address``: HOST:PORT of the head. ``namespace``: of the actors that are created."""
        self._address = address
        self._namespace = namespace
        self.joins = 0
        """How often a head was joined."""
        self._joined = asyncio.Event()
        self._lost = self._future()

    # --- what can be asked --------------------------------------------------------------------

    @property
    def is_lost(self) -> bool:
        """Whether the head was lost and no other is joined yet."""
        return self._lost.done()

    async def until_joined(self) -> None:
        """Returns at once while joined; else :meth:`keep` joins, or raises where no head comes."""
        await self._joined.wait()

    @property
    def lost(self) -> asyncio.Future[None]:
        """Done when the head that is joined now is lost; to wait for beside an answer."""
        return self._lost

    async def answers(self, call: Callable[[], object]) -> bool:
        """Run a blocking call of Ray's; False where it does not answer. Without a head nothing is
        left to end."""
        from ray.exceptions import RayError

        if self.is_lost:
            return False
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await apart(call)
        except (TimeoutError, RayError) as error:
            log.warning("Ray does not answer", error=repr(error))
            return False
        return True

    # --- joined, lost, joined anew ------------------------------------------------------------

    async def keep(self, *, on_joined: Callable[[], Awaitable[None]]) -> None:
        """Join the Ray cluster, and join anew when its head was lost. Never returns; raises RayLost
        where no head listens for :data:`HEAD_SECONDS`. ``on_joined`` is awaited each time, before
        those who wait in :meth:`until_joined`."""
        while True:
            await self._join()
            self.joins += 1
            self._lost = self._future()
            await on_joined()
            self._joined.set()
            await self._until_lost()
            log.warning("The Ray head is lost; the next one is waited for", address=self._address)
            self.give_up()
            # Those who wait for an answer hear of it before Ray forgets what they wait for.
            await asyncio.sleep(0)
            await self._leave()

    def give_up(self) -> None:
        """Treat the head as lost: everything that waits for an answer ends."""
        self._joined.clear()
        if not self._lost.done():
            self._lost.set_result(None)

    @staticmethod
    def _future() -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        """Disconnect. Actors stay."""
        import ray

        await self.answers(ray.shutdown)

    async def _join(self) -> None:
        # Ray gives up at once on a head that does not listen yet.
        if not await apart(lambda: _listens(self._address, seconds=HEAD_SECONDS)):
            raise RayLost(f"no Ray head at {self._address} for {HEAD_SECONDS:g} s")
        head_gone = asyncio.ensure_future(self._until_head_gone())
        deadline = time.monotonic() + HEAD_SECONDS
        joining = asyncio.ensure_future(apart(lambda: self._attach(deadline)))
        try:
            async with asyncio.timeout(HEAD_SECONDS + ANSWER_SECONDS):
                await asyncio.wait((joining, head_gone), return_when=asyncio.FIRST_COMPLETED)
            if not joining.done():
                # Ray would wait for it in this thread for a minute, and cannot be told to stop:
                # the process has to begin anew.
                raise RayLost(f"the Ray head at {self._address} ended while it was joined")
            joining.result()
            _own_signal_handlers()
        except (ConnectionError, TimeoutError, RuntimeError) as error:
            raise RayLost(f"cannot join the Ray head at {self._address}: {error}") from error
        finally:
            head_gone.cancel()
            joining.cancel()

    async def _until_lost(self) -> None:
        """Returns when the head is gone, or when :meth:`give_up` was called."""
        head_gone = asyncio.ensure_future(self._until_head_gone())
        try:
            await asyncio.wait((head_gone, self._lost), return_when=asyncio.FIRST_COMPLETED)
        finally:
            head_gone.cancel()

    async def _leave(self) -> None:
        """Ray forgets the head, its actors, and all that was asked of them."""
        import ray

        try:
            async with asyncio.timeout(HEAD_SECONDS):
                await apart(ray.shutdown)
        except TimeoutError as error:
            raise RayLost(f"cannot leave the Ray head at {self._address}") from error

    def _attach(self, deadline: float) -> None:
        """Connect to the Ray cluster as a driver. Tries again until the deadline: the head listens
        before this machine's node is known to it."""
        # Ray would start a cluster of its own for the first call between two heads.
        os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
        import ray

        while True:
            try:
                ray.init(
                    address=self._address,
                    namespace=self._namespace,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
                return
            except (ConnectionError, RuntimeError):
                ray.shutdown()  # what it had begun
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_SECONDS)

    async def _until_head_gone(self) -> None:
        """Hold a connection to the head; returns when nothing listens there any more."""
        host, _, port = self._address.rpartition(":")
        if not port.isdecimal():  # an address that Ray alone understands
            await asyncio.Event().wait()
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection(host, int(port))
            except (OSError, TimeoutError):
                return
            try:
                with contextlib.suppress(ConnectionError):
                    while await reader.read(4096):
                        pass
            finally:
                writer.transport.abort()
            # Closed: its process has ended, or found that we say nothing.
            await asyncio.sleep(PAUSE_SECONDS)


def _own_signal_handlers() -> None:
    """Put back the signal handlers that Ray replaced while it was joined. Its own print a stack to
    the log at every SIGTERM, as of a crash, also where the process is only asked to stop."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.getsignal(number))
        signal.siginterrupt(number, False)


def _listens(address: str, *, seconds: float) -> bool:
    """Wait until something listens there. An address without a port is left to Ray."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + seconds
    while port.isdecimal():
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1.0):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


async def apart(call: Callable[[], _T]) -> _T:
    """Run a blocking call in a daemon thread that is not joined at exit: without a head, Ray's
    calls return only after a minute."""
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(future)
