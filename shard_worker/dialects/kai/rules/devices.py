"""Shares of GPUs: what a pod asks for, and which devices of a node it takes.

A device has :data:`~shared.model.gpu_request.WHOLE` parts. A whole GPU takes all of one that nobody
is on; a share takes part of a device in use, or opens one. Two amounts say what a device has: what
is free now, and what will be once the leaving have left and the promised have come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shared.model.gpu_request import WHOLE


class DeviceRoom(NamedTuple):
    """Free share of one device, in thousandths."""

    idle: int
    future: int

    @property
    def is_shared(self) -> bool:
        """Whether somebody is on it who stays, or will be."""
        return self.future < WHOLE

    def takes(self, part: int) -> bool:
        """Whether it has room for a share, now or once who leaves has left."""
        return self.future >= part

    def takes_now(self, part: int, *, promised: bool = False) -> bool:
        """A device that is only promised has no room before its promise is kept. ``promised``: but
        for a task that has a promise there itself. Two that were promised parts of one device would
        wait for each other for ever."""
        only_promised = self.is_shared and self.idle >= WHOLE and not promised
        return self.takes(part) and self.idle >= part and not only_promised


class DeviceChoice(NamedTuple):
    devices: tuple[int, ...]
    now: bool
    """Whether all of them have the room now; else it is a promise."""


Score = Callable[[int | None], float]
"""(used parts of a shared device, None for a whole one) -> the higher is taken first."""


def choose(
    rooms: Sequence[DeviceRoom], part: int, number: int, score: Score, *, promised: bool = False
) -> DeviceChoice | None:
    """The devices of a node for one task; None where there are too few. Of equal score those in use
    first, then those with room now, then by index. ``promised``: the task has the promise of a
    place on the node."""
    fitting = [at for at, room in enumerate(rooms) if room.takes(part)]
    if len(fitting) < number:
        return None

    def order(at: int) -> tuple[float, bool, bool, int]:
        room = rooms[at]
        used = WHOLE - room.future if room.is_shared else None
        return -score(used), not room.is_shared, not room.takes_now(part, promised=promised), at

    chosen = sorted(fitting, key=order)[:number]
    now = all(rooms[at].takes_now(part, promised=promised) for at in chosen)
    return DeviceChoice(tuple(sorted(chosen)), now)
