"""Whether every record is as it was written: looked at once in each run of the server.

In a run nobody but the scripts writes records. What is altered otherwise is altered on the disk,
and comes in when the server starts: so it is enough to look before that run is blessed, and scripts
need not check what they read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from shared.ledger.errors import LedgerAltered
from shared.ledger.keys import key
from shared.ledger.records import opened, unpack_task

_SEALED = {"node": "node", "queue": "queue", "class": "class", "job": "job"}
_SEALED |= {"nom": "the nominations of job", "domain": "counter"}
"""Hash -> what one of its fields is."""

_PAGE = 1000
"""Records looked at in one go: about a millisecond."""


async def check_records(client: Any) -> None:
    """Errors: LedgerAltered, which names the first record that is not as it was written."""
    for name, what in _SEALED.items():
        async for field, record in _records(client, name):
            opened(record, f"{what} {field.decode(errors='replace')}")
    async for field, record in _records(client, "task"):
        jid, _, tix = field.partition(b".")
        if not (jid.isdigit() and tix.isdigit()):
            raise LedgerAltered(f"task {field.decode(errors='replace')}", "that is no task's name")
        unpack_task(record, int(jid), int(tix))


async def _records(client: Any, name: str) -> AsyncIterator[tuple[bytes, bytes]]:
    cursor = 0
    while True:
        cursor, page = await client.hscan(key(name), cursor, count=_PAGE)
        for pair in page.items():
            yield pair
        if not cursor:
            return
