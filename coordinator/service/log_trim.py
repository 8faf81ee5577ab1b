"""Trim: the log is cut below what every follower has read."""

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
"""How often the log is cut."""

PATIENCE_SECONDS = 120.0
"""Who is so far behind is dead, or will never keep up: neither a standby nor the ledger audit is
waited for any longer. Until then the server keeps what they have not read: 2 minutes of its log."""


async def trim_forever(
    ledger: Ledger,
    cluster: ClusterDriver,
    workers: Callable[[], list[str] | None],
    audit: Callable[[], str | None],
) -> None:
    """Cut the log below its slowest follower: a worker, the history, a standby, or the audit.

    ``workers``: the log ids up to which each has read; None while one is starting: it has no
    position yet, so nothing is cut while it reads the ledger. ``audit``: up to where a look of the
    ledger audit has read; None between two looks.
    """
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        try:
            history = await cluster.history_position()
        except ClusterTimeout:
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
    """Up to where each standby has read, and the audit. Those that are too far behind are not
    waited for: a standby is forgotten, a look of the audit begins anew."""
    newest = await ledger.log_tail()
    positions = []
    looking = audit()
    if looking is not None and await _waited_for(ledger, looking, newest):
        positions.append(looking)
    for reader, log_id in (await ledger.readers()).items():
        if await _waited_for(ledger, log_id, newest):
            positions.append(log_id)
        else:
            await ledger.tell_reader(reader, None)
    return positions


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
