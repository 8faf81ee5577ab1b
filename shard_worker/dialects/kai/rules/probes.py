"""How many tasks of a gang are searched for at a time: few first, then more, each search with the
victims that the one before found.

Sizes double, up to the whole gang, until one fails, then halve between the largest that was solved
and the smallest that was not. At the end the whole gang is tried with what the largest one found,
whatever came out before.
"""

from __future__ import annotations

from collections.abc import Generator


def probe_sizes(tasks: int) -> Generator[int, bool, None]:
    """The sizes to search for, in order; send whether the last one was solved. Ends once the whole
    gang is solved, or there is nothing more to try."""
    solved, size = 0, 1
    while (yield size):
        if size == tasks:
            return
        solved, size = size, min(2 * size, tasks)
    failed, hints = size, solved
    while failed - solved > 1:
        middle = (solved + failed) // 2
        if (yield middle):
            solved = middle
        else:
            failed = middle
    # Once more with the same hints would come out the same.
    if solved and (size < tasks or solved > hints):
        yield tasks
