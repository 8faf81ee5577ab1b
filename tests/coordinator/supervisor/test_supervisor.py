"""The supervisor with real processes: they start, are watched, come back, and none is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from coordinator.supervisor import ray_head
from coordinator.supervisor.child_process import ChildDied, descendants
from coordinator.supervisor.readiness import quiet_port
from coordinator.supervisor.supervisor import (
    CLUSTER,
    COORDINATOR,
    LEDGER,
    RAY,
    Supervisor,
    SupervisorError,
)
from shared.settings.settings import Settings, load_settings

WITHOUT_RAY = (LEDGER, CLUSTER)
JOIN = """
import os, ray
ray.init(address=os.environ["QUADRANT_RAY_ADDRESS"], namespace="quadrant", log_to_driver=False)
class ShardActor:
    def pid(self): return os.getpid()
options = {"name": "shard-0", "lifetime": "detached", "num_cpus": 0}
actor = ray.remote(ShardActor).options(**options).remote()
print(ray.get(actor.pid.remote()))
"""
ASK = """
import os
from ray._raylet import GcsClient
GcsClient(address=os.environ["QUADRANT_RAY_ADDRESS"]).internal_kv_get(b"key", b"space", timeout=60)
"""
OWNER = """
import asyncio, sys
from coordinator.supervisor.supervisor import CLUSTER, RAY, LEDGER, Supervisor
from shared.settings.settings import load_settings
async def main():
    async with Supervisor(load_settings(), roles=(LEDGER, RAY, CLUSTER)) as running:
        print("up", flush=True)
        await running.wait()
asyncio.run(main())
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2]
    except OSError:
        return False
    return state[0] not in "ZX"


def left(pids: set[int], *, within: float = 0.0) -> set[int]:
    """The processes that still run, after waiting for their end."""
    deadline = time.monotonic() + within
    while (result := {pid for pid in pids if alive(pid)}) and time.monotonic() < deadline:
        time.sleep(0.05)
    return result


async def outside(
    program: str, running: Supervisor, **extra: str
) -> subprocess.CompletedProcess[str]:
    """A process of its own, with what it needs to join the Ray head in its environment."""
    environment = {**os.environ, **running.ray_environment, **running.settings.environment()}
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program],
        env={**environment, **extra},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _environment(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError):  # not Linux
        return Path(f"/proc/{pid}/environ").read_text()
    return ""


async def answer(settings: Settings, ask: Callable[[Redis], Awaitable[object]]) -> object:
    access = settings.access()
    async with Redis.from_url(access.url, password=access.password) as client:
        return await ask(client)


@pytest.mark.slow
@pytest.mark.timeout(300)  # 137 s on a machine with a dozen others at work
async def test_everything_starts_works_and_leaves_nothing(short_dir: Path) -> None:
    phases: list[str] = []
    settings = load_settings(run_dir=short_dir, shards=1)
    async with Supervisor(
        settings, roles=(LEDGER, RAY, CLUSTER), on_phase=phases.append
    ) as running:
        assert set(running.pids()) == {LEDGER, RAY, CLUSTER}
        assert await answer(running.settings, lambda client: client.ping()) is True
        address = running.settings.ray_address or ""
        assert address.startswith("127.0.0.1:")

        joined = await outside(JOIN, running)
        assert joined.returncode == 0, joined.stderr
        worker = int(joined.stdout)
        assert running.worker_pids() == [worker]
        # Ray would give its workers the lowest share of a busy machine.
        assert os.getpriority(os.PRIO_PROCESS, worker) == os.getpriority(os.PRIO_PROCESS, 0)

        assert (await outside(ASK, running)).returncode == 0
        (short_dir / "other").write_text("0" * 64)
        refused = await outside(ASK, running, RAY_AUTH_TOKEN_PATH=str(short_dir / "other"))
        assert "AuthenticationError" in refused.stderr, "the head lets anyone in"

        first = descendants(running.pids()[RAY])
        assert worker in first
        running.kill(RAY)
        assert left(first) == set()
        running.check()  # asked for: not an error

        await running.restart(RAY)
        assert running.settings.ray_address == address
        everything = set(running.pids().values()) | descendants(running.pids()[RAY])
        token = short_dir / "ray.token"
        assert token.stat().st_mode & 0o077 == 0
    assert left(everything) == set()
    assert running.pids() == {}
    assert not (short_dir / "ray").exists()
    assert phases[-1] == "running"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.all
async def test_a_coordinator_leads_while_ray_starts_and_starts_again(short_dir: Path) -> None:
    """A head that dies at the start is started again."""
    pids: dict[str, dict[str, int]] = {}
    workers = "waiting for the coordinator and its workers"

    def kill_head(phase: str) -> None:
        pids[phase] = running.pids()
        if phase == workers:
            os.kill(pids[phase][RAY], signal.SIGKILL)

    running = Supervisor(load_settings(run_dir=short_dir, shards=1), on_phase=kill_head)
    async with running:
        assert await running.leader() == COORDINATOR
        assert running.pids()[RAY] != pids[workers][RAY]
        assert running.worker_pids()
        log = running.log(COORDINATOR).read_text()
    assert COORDINATOR in pids["waiting for ray"]
    assert log.index("Became the leader") < log.index("Started a shard worker")


def test_a_port_for_a_slow_server_is_none_that_the_kernel_gives_out() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    port = quiet_port("127.0.0.1")
    assert 20_000 <= port < first
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        server.listen()
        with patch.object(secrets, "randbelow", side_effect=[port - 20_000, port - 19_999]):
            assert quiet_port("127.0.0.1") != port


@pytest.mark.slow
@pytest.mark.timeout(300)  # 137 s on a machine with a dozen others at work
@pytest.mark.all
def test_nothing_outlives_a_killed_supervisor(short_dir: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env={**os.environ, "QUADRANT_RUN_DIR": str(short_dir), "QUADRANT_SHARDS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        everything = descendants(owner.pid)
        assert len(everything) >= 5, "ledger, cluster, Ray's head and its parts"
        owner.send_signal(signal.SIGKILL)
    assert left(everything, within=60.0) == set()

    (short_dir / "ray").mkdir(exist_ok=True)  # what a head leaves that was killed itself
    (short_dir / "ray" / ray_head.ADDRESS_FILE).write_text("127.0.0.1:9")

    async def again() -> int:
        async with Supervisor(load_settings(run_dir=short_dir, shards=1), roles=(RAY,)) as running:
            return (await outside(ASK, running)).returncode

    assert asyncio.run(again()) == 0, "the next one asked the head that is gone"


async def test_ledger_keeps_its_data_over_kill_and_restart(short_dir: Path) -> None:
    async with Supervisor(load_settings(run_dir=short_dir), roles=(LEDGER,)) as running:
        await answer(running.settings, lambda client: client.set("key", "kept"))
        url, pid = running.settings.redis_url, running.pids()[LEDGER]
        running.kill(LEDGER)
        assert running.pids() == {}
        await running.restart(LEDGER)
        assert running.settings.redis_url == url
        assert running.pids()[LEDGER] != pid
        assert await answer(running.settings, lambda client: client.get("key")) == b"kept"


@pytest.mark.all
async def test_the_ledger_asks_for_a_new_password_at_each_start(short_dir: Path) -> None:
    passwords = set()
    for _ in range(2):
        async with Supervisor(load_settings(run_dir=short_dir), roles=WITHOUT_RAY) as running:
            secret = running.settings.redis_secret or ""
            assert len(secret) == 64
            passwords.add(secret)
            file = short_dir / "ledger.password"
            assert file.read_text() == secret
            assert file.stat().st_mode & 0o777 == 0o600
            async with Redis.from_url(running.settings.redis_url or "") as stranger:
                with pytest.raises(RedisConnectionError, match="authenticated"):
                    await stranger.ping()
            assert secret not in _environment(running.pids()[CLUSTER])
        assert not file.exists()
    assert len(passwords) == 2


async def test_death_of_a_process_is_told_with_role_and_log(short_dir: Path) -> None:
    async with Supervisor(load_settings(run_dir=short_dir), roles=WITHOUT_RAY) as running:
        running.check()
        (short_dir / "log" / "cluster.log").write_text("the last words\n")
        os.kill(running.pids()[CLUSTER], signal.SIGKILL)
        with pytest.raises(ChildDied, match=r"cluster process was ended by SIGKILL") as caught:
            async with asyncio.timeout(60):
                await running.wait()
        assert "the last words" in str(caught.value)
        assert caught.value.role == CLUSTER


async def test_death_of_the_ledger_is_noticed(short_dir: Path) -> None:
    async with Supervisor(load_settings(run_dir=short_dir), roles=(LEDGER,)) as running:
        os.kill(running.pids()[LEDGER], signal.SIGKILL)
        with pytest.raises(ChildDied, match="ledger"):
            async with asyncio.timeout(60):
                await running.wait()


@pytest.mark.all
async def test_orderly_stop_ends_the_cluster_process_well(short_dir: Path) -> None:
    async with Supervisor(load_settings(run_dir=short_dir), roles=WITHOUT_RAY) as running:
        pass
    assert running.exit_codes == {CLUSTER: 0}
    assert (short_dir / "history.jsonl").exists()


async def test_failed_start_names_the_reason_and_leaves_nothing(short_dir: Path) -> None:
    settings = load_settings(run_dir=short_dir, cluster_faults="laziness=0.5")
    running = Supervisor(settings, roles=WITHOUT_RAY)
    with pytest.raises(ChildDied, match="laziness"):
        async with running:
            pytest.fail("it started")
    assert running.pids() == {}


async def test_one_run_directory_has_one_supervisor(short_dir: Path) -> None:
    settings = load_settings(run_dir=short_dir)
    async with Supervisor(settings, roles=(LEDGER,)) as running:
        of_the_first = short_dir / "ray" / "session"
        of_the_first.mkdir(parents=True)
        with pytest.raises(SupervisorError, match="QUADRANT_RUN_DIR"):
            async with Supervisor(settings, roles=(LEDGER,)):
                pytest.fail("it started")
        assert of_the_first.is_dir(), "the second one took the first one's files away"
        running.check()
        assert await answer(running.settings, lambda client: client.ping()) is True
    async with Supervisor(settings, roles=(LEDGER,)) as again:
        again.check()


async def test_deep_run_directory_gets_its_sockets_elsewhere(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    async with Supervisor(load_settings(run_dir=deep), roles=WITHOUT_RAY) as running:
        socket = Path((running.settings.redis_url or "").removeprefix("unix://"))
        assert len(os.fsencode(socket)) < 100
        assert await answer(running.settings, lambda client: client.ping()) is True
    assert not socket.parent.exists()
    assert (deep / "data").is_dir()


async def test_a_server_started_elsewhere_is_used_and_not_stopped(short_dir: Path) -> None:
    async with Supervisor(load_settings(run_dir=short_dir / "a"), roles=(LEDGER,)) as first:
        ledger = {n: getattr(first.settings, n) for n in ("redis_url", "redis_password_file")}
        settings = load_settings(run_dir=short_dir / "b", **ledger)
        async with Supervisor(settings, roles=WITHOUT_RAY) as second:
            assert set(second.pids()) == {CLUSTER}
            with pytest.raises(SupervisorError, match="not a process started here"):
                second.kill(LEDGER)
        first.check()
