"""One chaos run on real processes: start, load with faults, completion, and judgement by the
history."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TypeVar

from laboratory.chaos import kai
from laboratory.chaos.draining import NodeDrains, PlannedDrain
from laboratory.chaos.faults import FaultInjector, InjectedFault
from laboratory.chaos.hostile_tenant import Hostile
from laboratory.chaos.hostile_tenant import queues as hostile_queues
from laboratory.chaos.judgement import judge_history, judge_roles, tell_recoveries
from laboratory.chaos.load import (
    NAMESPACE,
    ChangePolicy,
    ChaosLoad,
    Delete,
    Operation,
    SubmitJob,
    cluster,
)
from laboratory.chaos.plan import CLUSTER, LEDGER, RAY, STANDBY, PlannedFault
from laboratory.chaos.policies import draw_policy, evicts, write_policy
from laboratory.chaos.report import ChaosReport, RunFailed
from laboratory.chaos.stage import READY_SECONDS, Stage
from laboratory.chaos.timeline import ChaosTimeline
from laboratory.chaos.tokens import Tokens
from laboratory.workloads.generators import ClusterShape, Item, node_items
from shared.settings.settings import Settings

T = TypeVar("T")

STEP_SECONDS = 0.2
"""Seconds between two steps of the load."""
QUIET_SECONDS = 90.0
"""Maximum seconds for everything to finish after the last fault."""

_PROCESSES = (STANDBY, RAY, LEDGER, CLUSTER)
"""Processes whose own restart is reported in addition to the recovery of their role."""


@dataclass(slots=True)
class Chaos:
    """A run and its state. Call :meth:`run` once."""

    settings: Settings
    shape: ClusterShape
    seed: int
    duration: float
    """Seconds of load."""
    blows: list[PlannedFault]
    timeline: ChaosTimeline
    hostile: bool = True
    """Whether a hostile tenant runs beside the load."""
    of_kai: bool = False
    """Whether its policies are KAI's, and users speak KAI's words."""
    drains: list[PlannedDrain] = field(default_factory=list)
    post_limit: float = 0.0
    """Seconds within which 99% of the load's requests have to be answered, outside of recoveries;
    0: it is not judged."""
    report: ChaosReport = field(default_factory=lambda: ChaosReport(seeds=1))
    created: set[str] = field(default_factory=set)
    """Keys of jobs whose creation was acknowledged."""
    deleted: set[str] = field(default_factory=set)
    struck: list[InjectedFault] = field(default_factory=list)

    async def run(self) -> ChaosReport:
        """Raises RunFailed; ApiError for refused load; ChildDied (in a group) for a process that
        keeps dying."""
        policy = self.settings.run_dir / "policy.yaml"
        write_policy(policy, self._first_policy())
        self.settings = self.settings.replace(policy=policy)
        tokens = Tokens.new(self.settings.run_dir / "tokens.yaml")
        self.settings = self.settings.replace(tokens_file=tokens.file)
        async with Stage(self.settings, self.timeline, token=tokens.admin).open() as stage:
            await self._on(stage, tokens)
        self.settings = stage.settings
        judge_roles(self.report, stage.deaths, self.struck, seed=self.seed)
        p99, posts = stage.answers.p99(self.struck)
        self.report.waits(p99, posts, limit=self.post_limit, seed=self.seed)
        for back in stage.returns:
            if back.role in _PROCESSES:
                self.report.recovered(f"{back.role} process", back.seconds)
        await asyncio.to_thread(self._judge)
        return self.report

    async def _on(self, stage: Stage, tokens: Tokens) -> None:
        striker = FaultInjector(stage.parts, self.timeline, status=lambda: stage.status)
        load = await self._prepare(stage)
        self.timeline.begin()
        self.timeline.note("load and faults begin")
        try:
            await self._storm(stage, load, striker, self._tenant(stage, tokens))
        finally:
            striker.release()
            self.struck = striker.struck
        self.timeline.note("no more faults")
        await self._do(stage, load.ending())
        await self._finish(stage)

    def _first_policy(self) -> str:
        draw = Random(self.seed)
        if self.of_kai:
            return kai.draw_policy(draw, evicting=evicts(self.seed))
        return draw_policy(draw, evicting=evicts(self.seed))

    # --- load and faults ----------------------------------------------------------------------

    async def _prepare(self, stage: Stage) -> ChaosLoad:
        """Create the cluster and its queues; returns once every shard has nodes."""
        nodes = list(node_items(self.shape))
        await stage.submit(nodes)
        await stage.submit(cluster(self.shape, nodes, of_kai=self.of_kai))
        await stage.submit(hostile_queues(of_kai=self.of_kai))
        await stage.until(stage.shared_out, READY_SECONDS, "the nodes are not shared out")
        walls = self.settings.mode == "hard"
        shards = self.settings.shards
        return ChaosLoad(
            self.seed, self.shape, shards=shards, nodes=nodes, walls=walls, of_kai=self.of_kai
        )

    def _tenant(self, stage: Stage, tokens: Tokens) -> Hostile | None:
        if not self.hostile:
            return None
        return Hostile(
            stage.parts.urls, tokens.view, tokens.submit, of_kai=self.of_kai, first=self.seed
        )

    async def _storm(
        self, stage: Stage, load: ChaosLoad, striker: FaultInjector, hostile: Hostile | None
    ) -> None:
        """Inject the faults at their times, whether or not earlier ones are recovered from, with
        load beside them."""
        async with asyncio.TaskGroup() as group:
            blows = [group.create_task(strike_at(blow, striker)) for blow in self.blows]
            drains = NodeDrains(stage, list(node_items(self.shape)), self.report)
            blows.append(group.create_task(drains.run(self.drains)))
            attacks = group.create_task(hostile.run()) if hostile else None
            await burden(load.steps(), self.duration, partial(self._do, stage))
            await asyncio.gather(*blows)
            if attacks is not None:
                attacks.cancel()
        if hostile is not None:
            self.report.answered.update(hostile.answered)

    async def _do(self, stage: Stage, operations: Iterable[Operation]) -> None:
        for operation in operations:
            match operation:
                case SubmitJob(items):
                    await stage.submit(items)
                    self.created.update(jobs_of(items))
                case Delete(job):
                    if await stage.api.delete(operation.path):
                        self.deleted.add(f"{NAMESPACE}/{job}")
                case ChangePolicy(text):
                    assert self.settings.policy is not None
                    await asyncio.to_thread(write_policy, self.settings.policy, text)
                    self.report.fault("policy changed")

    async def _finish(self, stage: Stage) -> None:
        """Wait until everything has finished. If it does not, the history will show why."""

        def settled() -> bool:
            jobs, tasks = stage.status.get("jobs", {}), stage.status.get("tasks", {})
            finished = jobs.get("finished", 0) == jobs.get("submitted", -1)
            return finished and not tasks.get("running") and not stage.status.get("open_turns")

        stage.status = {}  # the last one may be of long ago: nobody answered while it was struck
        try:
            await stage.until(settled, QUIET_SECONDS, "not everything finishes")
            self.timeline.note("everything is finished")
        except RunFailed as error:
            self.timeline.note(str(error))
            self.report.violation(promise=8, message=str(error), seed=self.seed)

    def _judge(self) -> None:
        evidence = judge_history(self.report, self.settings.history, seed=self.seed)
        for message in evidence.lost(sorted(self.created), sorted(self.deleted)):
            self.report.violation(promise=6, message=message, seed=self.seed)
        tell_recoveries(self.report, self.timeline, self.struck, evidence)


async def burden(steps: Iterator[T], seconds: float, do: Callable[[T], Awaitable[None]]) -> None:
    """Do what a load draws, a step at a time, for so long."""
    started = time.monotonic()
    while (seconds_left := started + seconds - time.monotonic()) > 0:
        await do(next(steps))
        await asyncio.sleep(min(STEP_SECONDS, seconds_left))


async def strike_at(blow: PlannedFault, striker: FaultInjector) -> None:
    await asyncio.sleep(blow.at)
    await striker.strike(blow)


def jobs_of(items: Iterable[Item]) -> set[str]:
    """The keys of the jobs among these objects."""
    return {
        f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        for item in items
        if item["kind"] == "Job"
    }
