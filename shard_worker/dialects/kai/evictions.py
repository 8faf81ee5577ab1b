"""Questions and answers of a victim search: eviction units, scenarios, probes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.rules.amounts import Amounts
from shard_worker.dialects.kai.rules.budget import BudgetBound
from shard_worker.session_model.job import TaskInfo
from shared.model.model import Requests
from shared.units.things import Things


class UnreadTask(NamedTuple):
    """A task that may go and is no object yet, as counts read it."""

    row: int
    cid: int
    requests: Requests
    devices: Things
    gpus: int
    """Thousandths of GPUs that it holds."""


Occupant = TaskInfo | UnreadTask
"""A task that leaves a row, as counts read it."""


class KaiEvictionUnit:
    """Tasks of one job that go together, or not at all."""

    __slots__ = ("_job", "_read", "_tasks", "alone", "jid", "occupants")

    def __init__(self, job: KaiJob, tasks: tuple[TaskInfo, ...], alone: bool = False) -> None:
        """``alone``: whether it may go whatever becomes of earlier units of its job; else those go
        with it."""
        self._job: KaiJob | None = job
        self._tasks = tasks
        self._read: Callable[[], KaiJob] = _has_its_job
        self.alone = alone
        self.jid: int = job.job.job.jid
        self.occupants: Sequence[Occupant] = tasks

    @classmethod
    def unread(
        cls, jid: int, tasks: tuple[UnreadTask, ...], read: Callable[[], KaiJob]
    ) -> KaiEvictionUnit:
        """All tasks of a job that is no object until somebody asks for :attr:`tasks`. Given by
        number: only :attr:`tasks` are in task order."""
        unit = cls.__new__(cls)
        unit._job, unit._tasks, unit._read = None, (), read
        unit.alone, unit.jid, unit.occupants = True, jid, tasks
        return unit

    @property
    def is_read(self) -> bool:
        """Whether its tasks are objects already."""
        return self._job is not None

    @property
    def job(self) -> KaiJob:
        return self._read_job() if self._job is None else self._job

    @property
    def tasks(self) -> tuple[TaskInfo, ...]:
        if self._job is None:
            self._read_job()
        return self._tasks

    def _read_job(self) -> KaiJob:
        job = self._job = self._read()
        self._tasks = tuple(job.root.tasks())
        return job


def _has_its_job() -> KaiJob:
    raise RuntimeError("a unit that was made of a job is not read")


@dataclass(frozen=True, slots=True, eq=False)
class EvictionScenario:
    """Victims that go together: those of a smaller probe, and further ones."""

    recorded: tuple[TaskInfo, ...] = ()
    units: tuple[KaiEvictionUnit, ...] = ()

    @property
    def tasks(self) -> tuple[TaskInfo, ...]:
        return (*self.recorded, *(task for unit in self.units for task in unit.tasks))

    @property
    def has_victims(self) -> bool:
        """Whether :attr:`tasks` are any. Asks nobody to become an object."""
        return bool(self.recorded) or any(unit.occupants for unit in self.units)

    @property
    def fingerprint(self) -> frozenset[int]:
        """The same for two scenarios with the same victims."""
        return frozenset(map(id, self.tasks))


class VictimCount(Protocol):
    """Victims that are added one by one, and whether what they leave could be enough."""

    def add(self, unit: KaiEvictionUnit) -> None: ...

    def enough(self) -> bool: ...


class Uncounted:
    """A set of victims that is always worth a simulation."""

    def add(self, unit: KaiEvictionUnit) -> None:
        """Nothing is counted."""

    def enough(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One question of a search: can so many tasks of a job be placed, and over whose places?"""

    job: KaiJob
    """As if it waited for these tasks alone."""
    tasks: Sequence[TaskInfo]
    order: Iterable[KaiEvictionUnit]
    """Candidates for eviction, the first to go first."""
    feasible: NDArray[np.bool_]
    """Rows that are looked at without anybody leaving them."""
    gpus: NDArray[np.int64]
    """Thousandths of GPUs by row that nobody holds, or that are about to be free."""
    gpus_of: Callable[[Occupant], int]
    """Thousandths of GPUs that a task holds or asks for."""
    node_name: Callable[[int], str]
    gathering: Callable[[], VictimCount]
    """An empty set of victims beside the recorded ones."""
    recorded: tuple[TaskInfo, ...] = ()
    """Victims of a smaller probe."""

    def units(self) -> Iterator[KaiEvictionUnit]:
        """The victims' order without those that are recorded."""
        recorded = set(self.recorded)
        for unit in self.order:
            # Who is recorded is an object, and an object only as a task of its unit.
            if not unit.is_read or recorded.isdisjoint(unit.tasks):
                yield unit
            elif left := tuple(task for task in unit.tasks if task not in recorded):
                yield KaiEvictionUnit(unit.job, left, unit.alone)


Generator = Callable[[Probe], Iterator[EvictionScenario]]
"""Scenarios to try for a probe, in order, until one succeeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A scenario after its simulation, for validators: who goes, moves or stays, by the states of
    the tasks."""

    job: KaiJob
    """For which it is."""
    asks: Amounts
    """The job's next request as a whole."""
    victims: Sequence[tuple[KaiJob, Sequence[TaskInfo]]]
    """Each job once, with its tasks of the scenario."""
    amounts_of: Callable[[TaskInfo], Amounts]
    """Amounts of a victim on its present node, without the GPUs of its claims, which several may
    share."""


class SearchEnd(Enum):
    """How a search came out."""

    SOLVED = "solved"
    EXHAUSTED = "no scenario succeeds"
    IMPOSSIBLE = "no scenario can succeed"
    NO_GENERATOR = "no plugin of the policy generates scenarios"
    NOTHING_ASKED = "the job asks for nothing"
    BUDGET = "a budget ended it"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """One search, for whoever counts."""

    action: str
    ended: SearchEnd
    bound: BudgetBound | None
    """The budget that ended it; None: none did."""
    simulated: int
    """Scenarios that were simulated."""
    ruled_out: int
    """Scenarios that a count excluded before."""
    seconds: float
    """By the session's clock; 0 where it has none."""


@dataclass(slots=True)
class SearchFigures:
    """Counts of a session's victim searches, for explanations and metrics."""

    searches: int = 0
    simulated: int = 0
    ruled_out: int = 0
    """Scenarios that a count excluded before they were simulated."""
    passed_over: int = 0
    """Jobs that were not searched for, since one like it had failed."""
    ended: dict[int, str] = field(default_factory=dict)
    """jid -> how its last search ended, for people."""
