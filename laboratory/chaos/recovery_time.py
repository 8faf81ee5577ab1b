"""Measures recovery times against the bounds of the failure table.

One installation with many running tasks and a steady stream of short jobs; one fault at a time,
with quiet in between. Times come from the history and from the coordinators' logs, not from
polling.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from coordinator.supervisor.supervisor import COORDINATORS
from laboratory.chaos.evidence import Evidence, read_evidence
from laboratory.chaos.faults import FaultInjector, InjectedFault
from laboratory.chaos.plan import (
    LEADER,
    LEDGER,
    RAY,
    WORKER,
    InjectionKind,
    PlannedFault,
)
from laboratory.chaos.report import RunFailed
from laboratory.chaos.stage import READY_SECONDS, Stage, beside
from laboratory.chaos.timeline import ChaosTimeline
from laboratory.workloads.generators import (
    CPU,
    LIST_LIMIT,
    ClusterShape,
    Item,
    node_items,
    one_job,
    pod_items,
)
from shared.settings.settings import Settings

UNITS = 100
"""CPUs of a node; each task requests one."""
SPARE = 1.1
"""Ratio of capacity to the running tasks."""
TRICKLE_SECONDS = 0.05
"""Interval between single-task jobs, which show whether scheduling works."""
LOAD_SECONDS = 900.0
RECOVER_SECONDS = 90.0
"""The measurement stops without recovery after this time."""
CALM_SECONDS = 4.0
"""Seconds of quiet before each fault, so that the standby has followed and leases are renewed."""
STALE_SECONDS = 3.0
"""Older status of the leader is ignored, since it may be gone."""
PAUSE_SECONDS = 5.0
"""Pause of a worker that hangs: longer than any timeout for it."""
LISTS_IN_FLIGHT = 4
_LOST = '"Lost a shard worker"'


@dataclass(frozen=True, slots=True)
class RecoveryBound:
    """One row: the measured time and its limit."""

    name: str
    seconds: float


# docs/failures.md promises these to users; its table and this one change together.
DETECTED = RecoveryBound("lost worker detected", 3.0)
ELSEWHERE = RecoveryBound("its turns placed elsewhere", 5.0)
LEADERSHIP = RecoveryBound("leadership moved", 5.0)
RESTARTED_LEDGER = RecoveryBound("scheduling after a restart of the ledger's server", 5.0)
HEAD = RecoveryBound("scheduling after a lost Ray head", 15.0)
BOUNDS = (DETECTED, ELSEWHERE, LEADERSHIP, RESTARTED_LEDGER, HEAD)


@dataclass(slots=True)
class MeasuredRecovery:
    running: int
    """Number of tasks that ran meanwhile."""
    seconds: dict[RecoveryBound, list[float]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether everything was measured and no bound was exceeded."""
        return all(
            self.seconds.get(bound) and max(self.seconds[bound]) <= bound.seconds
            for bound in BOUNDS
        )

    def note(self, bound: RecoveryBound, seconds: float) -> None:
        self.seconds.setdefault(bound, []).append(seconds)

    def rows(self) -> list[dict[str, Any]]:
        """One row per bound, in order; ``max`` is null if nothing was measured."""
        rows: list[dict[str, Any]] = []
        for bound in BOUNDS:
            measured = self.seconds.get(bound, [])
            rows.append(
                {
                    "what": bound.name,
                    "bound": bound.seconds,
                    "times": len(measured),
                    "median": round(median(measured), 3) if measured else None,
                    "max": round(max(measured), 3) if measured else None,
                    "ok": bool(measured) and max(measured) <= bound.seconds,
                }
            )
        return rows


@dataclass(slots=True)
class Measurement:
    """Call :meth:`run` once."""

    settings: Settings
    timeline: ChaosTimeline
    tasks: int
    """Number of permanently running tasks, each a job of its own."""
    times: int
    """Repetitions of each fault."""
    _number: int = 0
    _struck: list[InjectedFault] = field(default_factory=list)

    @property
    def shape(self) -> ClusterShape:
        return ClusterShape(max(6, int(self.tasks * SPARE) // UNITS + 1), UNITS, CPU)

    async def run(self) -> MeasuredRecovery:
        """Raises RunFailed; ApiError; ChildDied (in a group)."""
        async with Stage(self.settings, self.timeline, attempt=30.0).open() as stage:
            await self._fill(stage)
            self.timeline.begin()
            async with beside(self._trickle(stage)):
                for blow in self._blows():
                    await self._once(stage, blow)
        return await asyncio.to_thread(self._measured, stage.settings)

    def _blows(self) -> Iterator[PlannedFault]:
        for turn in range(self.times):
            pick = turn / self.times
            yield PlannedFault(0.0, InjectionKind.KILL, WORKER, 0.0, pick)
            yield PlannedFault(0.0, InjectionKind.PAUSE, WORKER, PAUSE_SECONDS, pick)
            yield PlannedFault(0.0, InjectionKind.KILL, LEADER, 0.0, pick)
            yield PlannedFault(0.0, InjectionKind.KILL, LEDGER, 0.0, pick)
            yield PlannedFault(0.0, InjectionKind.KILL, RAY, 0.0, pick)

    async def _fill(self, stage: Stage) -> None:
        """Create nodes, and tasks that run until the end."""
        self.timeline.note(f"loading {self.shape.nodes:,} nodes and {self.tasks:,} tasks")
        await stage.submit(list(node_items(self.shape)))
        await stage.until(stage.shared_out, READY_SECONDS, "the nodes are not shared out")
        items = pod_items(self.tasks)
        async with asyncio.TaskGroup() as group:
            for _ in range(LISTS_IN_FLIGHT):
                group.create_task(_drain(stage, items))

        def running() -> bool:
            return int(stage.status.get("tasks", {}).get("running", 0)) >= self.tasks

        await stage.until(running, LOAD_SECONDS, "not all tasks run")
        self.timeline.note(f"{self.tasks:,} tasks run")

    async def _trickle(self, stage: Stage) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._submit(stage))
                await asyncio.sleep(TRICKLE_SECONDS)

    async def _submit(self, stage: Stage) -> None:
        self._number += 1
        await stage.submit([one_job(f"short-{self._number}", duration=0.2)])

    async def _once(self, stage: Stage, blow: PlannedFault) -> None:
        """Inject one fault and wait until everything is quiet again."""
        await self._calm(stage)
        striker = FaultInjector(stage.parts, self.timeline, status=lambda: stage.status)
        try:
            await striker.strike(blow)
        finally:
            striker.release()
        if not striker.struck:
            raise RunFailed(f"{blow.name}: nobody was there to strike")
        self._struck += striker.struck
        await asyncio.sleep(1.0)
        await self._calm(stage)
        self.timeline.note("all is well again")

    async def _calm(self, stage: Stage) -> None:
        """Wait until every process is up and the stream of jobs keeps pace, for a while."""
        since = time.monotonic()
        deadline = since + RECOVER_SECONDS
        while time.monotonic() - since < CALM_SECONDS:
            if not await self._well(stage):
                since = time.monotonic()
            if time.monotonic() > deadline:
                raise RunFailed(f"no recovery within {RECOVER_SECONDS:g} s: {stage.status}")
            await asyncio.sleep(0.2)

    async def _well(self, stage: Stage) -> bool:
        parts = stage.parts
        stale = time.monotonic() - stage.status_at > STALE_SECONDS
        if stale or parts.dead() or not stage.shared_out():
            return False
        jobs = stage.status.get("jobs", {})
        waiting = int(jobs.get("pending", 0))
        answers = [await parts.answers(role) for role in COORDINATORS if role in parts.roles()]
        return all(answers) and waiting < 2 / TRICKLE_SECONDS

    # --- from the history ---------------------------------------------------------------------

    def _measured(self, settings: Settings) -> MeasuredRecovery:
        evidence = read_evidence(settings.history)
        lost = list(_lost(settings.run_dir / "log"))
        measured = MeasuredRecovery(self.tasks)
        for struck in self._struck:
            if struck.blow.target == WORKER:
                for moment in lost:
                    if struck.at <= moment < struck.at + RECOVER_SECONDS:
                        measured.note(DETECTED, moment - struck.at)
                        break
                measured.note(ELSEWHERE, _placed(evidence, struck) - struck.at)
            else:
                bound = {LEADER: LEADERSHIP, LEDGER: RESTARTED_LEDGER, RAY: HEAD}[
                    struck.blow.target
                ]
                seconds = evidence.recovery(struck)
                if seconds is not None:
                    measured.note(bound, seconds)
        return measured


async def _drain(stage: Stage, items: Iterator[Item]) -> None:
    while part := list(islice(items, LIST_LIMIT)):
        await stage.submit(part)


def _placed(evidence: Evidence, struck: InjectedFault) -> float:
    """When the last job was placed of those submitted before the fault, or while a paused worker
    was still thought to be alive."""
    until = struck.at + (DETECTED.seconds if struck.over > struck.at else 0.0)
    placed = [
        evidence.placed.get(jid, struck.at + RECOVER_SECONDS)
        for jid, submitted in evidence.submitted.items()
        if submitted <= until
    ]
    return max([struck.at, *(at for at in placed if at >= struck.at)])


def _lost(logs: Path) -> Iterator[float]:
    """Times, since 1970 and ascending, at which coordinators logged the loss of a worker."""
    moments: list[float] = []
    for role in COORDINATORS:
        path = logs / f"{role}.log"
        lines = path.read_text().splitlines() if path.exists() else []
        losses = [line for line in lines if line.startswith("{") and _LOST in line]
        moments += [datetime.fromisoformat(json.loads(line)["ts"]).timestamp() for line in losses]
    return iter(sorted(moments))
