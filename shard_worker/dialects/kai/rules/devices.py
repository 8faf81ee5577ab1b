"""Shares of GPUs: what a pod asks for, and which devices of a node it takes.

A device has a memory of a thousand parts. A whole GPU takes all of one that nobody is on; a share
takes part of a device in use, or opens one. What a device has is told by two amounts: what is free
now, and what will be once the leaving have left and the promised have come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

WHOLE = 1000
"""Parts of a device."""
STEP = 10
"""Shares are hundredths of a device."""
FRACTION = "gpu-fraction"
MEMORY = "gpu-memory"
NUMBER = "gpu-fraction-num-devices"


class GpuRequest(NamedTuple):
    """What a pod asks of each of ``devices`` distinct devices."""

    devices: int
    part: int = 0
    """Thousandths; 0 for a request by memory."""
    memory: int = 0
    """MiB; 0 for a request by share."""

    def part_of(self, device_memory: int) -> int:
        """The share of a device of this memory (MiB), rounded up to a hundredth."""
        if not self.memory:
            return self.part
        return -(-self.memory * 100 // device_memory) * STEP


def gpu_request(annotations: Mapping[str, str], whole: int) -> GpuRequest | None:
    """What a pod's annotations ask for, or else so many whole devices; None for nothing. What
    cannot be read counts as absent: such pods are refused before they come here."""
    number = _whole_number(annotations.get(NUMBER, "1")) or 1
    if FRACTION in annotations:
        part = _share(annotations[FRACTION])
        return GpuRequest(number, part=part) if part else None
    if MEMORY in annotations:
        memory = _whole_number(annotations[MEMORY])
        return GpuRequest(number, memory=memory) if memory else None
    return GpuRequest(whole, part=WHOLE) if whole else None


def _share(text: str) -> int:
    try:
        return round(Fraction(text) * 100) * STEP
    except (ValueError, ZeroDivisionError):
        return 0


def _whole_number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


class DeviceRoom(NamedTuple):
    """What is left of one device."""

    idle: int
    future: int

    @property
    def is_shared(self) -> bool:
        """Whether somebody is on it who stays, or will be."""
        return self.future < WHOLE

    def takes(self, part: int) -> bool:
        """Whether it has room for a share, now or once who leaves has left."""
        return self.future >= part

    def takes_now(self, part: int) -> bool:
        """A device that is only promised has no room before its promise is kept."""
        only_promised = self.is_shared and self.idle >= WHOLE
        return self.takes(part) and self.idle >= part and not only_promised


class DeviceChoice(NamedTuple):
    devices: tuple[int, ...]
    now: bool
    """Whether all of them have the room now; else it is a promise."""


Score = Callable[[int | None], float]
"""(used parts of a shared device, None for a whole one) -> the higher is taken first."""


def choose(
    rooms: Sequence[DeviceRoom], part: int, number: int, score: Score
) -> DeviceChoice | None:
    """The devices of a node for one task; None where there are too few. Of equal score those in use
    first, then those with room now, then by index."""
    fitting = [at for at, room in enumerate(rooms) if room.takes(part)]
    if len(fitting) < number:
        return None

    def order(at: int) -> tuple[float, bool, bool, int]:
        room = rooms[at]
        used = WHOLE - room.future if room.is_shared else None
        return -score(used), not room.is_shared, not room.takes_now(part), at

    taken = sorted(fitting, key=order)[:number]
    return DeviceChoice(tuple(sorted(taken)), all(rooms[at].takes_now(part) for at in taken))
