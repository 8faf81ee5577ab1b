"""The lifecycle of the shard workers: started under an epoch, called, lost, replaced, updated.

A worker that does not answer, or whose epoch or run the ledger refuses, is given up. Its epoch is
revoked before the ledger is read about its turns; then another worker takes its place.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from coordinator.core.coordinator import Coordinator
from coordinator.core.observer import EventReason
from coordinator.dispatch.dispatcher import SendTurns, ShardState
from coordinator.dispatch.worker_client import OtherVersion, WorkerLost
from coordinator.service.metrics.probes import Probes
from shard_worker.framework.session import Session
from shard_worker.worker.transport import PlaceReply, WorkerConfig
from shared.ledger.keys import log_position
from shared.ledger.retry import insist
from shared.messages.messages import Epoch, Outcome, OutcomeCode, Turn
from shared.policy.model import Policy
from shared.telemetry.tracing import span

log = structlog.get_logger(__name__)

PART_OUTCOMES = 64
"""Outcomes taken up in one callback: 50 to 80 us each where nothing fits and each has its reasons,
so 5 ms of the 20 that a callback may take. A call has up to 256."""

START_AGAIN_SECONDS = 0.5
"""Pause after a worker that did not start."""


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """Intervals in seconds."""

    heartbeat: float = 0.25
    """An idle worker is called this often: it follows the log, and its death is noticed."""
    policy: float = 1.0
    """How often the policy file is looked at."""
    lease: float = 3.0
    """How long a worker may commit without renewing its lease."""


class ClaimsShards(Protocol):
    """The ledger's methods that worker management uses."""

    async def claim(
        self, writer: str, *, leader: Epoch | None = None, lease: float = 0.0, holder: str = ""
    ) -> Epoch: ...


class RunsShards(Protocol):
    """The part of :class:`coordinator.dispatch.worker_client.Shards` that they use."""

    async def inherit(self, shards: int) -> None: ...

    async def start(self, config: WorkerConfig) -> int: ...

    async def place(self, shard: int, turns: list[Turn], *, call: int) -> PlaceReply: ...

    async def give_up(self, shard: int, *, alive: bool = False) -> None: ...

    async def check(self) -> None: ...


class WatchesPolicy(Protocol):
    """See :class:`coordinator.service.policy_watch.PolicyFollower`."""

    content: dict[str, Any] | None
    generation: int

    def look(self) -> Session | None: ...


class Configure(Protocol):
    """Makes the start configuration of a worker; ``policy``: the policy file's content,
    ``keeps_view``: see :class:`WorkerConfig`."""

    def __call__(
        self,
        policy: dict[str, Any] | None,
        *,
        shard: int,
        epoch: Epoch,
        run_id: str,
        keeps_view: bool,
    ) -> WorkerConfig: ...


class Workers:
    def __init__(
        self,
        configure: Configure,
        *,
        ledger: ClaimsShards,
        shards: RunsShards,
        core: Coordinator,
        policies: WatchesPolicy,
        probes: Probes,
        kick: Callable[[], None],
        times: WorkerTimes,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """``kick`` is called when the core has changed."""
        self._configure = configure
        self._times = times
        self._clock = clock
        self._wall_clock = wall_clock
        self._ledger = ledger
        self._shards = shards
        self._core = core
        self._policies = policies
        self._probes = probes
        self._kick = kick
        self.started = False
        """Whether any worker has been up."""
        self.busy: dict[int, float] = {}
        """Shard -> processor seconds of its workers."""
        self._leader: Epoch | None = None
        self._bless: Callable[[], Awaitable[str]] | None = None
        self._log_ids: dict[int, str] = {}
        self._idle_since: dict[int, float] = {}
        self._policy = policies.content, policies.generation
        """The policy that workers are started with: the last one stored in the ledger, so that its
        history shows by which policy each shard placed and evicted."""
        self._returned = asyncio.Event()
        """Set when a call is over."""
        self._generations: dict[int, int] = {}
        """Shard -> generation of the policy that its worker runs."""

    def leads(self, epoch: Epoch, bless: Callable[[], Awaitable[str]]) -> None:
        """Start leading under this epoch; ``bless`` accepts a new run of the server."""
        self._leader = epoch
        self._bless = bless

    @property
    def newest(self) -> str:
        """The newest log id that any worker has read."""
        return max(self._log_ids.values(), key=log_position, default="0")

    def read(self) -> list[str] | None:
        """The log position of each worker; None where one is not up."""
        ids = list(self._log_ids.values())
        return ids if len(ids) == len(self._core.dispatcher.shards) else None

    # --- a call -------------------------------------------------------------------------------

    async def call(self, send: SendTurns) -> None:
        """Send turns to their worker and take its answer. Without turns it is a heartbeat."""
        try:
            await self._call(send)
        finally:
            self._returned.set()

    async def _call(self, send: SendTurns) -> None:
        shard = send.shard
        state = self._core.dispatcher.shards[shard]
        if state.epoch != send.epoch:
            return  # lost before the call went out: its turns are read anew with the others
        # No heartbeat while a call is out: it reads the log itself, and notices a death as well.
        self._idle_since[shard] = math.inf
        started = self._clock()
        try:
            with span("turns", when=bool(send.turns), shard=shard, turns=len(send.turns)):
                reply = await self._shards.place(shard, send.turns, call=send.call)
        except WorkerLost as error:
            await self._lost(shard, send, str(error), alive=error.alive)
            return
        if state.epoch == send.epoch:  # else it is the last word of one that was given up
            self._log_ids[shard] = reply.log_id
            self._core.followed(shard, send.epoch, reply.log_id)
            self._idle_since[shard] = self._clock()
            seconds = self._clock() - started
            self._probes.answered(shard, reply, started=started, seconds=seconds)
        # Also of one that was given up: the time was used.
        self.busy[shard] = self.busy.get(shard, 0.0) + reply.busy_seconds
        await self._take_up(send, reply.outcomes)
        self._kick()
        if any(outcome.code is OutcomeCode.FENCED for outcome in reply.outcomes):
            await self._lost(shard, send, "the ledger refused its epoch or run", alive=True)

    async def _take_up(self, send: SendTurns, outcomes: list[Outcome]) -> None:
        """Pass the outcomes of a call to the core, a part at a time: other callbacks run between
        two parts, and this worker may be given up there."""
        for first in range(0, max(1, len(outcomes)), PART_OUTCOMES):
            # Before each part, the first too: the answer itself was just decoded in this callback.
            await asyncio.sleep(0)
            rest = first + PART_OUTCOMES
            self._core.turns_returned(
                send.shard,
                send.call,
                outcomes[first:rest],
                now=self._wall_clock(),
                more=rest < len(outcomes),
            )

    # --- given up and started -----------------------------------------------------------------

    async def _lost(self, shard: int, send: SendTurns, why: str, *, alive: bool) -> None:
        """Revoke the worker's epoch, then let the next step reread its turns. ``alive``: it
        answered, and its process may be reused."""
        state = self._core.dispatcher.shards[shard]
        if state.epoch != send.epoch:
            return  # several calls were in flight: the first one to fail did this
        turns = sum(map(len, state.calls.values()))
        log.warning("Lost a shard worker", shard=shard, epoch=str(send.epoch), turns=turns, why=why)
        await self._replace(shard, alive=alive)

    async def _replace(self, shard: int, *, planned: bool = False, alive: bool = False) -> None:
        """Give up the shard's worker, whose further work does not count, and start another.
        ``planned``: it has no call open, and may go on with what it knows of the cluster."""
        lost = self._clock()
        # Before the claim, which waits for the ledger: nothing more goes out to this worker
        # meanwhile, and a second failure of it does not begin this again.
        self._core.dispatcher.shards[shard].epoch = None
        self._core.dispatcher.shards[shard].pid = None
        self._log_ids.pop(shard, None)
        # The claim shuts the old worker out. Only then its turns may be reread: until then it could
        # still commit what the reading has just missed.
        await self.claim(shard)
        self._core.worker_lost(shard, planned=planned)
        self._kick()
        # After the books: what needs Ray may take seconds, and the turns can be placed by other
        # shards meanwhile.
        await self._shards.give_up(shard, alive=alive)
        await self.start(shard, keeps_view=planned)
        self._probes.handovers.observe(self._clock() - lost)

    async def claim(self, shard: int) -> Epoch:
        """A new epoch; no commit under an older one is accepted any more."""
        lease = self._times.lease
        return await insist(
            lambda: self._ledger.claim(str(shard), leader=self._leader, lease=lease),
            call_name="claim",
        )

    async def start_all(self, group: asyncio.TaskGroup) -> None:
        """Beside all else that a leader does: Ray may still be starting, or be gone. ``group``: of
        the starts."""
        shards = list(self._core.dispatcher.shards)
        await self._shards.inherit(len(shards))
        for shard in shards:
            group.create_task(self.start(shard))

    async def start(self, shard: int, *, keeps_view: bool = False) -> None:
        """Retry until one is up. ``keeps_view``: at the first try one that was given up alive may
        keep its view."""
        assert self._bless is not None
        while True:
            # A new one for each attempt: a worker that was only late to start must not commit
            # beside the one that comes after it.
            epoch = await self.claim(shard)
            policy, generation = self._policy
            # The worker may have been lost to a restart of the server that nobody else noticed.
            run_id = await insist(self._bless, call_name="bless")
            config = self._configure(
                policy, shard=shard, epoch=epoch, run_id=run_id, keeps_view=keeps_view
            )
            keeps_view = False
            try:
                pid = await self._shards.start(config)
            except OtherVersion as error:
                self._refused(shard, str(error))
                await self._shards.give_up(shard)
                await asyncio.sleep(max(START_AGAIN_SECONDS, error.pause))
                continue
            except WorkerLost as error:
                log.error("Shard worker did not start", shard=shard, why=str(error))
                await self._shards.give_up(shard)
                # Where Ray itself is gone, the next head is waited for (decision 0099).
                await self._shards.check()
                await asyncio.sleep(START_AGAIN_SECONDS)
                continue
            if generation != self._policy[1]:  # it would place by the policy before
                await self._shards.give_up(shard, alive=True)
                continue
            log.info("Started a shard worker", shard=shard, epoch=str(epoch), pid=pid)
            self._core.dispatcher.shards[shard].pid = pid
            self._generations[shard] = generation
            self._idle_since[shard] = 0.0  # so that it is called at once
            self._core.worker_up(shard, epoch)
            self.started = True
            self._kick()
            return

    def _refused(self, shard: int, why: str) -> None:
        """A worker of another version started. It is told once, however often it is tried."""
        state = self._core.dispatcher.shards[shard]
        if state.refused != why:
            state.refused = why
            log.error("A worker of another version is not used", shard=shard, why=why)
            self._core.observer.shard_changed(shard, EventReason.SHARD_REFUSED, why)

    # --- looked after -------------------------------------------------------------------------

    async def heartbeat_forever(self, group: asyncio.TaskGroup) -> None:
        """Call the idle workers: they follow the log, and their death is noticed. ``group``: of
        the calls."""
        while True:
            await self._beat(group)

    async def _beat(self, group: asyncio.TaskGroup) -> None:
        pause, asleep = self._times.heartbeat, self._clock()
        await asyncio.sleep(pause)
        now = self._clock()
        self._probes.loop_lag.observe(max(0.0, now - asleep - pause))
        for state in self._core.dispatcher.shards.values():
            idle = now - self._idle_since.get(state.shard, 0.0) >= pause
            if state.epoch is not None and not state.calls and idle:
                beat = SendTurns(shard=state.shard, epoch=state.epoch, call=0, turns=[])
                group.create_task(self.call(beat))

    async def follow_policy_forever(self, keep: Callable[[Policy], Awaitable[None]]) -> None:
        """Adopt a valid new policy: by Order at the next step, then by one worker after the other;
        the ledger checks the placements meanwhile as always. ``keep`` stores it before Order or a
        worker uses it."""
        while True:
            await asyncio.sleep(self._times.policy)
            session = await asyncio.to_thread(self._policies.look)
            if session is None:
                continue
            await keep(session.policy)
            order, served = self._core.order, session.eligibility.served
            # A worker of the policy before places a job whatever a field says that only the new
            # one serves: the job waits until no such worker is left.
            session.eligibility.served = served & order.session.eligibility.served
            order.adopt(session)
            self._kick()
            self._policy = self._policies.content, self._policies.generation
            await self._renew_those_behind()
            if session.eligibility.served != served:
                session.eligibility.served = served
                order.adopt(session)
            order.look_again()
            self._kick()

    async def _renew_those_behind(self) -> None:
        """Give the new policy to the workers of an older one, one at a time, so that the others go
        on placing."""
        for state in list(self._core.dispatcher.shards.values()):
            if state.epoch is not None and self._generations[state.shard] != self._policy[1]:
                await self._renew(state)

    async def _renew(self, state: ShardState) -> None:
        """Let a worker answer the calls that it has, and begin again under the policy in force: in
        its process, on its view, and under an epoch of its own, by which the checker knows the
        policy of each commit."""
        epoch, state.held = state.epoch, True
        try:
            while state.calls and state.epoch == epoch:
                self._returned.clear()
                await self._returned.wait()  # a call has a deadline of its own
            if state.epoch == epoch:  # else it was lost, and its successor begins with this policy
                log.info("A shard worker gets the new policy", shard=state.shard)
                await self._replace(state.shard, planned=True, alive=True)
        finally:
            state.held = False
