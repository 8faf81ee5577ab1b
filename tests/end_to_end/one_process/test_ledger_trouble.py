"""A ledger that dies, forgets, fills up, stands still or loses answers, under a service at work.

The server is real, and so is everything of the service but Ray and the other processes. What is
asked each time: what was acknowledged is there afterwards, nothing happens twice, and it goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from laboratory.workloads.generators import DURATION
from shared.errors import first_of
from shared.ledger.records import USED, WIDTH, unpack_node
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import Epoch, TaskState
from tests.builders.objects import node, pod
from tests.end_to_end.one_process.cutting import Cutter
from tests.end_to_end.one_process.harness import PATIENCE, Running, running

BOUND_SECONDS = 5.0
"""After a restart of the server scheduling goes on within so long; told, not held to here."""


@pytest.fixture
def server(short_dir: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(short_dir, short_dir / "data")
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def ledger(server: EmbeddedServer) -> AsyncIterator[RedisLedger]:
    """A client of the test's own, to look into the ledger at the end."""
    ledger = RedisLedger(server.url)
    yield ledger
    await ledger.close()


def ending(name: str) -> dict[str, Any]:
    """A pod that ends by itself."""
    pod_item = pod(name)
    pod_item["metadata"]["annotations"][DURATION] = "1"
    return pod_item


class Load:
    """Pods, one after another; the names of those that were acknowledged."""

    def __init__(self, service: Running) -> None:
        self.service = service
        self.acknowledged: list[str] = []
        self.task: asyncio.Task[None]
        self._enough = False
        self._tried = 0

    async def one(self) -> None:
        writer = self.service.service._writer
        assert writer is not None
        self._tried += 1
        name = f"p{self._tried}"
        result = await writer.submit([ending(name)])
        assert result.refused == []
        self.acknowledged.append(name)

    async def go_on(self) -> None:
        while not self._enough:
            await self.one()
            await asyncio.sleep(0.005)

    async def settled(self, ledger: RedisLedger) -> None:
        """All that was acknowledged ran once and ended; nothing is held any more."""
        self._enough = True
        await self.task  # the last one may be stored, and known to nobody yet
        await self.service.until(
            lambda status: (
                status["jobs"]["finished"] == status["jobs"]["submitted"] >= len(self.acknowledged)
            )
        )
        snapshot = await ledger.snapshot()
        names = {key.rpartition("/")[2] for key in snapshot.documents if key.startswith("Pod/")}
        assert set(self.acknowledged) <= names
        states = [task.state for tasks in snapshot.tasks.values() for task in tasks.values()]
        assert states == [TaskState.SUCCEEDED] * len(snapshot.jobs)
        for record in snapshot.nodes.records:
            assert not any(unpack_node(record)[2][USED::WIDTH])

    async def more(self, count: int, within: float = PATIENCE) -> float:
        """Seconds until so many more were acknowledged."""
        started, goal = time.monotonic(), len(self.acknowledged) + count
        while len(self.acknowledged) < goal:
            assert time.monotonic() - started < within, "nothing is taken any more"
            assert not self.service._task.done(), self.service._task.exception()
            await asyncio.sleep(0.01)
        return time.monotonic() - started


@contextlib.asynccontextmanager
async def loaded(url: str, path: Path, **settings: Any) -> AsyncIterator[Load]:
    options: dict[str, Any] = {"speedup": 1e5, "grace": 0.0, "coordinator_lease_seconds": 1.0}
    async with running(url, path, **options | settings) as service:
        writer = service.service._writer
        assert writer is not None
        await writer.submit([node(f"n{i}") for i in range(4)])
        load = Load(service)
        load.task = asyncio.create_task(load.go_on())
        try:
            await load.more(20)
            yield load
        finally:
            load.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await load.task


async def test_killed_and_restarted_it_goes_on_and_has_all_that_was_acknowledged(
    server: EmbeddedServer, ledger: RedisLedger, short_dir: Path
) -> None:
    async with loaded(server.url, short_dir) as load:
        for away in (0.0, 0.4):
            server.kill()
            await asyncio.sleep(away)
            server.start()
            took = await load.more(5)
            print(f"after {away} s without a server: {took:.2f} s, bound {BOUND_SECONDS}")  # noqa: T201
        await load.settled(ledger)


@pytest.mark.all
async def test_away_for_longer_than_every_lease_it_goes_on_under_the_same_leader(
    server: EmbeddedServer, ledger: RedisLedger, short_dir: Path
) -> None:
    """Nobody else claimed the leadership: there is nobody."""
    async with loaded(server.url, short_dir, shard_lease_seconds=1.0) as load:
        leadership = load.service.service.leadership
        assert leadership is not None
        server.kill()
        await asyncio.sleep(1.5)
        assert not leadership.sure, "it stands still meanwhile"
        server.start()
        print(f"{await load.more(5):.2f} s")  # noqa: T201
        assert load.service.service.leadership is leadership
        await load.settled(ledger)


@contextlib.asynccontextmanager
async def gives_up(server: EmbeddedServer, path: Path, says: str) -> AsyncIterator[Load]:
    """A service that ends within the block, and says so."""
    with pytest.raises(ExceptionGroup) as caught:
        async with loaded(server.url, path) as load:
            yield load
            async with asyncio.timeout(PATIENCE):
                await asyncio.wait([load.service._task])
    assert says in first_of(caught.value), caught.value


async def test_restarted_empty_it_gets_no_service(server: EmbeddedServer, short_dir: Path) -> None:
    async with gives_up(server, short_dir, "quadrant ledger restore") as load:
        assert load.acknowledged
        server.kill()
        shutil.rmtree(server.data_dir / "appendonlydir")
        server.start()
    with redis.Redis.from_url(server.url, protocol=2) as client:
        assert client.keys("*") == [], "nothing was written to it"


def restore(copy: Path, server: EmbeddedServer) -> None:
    """Put an old copy in the place of a dead server's data, and start it."""
    shutil.rmtree(server.data_dir / "appendonlydir")
    copy.rename(server.data_dir / "appendonlydir")
    server.start()


@pytest.mark.parametrize("read", [False, True], ids=["at once", "read before it is judged"])
async def test_back_from_an_old_copy_it_gets_no_service(
    server: EmbeddedServer,
    ledger: RedisLedger,
    short_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    read: bool,
) -> None:
    """``read``: workers and others follow the log of the copy, to which the claims of new epochs
    come, before the leader looks for what it has seen. Once that was enough to accept it."""
    copy = short_dir / "copy"
    bless = RedisLedger.bless

    async def read_first(ledger: RedisLedger, leader: Epoch, *, after: str = "0") -> str:
        await ledger.read_log("0", count=10_000)
        return await bless(ledger, leader, after=after)

    async with gives_up(server, short_dir, "this is an old copy") as load:
        server.kill()
        shutil.copytree(server.data_dir / "appendonlydir", copy)
        server.start()
        await load.more(10)
        server.kill()
        if read:
            monkeypatch.setattr(RedisLedger, "bless", read_first)
        restore(copy, server)
    before = await ledger.snapshot()
    assert len(before.jobs) < len(load.acknowledged)


@pytest.mark.all
async def test_a_coordinator_that_begins_with_an_old_copy_gives_up(
    server: EmbeddedServer, short_dir: Path
) -> None:
    """It reads the log up to its own claims before it looks for what was seen in it."""
    copy = short_dir / "copy"
    async with loaded(server.url, short_dir) as load:
        server.kill()
        shutil.copytree(server.data_dir / "appendonlydir", copy)
        server.start()
        await load.more(10)
        ledger = load.service.service._ledger
        assert isinstance(ledger, RedisLedger)
    server.kill()
    restore(copy, server)
    with pytest.raises(ExceptionGroup) as caught:
        async with running(server.url, short_dir, seen=ledger.newest):
            pass
    assert "this is an old copy" in str(first_of(caught.value))


async def _held_up(load: Load, seconds: float) -> None:
    """Nothing that begins now is acknowledged, and nobody dies of it."""
    before = len(load.acknowledged)
    await asyncio.sleep(seconds)
    assert len(load.acknowledged) <= before + 1, "one may have been under way"
    assert not load.service._task.done()


@pytest.mark.all
async def test_full_it_takes_nothing_until_it_has_room_again(
    server: EmbeddedServer, ledger: RedisLedger, short_dir: Path
) -> None:
    async with loaded(server.url, short_dir) as load:
        with redis.Redis.from_url(server.url, protocol=2) as client:
            client.config_set("maxmemory", "1mb")
            await _held_up(load, 0.5)
            client.config_set("maxmemory", "0")
        print(f"{await load.more(5):.2f} s")  # noqa: T201
        await load.settled(ledger)


@pytest.mark.all
async def test_a_full_disk_ends_the_ledger_and_loses_nothing_acknowledged(
    server: EmbeddedServer, ledger: RedisLedger, short_dir: Path
) -> None:
    """With fsync before each answer it cannot go on; the end of its file may be half an entry."""
    async with loaded(server.url, short_dir) as load:
        assert server.pid is not None
        written = max(path.stat().st_size for path in (server.data_dir / "appendonlydir").iterdir())
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (written + 9_999, written + 9_999))
        for _ in range(6000):
            if not server.running():
                break
            await asyncio.sleep(0.01)
        assert not server.running(), "it wrote more than its disk holds"
        await _held_up(load, 0.3)
        server.start()
        print(f"{await load.more(5):.2f} s")  # noqa: T201
        await load.settled(ledger)


@pytest.mark.all
async def test_read_only_it_takes_nothing_until_it_may_be_written(
    server: EmbeddedServer, ledger: RedisLedger, short_dir: Path
) -> None:
    async with loaded(server.url, short_dir) as load:
        with redis.Redis.from_url(server.url, protocol=2) as client:
            client.replicaof("127.0.0.1", 1)
            await _held_up(load, 0.5)
            client.replicaof("no", "one")
        print(f"{await load.more(5):.2f} s")  # noqa: T201
        await load.settled(ledger)


@pytest.mark.parametrize("seconds", [0.3, 1.6])
@pytest.mark.all
async def test_slow_it_holds_up_and_loses_nothing(
    server: EmbeddedServer, ledger: RedisLedger, short_dir: Path, seconds: float
) -> None:
    """For less than a lease, and for longer."""
    async with loaded(server.url, short_dir, shard_lease_seconds=1.0) as load:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSTOP)
        try:
            await _held_up(load, seconds)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        print(f"{await load.more(5):.2f} s")  # noqa: T201
        await load.settled(ledger)


@pytest.mark.all
async def test_cut_in_the_middle_of_questions_and_answers_nothing_happens_twice(
    server: EmbeddedServer, ledger: RedisLedger, short_dir: Path
) -> None:
    """A caller without an answer cannot know the result, and sends the same again."""
    cutter, path = Cutter(server.socket, seed=4), short_dir / "cut.sock"
    async with cutter.listening(path), loaded(f"unix://{path}", short_dir) as load:
        cutter.answers, cutter.questions = 0.03, 0.01
        took = await load.more(60)
        while cutter.cut_answers < 6:  # fewer show nothing
            took += await load.more(10)
        cutter.answers = cutter.questions = 0.0
        print(f"{took:.2f} s, cut {cutter.cut_answers} answers, {cutter.cut_questions} questions")  # noqa: T201
        await load.settled(ledger)


@pytest.mark.all
async def test_set_forward_the_clock_ends_leases_and_they_begin_anew(
    server: EmbeddedServer, ledger: RedisLedger, short_dir: Path
) -> None:
    """As by an hour: every lease has its end in the past."""
    async with loaded(server.url, short_dir) as load:
        with redis.Redis.from_url(server.url, protocol=2) as client:
            _move_ends(client, -3600)
            print(f"{await load.more(5):.2f} s")  # noqa: T201
            _move_ends(client, 3600)
            await load.more(5)
        await load.settled(ledger)


def _move_ends(client: Any, seconds: int) -> None:
    """To a lease it is the same whether the clock or its end moves."""
    field = b"{quadrant}:epoch"
    for name, value in client.hgetall(field).items():
        if name.endswith(b"/lease"):
            end, length = map(int, value.split())
            client.hset(field, name, b"%d %d" % (end + seconds * 10**6, length))
