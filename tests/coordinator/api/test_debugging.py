"""Looking into the processes of a service: their stacks, their view, their log level."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from pathlib import Path

import pytest
from aiohttp import ClientSession

from coordinator.api.auth.roles import needed
from coordinator.api.debugging import BASE as ROUTE
from coordinator.intake.principal import TokenRole
from laboratory.cli.app import run
from shared.telemetry.profiler import OTHERS, sample
from tests.coordinator.explain.cluster import job, node, settled
from tests.end_to_end.one_process.harness import running, submit

BASE = "/apis/quadrant.dev/v1alpha1/debug"


@pytest.mark.parametrize(
    ("method", "verb"), [("GET", "dump"), ("GET", "profile"), ("PUT", "loglevel")]
)
def test_only_admins_look_into_processes(method: str, verb: str) -> None:
    assert needed(method, f"{ROUTE}/{verb}") is TokenRole.ADMIN


def test_a_profile_names_the_function_that_works() -> None:
    result = threading.Event()

    def burns_time() -> None:
        while not result.is_set():
            sum(range(1000))

    worker = threading.Thread(target=burns_time, name="burner")
    worker.start()
    try:
        profile = sample(0.3, interval=0.005)
    finally:
        result.set()
        worker.join()
    mine = [stack for stack in profile.stacks if stack.startswith("burner;")]
    assert mine
    assert all("burns_time (test_debugging.py:" in stack for stack in mine)
    assert profile.samples > 5
    assert OTHERS not in profile.stacks
    assert not any("sample (profiler.py" in stack for stack in profile.stacks)


async def test_dumps_of_coordinator_and_worker_agree(tmp_path: Path, redis_url: str) -> None:
    async with running(redis_url, tmp_path, shards=2) as service:
        await submit(service, node("a", gpus=8), node("b"), job("runs", 2, gpus=2))
        await settled(service, bound=2)
        await submit(service, job("waits", 1, gpus=9))
        await service.until(lambda s: s["jobs"]["pending"] == 1)
        async with ClientSession(service.url) as client:

            async def dumped(role: str) -> dict[str, object]:
                async with client.get(f"{BASE}/{role}/dump") as answer:
                    assert answer.status == 200, await answer.text()
                    body: dict[str, object] = await answer.json()
                    return body

            core = await dumped("coordinator")
            for _ in range(200):  # the worker reads what is committed with its next call
                view = await dumped("shard-0")
                if view["totals"]["used"]["nvidia.com/gpu"] == 4000:  # type: ignore[index]
                    break
                await asyncio.sleep(0.02)
            async with client.get(f"{BASE}/shard-7/dump") as missing:
                assert missing.status == 404
                assert "shard-0 to shard-1" in await missing.text()
    for process in (core, view):
        assert process["garbageCollection"]["collections"][0] > 0  # type: ignore[index]
    assert core["counts"]["nodes"] == view["counts"]["nodes"] == 2  # type: ignore[index]
    assert core["counts"]["waitingJobs"] == 1  # type: ignore[index]
    assert [each["key"] for each in core["jobs"]] == ["default/waits"]  # type: ignore[attr-defined]
    assert view["totals"]["used"]["nvidia.com/gpu"] == 4000  # type: ignore[index]
    (used,) = [each for each in view["nodes"] if each["name"] == "a"]  # type: ignore[attr-defined]
    assert used["version"] > 0
    assert used["used"]["nvidia.com/gpu"] == 4000
    names = {each["name"] for each in core["shards"]}  # type: ignore[attr-defined]
    assert names == {"shard-0", "shard-1"}


async def test_the_commands_show_profile_dump_and_level(
    tmp_path: Path, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = logging.getLogger().level
    async with running(redis_url, tmp_path, shards=1) as service:

        async def typed(*words: str) -> str:
            capsys.readouterr()
            code = await asyncio.to_thread(run, [*words, "--server", service.url], "quadrant")
            out = capsys.readouterr()
            assert code == 0, out.err
            return out.out

        try:
            await submit(service, node("a"))
            began = time.monotonic()
            profile = await typed("debug", "profile", "coordinator", "--seconds", "1")
            assert time.monotonic() - began >= 1
            folded = await typed("debug", "profile", "shard-0", "--seconds", "1", "--folded")
            dump = await typed("debug", "dump", "shard-0")
            as_json = json.loads(await typed("debug", "dump", "coordinator", "-o", "json"))
            level = await typed("debug", "loglevel", "shard-0", "error")
            assert logging.getLogger().level == logging.ERROR
        finally:
            logging.getLogger().setLevel(before)
    assert profile.startswith("coordinator: ")
    assert "FUNCTION" in profile
    assert all(line.rpartition(" ")[2].isdigit() for line in folded.splitlines())
    assert "ownNodes" in dump
    assert as_json["role"] == "coordinator"
    assert level.startswith("shard-0 logs from error on; it was ")
