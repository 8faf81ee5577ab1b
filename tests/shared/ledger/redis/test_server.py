"""The embedded server: durable, ours alone, and the ledger's behaviour when it is not there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from shared.codec.packed import replace
from shared.ledger.entries.log import CommitEntry
from shared.ledger.errors import LedgerIdentity, LedgerUnavailable, ServerFailed
from shared.ledger.redis.access import Access
from shared.ledger.redis.client import RedisLedger
from shared.ledger.redis.server import EmbeddedServer
from shared.messages.messages import StatusItem, TaskState, Verdict
from tests.shared.ledger.support import COORDINATOR, Desk, cluster, job, run, statement

V = Verdict


@pytest.fixture
def server(short_dir: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(short_dir, short_dir / "data")
    server.start()
    yield server
    server.kill()


async def test_a_killed_server_brings_everything_back(server: EmbeddedServer) -> None:
    ledger = RedisLedger(server.url)
    desk = await Desk(ledger).open()
    await desk.store(*cluster(50), *(job(j) for j in range(100)))
    acknowledged: list[int] = []
    enough = asyncio.Event()

    async def write() -> None:
        for jid in range(100):
            try:
                reply = await desk.commit(statement(jid, run([0], [jid % 50])))
            except LedgerUnavailable:
                return
            if reply.answers[0].verdict in (V.COMMITTED, V.RECHECKED):
                acknowledged.append(jid)
            if len(acknowledged) == 30:
                enough.set()

    async def crash() -> None:
        await enough.wait()
        server.kill()

    await asyncio.gather(write(), crash())
    last = desk.sequences["0"]
    server.start()
    assert await ledger.run_id() == desk.run_id
    unblessed = await desk.commit(statement(99, run([0], [0])))
    assert unblessed.verdict is V.RUN
    assert (await desk.record(StatusItem(TaskState.BOUND, 0, [0], [0]))).verdict is V.RUN
    new_run = await desk.bless()
    assert new_run != desk.run_id
    assert (await desk.commit(statement(99, run([0], [0])))).verdict is V.RUN
    desk.run_id = new_run
    snapshot = await ledger.snapshot()
    # The one commit that was under way may have been applied without an answer, no other.
    assert set(acknowledged) <= set(snapshot.tasks) <= {*acknowledged, last - 1}
    entries = [e for e in await ledger.read_log("0") if isinstance(e, CommitEntry)]
    assert {c.jid for e in entries for c in e.accepted} == set(snapshot.tasks)
    assert {b[0] for e in await ledger.read_binds("b", count=999) for b in e.binds} == {
        *snapshot.tasks
    }
    again = await ledger.commit(replace(desk.commit_batch(statement(0, run([0], [0]))), sequence=1))
    assert (again.replayed, again.answers[0].verdict) == (True, V.COMMITTED)
    await ledger.close()


async def test_a_batch_whose_answer_was_lost_is_sent_again(server: EmbeddedServer) -> None:
    """The server applies the batch while the client gives up waiting: same answer, one effect."""
    patient, hasty = RedisLedger(server.url), RedisLedger(server.url, timeout=1.0)
    desk = await Desk(patient).open()
    await desk.store(*cluster(), job(7))
    batch = desk.commit_batch(statement(7, run([0], [0])))
    assert server.pid is not None
    await hasty.run_id()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(LedgerUnavailable):
            await hasty.commit(batch)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    reply = await patient.commit(batch)
    assert reply.answers[0].verdict is V.COMMITTED
    assert (await patient.snapshot()).jobs[7].groups[0].held == 1
    assert len(await patient.read_binds("b")) == 1
    await patient.close()
    await hasty.close()


async def test_scripts_that_the_server_forgot_are_sent_again(server: EmbeddedServer) -> None:
    ledger = RedisLedger(server.url)
    desk = await Desk(ledger).open()
    with redis.Redis.from_url(server.url, protocol=2) as client:
        client.script_flush()
    assert (await desk.store(*cluster())).verdict is V.COMMITTED
    await ledger.close()


async def test_no_server_is_an_error_of_ours(short_dir: Path) -> None:
    ledger = RedisLedger(f"unix://{short_dir}/none.sock")
    for call in (ledger.run_id(), ledger.claim("0"), ledger.read_log("0"), ledger.snapshot()):
        with pytest.raises(LedgerUnavailable, match="no answer"):
            await call
    await ledger.close()


async def test_a_ledger_that_lost_its_identity_gets_no_service(server: EmbeddedServer) -> None:
    ledger = RedisLedger(server.url)
    desk = await Desk(ledger).open()
    await desk.store(*cluster())
    cluster_id = await ledger.cluster_id()
    other = RedisLedger(server.url, cluster="another")
    with pytest.raises(LedgerIdentity, match=cluster_id):
        await other.open()
    with redis.Redis.from_url(server.url, protocol=2) as client:
        client.hset("{quadrant}:meta", "schema", 1)
        with pytest.raises(LedgerIdentity, match=r"schema 1, .* empty data directory"):
            await ledger.open()
        client.hset("{quadrant}:meta", "schema", 99)
        with pytest.raises(LedgerIdentity, match="schema 99"):
            await desk.bless()
        client.delete("{quadrant}:meta")
        with pytest.raises(LedgerIdentity, match="missing"):
            await desk.bless()
        assert (await desk.store()).verdict is V.RUN
        client.flushall()
    expecting = RedisLedger(server.url, cluster=cluster_id)
    with pytest.raises(LedgerIdentity, match=cluster_id):
        await expecting.open()
    for opened in (ledger, other, expecting):
        await opened.close()


async def test_a_password_is_needed_and_not_shown(short_dir: Path) -> None:
    secret = 'a "strange\\ one'
    server = EmbeddedServer(short_dir, short_dir / "data", secret)
    server.start()
    try:
        ledger = RedisLedger(Access(server.url, password=secret))
        assert await ledger.open()
        await ledger.close()
        stranger = RedisLedger(server.url)
        with pytest.raises(LedgerUnavailable):
            await stranger.run_id()
        await stranger.close()
        assert b"strange" not in command_line(server)
    finally:
        server.stop()


def command_line(server: EmbeddedServer) -> bytes:
    cmdline = Path(f"/proc/{server.pid}/cmdline")
    return cmdline.read_bytes() if cmdline.exists() else b""


def test_two_servers_never_share_data_or_socket(server: EmbeddedServer, short_dir: Path) -> None:
    with pytest.raises(ServerFailed, match="already listens"):
        EmbeddedServer(short_dir, short_dir / "other").start()
    with pytest.raises(ServerFailed, match="stop it first"):
        EmbeddedServer(short_dir / "r2", short_dir / "data").start()
    with pytest.raises(ServerFailed, match="too long"):
        EmbeddedServer(short_dir / ("x" * 100), short_dir / "data").start()
    server.stop()
    assert not server.running()
    server.start()
    assert server.running()


def test_the_server_ends_with_the_process_that_started_it(short_dir: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux tells a child that its parent died")
    program = (
        "import sys, time; from shared.ledger.redis.server import EmbeddedServer;"
        f"s = EmbeddedServer({str(short_dir)!r}, {str(short_dir / 'data')!r}); s.start();"
        "print(s.pid, flush=True); time.sleep(60)"
    )
    root = Path(__file__).resolve().parents[4]
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=root)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            break
        time.sleep(0.01)
    else:
        assert not Path(f"/proc/{pid}").exists()


async def test_the_coordinators_own_epoch_is_fenced_too(server: EmbeddedServer) -> None:
    ledger = RedisLedger(server.url)
    desk = await Desk(ledger).open()
    await ledger.claim(COORDINATOR)
    assert (await desk.store(*cluster())).verdict is V.EPOCH
    await ledger.close()


@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
def test_it_syncs_as_it_was_told(short_dir: Path, fsync: str) -> None:
    server = EmbeddedServer(short_dir, short_dir / "data", fsync=fsync)
    server.start()
    try:
        with redis.Redis.from_url(server.url, decode_responses=True, protocol=2) as client:
            assert client.config_get("append*") == {
                "appendonly": "yes",
                "appendfsync": fsync,
                "appendfilename": "appendonly.aof",
                "appenddirname": "appendonlydir",
            }
    finally:
        server.kill()
