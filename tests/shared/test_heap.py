"""Memory that large buffers leave behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, sys
from pathlib import Path
from shared.heap import map_large_buffers

def resident():
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096

if sys.argv[1] == "mapped":
    map_large_buffers()
del_first = bytearray(30 << 20)
del del_first  # glibc's own bound is 30 MiB from here on
before = resident()
stay = []
for _ in range(10):
    large = bytearray(4 << 20)
    stay.append(bytearray(64 << 10))
    del large
    stay.append(bytearray(4 << 20))
small = stay[::2]
del stay
print(resident() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no /proc here")
def test_large_buffers_are_given_back_where_small_ones_stay_behind_them() -> None:
    grown = {}
    for mode in ("as it is", "mapped"):
        command = [sys.executable, "-c", PROGRAM, mode]
        grown[mode] = int(subprocess.run(command, capture_output=True, check=True).stdout)
    assert grown["mapped"] < 4 << 20
    assert grown["as it is"] > 2 * grown["mapped"]
