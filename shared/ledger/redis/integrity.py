"""Check the seals of all records, once per run of the server.

Within a run only the scripts write records. Anything else alters them on disk, and the server reads
that when it starts: so it is enough to check before the run is blessed, and scripts need not check
what they read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from shared.ledger.errors import LedgerAltered
from shared.ledger.keys import key
from shared.ledger.records import fits, unpack_task

_SEALED = {"node": "node", "queue": "queue", "class": "class", "job": "job"}
_SEALED |= {"nom": "the nominations of job", "domain": "counter", "thing": "thing"}
"""Hash -> what one of its fields is."""

_PAGE = 1000
"""Records checked in one step: about a millisecond."""


async def check_records(client: Any) -> None:
    """Check every record. Errors: LedgerAltered, which names the first altered record."""
    for name, record_name in _SEALED.items():
        async for page in _pages(client, name):
            for field, record in page.items():
                if not fits(record):
                    raise LedgerAltered(f"{record_name} {field.decode(errors='replace')}")
    async for page in _pages(client, "task"):
        for field, record in page.items():
            jid, _, tix = field.partition(b".")
            if not (jid.isdigit() and tix.isdigit()):
                record_name = f"task {field.decode(errors='replace')}"
                raise LedgerAltered(record_name, "that is no task's name")
            unpack_task(record, int(jid), int(tix))


async def _pages(client: Any, name: str) -> AsyncIterator[dict[bytes, bytes]]:
    cursor = 0
    while True:
        cursor, page = await client.hscan(key(name), cursor, count=_PAGE)
        yield page
        if not cursor:
            return
