"""A standby that followed what an old copy lacks does not lead on the copy with what it knows."""

from __future__ import annotations

import random
from functools import partial

import pytest

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.intake.intake import Intake
from coordinator.ledger_audit.recount import recount
from coordinator.order.order import Order
from coordinator.service.leadership.standby import Standby
from shard_worker.dialects.open_session import open_session
from shared.ledger.entries.intake_batch import IntakeBatch
from shared.ledger.errors import LedgerBehind
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.protocol import COORDINATOR
from shared.messages.messages import Epoch, Verdict
from shared.policy.volcano import DEFAULT_POLICY
from tests.builders.objects import queue

INTAKE = "intake"


def standby(ledger: MemoryLedger) -> tuple[Standby, Intake]:
    intake = Intake()
    core = Coordinator(Order(open_session(DEFAULT_POLICY), window=8, walls=False), Dispatcher(2))
    recounting = partial(recount, ledger)
    return Standby(ledger, intake, core, lease=2.0, holder="b", recount=recounting), intake


class StoringLeader:
    """A coordinator that stores queues, so far as it leads."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._intake = Intake()
        self._epoch: Epoch
        self._run = ""
        self._sequence = 0

    async def claim(self) -> None:
        """The leadership, on whatever is there: the operator has said that it counts."""
        leader = await self._ledger.claim(COORDINATOR)
        self._run = await self._ledger.bless(leader)
        self._epoch = await self._ledger.claim(INTAKE, leader=leader)

    async def store(self, name: str) -> None:
        self._sequence += 1
        ops = self._intake.admit([queue(name)], 1.0).ops
        batch = IntakeBatch(INTAKE, self._epoch, self._sequence, self._run, ops)
        assert (await self._ledger.store(batch)).verdict is Verdict.COMMITTED


async def test_it_begins_anew() -> None:
    ledger = MemoryLedger(random.Random(1))
    leading = StoringLeader(ledger)
    await leading.claim()
    await leading.store("first")
    copy = ledger.copy()
    await leading.store("lost")
    late, note = standby(ledger)
    await late.catch_up()
    assert {"first", "lost"} <= note.registry.queues.keys()
    ledger.bring_back(copy)  # while it stands still
    other = StoringLeader(ledger)
    await other.claim()
    with pytest.raises(LedgerBehind, match="up to which it was followed"):
        await late.catch_up()
    again, note = standby(ledger)
    await again.catch_up()
    assert "lost" not in note.registry.queues
    await other.store("next")
    await again.catch_up()
    assert "next" in note.registry.queues
