"""The C library's heap, from which buffers and objects above 512 bytes come."""

from __future__ import annotations

import ctypes
import platform

LARGE_BYTES = 1 << 20
_M_MMAP_THRESHOLD = -3
"""``mallopt(3)``"""


def map_large_buffers() -> None:
    """Have glibc map each large buffer by itself, so that its end gives the memory back.

    glibc does so at first, and raises the bound to the largest buffer that was freed, up to 32 MiB.
    Later ones are parts of the heap, where one small block that stays keeps the hole before it: an
    idle coordinator that had finished and deleted 10,000 jobs grew by 20 MB within two minutes.
    Other C libraries have no such bound.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
