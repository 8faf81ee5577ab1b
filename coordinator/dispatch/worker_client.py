"""Shard workers as the service sees them: start one under an epoch, call it, give it up."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Iterable, Iterator
from importlib.metadata import version
from typing import Any, Protocol, TypeVar

import structlog

from coordinator.dispatch.ray_connection import RayConnection, apart
from coordinator.dispatch.search_time import SearchTime
from coordinator.dispatch.worker_actors import (
    INSPECTION,
    LIFE,
    create,
    find_usable_nodes,
    introduction_of,
)
from coordinator.dispatch.worker_versions import RefusedNodes, refusal
from shard_worker.inquiry.findings import FINDINGS, InquiryFindings
from shard_worker.inquiry.inquiry import INQUIRY, Inquiry
from shard_worker.worker.debugging import DEBUG, DebugRequest, DebugVerb
from shard_worker.worker.transport import CONFIG, REPLY, PlaceReply, WorkerConfig
from shard_worker.worker.worker_version import own_version
from shared.codec.checked import Malformed
from shared.messages.messages import Epoch, Turn
from shared.messages.wire import TURNS
from shared.settings.settings import Settings

NAMESPACE = "quadrant-{cluster}"
"""Ray namespace of one cluster's worker actors, so that clusters that share a Ray do not touch each
other's."""

VERSION = version("quadrant")
"""A worker of another version is replaced, not reused."""

CHECKS = 3
"""After this many unanswered checks Ray counts as lost."""

TURN_SECONDS = 60.0
"""Longest time that a worker may take for a call while it shows that it lives, beside what a KAI
policy gives to searches for victims. Beyond it the worker counts as hanging in a rule. The longest
turns seen took some seconds: a gang of 500 that has 4,000 tasks evicted, on a machine with other
work."""

_T = TypeVar("_T")

log = structlog.get_logger(__name__)


class WorkerLost(Exception):
    """The worker died, was given up, or missed its deadline. What the call did is unknown.
    ``alive``: it reported the failure itself, so that its process may be reused."""

    def __init__(self, message: str, *, alive: bool = False) -> None:
        super().__init__(message)
        self.alive = alive


class OtherVersion(WorkerLost):
    """The worker that started is of a version that cannot serve with this one; the message says of
    which, and what to do. ``pause``: seconds until there is a Ray node to try again."""

    def __init__(self, message: str, *, pause: float = 0.0) -> None:
        super().__init__(message)
        self.pause = pause


def worker_config(
    settings: Settings,
    policy: dict[str, Any] | None,
    *,
    shard: int,
    epoch: Epoch,
    run_id: str,
    keeps_view: bool = False,
) -> WorkerConfig:
    """The start configuration of a worker; ``policy`` is the parsed policy file, None for the
    default."""
    return WorkerConfig(
        shard=shard,
        epoch=epoch,
        run_id=run_id,
        mode=settings.mode,
        seed=settings.seed,
        policy=policy,
        access=settings.access(),
        nomination_seconds=settings.nomination_seconds,
        lease_seconds=settings.shard_lease_seconds,
        keeps_view=keeps_view,
    )


class Shards(Protocol):
    async def keep_joined(self) -> None:
        """Connect to Ray without touching anything there, and to the next head where it was lost;
        waits for one that is starting. Raises RayLost where there is none."""
        ...

    async def inherit(self, shards: int) -> None:
        """Find the workers that an earlier leader left, so that :meth:`start` can reuse their
        processes. Ends those of shards beyond the number. Waits for :meth:`keep_joined`."""
        ...

    async def check(self) -> None:
        """Check Ray after a worker did not start. Returns once it answers, or another is joined."""
        ...

    async def start(self, config: WorkerConfig) -> int:
        """Start a worker; returns its process id. Raises WorkerLost where it is not up in time, and
        OtherVersion where it is not to be used."""
        ...

    async def place(self, shard: int, turns: list[Turn], *, call: int) -> PlaceReply:
        """Send turns; an empty list only makes the worker read the log. ``call``: the number by
        which the worker knows a copy of it, 0 without turns. Raises WorkerLost."""
        ...

    async def inquire(self, shard: int, inquiry: Inquiry) -> InquiryFindings:
        """Ask for the outcome of these turns on the worker's view, without side effects.

        Raises WorkerLost where the shard has no worker, or one that misses the deadline. Only the
        inquiry fails then: the worker is not given up.
        """
        ...

    async def debug(self, shard: int, request: DebugRequest) -> bytes:
        """An administrator's question about the worker's process; JSON. Raises WorkerLost as
        :meth:`inquire` does."""
        ...

    async def give_up(self, shard: int, *, alive: bool = False) -> None:
        """Make sure that the worker does nothing more. ``alive``: it has just answered; its process
        is kept and reused by the next :meth:`start`, far faster than a new process."""
        ...

    async def close(self) -> None: ...


class RayShards:
    """Workers as detached, named Ray actors.

    ``max_restarts=0``: a dead actor stays dead and its call fails within milliseconds; we start the
    successor ourselves, under its own name and epoch. With Ray's restarts the call would hang
    until the new process is up, and calls made meanwhile would queue without a word.
    """

    def __init__(
        self,
        *,
        address: str,
        cluster: str,
        call_seconds: float,
        start_seconds: float = 60.0,
        cpus: float = 0.0,
    ) -> None:
        """``address``: HOST:PORT of the head. ``cluster``: the id of the ledger. ``call_seconds``:
        our own deadline; a worker that is silent for so long is given up. ``cpus``: CPU resources
        that each actor takes of its Ray node."""
        self._ray = RayConnection(address=address, namespace=NAMESPACE.format(cluster=cluster))
        self._call_seconds = call_seconds
        self._cpus = cpus
        self._start_seconds = start_seconds
        self._actors: dict[int, Any] = {}
        self._epochs: dict[int, bytes] = {}
        """The epoch under which each worker last started: calls carry it, and workers of other
        epochs ignore them."""
        self._inherits: int | None = None
        """Number of shards whose workers we may reuse and end; None where another leads."""
        self._left: dict[int, Any] = {}
        """Reusable workers by shard: an earlier leader left them, or they reported a failure."""
        self._searches: dict[int, SearchTime] = {}
        self._version = own_version()
        self._refused = RefusedNodes()

    async def keep_joined(self) -> None:
        await self._ray.keep(on_joined=self._look_for_workers)

    async def _look_for_workers(self) -> None:
        """Forget the workers of a lost head, and find those that outlived it on other machines."""
        self._actors.clear()
        self._left.clear()
        if (shards := self._inherits) is not None:
            await self._ray.answers(lambda: self._find(shards))

    async def inherit(self, shards: int) -> None:
        await self._ray.until_joined()
        self._inherits = shards
        await self._look_for_workers()

    async def check(self) -> None:
        import ray

        joins = self._ray.joins
        for _ in range(CHECKS):
            if await self._ray.answers(ray.util.list_named_actors):
                return
        if self._ray.joins == joins:  # the head listens and does not answer
            self._ray.give_up()
        await self._ray.until_joined()

    def _find(self, shards: int) -> None:
        import ray

        for name, shard in _inherited(ray.util.list_named_actors(), shards).items():
            with contextlib.suppress(ValueError):  # gone between the two calls
                actor = ray.get_actor(name)
                if shard is None:
                    ray.kill(actor, no_restart=True)
                else:
                    self._left[shard] = actor

    async def start(self, config: WorkerConfig) -> int:
        shard = config.shard
        await self._ray.until_joined()
        self._searches[shard] = SearchTime(config.policy)
        self._epochs[shard] = str(config.epoch).encode()
        idle_actor = self._left.pop(shard, None)
        if idle_actor is not None:
            self._actors[shard] = idle_actor
            try:
                await self._greet(shard, idle_actor, self._call_seconds)
                begun = idle_actor.begin.remote(CONFIG.encode(config))
                return int(await self._answer(shard, begun, self._call_seconds))
            except WorkerLost as error:
                log.info("A worker that was left does not begin anew", shard=shard, why=str(error))
                await self.give_up(shard)
        name = f"shard-{shard}-{config.epoch.counter}-{VERSION}"
        self._actors[shard] = actor = await self._create(shard, name)
        await self._greet(shard, actor, self._start_seconds)
        begun = actor.begin.remote(CONFIG.encode(config))
        return int(await self._answer(shard, begun, self._start_seconds))

    async def _create(self, shard: int, name: str) -> Any:
        """Create an actor on a Ray node whose worker was not refused just before."""
        avoided: set[str] = set()
        if self._refused.avoided(time.monotonic()):
            listing = apart(lambda: find_usable_nodes(self._cpus))
            nodes = await self._wait(shard, listing, self._start_seconds)
            now = time.monotonic()
            if nowhere := self._refused.nowhere(nodes, now=now):
                why, pause = nowhere
                raise OtherVersion(why, pause=pause)
            avoided = self._refused.avoided(now)
        creating = apart(lambda: create(name, cpus=self._cpus, avoided=avoided))
        return await self._wait(shard, creating, self._start_seconds)

    async def _greet(self, shard: int, actor: Any, seconds: float) -> None:
        """Ask the worker which version it is, before it gets anything that depends on it."""
        introduction = await self._wait(shard, introduction_of(actor), seconds)
        if why := refusal(self._version, introduction):
            self._refused.refuse(introduction.node, why, now=time.monotonic())
            raise OtherVersion(why)
        self._refused.accept(introduction.node)
        if (version := introduction.version) != self._version.version:
            log.info("A worker of another version serves", shard=shard, version=version)

    async def place(self, shard: int, turns: list[Turn], *, call: int) -> PlaceReply:
        actor = self._actor(shard)
        answer = actor.turns.remote(self._epochs[shard], call, TURNS.encode(turns))
        seconds = TURN_SECONDS + self._searches[shard].of(turns)
        reply = await self._wait_while_alive(shard, actor, answer, seconds)
        with _lost_if_altered(shard):
            return REPLY.decode(reply)

    async def inquire(self, shard: int, inquiry: Inquiry) -> InquiryFindings:
        actor = self._actor(shard)
        answer = actor.inquire.remote(INQUIRY.encode(inquiry))
        reply = await self._answer(shard, answer, self._call_seconds)
        with _lost_if_altered(shard):
            return FINDINGS.decode(reply)

    async def debug(self, shard: int, request: DebugRequest) -> bytes:
        actor = self._actor(shard)
        method = actor.debug
        if request.verb is not DebugVerb.DUMP:  # which is of one moment, between two calls
            method = method.options(concurrency_group=INSPECTION)
        seconds = self._call_seconds + request.seconds
        return await self._answer(shard, method.remote(DEBUG.encode(request)), seconds)

    def _actor(self, shard: int) -> Any:
        actor = self._actors.get(shard)
        if actor is None or self._ray.is_lost:
            raise WorkerLost(f"shard {shard} has no worker")
        return actor

    async def _answer(self, shard: int, ref: Any, seconds: float) -> bytes:
        # wrap_future: the form that does not leak references (a bare ref does).
        result: bytes = await self._wait(shard, asyncio.wrap_future(ref.future()), seconds)
        return result

    async def _wait(self, shard: int, answer: Awaitable[_T], seconds: float) -> _T:
        """Raises WorkerLost where the answer is late, and as soon as the head is lost: Ray itself
        tells only after a minute."""
        waiting = asyncio.ensure_future(answer)
        lost = self._ray.lost
        with _lost_if_late(shard, seconds):
            try:
                if not await _within(seconds, waiting, lost):
                    raise TimeoutError
                if not waiting.done():
                    raise WorkerLost(f"shard {shard}: the Ray head is lost")
                return waiting.result()
            finally:
                waiting.cancel()

    async def _wait_while_alive(self, shard: int, actor: Any, ref: Any, seconds: float) -> bytes:
        """The answer of a call, however long its turns take, up to ``seconds``: a worker that is
        only busy answers in another thread that it lives. One whose process stands still does not,
        and is silent after the same time as before."""
        give_up = time.monotonic() + seconds
        # Half for the call, half for the sign of life: a process that stands still is given up
        # after `call_seconds` in all. Slow is not silent: by the deadline alone a gang of 500 with
        # 4,000 victims killed every worker it came to on a busy machine (decision 0006).
        half = self._call_seconds / 2
        lost = self._ray.lost
        with _lost_if_late(shard, self._call_seconds):
            reply = asyncio.wrap_future(ref.future())
            try:
                while not await _within(half, reply, lost):
                    if time.monotonic() >= give_up:
                        raise WorkerLost(f"shard {shard}: a call takes longer than {seconds} s")
                    lives = actor.alive.options(concurrency_group=LIFE).remote()
                    sign = asyncio.wrap_future(lives.future())
                    try:
                        if not await _within(half, reply, sign, lost):
                            raise TimeoutError
                        # Raises what the sign failed with: an actor that has died answers with an
                        # error, at once.
                        if sign.done():
                            sign.result()
                    finally:
                        sign.cancel()
                if not reply.done():
                    raise WorkerLost(f"shard {shard}: the Ray head is lost")
                result: bytes = reply.result()
                return result
            finally:
                reply.cancel()

    async def give_up(self, shard: int, *, alive: bool = False) -> None:
        import ray

        actor = self._actors.pop(shard, None)
        if actor is not None and alive:
            self._left[shard] = actor
        elif actor is not None:
            await self._ray.answers(lambda: ray.kill(actor, no_restart=True))

    async def close(self) -> None:
        """Disconnect from Ray. Workers that were not given up stay for the next leader."""
        await self._ray.close()


def _parse(name: str) -> tuple[int, int]:
    """(shard, counter of the epoch) from a worker's name; shard -1 where it runs another
    version."""
    match name.split("-", 3):
        case ["shard", shard, counter, version] if version == VERSION:
            return int(shard), int(counter)
        case _:
            return -1, 0


def _inherited(names: Iterable[str], shards: int) -> dict[str, int | None]:
    """Worker name -> the shard that may reuse it, the last started of each shard; None: to be
    ended."""
    parsed = {name: _parse(name) for name in names}
    # Of several left for one shard the last started: an earlier one was given up and did not end.
    newest = {shard: name for name, (shard, _) in sorted(parsed.items(), key=lambda item: item[1])}
    return {
        name: shard if 0 <= shard < shards and newest[shard] == name else None
        for name, (shard, _) in parsed.items()
    }


async def _within(seconds: float, *futures: asyncio.Future[Any]) -> bool:
    """Wait for the first of these; False where none is done in time."""
    finished, _ = await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    return bool(finished)


@contextlib.contextmanager
def _lost_if_late(shard: int, seconds: float) -> Iterator[None]:
    from ray.exceptions import RayError, RayTaskError

    try:
        yield
    except TimeoutError as error:
        raise WorkerLost(f"shard {shard}: no answer within {seconds:g} s") from error
    except RayTaskError as error:  # raised in the actor, which lives on
        cause = error.cause  # the error's own text is a traceback
        raise WorkerLost(f"shard {shard}: {type(cause).__name__}: {cause}", alive=True) from error
    except RayError as error:
        raise WorkerLost(f"shard {shard}: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _lost_if_altered(shard: int) -> Iterator[None]:
    """Treat a worker whose answer cannot be decoded as lost: what it did is unknown."""
    try:
        yield
    except Malformed as error:
        raise WorkerLost(f"shard {shard}: an answer that is not understood: {error}") from error
