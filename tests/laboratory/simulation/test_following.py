"""A coordinator that followed the log knows what one that recovers at that moment would know."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.intake.admission.result import Admission
from coordinator.intake.intake import Intake
from coordinator.order.order import Order
from coordinator.service.leadership.follower import Following
from laboratory.scenarios.generate import LARGE_EVERY, scenario
from laboratory.scenarios.play import play
from shard_worker.dialects.open_session import open_session
from shared.ledger.entries.changes import ChangedKeys
from shared.ledger.entries.intake_batch import IntakeBatch
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.policy.dialect import parse_policy
from shared.policy.model import Policy
from shared.policy.volcano import DEFAULT_POLICY
from tests.coordinator.intake.world_objects import WORLD
from tests.examples import examples
from tests.laboratory.simulation.books_of import books

LOOKS = 24
"""A follower looks at the log after so many changes of the ledger, at others in each seed."""


class LogFollowerCore:
    def __init__(self, ledger: MemoryLedger, policy: Policy = DEFAULT_POLICY) -> None:
        self._ledger = ledger
        self._policy = policy
        self.intake, self.core = self.fresh()
        self._following = Following(self.intake, self.core)
        snapshot = at_once(ledger.snapshot())
        self._following.take(snapshot)
        self._log_id = snapshot.log_id

    def follow(self) -> int:
        """Returns how many records were read."""
        moved = ChangedKeys()
        while entries := at_once(self._ledger.read_log(self._log_id)):
            moved.note(entries)
            self._log_id = entries[-1].id
        unknown = self._following.follow(moved, at_once(self._ledger.read_moved(moved)))
        assert not unknown
        return len(moved)

    def fresh(self) -> tuple[Intake, Coordinator]:
        order = Order(open_session(self._policy), window=8, walls=False)
        return Intake(dialect=self._policy.dialect), Coordinator(order, Dispatcher(2))

    def finish(self) -> None:
        now = at_once(self._ledger.snapshot())
        self._following.finish(now.nominations, now.domains)


def check(follower: LogFollowerCore, ledger: MemoryLedger) -> None:
    follower.finish()
    intake, core = follower.fresh()
    recovering, snapshot = Following(intake, core), at_once(ledger.snapshot())
    recovering.take(snapshot)
    recovering.finish(snapshot.nominations, snapshot.domains)
    assert books(follower.intake, follower.core) == books(intake, core)
    follower.core.validate()


@pytest.mark.parametrize("seed", [0, 2, 5, 7, 11, 13, 19, 31][: examples(16, least=1)])
def test_a_log_follower_has_the_same_state_as_a_recovered_coordinator(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a few moments a follower that began earlier takes the leadership, in the midst of
    everything."""
    expected = scenario(LARGE_EVERY * seed + LARGE_EVERY - 1)
    policy = parse_policy(expected.policy) if expected.policy else DEFAULT_POLICY
    followers: list[LogFollowerCore] = []
    changes = read = checked = 0

    def changed(ledger: MemoryLedger) -> None:
        nonlocal changes, read, checked
        changes += 1
        if changes % LOOKS == seed % LOOKS:
            read += sum(follower.follow() for follower in followers)
            if len(followers) > 2:
                check(followers.pop(0), ledger)
                checked += 1
            followers.append(LogFollowerCore(ledger, policy))

    for name in ("commit", "record", "store"):
        monkeypatch.setattr(MemoryLedger, name, _after(getattr(MemoryLedger, name), changed))
    assert not play(expected).broken
    assert read > 100
    assert checked > 1


def test_volumes_and_quotas_are_followed_too() -> None:
    """Objects that rules read come, change and go; a follower knows each change once it is in the
    log."""
    ledger, author = MemoryLedger(), Intake()
    leader = at_once(ledger.claim("coordinator"))
    run = at_once(ledger.bless(leader))
    epoch = at_once(ledger.claim("intake", leader=leader))
    sequence = iter(range(1, 9))

    def store(admission: Admission) -> None:
        assert not admission.refused
        batch = IntakeBatch("intake", epoch, next(sequence), run, admission.ops)
        at_once(ledger.store(batch))

    follower = LogFollowerCore(ledger)
    store(author.admit([written for written, _ in WORLD.values()], 1.0))
    follower.follow()
    assert follower.intake.registry.objects == author.registry.objects
    quotas = follower.core.order.accounts.cluster.objects.quotas
    assert list(quotas) == ["ns/x"]
    store(author.remove("ResourceQuota", "ns", "x", 2.0))
    follower.follow()
    assert follower.intake.registry.objects == author.registry.objects
    assert not quotas


def _after(call: Any, then: Any) -> Any:
    async def done(ledger: MemoryLedger, batch: Any) -> Any:
        reply = await call(ledger, batch)
        then(ledger)
        return reply

    return done
