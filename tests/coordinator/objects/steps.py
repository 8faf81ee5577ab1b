"""How long the steps of sliced work take."""

from __future__ import annotations

import time
from typing import Any

from shared.slices import Steps

_ENDED = object()


def longest_step(steps: Steps[Any]) -> float:
    """Processor seconds."""
    longest, ended = 0.0, False
    while not ended:
        began = time.thread_time()
        ended = next(steps, _ENDED) is _ENDED
        longest = max(longest, time.thread_time() - began)
    return longest
