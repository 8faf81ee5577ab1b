"""Frames: the picture of the page, made once for all open pages.

Nobody keeps a queue for a page. A page asks for what came after the frame that it has: the deltas
since, if they are still here, or everything anew. So a slow reader costs nothing while it is slow,
and is reset when it comes back.

While no page is open nothing is computed, and nothing is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from coordinator.api.web.picture import PagePicture
from coordinator.api.web.table import FrameTable, Row, TableDelta
from shared.slices import Steps, one_slice

T = TypeVar("T")
Json = dict[str, Any]
Reach = frozenset[str] | None
"""The namespaces that a caller may read; None: all."""

INTERVAL_SECONDS = 0.25
"""Least time between two frames."""
MANY_NODES = 20_000
MANY_INTERVAL_SECONDS = 1.0
"""The same where there are more nodes than that: nobody reads faster."""
PROCESSOR_SHARE = 0.04
"""Frames take at most this part of a core, but for :data:`LONGEST_INTERVAL_SECONDS`."""
LONGEST_INTERVAL_SECONDS = 3.0
"""A lost worker is on the page within 5 s, however large the cluster is."""
KEPT_DELTAS = 8
"""A page that is further behind gets everything anew, which is less by then."""
ROWS_A_PIECE = 500
"""Rows that are rendered before others may run: 1 us each."""


@dataclass(frozen=True, slots=True)
class FrameMessage:
    """One server-sent event; ``number`` is that of the frame that the reader has afterwards."""

    number: int
    parts: list[bytes]


@dataclass(slots=True)
class _Delta:
    number: int
    head: Json
    tables: Mapping[str, TableDelta]
    rendered: dict[Reach, bytes] = field(default_factory=dict)


class Frames:
    def __init__(self, picture: PagePicture) -> None:
        self._picture = picture
        self._number = 0
        """Number of the last frame. It never falls, so that a page which comes back is not answered
        with another frame's deltas."""
        self._deltas: deque[_Delta] = deque(maxlen=KEPT_DELTAS)
        self._snapshots: dict[Reach, list[bytes]] = {}
        """Rendered pictures of the last frame."""
        self._lock = asyncio.Lock()
        """Held while the picture is read or rendered, so that a snapshot is one frame's."""
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._open = 0
        self._head: Json = {}
        self._spent = 0.0
        """Processor time of the frame that is being made."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """A page is open meanwhile."""
        self._open += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self._wanted.clear()

    async def after(
        self, number: int | None, reach: Reach, *, seconds: float
    ) -> FrameMessage | None:
        """The message for a page that has the frame ``number`` (None: it has nothing): all later
        deltas, or a snapshot. None if nothing changes within ``seconds``."""
        if not self._deltas or self._deltas[-1].number == number:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
        if not self._deltas or self._number == number:
            return None
        if number is not None and (missing := self._since(number)):
            return FrameMessage(self._number, [self._rendered(delta, reach) for delta in missing])
        async with self._lock:
            if reach not in self._snapshots:
                self._snapshots[reach] = await self._run(self._render_all(reach))
            return FrameMessage(self._number, self._snapshots[reach])

    def _since(self, number: int) -> list[_Delta]:
        """The deltas after a frame; none where one of them is gone."""
        missing = [delta for delta in self._deltas if delta.number > number]
        return missing if missing and missing[0].number == number + 1 else []

    # --- making -----------------------------------------------------------------------------------

    async def run_forever(self) -> None:
        """Make frames while a page is open."""
        while True:
            await self._wanted.wait()
            while self._open:
                self._spent = 0.0
                await self._make()
                await asyncio.sleep(self._pause())
            async with self._lock:
                self._picture.clear()
                self._deltas.clear()
                self._snapshots.clear()

    def _pause(self) -> float:
        many = len(self._picture.nodes.rows) > MANY_NODES
        least = MANY_INTERVAL_SECONDS if many else INTERVAL_SECONDS
        return max(least, min(LONGEST_INTERVAL_SECONDS, self._spent / PROCESSOR_SHARE))

    async def _make(self) -> None:
        """Read the picture; if anything changed, it is the next frame."""
        async with self._lock:
            before, picture = self._picture.values, self._picture
            await picture.refresh()
            await self._run(picture.read())
            values = {k: v for k, v in picture.values.items() if before.get(k) != v}
            tables = {name: table.take_delta() for name, table in picture.tables.items()}
            if not values and not any(delta.rows or delta.gone for delta in tables.values()):
                return
            self._number += 1
            self._head = {
                "number": self._number,
                "resourceVersion": str(picture.version),
                "at": time.time(),
            }
            self._snapshots.clear()
            self._deltas.append(_Delta(self._number, self._head | {"values": values}, tables))
        self._changed.set()
        self._changed = asyncio.Event()

    async def _run(self, steps: Steps[T]) -> T:
        """Run in slices, and count the processor time."""
        while True:
            began = time.thread_time()
            ended = one_slice(steps)
            self._spent += time.thread_time() - began
            if ended is not None:
                return ended.result
            await asyncio.sleep(0)

    # --- rendering --------------------------------------------------------------------------------

    def _rendered(self, delta: _Delta, reach: Reach) -> bytes:
        if reach not in delta.rendered:
            tables = {
                name: {
                    "rows": _within(changed.rows, self._picture.tables[name], reach),
                    "gone": changed.gone,
                }
                for name, changed in delta.tables.items()
                if changed.rows or changed.gone
            }
            body = orjson.dumps(delta.head | {"tables": tables})
            delta.rendered[reach] = b"event: delta\ndata: %b\n\n" % body
        return delta.rendered[reach]

    def _render_all(self, reach: Reach) -> Steps[list[bytes]]:
        head = orjson.dumps(self._head | {"values": self._picture.values})
        parts = [b"event: snapshot\ndata: ", head[:-1], b',"tables":{']
        for at, (name, table) in enumerate(self._picture.tables.items()):
            columns = orjson.dumps(table.columns)
            parts.append(
                b'%b"%b":{"columns":%b,"rows":[' % (b"," * bool(at), name.encode(), columns)
            )
            rows = list(table.rows.values())
            written = False
            for start in range(0, len(rows), ROWS_A_PIECE):
                yield
                piece = _within(rows[start : start + ROWS_A_PIECE], table, reach)
                if piece:
                    parts.append(b"," * written + orjson.dumps(piece)[1:-1])
                    written = True
            parts.append(b"]}")
        return [*parts, b"}}\n\n"]


def _within(rows: list[Row] | Any, table: FrameTable, reach: Reach) -> list[Row]:
    """The rows that a caller may see."""
    at = table.namespace
    if reach is None or at is None:
        return list(rows)
    return [row for row in rows if row[at] in reach]
