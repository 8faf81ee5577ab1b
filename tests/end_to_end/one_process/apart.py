"""The service of :mod:`tests.end_to_end.one_process.harness` in a process of its own, asked over
HTTP alone.

What its loop did is counted there as in production (``/metrics``), and what the test does beside it
does not count. Its workers have a thread and a loop of their own: in production they are other
processes.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import sys
import threading
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from coordinator.service.metrics.loop_time import LoopTime
from shard_worker.inquiry.findings import InquiryFindings
from shard_worker.inquiry.inquiry import Inquiry
from shard_worker.worker.debugging import DebugRequest
from shard_worker.worker.transport import PlaceReply, WorkerConfig
from shared.garbage_collection import RestingCollector
from shared.messages.messages import Turn
from shared.telemetry.logging import configure_logging
from tests.end_to_end.one_process.harness import DirectShards, running

T = TypeVar("T")
START_SECONDS = 60.0


class ThreadShards(DirectShards):
    """The workers in a loop of another thread."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    async def _there(self, call: Coroutine[Any, Any, T]) -> T:
        there: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(call, self._loop)
        return await asyncio.wrap_future(there)

    async def start(self, config: WorkerConfig) -> int:
        return await self._there(super().start(config))

    async def place(self, shard: int, turns: list[Turn], *, call: int) -> PlaceReply:
        return await self._there(super().place(shard, turns, call=call))

    async def inquire(self, shard: int, inquiry: Inquiry) -> InquiryFindings:
        return await self._there(super().inquire(shard, inquiry))

    async def debug(self, shard: int, request: DebugRequest) -> bytes:
        return await self._there(super().debug(shard, request))

    async def give_up(self, shard: int, *, alive: bool = False) -> None:
        await self._there(super().give_up(shard, alive=alive))

    async def close(self) -> None:
        await self._there(super().close())  # connections belong to that loop
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()


@contextlib.asynccontextmanager
async def apart(redis_url: str, path: Path, **settings: Any) -> AsyncIterator[str]:
    """The address of a service that is ready; its log is ``path/service.log``."""
    arguments = json.dumps({"redis_url": redis_url, "path": str(path), "settings": settings})
    with (path / "service.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.end_to_end.one_process.apart",
            arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            address = (await process.stdout.readline()).decode().strip()
        assert address, (path / "service.log").read_text()
        yield address
        assert process.returncode is None, (path / "service.log").read_text()
    finally:
        process.stdin.close()  # asks it to end
        try:
            await asyncio.wait_for(process.wait(), START_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _serve(arguments: dict[str, Any], loop_time: LoopTime) -> None:
    shards = ThreadShards(arguments["redis_url"])
    async with running(
        arguments["redis_url"],
        Path(arguments["path"]),
        workers=shards,
        loop_time=loop_time,
        **arguments["settings"],
    ) as service:
        sys.stdout.write(f"{service.url}\n")
        sys.stdout.flush()
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait({ended, service.ended}, return_when=asyncio.FIRST_COMPLETED)


def main() -> None:
    arguments = json.loads(sys.argv[1])
    configure_logging("INFO", "json", role="coordinator", stream=sys.stderr)
    with asyncio.Runner() as runner:
        loop_time = LoopTime()
        loop_time.watch(runner.get_loop())
        collector = RestingCollector()
        collector.begin()
        runner.get_loop().call_soon(collector.look_regularly)
        runner.run(_serve(arguments, loop_time))


if __name__ == "__main__":
    main()
