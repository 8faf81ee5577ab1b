"""Any interleaving of commits, releases, takeovers and restarts keeps the promises 1 to 7.

The embedded server is real and is killed; the rules are in :mod:`tests.shared.ledger.machine`.
Hypothesis draws the order, and makes a failing one short.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shared.ledger.errors import Deposed
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.server import EmbeddedServer
from tests.examples import THOROUGH, examples
from tests.shared.ledger.machine import SHARDS, LedgerWorld

SEEDS = st.integers(0, 2**32 - 1)
SHARD = st.sampled_from(SHARDS)
EVICTING_TRIES = 6
TROUBLE = ("restart", "take over", "replace", "leader lapses", "shard lapses")
EXPECTED = ("bound", "zombies", "evicted", "reborn", *TROUBLE)
EXAMPLES = examples(60, least=30 if THOROUGH else 5)


class LedgerMachine(RuleBasedStateMachine):
    server: ClassVar[EmbeddedServer]
    seen: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.world = LedgerWorld(self.server)

    def do(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(call)

    @initialize()
    def begin(self) -> None:
        self.do(self.world.begin())

    # --- workers ------------------------------------------------------------------------------

    @rule(shard=SHARD, seed=SEEDS)
    def plan(self, shard: str, seed: int) -> None:
        if shard in self.world.shards:
            self.do(self.world.plan(self.world.shards[shard], random.Random(seed)))

    @rule(shard=SHARD)
    def commit(self, shard: str) -> None:
        if shard in self.world.shards:
            before = self.world.live.bindings
            self.do(self.world.send(self.world.shards[shard]))
            self.seen["bound"] += self.world.live.bindings - before

    @rule(shard=SHARD)
    def hear(self, shard: str) -> None:
        if shard in self.world.shards:
            self.world.hear(self.world.shards[shard])

    @rule(seed=SEEDS)
    def whole_calls(self, seed: int) -> None:
        """Both plan before either commits."""
        for step in (partial(self.plan, seed=seed), self.commit, self.hear, self.follow):
            for shard in SHARDS:
                step(shard)

    @rule(shard=SHARD)
    def follow(self, shard: str) -> None:
        if shard in self.world.shards:
            self.do(self.world.catch_up(self.world.shards[shard]))

    @precondition(lambda self: self.world.zombies)
    @rule(number=st.integers(0, 3))
    def wake(self, number: int) -> None:
        """A worker that was given up wakes, and sends what it had."""
        self.seen["zombies"] += 1
        self.do(self.world.send(self.world.zombies[number % len(self.world.zombies)]))

    # --- others -------------------------------------------------------------------------------

    @rule(seed=SEEDS)
    def strange(self, seed: int) -> None:
        self.do(self.world.strange(random.Random(seed)))

    @rule(seed=SEEDS)
    def report(self, seed: int) -> None:
        self.do(self.world.report(random.Random(seed)))

    @rule(seed=SEEDS, ends=st.booleans())
    def evict(self, seed: int, ends: bool) -> None:
        """``ends``: before anything else happens, which is rare by chance."""
        # Some tries: most of what is drawn is refused for good reasons, and which draws there are
        # changes with the constants that Hypothesis finds in the code.
        for number in range(EVICTING_TRIES):
            self.do(self.world.evict(random.Random(seed + number)))
            if self.world.evicted:
                break
        self.seen["evicted"] += self.world.evicted
        self.world.evicted = 0
        if ends:
            self.evicted_end()

    @rule()
    def evicted_end(self) -> None:
        self.do(self.world.evicted_end())
        self.seen["reborn"] += self.world.reborn
        self.world.reborn = 0

    @rule(seed=SEEDS)
    def change(self, seed: int) -> None:
        self.do(self.world.change(random.Random(seed)))

    @rule(number=st.integers(0, 99))
    def again(self, number: int) -> None:
        self.do(self.world.again(number))

    # --- ownership ----------------------------------------------------------------------------

    @rule(kind=st.sampled_from(TROUBLE), shard=SHARD)
    def trouble(self, kind: str, shard: str) -> None:
        self.seen[kind] += 1
        match kind:
            case "restart":
                self.do(self.world.restart())
            case "take over":
                self.take_over()
            case "replace":
                self.do(self.world.claim(shard))
                self.do(self.world.start_workers())
            case _:
                self.world.lapse(COORDINATOR if kind == "leader lapses" else shard)

    @precondition(lambda self: self.world.own.run != self.world.own.blessed)
    @rule()
    def bless(self) -> None:
        """Workers that began under the run before are replaced, as they are by the service."""
        self.do(self.world.bless())
        for shard in SHARDS:
            self.do(self.world.claim(shard))
        self.do(self.world.start_workers())

    def take_over(self) -> None:
        """Take over: the former leader can no longer claim, bless or renew."""
        old, ledger = self.world.own.epochs[COORDINATOR], self.world.ledger
        self.do(self.world.lead())
        for call in (ledger.bless(old), ledger.claim("0", leader=old)):
            with pytest.raises(Deposed):
                self.do(call)
        assert not self.do(ledger.renew(COORDINATOR, old, lease=1.0))
        self.do(self.world.start_workers())

    @precondition(lambda self: self.world.own.expired)
    @rule()
    def renew(self) -> None:
        for writer in sorted(self.world.own.expired):
            epoch = self.world.own.epochs[writer]
            assert self.do(self.world.ledger.renew(writer, epoch, lease=1000.0))
        self.world.own.expired.clear()

    def teardown(self) -> None:
        try:
            if self.world.own.epochs:
                self.do(self.world.end())
        finally:
            self.do(self.world.close())
            self.runner.close()


@pytest.mark.timeout(600)  # 1,800 steps against a real server: half a minute, or many on a busy one
def test_any_interleaving_keeps_the_promises() -> None:
    path = Path(tempfile.mkdtemp(prefix="qt-"))
    LedgerMachine.server = EmbeddedServer(path, path / "data", fsync="no")
    LedgerMachine.server.start()
    LedgerMachine.seen.clear()
    try:
        # Hypothesis draws with the constants of all our code that is imported by then. So any other
        # change, and tests that run before, change what few examples meet: more of them follow.
        for number in (EXAMPLES, 4 * EXAMPLES):
            run_state_machine_as_test(
                LedgerMachine,
                settings=settings(max_examples=number, stateful_step_count=30, deadline=None),
            )
            missing = [what for what in EXPECTED if not LedgerMachine.seen[what]]
            if not (missing and settings().derandomize):  # elsewhere the examples are new ones
                break
    finally:
        LedgerMachine.server.kill()
        shutil.rmtree(path, ignore_errors=True)
    print(dict(LedgerMachine.seen))  # noqa: T201
    if settings().derandomize:
        assert missing == [], "too rare to show anything"
