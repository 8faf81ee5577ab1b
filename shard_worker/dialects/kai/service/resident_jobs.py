"""The jobs on nodes as columns for a turn that searches victims: of the table of residents, of
specifications that were decoded once, and of PodGroups.

A job whose order or whose questions need more than counts is left to be read as an object: one with
a task that waits, with sub groups or minima of its roles, or with a share by GPU memory, which is
another part of each node's devices.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.model import QueueState
from shard_worker.dialects.kai.rules.amounts import Amounts
from shard_worker.dialects.kai.search.resident_columns import Ints, Mask, ResidentColumns
from shard_worker.kube_scheduler.devices.claims import concerned
from shard_worker.session_model.job_facts import JobFacts
from shard_worker.session_model.status import EVICTABLE, OCCUPYING, STATUS_OF
from shared.messages.messages import TaskState
from shared.model.kai import PREEMPTIBLE_BELOW, KaiPodGroup
from shared.model.model import Requests
from shared.model.node_pool import NodePool

if TYPE_CHECKING:
    from shard_worker.dialects.kai.session import KaiSession
    from shard_worker.session_model.world import World
    from shard_worker.view.resident_table import ResidentTable

_OCCUPIES = np.array([bool(STATUS_OF[state] & OCCUPYING) for state in TaskState], np.bool_)
_EVICTABLE = np.array([bool(STATUS_OF[state] & EVICTABLE) for state in TaskState], np.bool_)
_SAID = {None: -1, False: 0, True: 1}
"""A PodGroup's preemptibility as a number."""
_NO_GROUP = KaiPodGroup("", "", "")


class ResidentReading(NamedTuple):
    """Jobs on nodes, without an object of any."""

    columns: ResidentColumns
    others: list[int]
    """Numbers of those that have to be objects."""
    rows: Ints
    """Rows with tasks of any of them."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts and flags of each job, from the states of its tasks."""

    settled: Mask
    """Whether each of its tasks has a place or had one, and the table has no other."""
    active: Ints
    """Tasks that count for its minimum."""
    movable: Ints
    """Tasks that are bound or run."""
    blocked: Mask
    """Whether one is on a row that may not be used."""
    owner: Ints
    row: Ints
    """For each task on a node: line of its job, and row."""


@dataclass(frozen=True, slots=True)
class _Groups:
    minimum: Ints
    preemptible: Mask
    last_start: NDArray[np.float64]
    """Not a number where it is not known."""
    is_plain: Mask
    """Whether it has one pod set."""


@dataclass(frozen=True, slots=True)
class _Shapes:
    """By code of a shape."""

    amounts: list[tuple[Amounts, ...] | None]
    """Amounts that each of its tasks holds in its queue. None: the view does not know a class of
    it; (): it is another amount on each node, or no job of these has the shape."""
    classes: list[tuple[tuple[int, Requests], ...]]
    """Number and requests of the class of each task."""

    @property
    def is_known(self) -> Mask:
        return np.array([amounts is not None for amounts in self.amounts], np.bool_)

    @property
    def is_fixed(self) -> Mask:
        return np.array([bool(amounts) for amounts in self.amounts], np.bool_)


class ResidentJobs:
    """Kept from turn to turn, for one node pool."""

    def __init__(self, pool: NodePool) -> None:
        self.pool = pool
        self.facts = JobFacts(pool.has_job)

    def read(
        self, ssn: KaiSession, world: World, jids: Sequence[int], *, usable: Mask
    ) -> ResidentReading | None:
        """``jids``: sorted. ``usable``: rows on which victims may be. None where there is no table
        of residents."""
        table = world.view.residents
        if table is None:
            return None
        jid_array = np.array(jids, np.int64)
        slots = table.jobs.slots(jid_array)
        jid_array, slots = jid_array[slots >= 0], slots[slots >= 0]
        facts = _FactsOf(self.facts, self.facts.read(table.jobs, jid_array))
        shapes, shape = _shapes(ssn, world, facts), facts.column("shape")
        counts = _counted(table, slots, facts.column("tasks"), usable)
        groups = _groups_of(facts, world.objects.kai_groups)
        leaves, leaf = _leaves(ssn.queues, facts)
        is_object = _among(jid_array, world.jobs)
        in_columns = counts.settled & groups.is_plain & shapes.is_fixed[shape] & ~is_object
        may_lose = groups.preemptible & (counts.active > 0) & ~counts.blocked
        spared = () if world.others is None else world.others.spared
        at_once = (counts.movable == facts.column("tasks")) & ~_among(jid_array, spared)
        # Jobs of another pool, or of a queue that holds none, are nobody's victims; they are only
        # on their nodes.
        line_numbers = np.flatnonzero(in_columns & facts.column("in_pool") & (leaf >= 0))
        columns = ResidentColumns(
            jid=jid_array[line_numbers],
            leaves=leaves,
            leaf=leaf[line_numbers],
            priority=facts.column("priority")[line_numbers],
            age=facts.age[line_numbers],
            created=facts.column("created")[line_numbers],
            uid=facts.column("uid")[line_numbers],
            started=_started(ssn.started, jid_array, groups.last_start)[line_numbers],
            preemptible=groups.preemptible[line_numbers],
            may_lose=(may_lose & ~_among(jid_array, world.view.nominations))[line_numbers],
            elastic_class=(np.sign(counts.active - groups.minimum) + 1)[line_numbers],
            is_elastic=(groups.minimum < facts.column("tasks"))[line_numbers],
            shape=shape[line_numbers],
            shapes=[amounts or () for amounts in shapes.amounts],
            classes=shapes.classes,
            # Of one task none goes before it, whatever the minimum.
            at_once=(at_once & ((counts.movable <= groups.minimum) | (counts.movable == 1)))[
                line_numbers
            ],
            lines=table.jobs.column("first")[slots[line_numbers]],
            table=table,
        )
        others = jid_array[~in_columns & ~is_object].tolist()
        return ResidentReading(columns, others, counts.row[shapes.is_known[shape][counts.owner]])


class _FactsOf:
    """Specifications of a selection of jobs, as columns."""

    def __init__(self, facts: JobFacts, lines: Ints) -> None:
        self._facts = facts
        self._lines = lines
        self.queues, self.shapes = facts.queues, facts.shapes

    def column(self, name: str) -> NDArray[Any]:
        """As that of :class:`JobFacts`, of these jobs."""
        return self._facts.column(name)[self._lines]

    @property
    def age(self) -> Ints:
        return self._facts.age[self._lines]


def _among(jids: Ints, these: Collection[int]) -> Mask:
    return np.isin(jids, np.fromiter(these, np.int64, len(these)))


def _counted(table: ResidentTable, slots: Ints, tasks: Ints, usable: Mask) -> _Counts:
    """``slots``: of the jobs; ``tasks``: how many each has."""
    number, jobs = len(slots), table.jobs
    sizes = jobs.column("size")[slots].astype(np.int64)
    begin, total = np.cumsum(sizes) - sizes, int(sizes.sum())
    owner = np.repeat(np.arange(number), sizes)
    tix = np.arange(total) - np.repeat(begin, sizes)
    lines = np.repeat(jobs.column("first")[slots], sizes) + tix
    state, row = table.column("state")[lines], table.column("row")[lines]
    placed, inside = state != TaskState.PENDING, tix < tasks[owner]
    strange = (placed & ~inside) | (row >= len(usable))
    complete = np.bincount(owner[placed & inside], minlength=number) == tasks
    active = _OCCUPIES[state] & ~jobs.column("gone")[slots][owner]
    inside_rows = (row >= 0) & (row < len(usable))
    blocked = np.zeros(total, np.bool_)
    blocked[inside_rows] = ~usable[row[inside_rows]]
    return _Counts(
        settled=complete & (np.bincount(owner[strange], minlength=number) == 0),
        active=np.bincount(owner[active], minlength=number),
        movable=np.bincount(owner[_EVICTABLE[state]], minlength=number),
        blocked=np.bincount(owner[blocked], minlength=number) > 0,
        owner=owner[inside_rows],
        row=row[inside_rows].astype(np.int64),
    )


def _groups_of(facts: _FactsOf, groups: Mapping[str, KaiPodGroup]) -> _Groups:
    """Columns of the jobs' PodGroups; a job without one gets the values of the group that KAI would
    create (:func:`shard_worker.dialects.kai.model.kai_job_of`)."""
    get = groups.get
    pod_groups = [get(key, _NO_GROUP) for key in facts.column("group").tolist()]
    own = np.array([group is not _NO_GROUP for group in pod_groups], np.bool_)
    minima = np.array([group.min_member for group in pod_groups], np.int64)
    preemptible = np.array([_SAID[group.preemptible] for group in pod_groups], np.int64)
    starts = [group.last_start for group in pod_groups]
    has_one = np.array([not group.sub_groups for group in pod_groups], np.bool_)
    return _Groups(
        minimum=np.where(own, minima, facts.column("minimum")),
        preemptible=np.where(
            preemptible == _SAID[None],
            facts.column("priority") < PREEMPTIBLE_BELOW,
            preemptible == _SAID[True],
        ),
        last_start=np.array(starts, np.float64),  # no number of None
        is_plain=has_one & (own | ~facts.column("has_minima")),
    )


def _shapes(ssn: KaiSession, world: World, facts: _FactsOf) -> _Shapes:
    known = world.view.classes
    amounts: list[tuple[Amounts, ...] | None] = [()] * len(facts.shapes)
    classes: list[tuple[tuple[int, Requests], ...]] = [()] * len(facts.shapes)
    for code in np.unique(facts.column("shape")).tolist():
        shape = facts.shapes[code]
        # What claims hold depends on who else shares them: such jobs become objects.
        if any(cid not in known or concerned(known[cid]) for cid, *_ in shape):
            amounts[code] = None
            continue
        parts = [
            (
                None if concerned(known[cid]) else ssn.amounts_anywhere(known[cid], marks, world),
                count,
            )
            for cid, marks, count in shape
            if count
        ]
        if all(part is not None for part, _ in parts):
            amounts[code] = tuple(a for a, n in parts if a is not None for _ in range(n))
        classes[code] = tuple(
            (cid, known[cid].requests) for cid, _, count in shape for _ in range(count)
        )
    return _Shapes(amounts, classes)


def _leaves(queues: Mapping[str, QueueState], facts: _FactsOf) -> tuple[list[QueueState], Ints]:
    """The queues of the jobs that may hold some, and the index of each job's; -1: none of them."""
    codes = facts.column("queue")
    leaves: list[QueueState] = []
    index = np.full(len(facts.queues), -1, np.int64)
    for code in np.unique(codes).tolist():
        queue = queues.get(facts.queues[code])
        if queue is not None and not queue.children:
            index[code] = len(leaves)
            leaves.append(queue)
    return leaves, index[codes]


def _started(
    started: Mapping[int, float], jids: Ints, last_start: NDArray[np.float64]
) -> NDArray[np.float64]:
    """When jobs started: as the session knows it, else as their PodGroups say it."""
    starts = last_start.copy()
    if started and len(jids):
        numbers = np.fromiter(started, np.int64, len(started))
        at = np.minimum(np.searchsorted(jids, numbers), len(jids) - 1)
        times = np.fromiter(started.values(), np.float64, len(started))
        is_here = jids[at] == numbers
        starts[at[is_here]] = times[is_here]
    return starts
