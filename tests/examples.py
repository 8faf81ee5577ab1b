"""How much is tried: a tenth of it in the `make test` that somebody waits for, a quarter in CI and
in `make test-all`, and all where ``EXAMPLES=all`` is set."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

THOROUGH = bool(os.environ.get("CI"))
"""Whether time matters less than finding whatever can be found."""
LEAST = 5
PART = 4 if THOROUGH else 10
"""One of so many examples is taken. Outside of CI Hypothesis looks at new ones in each run, so that
the next runs see the others. CI repeats the same ones each time: a larger part takes minutes more
for what it has seen before (decision 0103)."""
ALL = os.environ.get("EXAMPLES") == "all"


def examples(number: int, *, least: int = LEAST) -> int:
    """How many of ``number`` examples are taken, but at least ``least``."""
    return number if ALL else max(least, number // PART)


def first_of(forms: Iterable[Any], count: int = 1) -> list[Any]:
    """Forms of one proof: ``count`` for `make test`, and the others marked ``all``. A tuple has
    values of several parameters."""
    return [
        pytest.param(
            *(form if isinstance(form, tuple) else (form,)),
            marks=() if number < count else pytest.mark.all,
        )
        for number, form in enumerate(forms)
    ]
