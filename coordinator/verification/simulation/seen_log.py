"""What coordinators of a seeded run remember of the ledger's log, whatever becomes of its data."""

from __future__ import annotations

import random
from collections.abc import Callable

from shared.ledger.entries.log import LogEntry
from shared.ledger.errors import Deposed, LedgerBehind
from shared.ledger.memory.ledger import LedgerDouble
from shared.ledger.memory.log import number_of
from shared.ledger.memory.old_copy import LedgerCopy
from shared.messages.messages import Epoch


class SeenLedger(LedgerDouble):
    """The server and what its clients noted beside its data, as one: the newest log id that any of
    them was told, which whoever accepts a run asks for. Each answer of a server tells it."""

    def __init__(
        self,
        rng: random.Random,
        *,
        clock: Callable[[], float],
        gives_up: Callable[[Epoch], None],
    ) -> None:
        """``gives_up``: the coordinator of this epoch ends, as what it saw is missing."""
        super().__init__(rng, clock=clock)
        self._gives_up = gives_up
        self.seen = "0"
        self.refused = 0
        """How often a run was not accepted because something that was seen is missing."""

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

    def bring_back(self, copy: LedgerCopy) -> None:
        """Whatever the ledger did until now was told."""
        self.seen = max(self.seen, self._log.tail, key=number_of)
        super().bring_back(copy)

    def accept(self) -> None:
        """The operator says that what is there counts: nothing older is looked for."""
        self.seen = "0"
