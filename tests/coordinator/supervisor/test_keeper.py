"""The keeper with real processes: what dies is there again, what dies again and again is told."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from coordinator.supervisor.child_process import Child, ChildDied, command_line, in_session
from coordinator.supervisor.restarts import (
    DEATHS,
    PAUSES,
    WINDOW_SECONDS,
    Deaths,
    DiskFull,
    Keeper,
    ProcessDied,
    ProcessRecovered,
    ProcessReport,
)
from coordinator.supervisor.supervisor import CLUSTER, LEDGER, Supervisor
from shared.settings.settings import load_settings
from tests.examples import first_of

WITHIN = 60.0
"""Seconds, for what takes a tenth of one where nothing else runs."""


@asynccontextmanager
async def keeping_alive(path: Path, reports: list[ProcessReport]) -> AsyncIterator[Supervisor]:
    settings = load_settings(run_dir=path)
    async with Supervisor(settings, roles=(LEDGER, CLUSTER)) as parts, asyncio.TaskGroup() as group:
        keeping = group.create_task(Keeper(parts, report=reports.append).run())
        yield parts
        keeping.cancel()


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("role", first_of([LEDGER, CLUSTER]))
async def test_a_killed_process_is_there_again_at_its_address(short_dir: Path, role: str) -> None:
    reports: list[ProcessReport] = []
    async with keeping_alive(short_dir, reports) as parts:
        before = parts.settings
        pid = parts.pids()[role]
        url, password = before.redis_url or "", before.redis_secret
        async with Redis.from_url(url, password=password) as client:
            await client.set("key", "kept")
        os.kill(pid, signal.SIGKILL)
        await until(lambda: any(isinstance(one, ProcessRecovered) for one in reports))
        assert [type(one) for one in reports] == [ProcessDied, ProcessRecovered]
        assert {one.role for one in reports} == {role}
        assert parts.pids()[role] != pid
        assert parts.settings == before
        assert await parts.answers(role)
        async with Redis.from_url(url, password=password) as client:
            assert await client.get("key") == b"kept"


@pytest.mark.all
async def test_all_at_once_are_there_again(short_dir: Path) -> None:
    reports: list[ProcessReport] = []
    async with keeping_alive(short_dir, reports) as parts:
        for pid in parts.pids().values():
            os.kill(pid, signal.SIGKILL)
        await until(lambda: sum(isinstance(one, ProcessRecovered) for one in reports) == 2)


async def test_a_server_that_does_not_start_at_first_is_tried_again(short_dir: Path) -> None:
    """As where its disk is full."""
    reports: list[ProcessReport] = []
    async with keeping_alive(short_dir, reports) as parts:
        settings = parts.settings
        log = settings.data_dir / "appendonlydir"
        os.kill(parts.pids()[LEDGER], signal.SIGKILL)
        log.rename(settings.data_dir / "away")
        log.write_text("no directory")
        await until(lambda: any("did not start" in str(one) for one in reports))
        log.unlink()
        (settings.data_dir / "away").rename(log)
        await until(lambda: any(isinstance(one, ProcessRecovered) for one in reports))
        assert LEDGER in parts.pids()


@pytest.fixture
def disk(short_dir: Path) -> Iterator[Path]:
    """A file system of its own, of 24 MiB."""
    at = short_dir / "disk"
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "quadrant", at], check=True)
    yield at
    subprocess.run(["umount", at], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, which takes root")
async def test_a_ledger_whose_disk_is_full_waits_and_goes_on_by_itself(
    short_dir: Path, disk: Path
) -> None:
    reports: list[ProcessReport] = []
    settings = load_settings(run_dir=short_dir / "run", data_dir=disk / "data")
    async with Supervisor(settings, roles=(LEDGER,)) as parts, asyncio.TaskGroup() as group:
        keeping = group.create_task(Keeper(parts, report=reports.append).run())
        other = disk / "other"
        other.write_bytes(b"x" * shutil.disk_usage(disk).free)
        with pytest.raises(RedisError):
            async with _client(parts) as client:
                while True:
                    await client.set("key", "v" * 10_000)
        await until(lambda: any(isinstance(one, DiskFull) for one in reports))
        await asyncio.sleep(1.0)
        assert LEDGER not in parts.pids()
        other.unlink()
        await until(lambda: isinstance(reports[-1], ProcessRecovered))
        async with _client(parts) as client:
            await client.set("key", "room")
        keeping.cancel()
    assert str(disk) in " ".join(map(str, reports))


def _client(parts: Supervisor) -> Redis:
    return Redis.from_url(parts.settings.redis_url or "", password=parts.settings.redis_secret)


async def test_a_process_stopped_on_request_is_not_restarted(short_dir: Path) -> None:
    reports: list[ProcessReport] = []
    async with keeping_alive(short_dir, reports) as parts:
        parts.kill(CLUSTER)
        await asyncio.sleep(0.3)
        assert CLUSTER not in parts.pids()
        assert reports == []


async def test_repeated_deaths_end_all_processes_with_role_and_log(short_dir: Path) -> None:
    reports: list[ProcessReport] = []
    with pytest.raises(ExceptionGroup) as caught:
        async with keeping_alive(short_dir, reports) as parts:
            pids = set(parts.pids().values())
            parts._children[CLUSTER].arguments = [sys.executable, "-c", "print('no'); exit(7)"]
            os.kill(parts.pids()[CLUSTER], signal.SIGKILL)
            await asyncio.sleep(WITHIN)
    result: BaseException = caught.value
    while isinstance(result, ExceptionGroup):
        (result,) = result.exceptions
    assert isinstance(result, ChildDied)
    assert result.role == CLUSTER
    assert f"exit code 7, for the {DEATHS}th time" in str(result)
    assert "no" in str(result).splitlines()[-1]
    assert len(reports) == DEATHS - 1
    assert not any(command_line(pid) for pid in pids)


def test_deaths_are_counted_within_a_window() -> None:
    deaths = Deaths()
    assert [deaths.pause(float(second)) for second in range(DEATHS)] == [*PAUSES, None]
    slow = Deaths()
    step = WINDOW_SECONDS / (DEATHS - 1)
    assert all(slow.pause(step * number) is not None for number in range(50))


@pytest.mark.skipif(sys.platform != "linux", reason="a dead parent's session is read from /proc")
async def test_leftover_children_are_ended_before_a_restart(
    short_dir: Path,
) -> None:
    """A head that is killed alone leaves processes that hold its ports."""
    program = (
        "import subprocess, sys, time;"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "print('up', flush=True); time.sleep(60)"
    )
    child = Child("any", [sys.executable, "-c", program], os.environ, short_dir / "any.log")
    child.start()
    pid = child.pid
    assert pid is not None
    await until(lambda: (short_dir / "any.log").read_text() == "up\n")
    assert len(in_session(pid)) == 2
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not child.running())
    assert len(in_session(pid)) == 1, "nothing is left that could be ended"
    child.start()
    assert in_session(pid) == set()
    child.kill()
