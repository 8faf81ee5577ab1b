"""A pod's GPU request: whole devices, or parts of some by KAI's annotations.

A device has a memory of a thousand parts. A request by GPU memory comes to a part of it that
depends on the node.
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.codec.packed import Count, Packed
from shared.units.bounded_numbers import decimal_number, whole_number

WHOLE = 1000
"""Parts of a device."""
STEP = 10
"""Shares are hundredths of a device."""
FRACTION = "gpu-fraction"
MEMORY = "gpu-memory"
NUMBER = "gpu-fraction-num-devices"


class GpuRequest(Packed, frozen=True):
    """Request for a share of each of ``devices`` distinct devices."""

    devices: Count
    part: Count = 0
    """Thousandths; 0 for a request by memory."""
    memory: Count = 0
    """MiB; 0 for a request by share."""

    def part_of(self, device_memory: int) -> int:
        """The share of a device of this memory (MiB), rounded up to a hundredth."""
        if not self.memory:
            return self.part
        return -(-self.memory * 100 // device_memory) * STEP


def gpu_request(annotations: Mapping[str, str], whole: int) -> GpuRequest | None:
    """Read the GPU request in a pod's annotations, or else request ``whole`` devices; None for
    nothing. Unreadable annotations count as absent: KAI's policy refuses such pods earlier, and no
    other looks at these annotations to place a pod."""
    number = whole_number(annotations.get(NUMBER, "1")) or 1
    if FRACTION in annotations:
        part = _share(annotations[FRACTION])
        return GpuRequest(number, part=part) if part else None
    if MEMORY in annotations:
        memory = whole_number(annotations[MEMORY])
        return GpuRequest(number, memory=memory) if memory else None
    return GpuRequest(whole, part=WHOLE) if whole else None


def _share(text: str) -> int:
    return round((decimal_number(text) or 0) * 100) * STEP
