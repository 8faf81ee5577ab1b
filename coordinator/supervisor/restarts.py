"""Starts again what dies, at its old address, and gives up on what dies again and again.

::

    async with Supervisor(settings) as parts:
        await Keeper(parts, report=print).run()      # never returns; raises ChildDied

The workers are not looked after here: the coordinator that leads replaces them. Nor is a process
that hangs and does not die: the lease is there for that.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coordinator.supervisor.child_process import DEPOSED, ChildDied
from coordinator.supervisor.supervisor import COORDINATORS, LEDGER, START_SECONDS, Supervisor
from shared.ledger.errors import ServerFailed

WINDOW_SECONDS = 60.0
DEATHS = 5
"""This many deaths of one role within :data:`WINDOW_SECONDS` end everything: it cannot run here."""

PAUSES = (0.0, 0.1, 0.5, 1.0)
"""Seconds before the first, second, ... restart within the window. The first is immediate, since a
process killed from outside will run again at once."""

ROOM = 8 << 20
"""Bytes without which the ledger's server is not started: enough for the largest batch, so that it
does not start only to end with the first one."""
ROOM_SECONDS = 0.5
"""Interval of looks for room."""
_POLL = 0.02


@dataclass(frozen=True, slots=True)
class ProcessDied:
    role: str
    why: str

    def __str__(self) -> str:
        return f"{self.why}; it is started again"


@dataclass(frozen=True, slots=True)
class ProcessRecovered:
    role: str
    seconds: float
    """Seconds from the detection of its end until it was ready again."""

    def __str__(self) -> str:
        return f"the {self.role} process is back after {self.seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class DiskFull:
    """The ledger's server cannot run for want of room on its disk."""

    role: str
    place: Path

    def __str__(self) -> str:
        return (
            f"the disk of {self.place} is full: the {self.role} process waits until "
            f"{ROOM >> 20} MiB are free there, and nothing is acknowledged meanwhile"
        )


ProcessReport = ProcessDied | ProcessRecovered | DiskFull


class Deaths:
    """Counts the deaths of one role within the window. Pure: time is an argument."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    def pause(self, now: float) -> float | None:
        """Record a death; returns the seconds to wait before a restart, None to give up."""
        self._times.append(now)
        while self._times[0] <= now - WINDOW_SECONDS:
            self._times.popleft()
        count = len(self._times)
        return None if count >= DEATHS else PAUSES[min(count, len(PAUSES)) - 1]


class Keeper:
    def __init__(
        self, parts: Supervisor, *, report: Callable[[ProcessReport], None] | None = None
    ) -> None:
        self._parts = parts
        self._report = report or (lambda event: None)
        self._deaths: dict[str, Deaths] = {}
        self._under_way: set[str] = set()

    async def run(self) -> None:
        """Never returns. Raises ChildDied (in a group) for a role that keeps dying."""
        async with asyncio.TaskGroup() as group:
            while True:
                for role, died in self._parts.dead().items():
                    if role not in self._under_way:
                        self._under_way.add(role)
                        group.create_task(self._bring_back(role, died))
                await asyncio.sleep(_POLL)

    async def _bring_back(self, role: str, died: ChildDied) -> None:
        noticed = time.monotonic()
        try:
            await self._start_again(role, died)
            while not await self._up(role):
                await self._start_again(role, self._how(role))
        finally:
            self._under_way.discard(role)
        self._report(ProcessRecovered(role, time.monotonic() - noticed))

    async def _start_again(self, role: str, died: ChildDied) -> None:
        """Restart a role. Raises ChildDied if it died too often."""
        if role == LEDGER:
            await self._wait_for_room(role)
        pause: float | None = PAUSES[1]
        if role not in COORDINATORS or died.code != DEPOSED:  # which is how it should end
            pause = self._deaths.setdefault(role, Deaths()).pause(time.monotonic())
        if pause is None:
            raise died.often(DEATHS, WINDOW_SECONDS)
        self._report(ProcessDied(role, died.how))
        await asyncio.sleep(pause)
        try:
            await self._parts.start(role)
        except ServerFailed as error:  # it counts as another death
            self._report(ProcessDied(role, f"the ledger's server did not start: {error}"))

    async def _wait_for_room(self, role: str) -> None:
        """Wait while the disk is full, however long: no fault of the server, which must not be
        given up for it."""
        place = self._parts.settings.data_dir
        if shutil.disk_usage(place).free >= ROOM:
            return
        self._report(DiskFull(role, place))
        while shutil.disk_usage(place).free < ROOM:  # noqa: ASYNC110 - nobody tells of a disk
            await asyncio.sleep(ROOM_SECONDS)
        self._deaths.pop(role, None)

    async def _up(self, role: str) -> bool:
        """Wait until it is ready; False if it died or took too long."""
        deadline = time.monotonic() + START_SECONDS[role]
        while not await self._parts.answers(role):
            if role in self._parts.dead() or time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL)
        return role not in self._parts.dead()

    def _how(self, role: str) -> ChildDied:
        return self._parts.dead().get(role) or ChildDied(role, None, self._parts.log(role))
