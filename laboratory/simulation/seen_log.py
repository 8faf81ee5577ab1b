"""The newest log id that coordinators of a seeded run have seen, which survives the loss of the
ledger's data."""

from __future__ import annotations

import random
from collections.abc import Callable

from shared.ledger.entries.log import LogEntry
from shared.ledger.errors import Deposed, LedgerBehind
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.server import ServerCopy
from shared.ledger.memory.streams import number_of
from shared.ledger.memory.synchronous import at_once
from shared.messages.messages import Epoch


class SeenLedger(MemoryLedger):
    """The server together with its clients' notes: the newest log id that any of them was told.
    Whoever accepts a run asks for it; each answer of a server reveals one."""

    def __init__(
        self,
        rng: random.Random,
        *,
        clock: Callable[[], float],
        gives_up: Callable[[Epoch], None],
    ) -> None:
        """``gives_up``: ends the coordinator of this epoch, because entries that it saw are
        missing."""
        super().__init__(rng, clock=clock)
        self._gives_up = gives_up
        self.seen = "0"
        self.refused = 0
        """Number of runs refused because seen entries are missing."""

    async def bless(self, leader: Epoch, *, after: str = "0") -> str:
        try:
            return await super().bless(leader, after=max(after, self.seen, key=number_of))
        except LedgerBehind as error:
            self.refused += 1
            self._gives_up(leader)
            raise Deposed(str(error)) from None

    async def read_log(
        self,
        after: str,
        *,
        count: int = 512,
        block: float | None = None,
        rows_only: bool = False,
    ) -> list[LogEntry]:
        entries = await super().read_log(after, count=count, block=block, rows_only=rows_only)
        if entries:
            self.seen = max(self.seen, entries[-1].id, key=number_of)
        return entries

    def bring_back(self, copy: ServerCopy) -> None:
        """Restore an old copy. Everything until now counts as seen."""
        self.seen = max(self.seen, at_once(self.log_tail()), key=number_of)
        super().bring_back(copy)

    def accept(self) -> None:
        """The operator accepts the current data: nothing older is expected."""
        self.seen = "0"
