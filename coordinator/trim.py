"""Trim: the log is cut below what every follower has read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from coordinator.cluster.protocol import ClusterDriver, ClusterTimeout
from coordinator.recorder import insist
from shared.ledger.keys import log_position
from shared.ledger.protocol import Ledger

TRIM_SECONDS = 5.0
"""How often the log is cut."""


async def trim_forever(
    ledger: Ledger, cluster: ClusterDriver, workers: Callable[[], list[str] | None]
) -> None:
    """Cut the log below its slowest follower: a worker, or the history.

    ``workers``: the log ids up to which each has read; None while one is starting: it has no
    position yet, so nothing is cut while it reads the ledger.
    """
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        try:
            history = await cluster.history_position()
        except ClusterTimeout:
            continue
        read = workers()
        if read is not None:
            lowest = min([*read, *([history] if history else [])], key=log_position)
            await insist(partial(ledger.trim, log_before=lowest), what="trim")
