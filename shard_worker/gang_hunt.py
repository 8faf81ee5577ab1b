"""Room for a whole gang at once: in some domain, at the cost of bundles of victims.

In each candidate domain bundles leave, one after the other, until a plan places as much of the gang
as it needs. Then everything that the plan can do without comes back, the dearest first. All of that
is a dry run on the world itself; the least harmful plan of the first group of domains that has any
is done once more, for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from shard_worker.allocated_domains import asks_for_domains, recover, tree_of
from shard_worker.bundles import Bundle, MayGo, bundles
from shard_worker.candidates import choose, feasible
from shard_worker.dry_run import LIFT
from shard_worker.hyper_tree import Domain
from shard_worker.priority_queue import PriorityQueue
from shard_worker.rules import Mask, Purpose
from shard_worker.tasks import EVICTABLE, Status, TaskInfo
from shard_worker.victims import reason, settle, waiting_tasks
from shard_worker.workload import Amounts, add
from shard_worker.world_statement import Operation, WorldStatement

if TYPE_CHECKING:
    from shard_worker.session import Session
    from shard_worker.session_job import SessionJob, SubJob


TRIALS = 64
"""Plans that are tried to find out which victims a plan can do without."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A bundle that was evicted, and whom that took."""

    bundle: Bundle
    tasks: list[TaskInfo]


@dataclass(slots=True)
class Plan:
    """A gang placed in a domain, and what that costs."""

    domain: Domain
    operations: list[Operation]
    victims: list[TaskInfo]
    reached: dict[str, str]
    """Sub job -> the domain it would be in."""

    @property
    def harm(self) -> tuple[int, int, int]:
        """The smaller, the better: the highest priority among the victims, the sum, how many."""
        priorities = [victim.job.job.priority for victim in self.victims]
        return (
            max(priorities, default=-LIFT),
            sum(priority + LIFT for priority in priorities),
            len(priorities),
        )


@dataclass(slots=True)
class GangHunt:
    """One job's search."""

    ssn: Session
    job: SessionJob
    action: str
    purpose: Purpose
    may_go: MayGo
    whole: bool = True
    statement: WorldStatement = field(init=False)
    _reached: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.statement = WorldStatement(self.ssn)

    def run(self) -> bool:
        """Evict and promise what is needed; True where that was kept."""
        ssn, job, tree = self.ssn, self.job, tree_of(self.ssn.world)
        if asks_for_domains(job):
            if not tree.ready:
                ssn.skip(job, "TopologyPlacementFailed", tree.problem)
                return False
            recover(job, tree)
        for group in ssn.job_gradients(job, tree.root, self.purpose):
            plans = [plan for domain in group if (plan := self._in_domain(domain)) is not None]
            if plans:
                return self._keep(min(plans, key=lambda plan: plan.harm))
        if not job.unschedulable and job.job.jid not in ssn.skipped:
            word = "TopologyPlacementFailed" if asks_for_domains(job) else "NotEnoughResources"
            ssn.skip(job, word, "no domain can be cleared far enough for the whole of it")
        return False

    def _keep(self, plan: Plan) -> bool:
        self.statement.redo(plan.operations)
        if not settle(self.ssn, self.statement, self.job, self.action):
            return False
        for name, domain in plan.reached.items():
            self.job.subs[name].nominated_hyper_node = domain
        for task in self.job.tasks:
            if task.status is Status.PIPELINED:
                task.nominated = task.row
        return True

    # --- one domain ---------------------------------------------------------------------------

    def _in_domain(self, domain: Domain) -> Plan | None:
        """A dry run; the world is as before."""
        rows = self._rows(domain)
        tasks = waiting_tasks(self.ssn, self.job).drain()
        if not rows.any() or not all(task.preempts for task in tasks):
            return None
        need: Amounts = {}
        for task in tasks[: self._wanted(len(tasks))]:
            add(need, task.requests, 1)
        taken = self._take(domain, rows, need)
        plan = None
        if taken is not None:
            self._give_back(domain, taken)
            victims = [op.task for op in self.statement.operations if op.task.job is not self.job]
            plan = Plan(domain, [], victims, dict(self._reached))
        operations = self.statement.rollback()
        if plan is not None:
            plan.operations = operations
        return plan

    def _wanted(self, pending: int) -> int:
        """How many of its pending tasks the job cannot do without."""
        missing = self.job.minimum - self.job.census.ready - self.job.census.waiting
        return min(max(missing, 1), pending)

    def _rows(self, domain: Domain) -> Mask:
        rows: Mask = np.zeros(self.ssn.world.size, np.bool_)
        rows[domain.rows] = True
        rows &= self.ssn.world.in_reach()
        return rows

    def _take(self, domain: Domain, rows: Mask, need: Amounts) -> list[Taken] | None:
        """Evict bundles until the plan comes off, which is in effect then; None where it does not.

        A plan is only tried once the sums suffice, and after a failure only once some more left.
        """
        ssn = self.ssn
        if self._suffices(rows, need) and self._place(domain):
            return []
        taken: list[Taken] = []
        tries, next_try = 0, 0
        for bundle in bundles(ssn, self.job, rows, self.may_go, need=need, whole=self.whole):
            gone = self._evict(bundle)
            if not gone:
                continue
            taken.append(Taken(bundle, gone))
            if len(taken) < next_try or not self._suffices(rows, need):
                continue
            if self._place(domain):
                return taken
            tries += 1
            next_try = len(taken) + 1 + tries // 8
        return taken if taken and len(taken) < next_try and self._place(domain) else None

    def _evict(self, bundle: Bundle) -> list[TaskInfo]:
        """Evict a bundle if the rules let all of it go. Whom that was."""
        tasks = [task for task in bundle.tasks if task.status & EVICTABLE]
        if not tasks or len(self.ssn.unified_evictable(self.job, tasks, self.purpose)) < len(tasks):
            return []
        for task in tasks:
            self.statement.evict(task, reason(self.ssn, self.action, self.job.job.key))
        return tasks

    def _suffices(self, rows: Mask, need: Amounts) -> bool:
        """Is there as much in the domain as the gang needs, wherever it is?"""
        world = self.ssn.world
        return all(
            int(np.maximum(world.future_idle(slot), 0)[rows].sum()) >= amount
            for slot, amount in need.items()
        )

    # --- giving back --------------------------------------------------------------------------

    def _give_back(self, domain: Domain, taken: list[Taken]) -> None:
        """Let those stay whom the plan does not need: first all on nodes that it does not use, then
        the last taken first, one after the other."""
        used = {task.row for task in self.job.tasks if task.status is Status.PIPELINED}
        idle = [
            task
            for part in self._parts(taken)
            if not used & {task.row for task in part}
            for task in part
        ]
        if idle:
            self._without(idle, domain)
        trials = TRIALS
        for at in range(len(taken) - 1, -1, -1):
            for part in self._parts_of(taken, at):
                if trials and part:
                    trials -= 1
                    if self._without(part, domain):
                        break

    def _parts(self, taken: list[Taken]) -> list[list[TaskInfo]]:
        """What may come back without the rest: a job that left as a whole comes back as one."""
        return [parts[0] for at in range(len(taken)) if (parts := self._parts_of(taken, at))]

    def _parts_of(self, taken: list[Taken], at: int) -> list[list[TaskInfo]]:
        """Of one bundle, what may come back, the most first. Members that could be spared come back
        with the rest of a job that left as a whole, or it does without them."""
        one = taken[at]
        mine = [other for other in taken if other.bundle.job is one.bundle.job]
        if one.bundle.whole:
            return [_gone(task for other in mine for task in other.tasks), _gone(one.tasks)]
        if any(other.bundle.whole and _gone(other.tasks) for other in mine):
            return []
        return [_gone(one.tasks)]

    def _without(self, victims: list[TaskInfo], domain: Domain) -> bool:
        """Is there a plan if these stay? Then they do; else all is as before."""
        reached, planned = dict(self._reached), self._unplace()
        for victim in victims:
            self.statement.give_back(victim)
        if self._could(planned, domain) and self._place(domain):
            return True
        for victim in victims:
            self.statement.evict(victim, reason(self.ssn, self.action, self.job.job.key))
        self.statement.redo(planned)
        self._reached = reached
        return False

    def _unplace(self) -> list[Operation]:
        """Take the plan back, not the evictions, which all come before it."""
        return self.statement.rollback(self.statement.evictions)

    def _could(self, planned: list[Operation], domain: Domain) -> bool:
        """Is there room for as many tasks of each role as the plan had, each role looked at by
        itself? Answers most of what cannot be without a plan."""
        rows, world = np.flatnonzero(self._rows(domain)), self.ssn.world
        roles: dict[int, list[TaskInfo]] = {}
        for operation in planned:
            roles.setdefault(id(operation.task.role), []).append(operation.task)
        for tasks in roles.values():
            parts = [world.future_idle(slot)[rows] // n for slot, n in tasks[0].requests]
            if parts and int(np.maximum(np.min(parts, axis=0), 0).sum()) < len(tasks):
                return False
        return True

    # --- the plan -----------------------------------------------------------------------------

    def _place(self, domain: Domain) -> bool:
        """Pipeline as much of the gang as it needs, or nothing."""
        ssn, job = self.ssn, self.job
        start = self.statement.checkpoint
        self._reached = {}
        subs = PriorityQueue(ssn.compare_sub_jobs, job.subs.values())
        while subs and not self._enough():
            self._place_sub(subs.pop(), domain)
        if self._enough():
            return True
        self.statement.rollback(start)
        return False

    def _enough(self) -> bool:
        return not self.ssn.job_starving(self.job) and self.ssn.pipelined(self.job)

    def _place_sub(self, sub: SubJob, within: Domain) -> bool:
        """In the first domain that takes the sub job."""
        enough = (
            self._enough if not self.job.has_sub_groups else lambda: self.ssn.sub_pipelined(sub)
        )
        for group in self.ssn.sub_job_gradients(sub, within, self.purpose):
            for domain in group:
                start = self.statement.checkpoint
                if self._fill(sub, domain, enough):
                    self._reached[sub.name] = domain.name
                    return True
                self.statement.rollback(start)
        return False

    def _fill(self, sub: SubJob, domain: Domain, enough: Callable[[], bool]) -> bool:
        """Pipeline tasks of a sub job in a domain until there are enough of them."""
        ssn, queue, rows = self.ssn, self.job.queue, self._rows(domain)
        failed: set[int] = set()
        for task in waiting_tasks(ssn, self.job).drain():
            if enough():
                return True
            if task.sub is not sub or id(task.role) in failed or queue is None:
                continue
            choice = None
            if ssn.task_allocatable(queue, task) and ssn.pre_predicate(task) is None:
                choice = choose(ssn, task, feasible(ssn, task, within=rows).mask)
            if choice is None:
                failed.add(id(task.role))
            else:
                self.statement.pipeline(task, choice[0])
        return enough()


def _gone(tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
    """Those that are evicted still."""
    return [task for task in tasks if task.status is Status.RELEASING]
