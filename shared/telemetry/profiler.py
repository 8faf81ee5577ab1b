"""A sampling profiler of this process: which stacks its threads stand at, so often a second.

It reads the stacks that the interpreter has anyway (``sys._current_frames``): nothing is patched,
and who is not profiled pays nothing. A sample of ten threads takes some 50 us.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from pathlib import PurePath
from types import FrameType

import msgspec

INTERVAL = 0.01
"""Seconds between two samples."""
LONGEST_SECONDS = 60.0
DEEPEST = 64
"""Frames of a stack that are kept, those nearest to the leaf."""
MOST_STACKS = 2000
"""Different stacks that are kept; further ones count as one."""
OTHERS = "(others)"


class StackProfile(msgspec.Struct, frozen=True):
    """``stacks``: frames from the root to the leaf, separated by ``;``, the thread first -> number
    of samples: the folded form that flame graphs are made of."""

    seconds: float
    samples: int
    stacks: dict[str, int]


def sample(seconds: float, *, interval: float = INTERVAL) -> StackProfile:
    """Sample every other thread of this process for so long. Blocks: run it in a thread."""
    counts: Counter[str] = Counter()
    me, samples = threading.get_ident(), 0
    began = time.monotonic()
    end = began + min(seconds, LONGEST_SECONDS)
    while time.monotonic() < end:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            if ident != me:
                stack = f"{names.get(ident, ident)};{_folded(frame)}"
                counts[stack if stack in counts or len(counts) < MOST_STACKS else OTHERS] += 1
        samples += 1
        time.sleep(interval)
    return StackProfile(time.monotonic() - began, samples, dict(counts))


def _folded(frame: FrameType | None) -> str:
    frames: list[str] = []
    while frame is not None and len(frames) < DEEPEST:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        frames.append(f"{name} ({PurePath(code.co_filename).name}:{frame.f_lineno})")
        frame = frame.f_back
    return ";".join(reversed(frames))
