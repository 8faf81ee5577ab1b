"""How much is tried: all of it in CI, a part of it in the `make test` that somebody waits for."""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("CI"))
"""Whether time matters less than finding whatever can be found."""
LEAST = 5
PART = 3
"""Of so many examples ``make test`` takes one: Hypothesis looks at new ones in each run there, so
that the next runs see the others. CI repeats the same ones, and takes all of them."""


def examples(number: int, *, least: int = LEAST) -> int:
    """``number`` in CI, a part of it elsewhere, but at least ``least``."""
    return number if THOROUGH else max(least, number // PART)
