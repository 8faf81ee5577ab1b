"""Injects faults into real processes: signals, restarts, a rewrite of the ledger's file.

The supervisor's keeper is not told: it has to detect dead processes itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redis import RedisError
from redis.asyncio import Redis

from coordinator.supervisor.child_process import command_line, descendants, send_signal
from coordinator.supervisor.supervisor import COORDINATOR, COORDINATORS, Supervisor
from laboratory.chaos.plan import (
    CLUSTER,
    LEADER,
    LEDGER,
    RAY,
    STANDBY,
    WORKER,
    InjectionKind,
    PlannedFault,
)
from laboratory.chaos.timeline import ChaosTimeline

HEAD_PARTS = ("", "/gcs_server", "/raylet", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Part of the Ray head to kill: "" the process that was started, else the one that runs this
program. The death of any of them ends them all."""

FIND_SECONDS = 8.0
"""How long to look for a target, which may still be recovering from the last fault."""
LEADING_POLL = 0.1

Status = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """An injected fault. Times are seconds since 1970."""

    blow: PlannedFault
    victim: str
    """The victim, in words."""
    at: float
    over: float
    """When a paused process resumes; for a kill the same as ``at``."""
    shard: int | None = None
    epoch: str = ""
    """For a worker: its epoch."""


@dataclass(frozen=True, slots=True)
class _Target:
    name: str
    pids: list[int]
    role: str = ""
    shard: int | None = None
    epoch: str = ""


class FaultInjector:
    """``status``: the leader's latest status, to find the workers' processes."""

    def __init__(
        self,
        parts: Supervisor,
        timeline: ChaosTimeline,
        *,
        status: Callable[[], Status],
        others: Callable[[], dict[str, int]] = dict,
    ) -> None:
        """``others``: target -> pid of processes that the supervisor does not own."""
        self._parts = parts
        self._timeline = timeline
        self._status = status
        self._others = others
        self._stopped: set[int] = set()
        self.struck: list[InjectedFault] = []
        self.missed: list[PlannedFault] = []
        """Faults that found no target because it was down."""

    async def strike(self, blow: PlannedFault) -> None:
        """Inject the fault; returns after a pause is over. Errors here are faults of the run."""
        target = await self._find(blow)
        if target is None:
            self._timeline.note(f"{blow.name}: nobody there")
            self.missed.append(blow)
            return
        match blow.kind:
            case InjectionKind.KILL:
                at = self._timeline.note(f"SIGKILL to {target.name}")
                # Past the supervisor: a fault that the keeper is told of is not a fault (decision
                # 0025).
                send_signal(signal.SIGKILL, target.pids)
                self._hit(blow, target, at, at)
            case InjectionKind.PAUSE:
                await self._pause(blow, target)
            case InjectionKind.RESTART:
                at = self._timeline.note(f"restart of {target.name}")
                await self._parts.start(target.role)
                self._hit(blow, target, at, at)
            case InjectionKind.REWRITE:
                await self._rewrite(blow, target)

    def release(self) -> None:
        """Resume all paused processes."""
        send_signal(signal.SIGCONT, sorted(self._stopped))
        self._stopped.clear()

    async def _pause(self, blow: PlannedFault, target: _Target) -> None:
        at = self._timeline.note(f"SIGSTOP to {target.name}, for {blow.length:.1f} s")
        self._stopped.update(target.pids)
        send_signal(signal.SIGSTOP, target.pids)
        self._hit(blow, target, at, at + blow.length)
        try:
            await asyncio.sleep(blow.length)
        finally:
            self._timeline.note(f"SIGCONT to {target.name}")
            send_signal(signal.SIGCONT, target.pids)
            self._stopped.difference_update(target.pids)

    async def _rewrite(self, blow: PlannedFault, target: _Target) -> None:
        settings = self._parts.settings
        try:
            async with (
                asyncio.timeout(FIND_SECONDS),
                Redis.from_url(settings.redis_url or "", password=settings.redis_secret) as client,
            ):
                await client.bgrewriteaof()
        except (RedisError, OSError, TimeoutError) as error:
            self._timeline.note(f"rewrite of the append-only file: {error}")
            self.missed.append(blow)
            return
        at = self._timeline.note("rewrite of the append-only file")
        self._hit(blow, target, at, at)

    def _hit(self, blow: PlannedFault, target: _Target, at: float, over: float) -> None:
        struck = InjectedFault(blow, target.name, at, over, target.shard, target.epoch)
        self.struck.append(struck)

    # --- who it hits --------------------------------------------------------------------------

    async def _find(self, blow: PlannedFault) -> _Target | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIND_SECONDS):
                while (target := await self._look(blow)) is None:  # noqa: ASYNC110 - a process
                    await asyncio.sleep(LEADING_POLL)
                return target
        return None

    async def _look(self, blow: PlannedFault) -> _Target | None:
        pids = self._parts.pids() | self._others()
        match blow.target:
            case "worker":
                return self._worker(blow.pick)
            case "ray":
                return self._head(blow, pids.get(RAY))
            case "leader" | "standby":
                return await self._coordinator(blow.target, pids)
            case role:
                return _Target(role, [pids[role]], role) if role in pids else None

    async def _coordinator(self, target: str, pids: dict[str, int]) -> _Target | None:
        """The coordinator that leads, or the other one."""
        leader = await self._parts.leader()
        if leader is None and target == STANDBY:
            return None
        for role in COORDINATORS:
            if role in pids and (role == leader) == (target == LEADER):
                return _Target(f"the {target} ({role})", [pids[role]], role)
        return None

    def _worker(self, pick: float) -> _Target | None:
        alive = set(self._parts.worker_pids())
        shards = [shard for shard in self._status().get("shards", ()) if shard.get("pid") in alive]
        if not shards:
            return None
        shard = shards[int(pick * len(shards))]
        name = f"the worker of shard {shard['shard']}"
        return _Target(name, [shard["pid"]], WORKER, shard["shard"], str(shard.get("epoch", "")))

    def _head(self, blow: PlannedFault, pid: int | None) -> _Target | None:
        """The process of the Ray head to hit; pauses hit the GCS server."""
        if pid is None:
            return None
        parts = HEAD_PARTS[1:2] if blow.kind is InjectionKind.PAUSE else HEAD_PARTS
        part = parts[int(blow.pick * len(parts))]
        if not part:
            return _Target("the Ray head", [pid], RAY)
        programs = {child: command_line(child).partition(" ")[0] for child in descendants(pid)}
        pids = [child for child, program in programs.items() if program.endswith(part)]
        return _Target(f"{part.strip('/')} of the Ray head", pids, RAY) if pids else None


def kinds_of(standby: bool) -> list[str]:
    """The kinds of targets."""
    return [WORKER, LEADER, *([STANDBY] if standby else []), LEDGER, RAY, CLUSTER]


def role_of(struck: InjectedFault) -> str:
    """The role under which its recovery is reported."""
    return COORDINATOR if struck.blow.target == LEADER else struck.blow.target
