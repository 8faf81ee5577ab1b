"""A door before the ledger's server that loses questions and answers, by seed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

PIECE = 1 << 16


class Cutter:
    """Passes bytes on between a client and the server; now and then it cuts the connection instead.

    ``answers``, ``questions``: probability for each piece of that kind. A question whose answer is
    cut has reached the server: what it did is unknown to who asked."""

    def __init__(self, server: Path, *, seed: int) -> None:
        self.answers = 0.0
        self.questions = 0.0
        self.cut_answers = 0
        self.cut_questions = 0
        self._server = server
        self._random = random.Random(seed)
        self._links: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._accept, path)
        try:
            yield
        finally:
            server.close()
            for link in list(self._links):
                link.cancel()
            await asyncio.gather(*self._links, return_exceptions=True)

    async def _accept(self, inside: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        try:
            await self._link(inside, out)
        except (OSError, asyncio.CancelledError):
            pass  # one of the two has gone, or the test is over
        finally:
            out.close()
            self._links.discard(link)

    async def _link(self, asked: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        answered, on = await asyncio.open_unix_connection(self._server)
        pumps = [
            asyncio.create_task(self._pump(asked, on, question=True)),
            asyncio.create_task(self._pump(answered, back, question=False)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            for writer in (on, back):  # both before anything that can be cancelled again
                writer.close()
            await asyncio.gather(*pumps, return_exceptions=True)
            for writer in (on, back):
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, question: bool
    ) -> None:
        while piece := await source.read(PIECE):
            if self._random.random() < (self.questions if question else self.answers):
                self.cut_questions += question
                self.cut_answers += not question
                return
            sink.write(piece)
            await sink.drain()
