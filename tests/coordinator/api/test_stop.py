"""A service that is asked to stop while many look on: in steps, and soon."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from coordinator.api.write.bulk import BASE
from tests.conftest import ROOT
from tests.coordinator.api.client import PODS, Client, Lines
from tests.coordinator.api.conftest import ITEMS
from tests.end_to_end.one_process.harness import running, submit
from tests.examples import first_of

NOT_LONG = 20.0


async def test_open_streams_are_told_and_end(redis_url: str, short_dir: Path) -> None:
    async with running(redis_url, short_dir) as service:
        await submit(service, *ITEMS)
        session = aiohttp.ClientSession(service.url)
        watch = await session.get(PODS, params={"watch": "1", "allowWatchBookmarks": "1"})
        stream = await session.get("/stream")
        assert (await Lines(watch).next())["type"] == "ADDED"
        assert await stream.content.readline()
    events = await Lines(watch).end()
    assert events[-1]["type"] == "BOOKMARK"  # where to go on
    async with asyncio.timeout(60.0):
        await stream.read()
    await session.close()


async def test_while_it_stops_it_reads_and_takes_nothing(redis_url: str, short_dir: Path) -> None:
    async with running(redis_url, short_dir) as service:
        await submit(service, *ITEMS)
        here = service.service._serving
        assert here is not None
        here.stop()
        async with aiohttp.ClientSession(service.url) as session:
            client = Client(session)
            code, text = await client.text("/readyz?verbose")
            assert code == 503
            assert "[-]serving failed: it is stopping" in text
            assert (await client.text("/livez"))[0] == 200
            assert "p1" in await client.names(PODS)
            async with session.post(f"{BASE}/lists", json={}) as answer:
                assert answer.status == 503
                assert answer.headers["Retry-After"]
                body = await answer.json()
            assert body["reason"] == "ServiceUnavailable"
            async with session.delete(f"{PODS}/p1") as answer:
                assert answer.status == 503


@pytest.mark.parametrize("twice", first_of([False, True]))
async def test_a_process_with_open_streams_ends_on_a_signal(
    redis_url: str, tmp_path: Path, short_dir: Path, twice: bool
) -> None:
    """A process of its own: the service of the harness under the signals of the real one. The
    second signal does not wait for anything."""
    script = tmp_path / "serve.py"
    script.write_text(PROCESS)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        redis_url,
        str(short_dir),
        "hang" if twice else "",
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert process.stdout is not None
    async with asyncio.timeout(60.0):
        url = ""
        while not url.startswith("http"):
            url = (await process.stdout.readline()).decode().strip()
    async with aiohttp.ClientSession(url) as session:
        watch = await session.get("/api/v1/nodes", params={"watch": "1"})
        stream = await session.get("/stream")
        await stream.content.readline()
        process.send_signal(signal.SIGTERM)
        if twice:  # a second one that comes before the first is taken would be one with it
            while (line := await process.stdout.readline()) != b"stopping\n":
                assert line, "it has ended"
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(NOT_LONG):
            code = await process.wait()
        assert code == (128 + signal.SIGTERM if twice else 0)
        watch.close()
        stream.close()


PROCESS = """
import asyncio
import sys
from pathlib import Path

from coordinator.service.process import stop_on_signals
from tests.end_to_end.one_process.harness import running


async def main(redis_url: str, path: Path, hang: bool) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    async with running(redis_url, path) as service:
        print(service.url, flush=True)
        await stop.wait()
        print("stopping", flush=True)
        if hang:
            await asyncio.sleep(60)


asyncio.run(main(sys.argv[1], Path(sys.argv[2]), bool(sys.argv[3])))
"""
