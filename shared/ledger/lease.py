"""A lease as its holder keeps it: renewed in time, and over by the holder's own clock first."""

from __future__ import annotations

import time
from collections.abc import Callable

from shared.ledger.errors import Deposed, LedgerUnavailable
from shared.ledger.protocol import Ledger
from shared.messages import Epoch


class HeldLease:
    """``seconds`` 0: without end, nothing is asked of the ledger.

    The end is counted from before the request that began it, on a clock that never jumps and that
    goes on while we stand still: it comes before the end that the server knows.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        writer: str,
        epoch: Epoch,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._writer = writer
        self._epoch = epoch
        self._seconds = seconds
        self._clock = clock
        self._renewed = clock() - seconds

    async def keep(self) -> None:
        """To be called before anything is written. Asks the ledger once a third has passed.

        Errors: Deposed where somebody else claimed the writer, LedgerUnavailable where the ledger
        does not answer and the lease is over.
        """
        now = self._clock()
        if now - self._renewed < self._seconds / 3 or not self._seconds:
            return
        try:
            kept = await self._ledger.renew(self._writer, self._epoch, lease=self._seconds)
        except LedgerUnavailable as error:
            if self._clock() - self._renewed >= self._seconds:
                text = f"the lease of writer {self._writer} is over, and cannot be renewed: {error}"
                raise LedgerUnavailable(text) from error
            return
        if not kept:
            raise Deposed(f"writer {self._writer} is not epoch {self._epoch}'s any more")
        self._renewed = now
