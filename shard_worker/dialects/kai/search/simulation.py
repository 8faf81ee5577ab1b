"""Try a scenario on the session itself: evict its victims, then place everybody again in turn.

The jobs of the scenario have their turns in the order in which all waiting jobs would: a victim
that comes before the job it is evicted for takes its room back. Who fits where it was stays, who
fits elsewhere is promised that place, and the rest go. What does not come out is taken back whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from shard_worker.dialects.kai.evictions import EvictionScenario, Probe
from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.placing import Placing
from shard_worker.dialects.kai.rules.groups import is_whole, tasks_to_allocate
from shard_worker.dialects.kai.search.job_lines import JobLines
from shard_worker.dialects.kai.search.statement import SearchStatement
from shard_worker.dialects.kai.search.task_kinds import OpenKinds
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.dialects.kai.turn_order import TurnOrder
from shard_worker.framework.rules import Mask
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status

Validator = Callable[[EvictionScenario], bool]
"""Whether the victims may go, as they stand after a simulation."""
_GONE = Status.RELEASING | Status.PIPELINED


@dataclass(frozen=True, slots=True)
class Solution:
    """A scenario that came out, and the statement that has it in effect."""

    statement: SearchStatement
    victims: tuple[TaskInfo, ...]
    """Tasks that are evicted or moved; the others stay."""


@dataclass(frozen=True, slots=True)
class Simulator:
    """Simulates the scenarios of one search."""

    ssn: KaiSession
    waiting: JobLines
    """All jobs that wait, for the order of turns."""
    validate: Validator
    reason: str
    """Reason of the evictions, for people."""

    def run(self, probe: Probe, scenario: EvictionScenario) -> Solution | None:
        """The scenario in effect; None, and nothing in effect, where it does not come out."""
        statement = SearchStatement(self.ssn)
        whole = [job for job in jobs_of(self.ssn, scenario.tasks) if is_whole(job.root)]
        rows = probe.feasible & self.ssn.rows()
        tasks = scenario.tasks
        for task in tasks:
            rows[task.row] = True
            statement.evict(task, self.reason)
        comes_out = self._place_all(probe.job, tasks, statement, rows)
        # A gang of which a smaller probe moved one task would be left in part without it.
        comes_out = comes_out and all(is_whole(job.root) for job in whole)
        if comes_out and self.validate(scenario):
            return Solution(statement, tuple(t for t in tasks if t.status & _GONE))
        statement.rollback()
        return None

    def _place_all(
        self, own: KaiJob, tasks: Sequence[TaskInfo], statement: SearchStatement, rows: Mask
    ) -> bool:
        """Give the victims' jobs and the probe's a turn each; whether the probe's was placed."""
        ssn = self.ssn
        victims = {job.job.job.jid: job for job in jobs_of(ssn, tasks)}
        own_jid = own.job.job.jid
        jobs = {**victims, own_jid: own}
        order = TurnOrder.of_lines(ssn, self.waiting.with_others(jobs.values()))
        kinds = OpenKinds(ssn, own.job.tasks, tasks, rows)
        left = set(jobs)
        while left and (own_jid in left or kinds.any_fits()):
            job = order.pop()
            if job is None:
                break
            jid = job.job.job.jid
            if jid not in left:
                continue
            left.remove(jid)
            if jid != own_jid and not kinds.may_fit(job):
                continue
            if place(ssn, statement, job, rows):
                order.changed(job)
            elif jid == own_jid:
                return False
            else:
                kinds.failed(job)
        return own_jid not in left


def place(ssn: KaiSession, statement: SearchStatement, job: KaiJob, rows: Mask) -> bool:
    """Promise what the job asks for next, all of it or nothing."""
    unit = _evicted(job) if job.job.job.leaves_whole else []
    # What left as one comes back as one, to where it was or all of it elsewhere.
    tasks = unit or tasks_to_allocate(job.root, simulated=True)
    if not tasks or ssn.refused_capacity(job, ssn.asked_by(tasks, at_least=True)) is not None:
        return False
    checkpoint = statement.checkpoint
    placed = Placing(ssn, statement, job, only_promises=True).place(job.root, tasks, rows)
    moved = sum(task.status is Status.PIPELINED for task in unit)
    if placed and moved in (0, len(unit)):
        return True
    statement.rollback(checkpoint)
    return False


def _evicted(job: KaiJob) -> list[TaskInfo]:
    """The tasks of a job that the statement evicts."""
    return [task for task in job.job.tasks if task.status is Status.RELEASING and task.evicted]


def jobs_of(ssn: KaiSession, tasks: Iterable[TaskInfo]) -> list[KaiJob]:
    """The jobs of tasks, each once, in their order."""
    return [ssn.kai_jobs[jid] for jid in dict.fromkeys(task.job.job.jid for task in tasks)]
