"""The log is not cut below who reads it still; who is too far behind is not waited for."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

import pytest

from coordinator.cluster.protocol import ClusterDriver
from coordinator.service import log_trim
from coordinator.service.log_trim import PATIENCE_SECONDS, trim_forever
from shared.ledger.entries.log import EpochEntry, LogEntry
from shared.ledger.keys import log_position
from shared.ledger.memory.ledger import MemoryLedger
from shared.messages.messages import Epoch

DEAD = 1_000_000 - round(1000 * PATIENCE_SECONDS) - 1
"""An entry so old that nobody is waited for."""


class LateLedger(MemoryLedger):
    """Its log has these entries, and it notes what it is asked to forget."""

    def __init__(self, *ids: str) -> None:
        super().__init__(random.Random(1))
        self.ids = ids
        self.cuts: asyncio.Queue[str] = asyncio.Queue()
        self.looking: str | None = None
        """Up to where a look of the ledger audit has read."""

    async def log_tail(self) -> str:
        return self.ids[-1]

    async def read_log(self, after: str, **_: Any) -> list[LogEntry]:
        later = [one for one in self.ids if log_position(one) > log_position(after)]
        return [EpochEntry(one, "1", Epoch(1, "")) for one in later]

    async def trim(self, *, log_before: str) -> None:
        self.cuts.put_nowait(log_before)
        await asyncio.sleep(0)


class KeptCluster:
    async def history_position(self) -> str:
        return "999990-0"


async def cuts_of(ledger: LateLedger, count: int) -> list[str]:
    """Run a number of rounds and return their cuts."""
    workers = ["999980-0", "1000000-0"]
    cutting = asyncio.create_task(
        trim_forever(
            ledger, cast(ClusterDriver, KeptCluster()), lambda: workers, lambda: ledger.looking
        )
    )
    cuts = [await asyncio.wait_for(ledger.cuts.get(), 60.0) for _ in range(count)]
    cutting.cancel()
    return cuts


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_trim, "TRIM_SECONDS", 0.0)


async def test_a_standby_that_follows_is_waited_for_and_a_dead_one_forgotten() -> None:
    ledger = LateLedger(f"{DEAD - 1}-0", f"{DEAD}-0", "1000000-0")
    await ledger.report_reader("follows", "999970-3")
    await ledger.report_reader("dead", f"{DEAD - 1}-0")
    assert await cuts_of(ledger, 1) == ["999970-3"]
    assert await ledger.readers() == {"follows": "999970-3"}
    await ledger.report_reader("follows", None)
    assert (await cuts_of(ledger, 3))[-1] == "999980-0"


async def test_a_standby_is_waited_for_where_nothing_had_happened_for_long() -> None:
    ledger = LateLedger(f"{DEAD}-0", "999999-0", "1000000-0")
    await ledger.report_reader("follows", f"{DEAD}-0")
    assert await cuts_of(ledger, 1) == [f"{DEAD}-0"]
    assert await ledger.readers() == {"follows": f"{DEAD}-0"}


@pytest.mark.parametrize(
    ("looking", "cut"), [("999970-1", "999970-1"), (f"{DEAD - 1}-0", "999980-0")]
)
async def test_a_look_of_the_audit_is_waited_for_but_not_for_ever(looking: str, cut: str) -> None:
    ledger = LateLedger(f"{DEAD - 1}-0", f"{DEAD}-0", "1000000-0")
    ledger.looking = looking
    assert await cuts_of(ledger, 1) == [cut]
