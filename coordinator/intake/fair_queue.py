"""A fair queue of requests that wait to be stored: one line per queue and caller.

The line goes first whose next request is of the caller that has used the least time; lines of equal
callers take turns.

A line accepts a request only while it is shorter than the room that is left. A single line gets
half of the room, two get a third each; and a new one always finds room, however long the others
are. So the flood of one tenant fills only that tenant's line. What its requests cost is charged to
the caller: Lists of thousands of pods hold up the small requests of others for a part of one List,
and not for as many as the tenant has queues.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

from coordinator.intake.time_used import TimeUsed

T = TypeVar("T")


class LineFull(Exception):
    """This line has its share of the room; come back later."""


class FairQueue(Generic[T]):
    """``size``: requests that may wait in all lines together. Not thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lines: dict[str, deque[tuple[T, str]]] = {}
        """In the order of service; an empty line is not kept."""
        self._used = TimeUsed()
        self._waiting = 0
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()

    def __len__(self) -> int:
        return self._waiting

    def waiting(self, line: str) -> int:
        return len(self._lines.get(line, ()))

    def put_nowait(self, item: T, line: str, caller: str = "") -> None:
        """``caller``: whose time it will take. Raises LineFull."""
        waiting = self.waiting(line)
        # Against the room that is left, not a fixed share: one queue alone gets half, and a
        # newcomer always finds some, without anybody's counting the tenants (decision 0015).
        if waiting >= self._size - self._waiting:
            raise LineFull(f"{waiting} requests wait to be stored")
        self._lines.setdefault(line, deque()).append((item, caller))
        self._waiting += 1
        self._filled.set()

    async def put(self, item: T, line: str, caller: str = "") -> None:
        """Wait for room. For requests that must not be refused."""
        while True:
            try:
                self.put_nowait(item, line, caller)
            except LineFull:
                # Cleared, then awaited, with nothing in between: `get_nowait` cannot run before the
                # wait begins.
                self._drained.clear()
                await self._drained.wait()
            else:
                return

    async def get(self) -> T:
        """The next request; waits for one."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        return self.get_nowait()

    def get_nowait(self) -> T:
        """The oldest request of the line whose turn it is. Raises IndexError where none waits."""
        if not self._waiting:
            raise IndexError("no request waits")
        # Of equal ones the first: a dictionary keeps the order of entry, and a line that was served
        # enters anew behind the others.
        name = min(self._lines, key=lambda name: self._used.of(self._lines[name][0][1]))
        line = self._lines.pop(name)
        item, caller = line.popleft()
        self._used.serve(caller)
        if line:
            self._lines[name] = line  # behind all others
        self._waiting -= 1
        self._drained.set()
        return item

    def charge(self, caller: str, seconds: float) -> None:
        """A request of this caller took so much processor time."""
        self._used.charge(caller, seconds)
