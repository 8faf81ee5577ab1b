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

KEPT_SECONDS = 10.0
"""What was written since then stays: a standby, which tells nobody how far it has read, looks every
third of a second."""


async def trim_forever(
    ledger: Ledger, cluster: ClusterDriver, workers: Callable[[], list[str] | None]
) -> None:
    """Cut the log below its slowest follower: a worker, the history, or a standby.

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
            newest, _ = log_position(await insist(ledger.log_tail, what="log tail"))
            kept = f"{max(0, newest - int(1000 * KEPT_SECONDS))}-0"
            lowest = min([kept, *read, *([history] if history else [])], key=log_position)
            await insist(partial(ledger.trim, log_before=lowest), what="trim")
