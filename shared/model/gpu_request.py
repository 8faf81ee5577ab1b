"""A pod's request for GPUs: whole devices, or parts of some by KAI's annotations.

A device has as many MiB as its node says. A share is an exact number of them, as KAI places it;
only what queues are charged with is rounded to hundredths. In the books of a node a device has
:data:`WHOLE` parts, whatever its memory, so that a label that changes moves nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal

from shared.codec.packed import Count, Finite, Packed
from shared.units.bounded_numbers import finite_number, whole_number

ONE = 1000
"""A device as an amount of its resource, and of what queues count."""
WHOLE = 10**10
"""Parts of a device. So fine that parts which are rounded down add up to more than a device exactly
where their MiB do: there are fewer pods on a device than parts in a MiB."""
FRACTION = "gpu-fraction"
MEMORY = "gpu-memory"
NUMBER = "gpu-fraction-num-devices"


class GpuRequest(Packed, frozen=True):
    """A request for the same part of each of ``devices`` distinct devices."""

    devices: Count
    part: Count = 0
    """Thousandths charged to queues for each device; 0 for a request by memory."""
    memory: Count = 0
    """MiB; 0 for a request by share."""
    portion: Finite = 0.0
    """The share as it is written; 0 for whole devices, and for a request by memory."""

    @property
    def is_whole(self) -> bool:
        """Whether it asks for whole devices."""
        return self.part == ONE and not self.portion

    def mebibytes(self, device_memory: int) -> int:
        """MiB that it takes of a device of so many. KAI multiplies in floating point and cuts."""
        share = self.portion or self.part / ONE
        return self.memory or max(int(share * device_memory), 1)

    def parts_of(self, device_memory: int) -> int:
        """The same in parts of the device; more than there are where it does not fit."""
        if self.is_whole:
            return WHOLE
        return self.mebibytes(device_memory) * WHOLE // device_memory

    def charge_of(self, device_memory: int) -> int:
        """Thousandths of each device that a queue is charged with for a task on such a device."""
        return self.part if not self.memory else _hundredths(self.memory, device_memory)

    def judged_at(self, device_memory: int) -> int:
        """Thousandths of each device that a queue must have left where such a device is tried: KAI
        asks for the exact MiB there, rounded up."""
        if self.is_whole:
            return ONE
        return _hundredths(self.mebibytes(device_memory), device_memory)


def _hundredths(mebibytes: int, device_memory: int) -> int:
    """The part of a device in thousandths, rounded up to a hundredth."""
    return -(-mebibytes * 100 // device_memory) * 10


def gpu_request(annotations: Mapping[str, str], whole: int) -> GpuRequest | None:
    """Read the GPU request in a pod's annotations, or else request ``whole`` devices; None for
    nothing. Unreadable annotations count as absent: KAI's policy refuses such pods earlier, and no
    other looks at these annotations to place a pod."""
    number = whole_number(annotations.get(NUMBER, "1")) or 1
    if FRACTION in annotations:
        portion = _share(annotations[FRACTION])
        return GpuRequest(number, part=_rounded(portion), portion=portion) if portion else None
    if MEMORY in annotations:
        memory = whole_number(annotations[MEMORY])
        return GpuRequest(number, memory=memory) if memory else None
    return GpuRequest(whole, part=ONE) if whole else None


def _rounded(portion: float) -> int:
    """A share in thousandths, rounded to a hundredth, half away from zero, as KAI charges it."""
    return int(Decimal(portion * 100).to_integral_value(ROUND_HALF_UP)) * 10


def _share(text: str) -> float:
    return max(finite_number(text) or 0.0, 0.0)
