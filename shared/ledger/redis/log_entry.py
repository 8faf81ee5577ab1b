"""Whether a server's log has an entry."""

from __future__ import annotations

from typing import Any

from shared.ledger.keys import key, log_position


async def has_entry(client: Any, log_id: str) -> bool:
    """See :meth:`shared.ledger.protocol.Ledger.has_entry`; ``bless.lua`` asks the same."""
    if log_position(log_id) == (0, 0):
        return True
    cut = await client.hget(key("meta"), "trimmed")
    if cut and log_position(log_id) <= log_position(cut.decode()):
        return True
    return bool(await client.xrange(key("log"), log_id, log_id))
