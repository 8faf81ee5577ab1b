"""Regular expressions for CEL's ``matches``: RE2, whose time is bounded by pattern size times text
size.

A backtracking matcher could stall the scheduler on a pattern with nested repetitions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from shard_worker.kube_scheduler.cel.tree import CelError

LONGEST = 512
"""Maximum length of a pattern in characters."""
MEMORY = 1 << 20
"""Maximum memory of a compiled pattern in bytes, its cached states included."""


def matches(text: str, pattern: str) -> bool:
    """Whether any part of the text matches. Raises CelError if the pattern is invalid."""
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
