"""The pool of parser processes of a service, each with one request at a time.

A process is started with the first large body, restarted if it died or was killed for a timeout,
and ended with the service. Requests wait in one line per token, and processor time is shared
between tokens (:mod:`coordinator.intake.fair_turns`).
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import orjson
import structlog

from coordinator.api.parser.frames import FRAME, LONGEST_FRAME, FrameKind, request_frame
from coordinator.api.parser.tasks import problem, text_error
from coordinator.errors import Problem
from coordinator.intake.fair_queue import LineFull
from coordinator.intake.fair_turns import FairTurns
from coordinator.intake.principal import CALLER
from shared.manifests.text.errors import TextError

PROCESSES = 2
"""Two, so that one tenant's large bodies leave a process to others."""
WAITING = 32
"""Maximum number of waiting requests: at up to half a second each, as long as clients wait."""
ANSWER_SECONDS = 20.0
"""The process is killed after this time. The worst body takes half a second of processor time."""
END_SECONDS = 2.0
PIECE = 1 << 18
"""Bytes written to a pipe before other tasks run."""
RETRY_SECONDS = 1.0
TRIES = 2
"""Maximum attempts: a process may die for a reason other than the body."""


log = structlog.get_logger(__name__)


class ParserLost(Exception):
    """The process died, or did not answer in time."""


class Parsers:
    """The pool of one event loop. :meth:`close` ends the processes."""

    def __init__(
        self,
        *,
        processes: int = PROCESSES,
        waiting: int = WAITING,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._turns = FairTurns(slots=processes, size=waiting)
        self._seconds = seconds
        self._idle: list[asyncio.subprocess.Process] = []
        self._all: set[asyncio.subprocess.Process] = set()
        self._killed: list[asyncio.subprocess.Process] = []
        """Killed processes that have not been reaped yet."""
        self._closed = False
        self.results: Counter[str] = Counter()
        """Requests answered, refused, or turned away as full; attempts lost with their process."""
        self.seconds = 0.0
        """Processor seconds that the processes reported, and the whole time of killed ones."""

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._all]

    async def ask(self, request: dict[str, Any], body: bytes) -> list[Any]:
        """Send a request and return the values of its answer. Raises Problem (429, 503, or the
        request's own) and TextError.

        Values are built part by part, and other tasks run in between.
        """
        caller = CALLER.get().name
        try:
            await self._turns.take(caller)
        except LineFull as error:
            self.results["full"] += 1
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{error} to be read; send this one again after the time in Retry-After",
                retry_after=RETRY_SECONDS,
            ) from error
        spent = Spent()
        try:
            return await self._try(request, body, spent)
        finally:
            self.seconds += spent.seconds
            self._turns.give_back(caller, spent.seconds)

    async def _try(self, request: dict[str, Any], body: bytes, spent: Spent) -> list[Any]:
        for _ in range(TRIES):
            try:
                values = await self._once(request, body, spent)
            except ParserLost as error:
                self.results["lost"] += 1
                log.warning("Lost a parser process", why=str(error), bytes=len(body))
                continue
            except (Problem, TextError):
                self.results["refused"] += 1
                raise
            self.results["answered"] += 1
            return values
        raise Problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "the process that reads large bodies was lost; send it again, or in smaller parts",
            retry_after=RETRY_SECONDS,
        )

    async def _once(self, request: dict[str, Any], body: bytes, spent: Spent) -> list[Any]:
        """One exchange with a process. Raises ParserLost.

        In that case, and on cancellation, the process is killed, since nobody would read the rest
        of its answer.
        """
        process = await self._process()
        whole = False
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._seconds):
                values = await self._exchange(process, request, body, spent)
            whole = True
            return values
        except TimeoutError as error:
            raise ParserLost(f"no answer within {self._seconds:g} s") from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise ParserLost(f"it ended: {type(error).__name__}") from error
        except (Problem, TextError):
            whole = True
            raise
        finally:
            # A process whose answer was not read to its end would give the rest of it to the next
            # request.
            if whole and not self._closed:
                self._idle.append(process)
            else:
                # Nobody tells what it used: it is charged as if it had worked all the time.
                spent.seconds += asyncio.get_running_loop().time() - began
                self._kill(process)

    async def _exchange(
        self,
        process: asyncio.subprocess.Process,
        request: dict[str, Any],
        body: bytes,
        spent: Spent,
    ) -> list[Any]:
        assert process.stdin is not None
        process.stdin.write(request_frame(request, body))
        for at in range(0, len(body), PIECE):
            process.stdin.write(body[at : at + PIECE])
            await process.stdin.drain()
        values: list[Any] = []
        wrong: TextError | Problem | None = None
        async for letter, content in _frames(process):
            match letter:
                case FrameKind.PART:
                    values += orjson.loads(content)
                    await asyncio.sleep(0)  # several parts may have arrived together
                case FrameKind.TEXT_ERROR:
                    wrong = text_error(orjson.loads(content))
                case FrameKind.PROBLEM:
                    wrong = problem(orjson.loads(content))
                case FrameKind.DONE:
                    spent.seconds += orjson.loads(content)
        try:
            if wrong is not None:
                raise wrong
        finally:
            wrong = None  # else its traceback and this frame hold each other, and the body
        return values

    async def _process(self) -> asyncio.subprocess.Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
            self._all.discard(process)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "coordinator.api.parser.process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=PIECE,
        )
        self._all.add(process)
        return process

    def _kill(self, process: asyncio.subprocess.Process) -> None:
        self._all.discard(process)
        self._killed = [killed for killed in self._killed if killed.returncode is None]
        if process.returncode is None:
            self._killed.append(process)
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    async def run_forever(self) -> None:
        """Wait forever; cancellation ends the processes."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.close()

    async def close(self) -> None:
        """End the processes by closing their input, and by force if they do not end."""
        self._closed = True
        for process in self._all:
            if process.stdin is not None:
                process.stdin.close()
        for process in list(self._all):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await process.wait()
            self._kill(process)
        for process in self._killed:
            await process.wait()


class Spent:
    """Processor seconds of one request over all attempts. A killed process counts as busy all the
    time."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


async def _frames(process: asyncio.subprocess.Process) -> AsyncIterator[tuple[FrameKind, bytes]]:
    """The frames up to the one that ends the answer. Raises IncompleteReadError, ParserLost."""
    assert process.stdout is not None
    while True:
        name, size = FRAME.unpack(await process.stdout.readexactly(FRAME.size))
        if size > LONGEST_FRAME:
            raise ParserLost(f"a frame of {size} bytes")
        letter = FrameKind(name)
        yield letter, await process.stdout.readexactly(size)
        if letter is FrameKind.DONE:
            return
