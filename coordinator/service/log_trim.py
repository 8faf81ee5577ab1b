"""Trimming of the log below what every follower has read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from coordinator.cluster.protocol import ClusterDriver, ClusterTimeout
from shared.ledger.errors import LedgerTrimmed
from shared.ledger.keys import log_position
from shared.ledger.protocol import Ledger
from shared.ledger.retry import insist

TRIM_SECONDS = 5.0
"""Interval of trims."""

PATIENCE_SECONDS = 120.0
"""A reader this far behind is dead, or will never catch up: neither a standby nor the ledger audit
holds the trim back any longer. Until then the server keeps 2 minutes of its log for them."""


async def trim_forever(
    ledger: Ledger,
    cluster: ClusterDriver,
    workers: Callable[[], list[str] | None],
    audit: Callable[[], str | None],
) -> None:
    """Trim the log below its slowest follower: a worker, the history, a standby, or the audit.

    ``workers`` returns the log ids up to which each has read; None while one is starting, so that
    nothing is trimmed while it reads the ledger. ``audit`` returns that of the audit pass under
    way; None between two.
    """
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        try:
            history = await cluster.history_position()
        except ClusterTimeout:
            # The history may be behind everybody else: without its position nothing is cut.
            continue
        read = workers()
        if read is not None:
            patient = await insist(partial(_waited_for_readers, ledger, audit), call_name="readers")
            lowest = min(
                [*read, *patient, *([history] if history else [])],
                key=log_position,
            )
            await insist(partial(ledger.trim, log_before=lowest), call_name="trim")


async def _waited_for_readers(ledger: Ledger, audit: Callable[[], str | None]) -> list[str]:
    """The positions of the standbys and of the audit. Those too far behind are dropped: a standby
    is forgotten, an audit pass starts again."""
    newest = await ledger.log_tail()
    positions = []
    looking = audit()
    if looking is not None and await _waited_for(ledger, looking, newest):
        positions.append(looking)
    for reader, log_id in (await ledger.readers()).items():
        if await _waited_for(ledger, log_id, newest):
            positions.append(log_id)
        else:
            await ledger.report_reader(reader, None)
    return positions


async def _waited_for(ledger: Ledger, log_id: str, newest: str) -> bool:
    """Whether the oldest entry that a standby has not read is recent enough. Its own position may
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
