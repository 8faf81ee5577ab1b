"""The ledger audit's reading on a Redis-protocol server."""

from __future__ import annotations

from typing import Any

from shared.ledger import replies
from shared.ledger.entries.audit import AuditPage, Table
from shared.ledger.entries.stored import BindEntry
from shared.ledger.errors import LedgerTrimmed
from shared.ledger.keys import ORDER, log_position

LOG_ENTRIES = 128
LOG_BYTES = 512 * 1024
"""Size of the log part of one page: so many entries, or so many bytes plus the rest of the entry.
1 ms of the server's time, and enough that a reader every 50 ms follows 2,500 small entries a
second. Where there is more, no page is returned: ask again."""


def table_number(table: Table) -> int:
    """The number of a table among the keys of every script, from 1."""
    return ORDER.index(table.value) + 1


def read_page(answer: Any, after: str) -> AuditPage:
    """Decode the answer of ``page.lua``. Errors: LedgerTrimmed, LedgerAltered."""
    entries, trimmed, cursor, flat = answer
    if trimmed and after != "0" and log_position(after) < log_position(trimmed.decode()):
        raise LedgerTrimmed(f"the log after {after} is gone: look again from the beginning")
    portions = (
        portion
        for name, fields in entries
        for portion in replies.entry_portions(name.decode(), _fields(fields))
    )
    if not cursor:
        return AuditPage(portions, current=False)
    records = list(zip(flat[::2], flat[1::2], strict=True))
    return AuditPage(portions, True, int(cursor), records)


def read_open(answer: Any) -> tuple[list[BindEntry], str]:
    """Decode the answer of ``open.lua``."""
    entries, goes_on = answer
    return [replies.unpack_binds(i.decode(), _fields(fields)) for i, fields in entries], (
        goes_on.decode()
    )


def _fields(flat: list[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
