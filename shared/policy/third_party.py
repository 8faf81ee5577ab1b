"""Third-party plugins: those that installed packages offer at the entry point
``quadrant.plugins``."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points

GROUP = "quadrant.plugins"


def third_party_plugins() -> dict[str, EntryPoint]:
    """Entry points by the name that a policy file uses. None is loaded yet."""
    return _found(tuple(sys.path))


@cache
def _found(path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Read entry points once per search path, since that reads every installed package's
    metadata."""
    del path
    return {entry.name: entry for entry in entry_points(group=GROUP)}
