"""The log is not cut below who reads it still; who is too far behind is not waited for."""

from __future__ import annotations

import asyncio
import random
from typing import cast

import pytest

from coordinator import trim
from coordinator.cluster.protocol import ClusterDriver
from coordinator.trim import PATIENCE_SECONDS, trim_forever
from shared.ledger.double import LedgerDouble


class Late(LedgerDouble):
    """Its log ends at a time, and it notes what it is asked to forget."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.cuts: asyncio.Queue[str] = asyncio.Queue()

    async def log_tail(self) -> str:
        return "1000000-0"

    async def trim(self, *, log_before: str) -> None:
        self.cuts.put_nowait(log_before)
        await asyncio.sleep(0)


class Kept:
    async def history_position(self) -> str:
        return "999990-0"


async def test_a_standby_that_follows_is_waited_for_and_a_dead_one_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trim, "TRIM_SECONDS", 0.0)
    ledger = Late()
    dead = 1_000_000 - round(1000 * PATIENCE_SECONDS) - 1
    await ledger.tell_reader("follows", "999970-3")
    await ledger.tell_reader("dead", f"{dead}-0")
    cutting = asyncio.create_task(
        trim_forever(ledger, cast(ClusterDriver, Kept()), lambda: ["999980-0", "1000000-0"])
    )
    assert await asyncio.wait_for(ledger.cuts.get(), 5.0) == "999970-3"
    assert await ledger.readers() == {"follows": "999970-3"}
    await ledger.tell_reader("follows", None)
    cuts = [await asyncio.wait_for(ledger.cuts.get(), 5.0) for _ in range(3)]
    cutting.cancel()
    assert cuts[-1] == "999980-0"
