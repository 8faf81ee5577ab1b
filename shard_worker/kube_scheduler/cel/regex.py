"""Regular expressions of CEL's ``matches``: RE2, in time that grows with pattern times text.

No pattern can make the scheduler wait, as one with nested repetitions does in a matcher that goes
back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from shard_worker.kube_scheduler.cel.tree import CelError

LONGEST = 512
"""Characters of a pattern."""
MEMORY = 1 << 20
"""Bytes that a pattern may take, with what is remembered of its states."""


def matches(text: str, pattern: str) -> bool:
    """Does any part of the text match? Raises CelError where the pattern is none."""
    try:
        return _compiled(pattern).search(text) is not None
    except UnicodeEncodeError as error:
        raise CelError("a text that is no Unicode") from error


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    if len(pattern) > LONGEST:
        raise CelError(f"a pattern longer than {LONGEST} characters")
    options = re2.Options()
    options.max_mem, options.log_errors = MEMORY, False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise CelError(f"not a pattern: {error.args[0].decode(errors='replace')}") from error
