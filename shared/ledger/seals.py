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
from shared.ledger.records import fits, unpack_task

_SEALED = {"node": "node", "queue": "queue", "class": "class", "job": "job"}
_SEALED |= {"nom": "the nominations of job", "domain": "counter"}
"""Hash -> what one of its fields is."""

_PAGE = 1000
"""Records looked at in one go: about a millisecond."""


async def check_records(client: Any) -> None:
    """Errors: LedgerAltered, which names the first record that is not as it was written."""
    for name, what in _SEALED.items():
        async for page in _pages(client, name):
            for field, record in page.items():
                if not fits(record):
                    raise LedgerAltered(f"{what} {field.decode(errors='replace')}")
    async for page in _pages(client, "task"):
        for field, record in page.items():
            jid, _, tix = field.partition(b".")
            if not (jid.isdigit() and tix.isdigit()):
                what = f"task {field.decode(errors='replace')}"
                raise LedgerAltered(what, "that is no task's name")
            unpack_task(record, int(jid), int(tix))


async def _pages(client: Any, name: str) -> AsyncIterator[dict[bytes, bytes]]:
    cursor = 0
    while True:
        cursor, page = await client.hscan(key(name), cursor, count=_PAGE)
        yield page
        if not cursor:
            return
