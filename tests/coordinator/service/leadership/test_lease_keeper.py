"""The leader's lease does not depend on what the event loop is made to do, and ends with it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.service.leadership.lease import Leadership
from coordinator.service.leadership.lease_keeper import KeeperThread
from shared.ledger.errors import Deposed, LeaseHeld
from shared.ledger.lease import SILENT_LEASES, LeaderLease
from shared.ledger.protocol import COORDINATOR
from shared.ledger.redis.access import Access
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.renewal import RedisRenewal
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import Epoch
from tests.conftest import flush

LEASES = (0.5, 0.5, 1.0, 1.0, 2.0, 4.0)
"""Seconds, of one attempt after another: a longer lease outlives longer pauses of the machine."""
PATIENCE = 60.0


@pytest.fixture
def server(embedded_server: EmbeddedServer) -> Iterator[EmbeddedServer]:
    flush(embedded_server)
    yield embedded_server


class KeptLeader:
    """A leader whose lease is kept by ``keeping``."""

    leadership: Leadership
    keeping: asyncio.Task[None]

    def __init__(self, lease: float) -> None:
        self.lease = lease


@asynccontextmanager
async def leading(server: EmbeddedServer, lease: float) -> AsyncIterator[KeptLeader]:
    flush(server)
    ledger = RedisLedger(server.url)
    kept_leader = KeptLeader(lease)
    try:
        await ledger.open()
        request_time = time.monotonic()
        epoch = await ledger.claim(COORDINATOR, lease=lease)
        kept_leader.leadership = Leadership(ledger, epoch=epoch, seconds=lease, asked=request_time)
        renewal = RedisRenewal(Access(server.url), timeout=lease)
        kept_leader.keeping = asyncio.create_task(
            kept_leader.leadership.keep_forever(partial(KeeperThread, renewal))
        )
        await asyncio.sleep(0)  # so that it has begun
        try:
            yield kept_leader
        finally:
            kept_leader.keeping.cancel()
            await asyncio.wait([kept_leader.keeping])
    finally:
        await ledger.close()


class RivalCoordinator:
    """Another coordinator, in a thread and a loop of its own, that asks for the leadership now and
    then until it has it or is told to stop."""

    def __init__(self, server: EmbeddedServer, lease: float) -> None:
        """``lease``: of the leader; it asks twenty times in one."""
        self.epoch: Epoch | None = None
        self.refused = 0
        self.longest_pause = 0.0
        """Seconds between two of its looks. It shares nothing with the leader but the process and
        the server: where it was long, neither of them got the time that a lease needs."""
        self._looked = time.monotonic()
        self._pause = lease / 20
        self._url = server.url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._ask()), daemon=True)
        self._thread.start()

    async def _ask(self) -> None:
        ledger = RedisLedger(self._url)
        try:
            while self.epoch is None and not self._stop.is_set():
                try:
                    self.epoch = await ledger.claim(COORDINATOR, lease=PATIENCE)
                except LeaseHeld:
                    self.refused += 1
                await asyncio.sleep(self._pause)
                self._look()
        finally:
            await ledger.close()

    def _look(self) -> None:
        now = time.monotonic()
        self.longest_pause = max(self.longest_pause, now - self._looked)
        self._looked = now

    def hold_up(self, seconds: float) -> None:
        """Hold up the loop that calls this, as a long callback does: for so long, or until the
        rival has the leadership."""
        self._thread.join(seconds)
        self._stop.set()
        self._thread.join(PATIENCE)
        self._look()


Attempt = Callable[[KeptLeader, RivalCoordinator], Awaitable[None]]


async def undisturbed(server: EmbeddedServer, attempt: Attempt) -> None:
    """Try until the machine lets the whole process run meanwhile: a lease may be lost, and rightly,
    while nobody gets time to renew it. Whatever fails besides fails at once: a pause of less than a
    third of a lease is outlived by one that is renewed after each third."""
    pauses = []
    for lease in LEASES:
        async with leading(server, lease) as leader:
            rival = RivalCoordinator(server, lease)
            try:
                await attempt(leader, rival)
                return
            except AssertionError:
                if rival.longest_pause < lease / 3:
                    raise
                pauses.append(rival.longest_pause)
    raise AssertionError(f"the process never ran for long enough: it stood still for {pauses} s")


async def test_a_loop_that_is_held_up_keeps_the_seat(server: EmbeddedServer) -> None:
    """For four leases nothing of the loop runs; the lease is renewed, and nobody takes the
    leadership."""

    async def attempt(leader: KeptLeader, rival: RivalCoordinator) -> None:
        before = leader.leadership.lease.until
        rival.hold_up(4 * leader.lease)
        assert leader.leadership.sure
        assert leader.leadership.lease.until > before + 2 * leader.lease
        assert rival.epoch is None
        assert rival.refused
        assert not leader.keeping.done()

    await undisturbed(server, attempt)


async def test_a_loop_that_hangs_loses_the_seat(server: EmbeddedServer) -> None:
    """Its process is alive, and so is the thread; another one can lead all the same."""

    async def attempt(leader: KeptLeader, rival: RivalCoordinator) -> None:
        began = time.monotonic()
        rival.hold_up(PATIENCE)
        assert rival.epoch is not None
        soonest = (SILENT_LEASES - 1) * leader.lease
        assert time.monotonic() - began >= soonest, "it was given up too soon"
        assert not leader.leadership.sure, "awake again, it would tell the cluster something"
        with pytest.raises(Deposed):
            await asyncio.wait_for(leader.keeping, PATIENCE)
        assert not leader.leadership.sure

    await undisturbed(server, attempt)


async def test_an_end_in_good_order_leaves_nothing_that_renews(server: EmbeddedServer) -> None:
    """A lease that was given back would else begin anew, and a successor would wait for it."""
    async with leading(server, LEASES[0]) as leader:
        leader.keeping.cancel()
        await asyncio.wait([leader.keeping])
        await leader.leadership.release()
        assert not [thread for thread in threading.enumerate() if thread.name == "lease"]
        rival = RivalCoordinator(server, leader.lease)
        rival.hold_up(PATIENCE)
        assert rival.epoch is not None
        assert not rival.refused


# --- the state machine --------------------------------------------------------------------------

moments = st.floats(0, 3.0)
steps = st.lists(
    st.tuples(st.sampled_from(["tick", "renew", "lost"]), moments, st.floats(0, 0.5)), max_size=60
)


@given(steps)
def test_a_keeper_is_sure_no_longer_than_the_granted_lease(
    happens: list[tuple[str, float, float]],
) -> None:
    """In any history: while it is sure, the ledger's lease, which began when the request arrived
    or later, has not run out; and after the last tick it is sure for a bounded time."""
    now, lease = 100.0, LeaderLease(seconds=2.0, asked=99.9)
    granted, ticked = 100.0 + 2.0, 99.9
    for what, pause, answer in happens:
        now += pause
        assert not lease.sure(now) or now < granted
        assert not lease.sure(now) or now < ticked + (SILENT_LEASES + 1) * 2.0 + 0.5
        if what == "tick":
            lease.tick(now)
            ticked = now
        elif not lease.silent(now):
            request_time, now = now, now + answer
            if what == "renew":
                granted = max(granted, request_time + 2.0)
                lease.renewed(request_time)
            else:
                lease.unanswered(now)
        assert 0 <= lease.pause(now) <= 2.0
