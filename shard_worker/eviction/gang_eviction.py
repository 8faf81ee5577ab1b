"""Room for a whole gang at once: in one domain, by evicting bundles of victims.

In each candidate domain bundles are evicted, one after the other, until a plan places as much of
the gang as it needs. Then every victim that the plan does not need is put back, the most harmful
first. All of that is a dry run on the world itself; the least harmful plan of the first group of
domains that has any is then executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from shard_worker.eviction.dry_run import LIFT
from shard_worker.eviction.eviction_units import EvictionUnit, MayGo, eviction_units
from shard_worker.eviction.victims import reason, settle, waiting_tasks
from shard_worker.framework.operation import Operation
from shard_worker.framework.rules import Mask, Purpose
from shard_worker.framework.statement import WorldStatement
from shard_worker.placement.candidates import choose, feasible
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.priority_queue import PriorityQueue
from shard_worker.session_model.status import EVICTABLE, Status
from shard_worker.session_model.workload import Amounts, add
from shard_worker.topology.allocated_domains import asks_for_domains, recover, tree_of
from shard_worker.topology.label_domains import is_confined, open_domains
from shard_worker.view.hyper_tree import HyperDomain, HyperTree
from shared.messages.reason import Reason

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob, SubJob


TRIALS = 64
"""Limit on the plans tried to find victims that are not needed."""


@dataclass(frozen=True, slots=True)
class EvictedUnit:
    """An evicted bundle and its victims."""

    unit: EvictionUnit
    tasks: list[TaskInfo]


@dataclass(slots=True)
class GangPlan:
    """A gang's placement in a domain, and its victims."""

    domain: HyperDomain
    operations: list[Operation]
    victims: list[TaskInfo]
    reached: dict[str, str]
    """Sub-job -> the domain it would be in."""

    @property
    def harm(self) -> tuple[int, int, int]:
        """Sort key, smaller is better: the highest priority among the victims, the sum, their
        number."""
        priorities = [victim.job.job.priority for victim in self.victims]
        return (
            max(priorities, default=-LIFT),
            sum(priority + LIFT for priority in priorities),
            len(priorities),
        )


@dataclass(slots=True)
class GangSearch:
    """The search for one job."""

    ssn: Session
    job: SessionJob
    action: str
    purpose: Purpose
    may_go: MayGo
    whole: bool = True
    statement: WorldStatement = field(init=False)
    _reached: dict[str, str] = field(default_factory=dict)
    _reasons: dict[TaskInfo, str] = field(default_factory=dict)
    """Why each victim was evicted. One that is evicted again, after a trial without it, keeps its
    first reason: that of the plugins that allowed it, not of those asked last."""

    def __post_init__(self) -> None:
        self.statement = WorldStatement(self.ssn)

    def run(self) -> bool:
        """Evict and nominate for the gang; True if the plan was kept."""
        ssn, job, tree = self.ssn, self.job, tree_of(self.ssn.world)
        if asks_for_domains(job):
            if not tree.ready:
                ssn.skip(job, Reason.TOPOLOGY_PLACEMENT_FAILED, tree.problem)
                return False
            recover(job, tree)
        for group in self._gradients(tree):
            plans = [plan for domain in group if (plan := self._in_domain(domain)) is not None]
            if plans:
                return self._keep(min(plans, key=lambda plan: plan.harm))
        if not job.unschedulable and job.job.jid not in ssn.skipped:
            word = (
                Reason.TOPOLOGY_PLACEMENT_FAILED
                if is_confined(job)
                else Reason.NOT_ENOUGH_RESOURCES
            )
            ssn.skip(job, word, "no domain can be cleared far enough for the whole of it")
        return False

    def _gradients(self, tree: HyperTree) -> list[list[HyperDomain]]:
        job, world = self.job, self.ssn.world
        if not job.job.topology_key:
            return self.ssn.job_gradients(job, tree.root, self.purpose)
        return [[HyperDomain(d.value, 1, d.rows) for d in open_domains(job, world)]]

    def _keep(self, plan: GangPlan) -> bool:
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

    def _in_domain(self, domain: HyperDomain) -> GangPlan | None:
        """Try one domain; return its plan or None. The world is unchanged."""
        rows = self._rows(domain)
        tasks = waiting_tasks(self.ssn, self.job).drain()
        if not rows.any() or not all(task.preempts for task in tasks):
            return None
        need: Amounts = {}
        for task in tasks[: self._wanted(len(tasks))]:
            add(need, task.requests, 1)
        evicted = self._take(domain, rows, need)
        plan = None
        # Volcano evicts until the sums fit and keeps all of it; its users report needless evictions
        # (its issues 5984, 5994). Here what the plan does without comes back (decision 0034).
        if evicted is not None:
            self._give_back(domain, evicted)
            victims = [op.task for op in self.statement.operations if op.task.job is not self.job]
            plan = GangPlan(domain, [], victims, dict(self._reached))
        # Undone also where the domain has a plan: the next domain is judged on the same world.
        operations = self.statement.rollback()
        if plan is not None:
            plan.operations = operations
        return plan

    def _wanted(self, pending: int) -> int:
        """How many of its pending tasks the job needs."""
        missing = self.job.minimum - self.job.census.ready - self.job.census.waiting
        return min(max(missing, 1), pending)

    def _rows(self, domain: HyperDomain) -> Mask:
        rows: Mask = np.zeros(self.ssn.world.size, np.bool_)
        rows[domain.rows] = True
        rows &= self.ssn.world.in_reach()
        return rows

    def _take(self, domain: HyperDomain, rows: Mask, need: Amounts) -> list[EvictedUnit] | None:
        """Evict bundles until a plan succeeds and is in effect; None if none does.

        A plan is tried only once the sums suffice, and after a failed attempt only with more
        bundles evicted.
        """
        ssn = self.ssn
        # Sums first: they are some additions, a plan is a placement of the whole gang.
        if self._suffices(rows, need) and self._place(domain):
            return []
        evicted: list[EvictedUnit] = []
        tries, next_try = 0, 0
        for unit in eviction_units(ssn, self.job, rows, self.may_go, need=need, whole=self.whole):
            victims = self._evict(unit)
            if not victims:
                continue
            evicted.append(EvictedUnit(unit, victims))
            if len(evicted) < next_try or not self._suffices(rows, need):
                continue
            if self._place(domain):
                return evicted
            tries += 1
            # A domain whose sums suffice and whose nodes do not would otherwise be planned anew
            # after every bundle.
            next_try = len(evicted) + 1 + tries // 8
        return evicted if evicted and len(evicted) < next_try and self._place(domain) else None

    def _evict(self, unit: EvictionUnit) -> list[TaskInfo]:
        """Evict the bundle if the rules allow it as a whole; return the evicted tasks."""
        tasks = [task for task in unit.tasks if task.status & EVICTABLE]
        # A bundle leaves as a whole or stays: of a gang that the rules let go in part the rest
        # would hold its nodes for nothing.
        if not tasks or len(self.ssn.unified_evictable(self.job, tasks, self.purpose)) < len(tasks):
            return []
        why = reason(self.ssn, self.action, self.job.job.key)
        for task in tasks:
            self._reasons[task] = why
            self.statement.evict(task, why)
        return tasks

    def _suffices(self, rows: Mask, need: Amounts) -> bool:
        """Whether the domain's free amounts suffice for the gang in total."""
        world = self.ssn.world
        return all(
            int(np.maximum(world.future_idle(slot), 0)[rows].sum()) >= amount
            for slot, amount in need.items()
        )

    # --- giving back --------------------------------------------------------------------------

    def _give_back(self, domain: HyperDomain, evicted: list[EvictedUnit]) -> None:
        """Put back victims that the plan does not need: first all on nodes that it does not use,
        then one bundle after the other, the last evicted first."""
        used = {task.row for task in self.job.tasks if task.status is Status.PIPELINED}
        idle = [
            task
            for part in self._parts(evicted)
            if not used & {task.row for task in part}
            for task in part
        ]
        if idle:
            self._without(idle, domain)
        trials = TRIALS
        # The last taken first: they are the more important ones, by the order of eviction.
        for at in range(len(evicted) - 1, -1, -1):
            for part in self._parts_of(evicted, at):
                if trials and part:
                    trials -= 1
                    if self._without(part, domain):
                        break

    def _parts(self, evicted: list[EvictedUnit]) -> list[list[TaskInfo]]:
        """The groups of victims that may be put back independently: a job evicted as a whole is one
        group."""
        return [parts[0] for at in range(len(evicted)) if (parts := self._parts_of(evicted, at))]

    def _parts_of(self, evicted: list[EvictedUnit], at: int) -> list[list[TaskInfo]]:
        """The groups of one bundle's victims that may be put back, the largest first. Spare members
        of a job that was evicted as a whole come back with the whole job or not at all."""
        entry = evicted[at]
        siblings = [sibling for sibling in evicted if sibling.unit.job is entry.unit.job]
        if entry.unit.whole:
            return [
                _gone(task for sibling in siblings for task in sibling.tasks),
                _gone(entry.tasks),
            ]
        if any(sibling.unit.whole and _gone(sibling.tasks) for sibling in siblings):
            return []
        return [_gone(entry.tasks)]

    def _without(self, victims: list[TaskInfo], domain: HyperDomain) -> bool:
        """Put these victims back if a plan still exists without them; otherwise change nothing."""
        reached, planned = dict(self._reached), self._unplace()
        for victim in victims:
            self.statement.give_back(victim)
        if self._could(planned, domain) and self._place(domain):
            return True
        for victim in victims:
            self.statement.evict(victim, self._reasons[victim])
        self.statement.redo(planned)
        self._reached = reached
        return False

    def _unplace(self) -> list[Operation]:
        """Undo the plan, but not the evictions, which all come before it."""
        return self.statement.rollback(self.statement.evictions)

    def _could(self, planned: list[Operation], domain: HyperDomain) -> bool:
        """Whether there is room for as many tasks of each role as the plan had, each role by
        itself. This rules out most impossible plans cheaply."""
        rows, world = np.flatnonzero(self._rows(domain)), self.ssn.world
        roles: dict[int, list[TaskInfo]] = {}
        for operation in planned:
            roles.setdefault(id(operation.task.role), []).append(operation.task)
        for tasks in roles.values():
            cls = tasks[0].cls
            parts = [world.future_idle(slot)[rows] // n for slot, n in cls.requests]
            if cls.things:
                parts.append(world.view.things.counts(cls.things, world.size)[0][rows])
            if parts and int(np.maximum(np.min(parts, axis=0), 0).sum()) < len(tasks):
                return False
        return True

    # --- the plan -----------------------------------------------------------------------------

    def _place(self, domain: HyperDomain) -> bool:
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

    def _place_sub(self, sub: SubJob, within: HyperDomain) -> bool:
        """Place a sub job in the first domain that takes it."""
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

    def _fill(self, sub: SubJob, domain: HyperDomain, enough: Callable[[], bool]) -> bool:
        """Pipeline tasks of a sub-job in a domain until ``enough`` holds."""
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
    """The tasks that are still evicted."""
    return [task for task in tasks if task.status is Status.RELEASING]
