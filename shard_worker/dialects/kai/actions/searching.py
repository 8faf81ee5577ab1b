"""Shared part of the actions that search victims for jobs: turn order, jobs to skip, the search."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from shard_worker.dialects.kai.evictions import EvictionScenario, Proposal, SearchEnd, SearchRecord
from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.rules.amounts import Amounts
from shard_worker.dialects.kai.rules.budget import ActionBudget, JobBudget, told
from shard_worker.dialects.kai.rules.groups import tasks_to_allocate
from shard_worker.dialects.kai.rules.signatures import FailedSearches, Footprint
from shard_worker.dialects.kai.search.emptiest_nodes import of_emptiest_nodes
from shard_worker.dialects.kai.search.job_lines import JobLines
from shard_worker.dialects.kai.search.resident_columns import Mask, ResidentColumns
from shard_worker.dialects.kai.search.simulation import Simulator, jobs_of
from shard_worker.dialects.kai.search.solver import Search, SearchOutcome, solve
from shard_worker.dialects.kai.search.statement import SearchStatement
from shard_worker.dialects.kai.search.victims import VictimOrder
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.dialects.kai.turn_order import TurnOrder
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import OCCUPYING, Status
from shared.model.groups import NATIVE_KINDS


def always(job: KaiJob, asks: Amounts) -> bool:
    """Search for every job."""
    del job, asks
    return True


def all_of(job: KaiJob, columns: ResidentColumns) -> Mask:
    """Exclude none of the columns' jobs."""
    del job
    return np.ones(len(columns.jid), np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictingAction:
    """The differences between one evicting action and another."""

    name: str
    victim: Callable[[KaiJob, KaiJob], bool]
    """(the job, another one that may be evicted) -> whether it may be a victim."""
    validate: Callable[[Proposal], bool]
    may_be_victims: Callable[[KaiJob, ResidentColumns], Mask] = all_of
    """(the job, jobs that are no objects) -> those of which ``victim`` may be true."""
    columns_decide: bool = False
    """Whether it is true of all of those."""
    may_search: Callable[[KaiJob, Amounts], bool] = always
    """(job, what it asks for next) -> whether victims may be searched for it."""
    may_cost: Callable[[KaiJob, Amounts], bool] = always
    """(job, what victims lose at least) -> whether they may lose so much at all."""
    preemptible_only: bool = False
    """Whether they are searched for jobs alone that may be evicted themselves."""
    most_victims: int | None = None
    """Jobs that are victims of one search at most."""
    one_memory: bool = False
    """Whether what failed in one queue tells of jobs of all queues."""
    of_own_queue: bool | None = None
    """Whether victims are of the job's own queue (true) or of others; None: of any."""


def run(ssn: KaiSession, action: EvictingAction) -> None:
    """Search victims for one waiting job after the other, and commit what is found."""
    _ActionRun(ssn, action).run()


def run_for(ssn: KaiSession, action: EvictingAction, job: KaiJob) -> bool:
    """Search victims for this job alone; True where some were found, which is committed."""
    return _ActionRun(ssn, action).run_for(job)


def may_search(ssn: KaiSession, action: EvictingAction, job: KaiJob) -> bool:
    """Whether a search may succeed, by the job, its queue and what is free alone: nothing of those
    that might go is looked at."""
    tasks = tasks_to_allocate(job.root, simulated=True)
    return bool(tasks) and action.may_search(job, ssn.asked_by(tasks))


class _ActionRun:
    """One run of an action."""

    def __init__(self, ssn: KaiSession, action: EvictingAction) -> None:
        self._ssn = ssn
        self._action = action
        jobs = ssn.kai_jobs.values()
        self._waiting = JobLines(ssn, filter(_is_waiting, jobs))
        if ssn.unread is not None:
            ssn.unread.forget(ssn.kai_jobs)
        self._running = JobLines(ssn, filter(self._may_lose, jobs), ssn.unread)
        self._failed: dict[str, FailedSearches] = {}
        """By queue."""

    def run(self) -> None:
        ssn, action = self._ssn, self._action
        budget = ActionBudget(ssn.kai.budgets, action.name, ssn.clock)
        jobs = [job for job in ssn.kai_jobs.values() if self._is_searched_for(job)]
        order = TurnOrder(ssn, jobs, depth=ssn.kai.queue_depth.get(action.name))
        while (job := order.pop()) is not None and budget.exhausted() is None:
            statement = self._search(job, budget)
            if statement is not None:
                self._commit(statement)
                order.refresh()

    def run_for(self, job: KaiJob) -> bool:
        if not self._is_searched_for(job):
            return False
        budget = ActionBudget(self._ssn.kai.budgets, self._action.name, self._ssn.clock)
        statement = self._search(job, budget)
        if statement is not None:
            self._commit(statement)
        return statement is not None

    def _is_searched_for(self, job: KaiJob) -> bool:
        if self._action.preemptible_only and not job.preemptible:
            return False
        own = job.job.job
        if own.kind in NATIVE_KINDS and not own.preempts:  # KAI itself knows no such policy
            return False
        return _is_waiting(job) and not is_delayed(job, self._ssn.world.now)

    def _search(self, job: KaiJob, budget: ActionBudget) -> SearchStatement | None:
        """The statement that lets victims go for the job, in effect; None where none is found."""
        ssn, action = self._ssn, self._action
        tasks = tasks_to_allocate(job.root, simulated=True)
        asks = ssn.asked_by(tasks)
        if not tasks or not action.may_search(job, asks):
            return None
        memory = self._memory(job)
        signature, footprint = signature_of(job), footprint_of(job)
        if ssn.kai.options.use_scheduling_signatures and memory.is_hopeless(signature, footprint):
            ssn.searches.passed_over += 1
            return None
        if any(ssn.pre_predicate(task) is not None for task in tasks):
            return None  # no eviction changes that
        ssn.evictions.start_solution()
        ssn.searches.searches += 1
        own, ruled_out = budget.job(), ssn.searches.ruled_out
        search = Search(
            ssn=ssn,
            job=job,
            victims=self._victims(job),
            simulator=Simulator(
                ssn, self._waiting, self._validator(job, asks), reason_for(job, action.name)
            ),
            budget=own,
            may_cost=action.may_cost,
            counts=ssn.counts_first,
        )
        outcome = solve(search)
        ssn.searches.simulated += own.simulated
        ssn.searches.ended[job.job.job.jid] = self._describe(outcome, own)
        ssn.on_search(
            SearchRecord(
                action=action.name,
                ended=outcome.ended,
                bound=outcome.bound,
                simulated=own.simulated,
                ruled_out=ssn.searches.ruled_out - ruled_out,
                seconds=own.seconds,
            )
        )
        if outcome.ended in (SearchEnd.EXHAUSTED, SearchEnd.IMPOSSIBLE):
            memory.failed(signature, footprint)
        return outcome.statement

    def _describe(self, outcome: SearchOutcome, budget: JobBudget) -> str:
        """How a search ended, for people."""
        if outcome.bound is None:
            return outcome.ended.value
        return told(
            outcome.bound,
            budget.of_action.budgets,
            action=self._action.name,
            generator=outcome.generator,
            simulated=budget.simulated,
        )

    def _commit(self, statement: SearchStatement) -> None:
        changed = jobs_of(self._ssn, [operation.task for operation in statement.operations])
        statement.commit()
        self._failed.clear()
        for job in changed:
            self._waiting.put(job, here=_is_waiting(job))
            self._running.put(job, here=self._may_lose(job))

    def _may_lose(self, job: KaiJob) -> bool:
        """Whether a job may be a victim at all. What was promised is kept: KAI would take it away
        again in the same cycle (docs/decisions/0075)."""
        census = job.job.census
        return (
            job.preemptible
            and census.of(OCCUPYING) > 0
            and not census.of(Status.PIPELINED)
            and self._ssn.may_lose(job)
        )

    def _victims(self, job: KaiJob) -> VictimOrder:
        """Return the candidate victims of the job in eviction order."""
        is_victim, most = self._action.victim, self._action.most_victims
        may_be, decided = partial(self._action.may_be_victims, job), self._action.columns_decide

        def accepts(other: KaiJob) -> bool:
            return other.job is not job.job and is_victim(job, other)

        if most is None:
            lines = self._running.victims(may_be, decided=decided)
            return VictimOrder(self._ssn, lines, accepts)
        chosen = of_emptiest_nodes(self._ssn, self._running, most, may_be, accepts)
        among = np.fromiter(chosen, np.int64, len(chosen))
        lines = self._running.victims(lambda columns: np.isin(columns.jid, among), decided=decided)
        return VictimOrder(self._ssn, lines, lambda other: other.job.job.jid in chosen)

    def _validator(self, job: KaiJob, asks: Amounts) -> Callable[[EvictionScenario], bool]:
        ssn, validate = self._ssn, self._action.validate
        amounts: dict[int, Amounts] = {}

        def amounts_of(task: TaskInfo) -> Amounts:
            return amounts[id(task)]

        def valid(scenario: EvictionScenario) -> bool:
            tasks = scenario.tasks
            by_job: dict[int, list[TaskInfo]] = {}
            for task in tasks:
                by_job.setdefault(task.job.job.jid, []).append(task)
                if id(task) not in amounts:
                    amounts[id(task)] = ssn.asked_of_nodes([task])
            victims = [(other, by_job[other.job.job.jid]) for other in jobs_of(ssn, tasks)]
            return validate(Proposal(job=job, asks=asks, victims=victims, amounts_of=amounts_of))

        return valid

    def _memory(self, job: KaiJob) -> FailedSearches:
        queue = "" if self._action.one_memory else job.queue.uid
        return self._failed.setdefault(queue, FailedSearches())


def _is_waiting(job: KaiJob) -> bool:
    return job.waits and job.root.ready


def reason_for(job: KaiJob, action: str) -> str:
    """Describe an eviction for people: the action and the job that it makes room for."""
    return f"{action}: for {job.key} of queue {job.queue.record.name}"


def is_delayed(job: KaiJob, now: float) -> bool:
    """Whether nobody is evicted for a job yet."""
    until = job.group.delayed_until(job.job.job.created)
    return job.group.preemption_delay > 0 and now < until


def signature_of(job: KaiJob) -> Hashable:
    """The same for jobs that ask for the same kind of place: what their waiting tasks' classes say
    but for amounts, their priority, and where their sub groups have to be."""
    kinds = {
        (
            task.role.labels,
            task.cls.selector,
            task.cls.affinity,
            task.cls.tolerations,
            task.cls.constraints,
        )
        for task in _waiting(job)
    }
    constraints = (job.group.topology, *(sub.topology for sub in job.group.sub_groups))
    spec = job.job.job
    return frozenset(kinds), spec.priority, job.preemptible, spec.topology_key, constraints


def footprint_of(job: KaiJob) -> Footprint:
    """Requests of the job's waiting tasks, the largest first."""
    return sorted((dict(task.requests) for task in _waiting(job)), key=sorted)


def _waiting(job: KaiJob) -> Iterable[TaskInfo]:
    return tasks_to_allocate(job.root, simulated=True)
