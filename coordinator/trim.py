"""Trim: the log is cut below what every follower has read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from coordinator.cluster.protocol import ClusterDriver, ClusterTimeout
from coordinator.recorder import insist
from shared.ledger.errors import LedgerTrimmed
from shared.ledger.keys import log_position
from shared.ledger.protocol import Ledger

TRIM_SECONDS = 5.0
"""How often the log is cut."""

PATIENCE_SECONDS = 120.0
"""A standby that is so far behind is dead, or will never keep up: it is not waited for."""


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
            standbys = await insist(partial(_standbys, ledger), what="readers")
            lowest = min(
                [*read, *standbys, *([history] if history else [])],
                key=log_position,
            )
            await insist(partial(ledger.trim, log_before=lowest), what="trim")


async def _standbys(ledger: Ledger) -> list[str]:
    """Up to where each standby has read. Those that are too far behind are forgotten."""
    newest = await ledger.log_tail()
    found = []
    for reader, log_id in (await ledger.readers()).items():
        if await _waited_for(ledger, log_id, newest):
            found.append(log_id)
        else:
            await ledger.tell_reader(reader, None)
    return found


async def _waited_for(ledger: Ledger, log_id: str, newest: str) -> bool:
    """Whether the oldest entry that a standby has not read yet is not too old. Its own position may
    be old where nothing happened for long."""
    if _age(log_id, newest) <= PATIENCE_SECONDS:
        return True
    try:
        unread = await ledger.read_log(log_id, count=1)
    except LedgerTrimmed:
        return False
    return not unread or _age(unread[0].id, newest) <= PATIENCE_SECONDS


def _age(log_id: str, newest: str) -> float:
    """Seconds."""
    return (log_position(newest)[0] - log_position(log_id)[0]) / 1000
