"""Search victims for a job: probe after probe, generator after generator, scenario after scenario.

A gang is searched for in probes of growing size; each solved one leaves its victims as a hint for
the next, and is taken back. What the whole gang's probe finds stays in effect, to be committed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.devices import wants_gpus
from shard_worker.dialects.kai.evictions import (
    EvictionScenario,
    KaiEvictionUnit,
    Occupant,
    Probe,
    SearchEnd,
    Uncounted,
    UnreadTask,
)
from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.rules.amounts import Amounts
from shard_worker.dialects.kai.rules.budget import BudgetBound, JobBudget
from shard_worker.dialects.kai.rules.groups import IN_USE, tasks_to_allocate
from shard_worker.dialects.kai.rules.probes import probe_sizes
from shard_worker.dialects.kai.search.clones import wanting
from shard_worker.dialects.kai.search.node_capacities import gpu_room
from shard_worker.dialects.kai.search.room import SearchRoom
from shard_worker.dialects.kai.search.simulation import Simulator, Solution
from shard_worker.dialects.kai.search.statement import SearchStatement
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.session_model.job import TaskInfo
from shared.units.slots import CPU, MEMORY

UNITS_A_LOOK = 64
"""Units that may go between two looks at the clock: to add one takes some microseconds, a look
one."""


@dataclass(frozen=True, slots=True)
class Search:
    """A victim search by one action for one job."""

    ssn: KaiSession
    job: KaiJob
    victims: Iterable[KaiEvictionUnit]
    """Candidates for eviction, the first to go first."""
    simulator: Simulator
    budget: JobBudget
    may_cost: Callable[[KaiJob, Amounts], bool]
    """(job, what others lose at least) -> whether they may lose so much at all."""
    counts: bool = True
    """Whether what cannot succeed by the counts is left out; the outcome is the same."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    ended: SearchEnd
    statement: SearchStatement | None = None
    """In effect, to be committed; None where the search found nothing."""
    bound: BudgetBound | None = None
    """The budget that ended it."""
    generator: str = ""
    """The one that was at work then."""


def solve(search: Search) -> SearchOutcome:
    """The first scenario that places all that the job asks for next."""
    ssn = search.ssn
    tasks = tasks_to_allocate(search.job.root, simulated=True)
    generators = ssn.evictions.generators
    if not tasks:
        return SearchOutcome(SearchEnd.NOTHING_ASKED)
    if not generators:
        return SearchOutcome(SearchEnd.NO_GENERATOR)
    if search.counts and not _is_possible(search, tasks):
        return SearchOutcome(SearchEnd.IMPOSSIBLE)
    had = _number_in_use(search.job)
    cut: tuple[BudgetBound, str] | None = None
    for name in generators:
        search.budget.begin(name)
        attempt = _GeneratorRun(search, tasks, name)
        solution = attempt.solve()
        if solution is not None:
            if _number_in_use(search.job) > had and search.job.root.gang_kept:
                return SearchOutcome(SearchEnd.SOLVED, solution.statement)
            solution.statement.rollback()
        cut = cut if attempt.bound is None else (attempt.bound, name)
    return (
        SearchOutcome(SearchEnd.EXHAUSTED)
        if cut is None
        else SearchOutcome(SearchEnd.BUDGET, None, *cut)
    )


def _is_possible(search: Search, tasks: Sequence[TaskInfo]) -> bool:
    """Whether the counts leave anything to try for the job as a whole."""
    ssn = search.ssn
    if not SearchRoom(ssn, wanting(search.job, tasks), tasks).could_ever():
        return False
    return search.may_cost(search.job, least_cost(ssn, tasks))


def least_cost(ssn: KaiSession, tasks: Sequence[TaskInfo]) -> Amounts:
    """Lower bound of the others' loss if the tasks are placed: their requests beyond everything
    free."""
    world = ssn.world
    rows = ssn.rows()
    free = Amounts(
        cpu=int(np.maximum(world.future_idle(CPU), 0)[rows].sum()),
        memory=int(np.maximum(world.future_idle(MEMORY), 0)[rows].sum()),
        gpu=int(gpu_room(world)[rows].sum()),
    )
    missing = ssn.asked_of_nodes(tasks, at_least=True).minus(free)
    return Amounts(*(max(amount, 0) for amount in missing))


def _number_in_use(job: KaiJob) -> int:
    return sum(pod_set.number(IN_USE) for pod_set in job.root.pod_sets())


class _GeneratorRun:
    """The probes of one generator."""

    def __init__(self, search: Search, tasks: Sequence[TaskInfo], generator: str) -> None:
        self._search = search
        self._tasks = tasks
        self._name = generator
        self._gpus = gpu_room(search.ssn.world)
        self._feasible = feasible_rows(search.ssn, search.job, self._gpus)
        self._failed: set[tuple[int, frozenset[int]]] = set()
        """(size of the probe, victims) of scenarios that did not come out."""
        self._held: dict[int, int] = {}
        """id of a task -> thousandths of GPUs that it holds or asks for."""
        self.bound: BudgetBound | None = None
        """The budget that ended it."""

    def solve(self) -> Solution | None:
        sizes = probe_sizes(len(self._tasks))
        recorded: tuple[TaskInfo, ...] = ()
        size = next(sizes, None)
        while size is not None:
            solution = self._probe(size, recorded)
            if solution is not None:
                if size == len(self._tasks):
                    return solution
                solution.statement.rollback()
                recorded = solution.victims
            if self.bound is not None:
                return None  # a further probe would end at its first scenario
            size = _send(sizes, solution is not None)
        return None

    def _probe(self, size: int, recorded: tuple[TaskInfo, ...]) -> Solution | None:
        search, ssn, tasks = self._search, self._search.ssn, self._tasks[:size]
        feasible = self._feasible.copy()
        feasible[np.array([task.row for task in recorded], np.intp)] = True
        job = wanting(search.job, tasks)
        room = SearchRoom(ssn, job, tasks).without(recorded) if search.counts else None
        probe = Probe(
            job=job,
            tasks=tasks,
            order=self._in_time(search.victims),
            feasible=feasible,
            gpus=self._gpus,
            gpus_of=self._gpus_of,
            node_name=lambda row: ssn.world.node(row).name,
            gathering=Uncounted if room is None else room.gathering,
            recorded=recorded,
        )
        try:
            return self._try(probe, room)
        finally:
            ssn.searches.ruled_out += 0 if room is None else room.misses

    def _try(self, probe: Probe, room: SearchRoom | None) -> Solution | None:
        """The first scenario of a probe that comes out."""
        search, size = self._search, len(probe.tasks)
        for scenario in search.ssn.evictions.generators[self._name](probe):
            if not scenario.has_victims or (room is not None and not _admits(room, scenario)):
                continue
            if (size, scenario.fingerprint) in self._failed:
                continue
            self.bound = search.budget.exhausted(self._name)
            if self.bound is not None:
                return None
            search.budget.simulated += 1
            solution = search.simulator.run(probe, scenario)
            if solution is not None:
                return solution
            self._failed.add((size, scenario.fingerprint))
        return None

    def _in_time(self, units: Iterable[KaiEvictionUnit]) -> Iterator[KaiEvictionUnit]:
        """The units until the time is up: what the counts rule out takes time as well."""
        budget = self._search.budget
        for at, unit in enumerate(units):
            if at % UNITS_A_LOOK == 0 and (bound := budget.out_of_time(self._name)) is not None:
                self.bound = bound
                return
            yield unit

    def _gpus_of(self, task: Occupant) -> int:
        if isinstance(task, UnreadTask):
            return task.gpus
        gpus = self._held.get(id(task))
        if gpus is None:
            gpus = self._held[id(task)] = self._search.ssn.asked_of_nodes([task]).gpu
        return gpus


def _admits(room: SearchRoom, scenario: EvictionScenario) -> bool:
    """Whether a scenario could succeed by the counts."""
    gathering = room.gathering()
    for unit in scenario.units:
        gathering.add(unit)
    return gathering.enough()


def _send(sizes: Generator[int, bool, None], solved: bool) -> int | None:
    try:
        return sizes.send(solved)
    except StopIteration:
        return None


def feasible_rows(ssn: KaiSession, job: KaiJob, gpus: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows that a search looks at without anybody leaving them: all for a job with a task without
    GPUs, else those with GPUs that nobody holds or that are about to be free."""
    exists = ssn.rows()
    if any(not wants_gpus(task, ssn.world) for task in job.root.tasks()):
        return exists.copy()
    return exists & (gpus > 0)
