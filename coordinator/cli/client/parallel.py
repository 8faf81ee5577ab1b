"""Many requests at a time, told in the order of what was asked.

A change waits for the disk of the ledger's server; several that wait together cost hardly more than
one. Only neighbours of one kind go side by side, so that what comes first in a file (a queue before
its jobs) is there first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

    from coordinator.cli.client.session import ServerSession

AT_ONCE = 16
"""A thousand objects are applied in one second; one after the other took thirteen."""
AHEAD = 4 * AT_ONCE
"""Requests that are given to the threads before the first of them is told."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    session: ServerSession,
    items: Sequence[Item],
    work: Callable[[ServerSession, Item], Result],
    *,
    alike: Callable[[Item], Hashable],
) -> Iterator[tuple[Item, Result]]:
    """Each item with what came of it, in order. What ``work`` raises is raised here.

    ``work`` gets a session of its own thread. Neighbours for which ``alike`` gives the same may go
    side by side.
    """
    for _, run in groupby(items, key=alike):
        neighbours = list(run)
        if len(neighbours) == 1:
            yield neighbours[0], work(session, neighbours[0])
        else:
            yield from _together(session, neighbours, work)


def _together(
    session: ServerSession, items: Sequence[Item], work: Callable[[ServerSession, Item], Result]
) -> Iterator[tuple[Item, Result]]:
    from concurrent.futures import ThreadPoolExecutor
    from threading import local

    of_thread = local()
    twins: list[ServerSession] = []
    _ = session.catalog  # asked once, for all

    def one(item: Item) -> Result:
        # An HTTP connection carries one request at a time, so each thread has its own. `append` is
        # the only thing that threads share, and the list is read when all of them have ended.
        if not hasattr(of_thread, "session"):
            of_thread.session = session.twin()
            twins.append(of_thread.session)
        return work(of_thread.session, item)

    pool = ThreadPoolExecutor(AT_ONCE)
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    try:
        for item in items:
            waiting.append((item, pool.submit(one, item)))
            # Told while later ones are still under way, and never so many ahead that all answers
            # are in memory.
            if len(waiting) > AHEAD:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        for twin in twins:
            twin.client.close()
