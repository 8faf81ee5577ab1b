"""Shard workers as the service sees them: start one under an epoch, call it, give it up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Protocol

from shard_worker.transport import PlaceReply, WorkerConfig, encode_call
from shared.messages import Turn

NAMESPACE = "quadrant"
"""Ray namespace of the worker actors."""


class WorkerLost(Exception):
    """The worker died, was given up, or did not answer before the deadline. What the call did is
    unknown."""


class Shards(Protocol):
    async def start(self, config: WorkerConfig) -> int:
        """Returns its process id. Raises WorkerLost where it does not come up in time."""
        ...

    async def place(self, shard: int, turns: list[Turn]) -> PlaceReply:
        """Raises WorkerLost; an empty list only lets the worker follow the log."""
        ...

    async def give_up(self, shard: int) -> None:
        """Make sure that the worker is dead."""
        ...

    async def close(self) -> None: ...


class RayShards:
    """Workers as detached, named Ray actors.

    ``max_restarts=0``: a dead actor stays dead and its call fails within milliseconds; we start the
    successor ourselves, under its own name and epoch. With Ray's restarts the call would hang
    until the new process is up, and calls made meanwhile would queue without a word.
    """

    def __init__(self, *, call_seconds: float, start_seconds: float = 60.0) -> None:
        """``call_seconds``: our own deadline for a call; a worker that misses it is given up."""
        self._call_seconds = call_seconds
        self._start_seconds = start_seconds
        self._actors: dict[int, Any] = {}

    def attach(self, address: str) -> None:
        """Join the Ray cluster as a driver and clear what an earlier coordinator left there."""
        import ray

        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
            ignore_reinit_error=True,
        )
        for name in ray.util.list_named_actors():
            with contextlib.suppress(ValueError):  # gone between the two calls
                ray.kill(ray.get_actor(name), no_restart=True)

    async def start(self, config: WorkerConfig) -> int:
        import ray

        from shard_worker.actor import ShardActor

        remote: Any = ray.remote(ShardActor)
        actor = remote.options(
            name=f"shard-{config.shard}-{config.epoch.counter}",
            lifetime="detached",
            num_cpus=0,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=1,
            enable_task_events=False,
        ).remote()
        self._actors[config.shard] = actor
        begun = actor.begin.remote(config.encode())
        return int(await self._wait(config.shard, begun, self._start_seconds))

    async def place(self, shard: int, turns: list[Turn]) -> PlaceReply:
        actor = self._actors.get(shard)
        if actor is None:
            raise WorkerLost(f"shard {shard} has no worker")
        reply = await self._wait(shard, actor.turns.remote(encode_call(turns)), self._call_seconds)
        return PlaceReply.decode(reply)

    async def _wait(self, shard: int, ref: Any, seconds: float) -> bytes:
        from ray.exceptions import RayError

        try:
            # wrap_future: the form that does not leak references (a bare ref does).
            async with asyncio.timeout(seconds):
                result: bytes = await asyncio.wrap_future(ref.future())
        except TimeoutError as error:
            raise WorkerLost(f"shard {shard}: no answer within {seconds:g} s") from error
        except RayError as error:
            raise WorkerLost(f"shard {shard}: {type(error).__name__}: {error}") from error
        return result

    async def give_up(self, shard: int) -> None:
        import ray

        actor = self._actors.pop(shard, None)
        if actor is not None:
            await asyncio.to_thread(ray.kill, actor, no_restart=True)

    async def close(self) -> None:
        import ray

        for shard in list(self._actors):
            await self.give_up(shard)
        await asyncio.to_thread(ray.shutdown)
