"""The ledger on a server in memory: client and scripts are those of the real one, no call waits.

So a call can be driven to its end without an event loop
(:func:`shared.ledger.memory.synchronous.at_once`), as the seeded run and replay do.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

from shared.ledger.entries.log import LogEntry
from shared.ledger.keys import key
from shared.ledger.memory.client import MemoryClient
from shared.ledger.memory.server import MemoryServer, ServerCopy
from shared.ledger.memory.streams import number_of
from shared.ledger.redis.calls import translated
from shared.ledger.redis.client import RedisLedger
from shared.messages.messages import Epoch

_PAGE_ENTRIES = 16
"""Entries of the log that come with a page of the audit: few, so that a seeded run meets a log that
goes on beyond them."""


class MemoryLedger(RedisLedger):
    """Server and client. ``clock`` gives the time of nominations and leases; ids of runs and nonces
    come from ``rng``. Log ids are 1-0, 2-0, ..."""

    page_entries = _PAGE_ENTRIES

    def __init__(
        self, rng: random.Random | None = None, *, clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        source = rng or random.Random(0)

        def nonce() -> str:
            return f"{source.getrandbits(64):016x}"

        streams = key("log"), key("binds")
        self.server = MemoryServer(clock=clock, nonce=nonce, streams=streams)
        self.server.call(b"HSET", key("meta"), b"cluster", b"memory")
        self._log = self.server.stream(key("log")).ids
        self._decoded: dict[tuple[str, bool], LogEntry] = {}
        super().__init__("memory", clock=clock, nonce=nonce)

    def _connect(self, *, limit: float | None, size: int) -> MemoryClient:
        return MemoryClient(self.server)

    def for_another_loop(self) -> MemoryLedger:
        return self

    async def close(self) -> None:
        """Nothing to close."""

    # --- the server -----------------------------------------------------------------------------

    @property
    def length(self) -> int:
        """Number of entries the log ever had: rises with every change."""
        return self._log.issued

    def restart(self) -> None:
        """Behave as if the server had been killed and restarted: everything durable, the new run
        not blessed."""
        self.server.restart()

    def copy(self) -> ServerCopy:
        return self.server.copy()

    def bring_back(self, copy: ServerCopy) -> None:
        """Behave as if the server had been killed and restarted from a copy of its data."""
        self.server.bring_back(copy)

    # --- overrides of the real client ---------------------------------------------------------

    async def bless(self, leader: Epoch, *, after: str = "0") -> str:
        # What this client has seen does not count: it stands for many, each with notes of its own.
        self._newest = after
        return await super().bless(leader, after=after)

    async def trim(self, *, log_before: str) -> None:
        await super().trim(log_before=log_before)
        cut = number_of(log_before)
        self._decoded = {
            of: entry for of, entry in self._decoded.items() if number_of(of[0]) >= cut
        }

    def _entry(self, log_id: str, fields: dict[bytes, bytes], *, rows_only: bool) -> LogEntry:
        """Decode each entry once, and share it between its readers."""
        of = log_id, rows_only
        if of not in self._decoded:
            self._decoded[of] = super()._entry(log_id, fields, rows_only=rows_only)
        return self._decoded[of]

    async def _blocking(self, call: Awaitable[Any], block: float | None) -> Any:
        async with translated():
            return await call
