"""Bounds of what a command makes up, and lists of numbers that it is given."""

from __future__ import annotations

from coordinator.cli.options.failure import EXIT_USAGE, CommandError

MOST_NODES = 1_000_000
"""Larger clusters do not fit this machine's memory."""
MOST_PODS = 10_000_000
MOST_PER_NODE = 10_000
"""GPUs or processors."""
MOST_SHARDS = 256


def numbers_of(text: str, option: str, most: int) -> tuple[int, ...]:
    """The numbers of ``1,4``. Raises CommandError, which names the option."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 0 < int(part) <= most for part in parts):
        raise CommandError(
            f"{option}: {text!r} is not a list of numbers from 1 to {most:,}; write it as 1,4",
            code=EXIT_USAGE,
        )
    return tuple(map(int, parts))
