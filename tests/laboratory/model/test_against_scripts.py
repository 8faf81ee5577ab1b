"""The model's ledger answers as the scripts do, on a real server and on one in memory, on every
way tried."""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from laboratory.model.explore import ALL, every_step
from laboratory.model.state import FaultBudget, ModelStep, State, begin
from shared.ledger.errors import LedgerUnavailable
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from tests.conftest import flush
from tests.laboratory.model.driving import ModelDriver

STEPS = 45
MET = {
    "judged COMMITTED",
    "judged TASK",
    "batch COMMITTED again",
    "batch EPOCH",
    "batch RUN",
    "leadership claimed",
    "deposed",
    "blessed",
    "renewed",
    "lease ended",
    "may not write",
}
"""Steps that some of the tried ways must have."""

LEADING_ON = ("lease", "plans", "the ledger gets", "claims", "recovers", "blesses", "wakes")
"""Steps that lead somewhere: taken more often than the others."""


def way(rng: random.Random) -> Iterator[tuple[State, ModelStep]]:
    """One way through the model, with its own numbers kept as they are."""
    state = begin(FaultBudget(crashes=1, pauses=1, cuts=2, changes=1))
    for _ in range(STEPS):
        options = [s for s in every_step(state, ALL) if not s.after.rolled]
        if not options:
            return
        weights = [4 if any(word in s.label for word in LEADING_ON) else 1 for s in options]
        (step,) = rng.choices(options, weights)
        yield state, step
        state = step.after


async def drive(driven: ModelDriver, seed: int) -> None:
    await driven.begin()
    reports: list[str] = []
    for number, (state, step) in enumerate(way(random.Random(seed)), 1):
        reports.append(step.label)
        try:
            await driven.follow(state, step)
            if number % 5 == 0:
                await driven.same_places(step.after)
        except BaseException:
            sys.stderr.write(f"seed {seed}:\n" + "\n".join(reports) + "\n")
            raise


def check(met: Counter[str]) -> None:
    sys.stdout.write(f"{dict(met)}\n")
    assert set(met) >= MET, MET - set(met)


@pytest.mark.all
def test_a_server_in_memory_answers_as_the_model_does() -> None:
    met: Counter[str] = Counter()
    for seed in range(100):
        ticks = itertools.count()
        memory = MemoryLedger(random.Random(seed), clock=partial(next, ticks))

        async def restart(memory: MemoryLedger = memory) -> None:
            memory.restart()

        asyncio.run(drive(ModelDriver(memory, restart, met=met), seed))
    check(met)


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    path = Path(tempfile.mkdtemp(prefix="qt-"))
    server = EmbeddedServer(path, path / "data", fsync="no")
    server.start()
    yield server
    server.stop()
    shutil.rmtree(path, ignore_errors=True)


async def reached(ledger: RedisLedger) -> None:
    """Connections to the server that was there before are closed, one after the other."""
    async with asyncio.timeout(60):
        while True:
            try:
                await ledger.run_id()
                return
            except LedgerUnavailable:
                await asyncio.sleep(0.01)


def test_the_scripts_answer_as_the_model_does(own_server: EmbeddedServer) -> None:
    met: Counter[str] = Counter()

    async def one(seed: int) -> None:
        flush(own_server)
        ledger = RedisLedger(own_server.url)

        async def restart() -> None:
            own_server.stop()
            own_server.start()
            await reached(ledger)

        try:
            await drive(ModelDriver(ledger, restart, met=met), seed)
        finally:
            await ledger.close()

    for seed in range(40):
        asyncio.run(one(seed))
    check(met)
