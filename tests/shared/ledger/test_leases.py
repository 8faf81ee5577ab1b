"""Leases of leaders and writers: on a real server and on one in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
import redis

from shared.ledger.entries.log import EpochEntry
from shared.ledger.errors import Deposed, LeaseHeld, LedgerBehind, LedgerUnavailable
from shared.ledger.keys import key
from shared.ledger.lease import HeldLease
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.protocol import COORDINATOR, Ledger
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import Epoch, Verdict
from tests.conftest import flush
from tests.shared.ledger.conftest import NOW
from tests.shared.ledger.support import Desk, cluster, job, run, statement

V = Verdict
LONG = 1000.0
"""Seconds of a lease that does not run out while a test looks."""


@dataclass
class LeaseLedger:
    """A ledger, and how its clock is moved: the server's own by moving what it compares with."""

    desk: Desk
    move: Callable[[float], Awaitable[None]]

    @property
    def ledger(self) -> Ledger:
        return self.desk.ledger

    async def lead(self, lease: float = LONG, holder: str = "") -> Epoch:
        return await self.ledger.claim(COORDINATOR, lease=lease, holder=holder)


async def _move_leases(server: EmbeddedServer, seconds: float) -> None:
    """To a lease, a clock that goes forward is the same as an end that comes nearer."""
    with redis.Redis.from_url(server.url, protocol=2) as client:
        for field, value in client.hgetall(key("epoch")).items():
            if field.endswith(b"/lease") and not value.startswith(b"0 "):
                end, length = map(int, value.split())
                moved = b"%d %d" % (end - round(seconds * 1e6), length)
                client.hset(key("epoch"), field, moved)


@pytest.fixture(params=["server", "memory"])
async def place(
    request: pytest.FixtureRequest, embedded_server: EmbeddedServer
) -> AsyncIterator[LeaseLedger]:
    if request.param == "memory":
        now = [NOW]

        async def jump(seconds: float) -> None:
            now[0] += seconds

        yield LeaseLedger(Desk(MemoryLedger(random.Random(1), clock=lambda: now[0])), jump)
        return
    flush(embedded_server)
    real = RedisLedger(embedded_server.url)
    await real.open()
    yield LeaseLedger(Desk(real), lambda seconds: _move_leases(embedded_server, seconds))
    await real.close()
    flush(embedded_server)  # no lease of ours holds up the tests that follow


# --- the leadership -------------------------------------------------------------------


async def test_only_one_leads_until_its_lease_runs_out(place: LeaseLedger) -> None:
    assert await place.ledger.leader() is None
    first = await place.lead(holder="one")
    with pytest.raises(LeaseHeld, match=r"\(one\) leads for another") as held:
        await place.lead(holder="two")
    assert held.value.epoch == first
    assert 0 < held.value.seconds_left <= LONG
    leader = await place.ledger.leader()
    assert leader is not None
    assert (leader.epoch, leader.holder) == (first, "one")
    assert LONG - 60 < leader.seconds_left <= LONG
    await place.move(LONG + 1)
    leader = await place.ledger.leader()
    assert leader is not None
    assert leader.seconds_left == 0
    second = await place.lead(holder="two")
    assert second.counter == first.counter + 1
    assert not await place.ledger.renew(COORDINATOR, first, lease=LONG)


async def test_a_refused_claim_leaves_no_trace(place: LeaseLedger) -> None:
    await place.ledger.bless(await place.lead())
    tail = await place.ledger.log_tail()
    with pytest.raises(LeaseHeld):
        await place.lead()
    assert await place.ledger.log_tail() == tail
    (entry,) = await place.ledger.read_log("0")
    assert isinstance(entry, EpochEntry)


async def test_a_lease_that_ran_out_may_be_renewed_until_somebody_claims(
    place: LeaseLedger,
) -> None:
    epoch = await place.lead()
    await place.move(LONG + 1)
    assert await place.ledger.renew(COORDINATOR, epoch, lease=LONG)
    with pytest.raises(LeaseHeld):
        await place.lead()


async def test_releasing_the_leadership_ends_writes_and_frees_the_lease(place: LeaseLedger) -> None:
    desk = await place.desk.open()
    epoch = desk.epochs[COORDINATOR]
    assert (await desk.store(*cluster())).verdict is V.COMMITTED
    await place.ledger.release(COORDINATOR, epoch)
    assert (await desk.store(job(7))).verdict is V.EPOCH
    assert not await place.ledger.renew(COORDINATOR, epoch, lease=LONG)
    with pytest.raises(Deposed):
        await place.ledger.claim("0", leader=epoch)
    with pytest.raises(Deposed):
        await place.ledger.bless(epoch)
    second = await place.lead()
    await place.ledger.release(COORDINATOR, epoch)  # another's by now: nothing happens
    with pytest.raises(LeaseHeld) as held:
        await place.lead()
    assert held.value.epoch == second


async def test_a_leader_whose_lease_ran_out_leads_until_another_claims(place: LeaseLedger) -> None:
    epoch = await place.lead()
    await place.move(LONG + 1)
    await place.ledger.claim("0", leader=epoch)
    assert await place.ledger.bless(epoch)
    await place.lead()
    with pytest.raises(Deposed):
        await place.ledger.claim("0", leader=epoch)
    with pytest.raises(Deposed):
        await place.ledger.bless(epoch)


async def test_nobody_but_the_leader_claims_or_blesses(place: LeaseLedger) -> None:
    first = await place.lead()
    await place.ledger.release(COORDINATOR, first)
    await place.lead()
    for stranger in (first, Epoch(2, "guessed"), None):
        with pytest.raises(Deposed):
            await place.ledger.claim("0", leader=stranger)
    for stranger in (first, Epoch(2, "guessed")):
        with pytest.raises(Deposed):
            await place.ledger.bless(stranger)


async def test_an_old_copy_is_not_blessed(place: LeaseLedger) -> None:
    epoch = await place.lead()
    run = await place.ledger.bless(epoch)
    tail = await place.ledger.log_tail()
    milliseconds, _, number = tail.partition("-")
    ledger = place.ledger
    assert isinstance(ledger, RedisLedger)
    for observed in (f"{int(milliseconds) + 1}-0", f"{milliseconds}-{int(number) + 1}"):
        ledger._newest = "0"
        with pytest.raises(LedgerBehind):
            await ledger.bless(epoch, after=observed)
    ledger._newest = "0"
    assert await ledger.bless(epoch, after=tail) == run


async def test_the_log_of_a_run_that_nobody_accepted_does_not_grow(place: LeaseLedger) -> None:
    """Else who follows it would take the claims in an old copy for what he had seen before. The
    epochs are told once the run is accepted, and those that came after them at once."""
    ledger = place.ledger
    leader = await place.lead()
    await ledger.claim("0", leader=leader)
    shard = await ledger.claim("0", leader=leader)
    assert await ledger.read_log("0") == []
    assert await ledger.log_tail() == "0"
    await ledger.bless(leader)

    async def epoch_entries() -> list[tuple[str, Epoch]]:
        entries = await ledger.read_log("0")
        return [(e.writer, e.epoch) for e in entries if isinstance(e, EpochEntry)]

    assert await epoch_entries() == [("0", shard), (COORDINATOR, leader)]
    await ledger.bless(leader)
    later = await ledger.claim("0", leader=leader)
    assert await epoch_entries() == [("0", shard), (COORDINATOR, leader), ("0", later)]


# --- a shard ----------------------------------------------------------------------------------


async def shard(place: LeaseLedger, lease: float = LONG) -> Desk:
    desk = await place.desk.open()
    await desk.store(*cluster(), job(7), job(8), job(9))
    await desk.claim("0", lease=lease)
    return desk


async def test_no_commit_after_the_end_of_its_lease(place: LeaseLedger) -> None:
    desk = await shard(place)
    assert (await desk.commit(statement(7, run([0], [0])))).verdict is V.COMMITTED
    await place.move(LONG + 1)
    late = desk.commit_batch(statement(8, run([0], [0])))
    assert (await desk.ledger.commit(late)).verdict is V.EPOCH
    assert set((await desk.ledger.snapshot()).tasks) == {7}
    assert await desk.ledger.renew("0", desk.epochs["0"], lease=LONG)
    assert (await desk.ledger.commit(late)).verdict is V.COMMITTED


async def test_an_answered_batch_is_fenced_after_the_end_of_its_lease(
    place: LeaseLedger,
) -> None:
    """The gate comes before the window: who lost the shard learns it at once."""
    desk = await shard(place)
    batch = desk.commit_batch(statement(7, run([0], [0])))
    assert (await desk.ledger.commit(batch)).verdict is V.COMMITTED
    await place.move(LONG + 1)
    assert (await desk.ledger.commit(batch)).verdict is V.EPOCH


async def test_a_shard_is_claimed_from_its_worker_at_any_time(place: LeaseLedger) -> None:
    desk = await shard(place)
    old = desk.commit_batch(statement(7, run([0], [0])))
    await desk.claim("0", lease=LONG)
    assert (await desk.ledger.commit(old)).verdict is V.EPOCH
    assert not await desk.ledger.renew("0", old.epoch, lease=LONG)


async def test_a_writer_without_a_lease_writes_for_ever(place: LeaseLedger) -> None:
    desk = await shard(place, lease=0.0)
    await place.move(1e6)
    assert (await desk.commit(statement(7, run([0], [0])))).verdict is V.COMMITTED


# --- clocks -----------------------------------------------------------------------------------


async def test_a_clock_set_back_makes_nobody_wait_longer_than_a_lease(place: LeaseLedger) -> None:
    await place.lead()
    await place.move(-3600.0)
    leader = await place.ledger.leader()
    assert leader is not None
    assert leader.seconds_left <= LONG
    await place.move(LONG + 1)
    await place.lead()


async def test_a_clock_set_forward_ends_leases_and_nothing_else(place: LeaseLedger) -> None:
    desk = await shard(place)
    epoch = desk.epochs["0"]
    await place.move(3600.0)
    assert (await desk.commit(statement(7, run([0], [0])))).verdict is V.EPOCH
    assert await desk.ledger.renew("0", epoch, lease=LONG)
    assert (await desk.commit(statement(7, run([0], [0])))).verdict is V.COMMITTED


# --- the holder's own clock -------------------------------------------------------------------


class SilentLedger(MemoryLedger):
    silent = False
    renewed = 0

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        if self.silent:
            raise LedgerUnavailable("no answer")
        self.renewed += 1
        return await super().renew(writer, epoch, lease=lease)


async def test_a_holder_renews_after_a_third_and_stops_by_its_own_clock() -> None:
    ledger, now = SilentLedger(), [0.0]
    leader = await ledger.claim(COORDINATOR)
    epoch = await ledger.claim("0", leader=leader, lease=3.0)
    held = HeldLease(ledger, writer="0", epoch=epoch, seconds=3.0, clock=lambda: now[0])
    await held.keep()
    for now[0] in (0.5, 0.9, 1.1, 1.5):
        await held.keep()
    assert ledger.renewed == 2, "when it began, and at 1.1"
    ledger.silent = True
    now[0] = 4.0
    await held.keep()  # 2.9 s after it was renewed
    now[0] = 4.2
    with pytest.raises(LedgerUnavailable, match="lease of writer 0 is over"):
        await held.keep()
    ledger.silent = False
    await held.keep()
    now[0] = 6.0
    await ledger.claim("0", leader=leader, lease=3.0)
    with pytest.raises(Deposed, match="writer 0 is not epoch 1:"):
        await held.keep()


async def test_two_that_claim_an_empty_seat_at_once_do_not_both_lead(
    embedded_server: EmbeddedServer,
) -> None:
    flush(embedded_server)
    ledgers = [RedisLedger(embedded_server.url) for _ in range(4)]
    assert len(set(await asyncio.gather(*(ledger.open() for ledger in ledgers)))) == 1
    claims = [ledger.claim(COORDINATOR, lease=LONG) for ledger in ledgers]
    result = await asyncio.gather(*claims, return_exceptions=True)
    assert [type(one) for one in result].count(Epoch) == 1
    assert [type(one) for one in result].count(LeaseHeld) == 3
    for ledger in ledgers:
        await ledger.close()
    flush(embedded_server)
