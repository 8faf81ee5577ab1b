"""One run of faults on real processes: start, load, blows, quiet, and what the history says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator.chaos.evidence import Evidence, read_evidence
from coordinator.chaos.load import Load, Operation, Submit, queues
from coordinator.chaos.plan import CLUSTER, RAY, REDIS, STANDBY, Blow
from coordinator.chaos.report import ChaosReport, RunFailed
from coordinator.chaos.stage import READY_SECONDS, Stage
from coordinator.chaos.strike import Striker, Struck, role_of
from coordinator.chaos.timeline import Timeline
from coordinator.checker import check
from coordinator.workloads import Item, Shape, node_items
from shared.settings import Settings

STEP_SECONDS = 0.2
"""Between two steps of the load."""
QUIET_SECONDS = 90.0
"""How long everything may take to finish once no more faults strike."""

_PROCESSES = (STANDBY, RAY, REDIS, CLUSTER)
"""Those whose return is also told for the process alone, beside that of its work."""


@dataclass(slots=True)
class Chaos:
    """A run and what is known of it. Call :meth:`run` once."""

    settings: Settings
    shape: Shape
    seed: int
    duration: float
    """Seconds of load."""
    blows: list[Blow]
    timeline: Timeline
    report: ChaosReport = field(default_factory=lambda: ChaosReport(seeds=1))
    created: set[str] = field(default_factory=set)
    """Keys of jobs whose creation was acknowledged."""
    deleted: set[str] = field(default_factory=set)
    struck: list[Struck] = field(default_factory=list)

    async def run(self) -> ChaosReport:
        """Raises RunFailed; ApiError for load that is refused; ChildDied (in a group) for a process
        that does not stay alive."""
        async with Stage(self.settings, self.timeline).open() as stage:
            await self._on(stage)
        self.settings = stage.settings
        for back in stage.returns:
            if back.role in _PROCESSES:
                self.report.recovered(f"{back.role} process", back.seconds)
        await asyncio.to_thread(self._judge)
        return self.report

    async def _on(self, stage: Stage) -> None:
        striker = Striker(stage.parts, self.timeline, status=lambda: stage.status)
        load = await self._prepare(stage)
        self.timeline.begin()
        self.timeline.note("load and faults begin")
        try:
            await self._storm(stage, load, striker)
        finally:
            striker.release()
            self.struck = striker.struck
        self.timeline.note("no more faults")
        await self._do(stage, load.ending())
        await self._finish(stage)

    # --- load and faults ----------------------------------------------------------------------

    async def _prepare(self, stage: Stage) -> Load:
        """The cluster and its queues; every shard has its nodes when this returns."""
        nodes = list(node_items(self.shape))
        await stage.submit(nodes)
        await stage.submit(queues(self.shape))
        await stage.until(stage.shared_out, READY_SECONDS, "the nodes are not shared out")
        return Load(self.seed, self.shape, shards=self.settings.shards, nodes=nodes)

    async def _storm(self, stage: Stage, load: Load, striker: Striker) -> None:
        """Blows at their times, whether or not earlier ones are overcome; load beside them."""
        async with asyncio.TaskGroup() as group:
            for blow in self.blows:
                group.create_task(_at(blow, striker))
            group.create_task(self._burden(stage, load))

    async def _burden(self, stage: Stage, load: Load) -> None:
        started = time.monotonic()
        steps = load.steps()
        while (left := started + self.duration - time.monotonic()) > 0:
            await self._do(stage, next(steps))
            await asyncio.sleep(min(STEP_SECONDS, left))

    async def _do(self, stage: Stage, operations: Iterable[Operation]) -> None:
        for operation in operations:
            if isinstance(operation, Submit):
                await stage.submit(operation.items)
                self.created.update(jobs_of(operation.items))
            elif await stage.api.delete(operation.path):
                self.deleted.add(f"default/{operation.job}")

    async def _finish(self, stage: Stage) -> None:
        """Wait for the end of everything. Where it does not come the history will tell why."""

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

    # --- judged -------------------------------------------------------------------------------

    def _judge(self) -> None:
        """The checker's word, and what only this run can know: whom users were told."""
        result = check(self.settings.history, closed=True)
        self.report.tasks_bound = result.summary.tasks_bound
        for violation in result.violations:
            self.report.violation(promise=violation.promise, message=str(violation), seed=self.seed)
        self.report.violated += sum(result.broken.values()) - len(result.violations)  # not kept
        evidence = read_evidence(self.settings.history)
        for message in evidence.void:
            self.report.violation(promise=4, message=message, seed=self.seed)
        for message in evidence.lost(sorted(self.created), sorted(self.deleted)):
            self.report.violation(promise=6, message=message, seed=self.seed)
        self._tell(evidence)

    def _tell(self, evidence: Evidence) -> None:
        for struck in self.struck:
            self.report.fault(struck.blow.name)
            seconds = evidence.recovery(struck)
            if seconds is not None:
                self.report.recovered(role_of(struck), seconds)
                text = f"{struck.what} works again, {seconds:.2f} s after the {struck.blow.kind}"
                self.timeline.insert(struck.at + seconds, text)


async def _at(blow: Blow, striker: Striker) -> None:
    await asyncio.sleep(blow.at)
    await striker.strike(blow)


def jobs_of(items: Iterable[Item]) -> set[str]:
    """The keys of the jobs among objects."""
    return {
        f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        for item in items
        if item["kind"] == "Job"
    }
