"""The ledger audit's reading and repairing on a Redis-protocol server."""

from __future__ import annotations

from typing import Any

from shared.codec.checked import Malformed, each, integer, row
from shared.ledger import replies
from shared.ledger.codec import pack
from shared.ledger.entries.repair import AuditPage, RepairReply, RepairRequest, RepairResult, Table
from shared.ledger.entries.stored import BindEntry
from shared.ledger.errors import LedgerAltered, LedgerTrimmed
from shared.ledger.keys import ORDER, log_position
from shared.messages.messages import Rows, Verdict

LOG_ENTRIES = 128
LOG_BYTES = 512 * 1024
"""Size of the log part of one page: so many entries, or so many bytes plus the rest of the entry.
1 ms of the server's time, and enough that a reader every 50 ms follows 2,500 small entries a
second. Where there is more, no page is returned: ask again."""

_ANSWER = "an answer of the ledger's server"


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


def pack_repair(request: RepairRequest) -> bytes:
    return pack(
        [
            request.nodes,
            request.queues,
            request.jobs,
            request.nominations,
            request.domains,
            request.tasks,
        ]
    )


def read_reply(head: list[Any], body: bytes, *, replayed: bool) -> RepairReply:
    """Decode the answer of ``repair.lua``. Errors: LedgerAltered."""
    if verdict := replies.refusal(head):
        return refused(verdict)
    try:
        _, lists, rows = head
        results = row(each(lists, "results", _results), "results", 6)
    except (Malformed, ValueError) as error:
        raise LedgerAltered(_ANSWER, str(error)) from error
    fresh = replies.unpack_rows(rows, body)
    return RepairReply(Verdict.COMMITTED, results, fresh, replayed)


def refused(verdict: Verdict) -> RepairReply:
    return RepairReply(verdict, [], Rows([], []))


def _results(values: object, at: str) -> list[RepairResult]:
    # An empty list of Lua is an empty map to others.
    if not values:
        return []
    return each(values, at, lambda value, place: RepairResult(integer(value, place)))
