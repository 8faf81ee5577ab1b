"""Domains of a node label: nodes with one value are one domain, nodes without it are in none.

A job with a ``topology_key`` runs in one of them, under policies of every dialect. Where members
run already, or hold a place, only the domain that has all their nodes is left, so that growth and
replacements stay there or wait. Sentences begin with those of kube-scheduler 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shard_worker.placement.plain_class import plain_classes
from shard_worker.session_model.status import OCCUPYING, Status
from shard_worker.session_model.workload import Amounts, add
from shard_worker.topology.allocated_domains import asks_for_domains
from shard_worker.topology.domain_room import alike, rooms_per_row
from shared.units.slots import PODS

if TYPE_CHECKING:
    from shard_worker.framework.rules import Mask
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob, TaskInfo
    from shard_worker.session_model.world import World
    from shard_worker.topology.domain_room import Ints
    from shard_worker.view.view import View

HOLDS_PLACE = OCCUPYING | Status.PIPELINED


@dataclass(frozen=True, slots=True)
class LabelDomain:
    value: str
    rows: NDArray[np.intp]

    def mask(self, size: int) -> Mask:
        mask = np.zeros(size, np.bool_)
        mask[self.rows] = True
        return mask


def is_confined(job: SessionJob) -> bool:
    """Whether victims on single nodes are of no use to the job: its tasks need one domain."""
    return bool(job.job.topology_key) or asks_for_domains(job)


class LabelDomains:
    """All domains of a label, by value, as of one revision of a view."""

    def __init__(self, key: str, view: View) -> None:
        self._column, self._revision = view.label(key), view.revision
        values, codes = self._column.values, np.where(view.exists(), self._column.codes, -1)
        named = [code for code in np.unique(codes).tolist() if code >= 0 and values[code]]
        named.sort(key=values.__getitem__)
        place = np.full(len(values) + 1, -1, np.intp)  # the last one is that of code -1
        place[named] = range(len(named))
        self.of_row = place[codes]
        """The index of each row's domain; -1 for none."""
        rows = np.argsort(self.of_row, kind="stable")
        self._rows = rows[np.count_nonzero(self.of_row < 0) :]
        """Rows that are in a domain, one domain after the other."""
        self.sizes = np.bincount(self.of_row[self._rows], minlength=len(named))
        self._begins = np.cumsum(self.sizes) - self.sizes
        parts = np.split(self._rows, self._begins[1:])
        self.listed = [LabelDomain(values[c], part) for c, part in zip(named, parts, strict=False)]

    def are_of(self, key: str, view: View) -> bool:
        """Whether they are those of this label still."""
        return self._column is view.label(key) and self._revision == view.revision

    def sums(self, per_row: NDArray[Any]) -> Ints:
        """The sum of a value per row in each domain."""
        if not self.listed:
            return np.zeros(0, np.int64)
        sums: Ints = np.add.reduceat(per_row[self._rows], self._begins, dtype=np.int64)
        return sums

    def of(self, rows: Iterable[int]) -> int:
        """The index of the domain that has all these rows; -1 where none has."""
        known = self.of_row
        found = {known.item(row) if row < len(known) else -1 for row in rows}
        return found.pop() if len(found) == 1 else -1


def domains_of(key: str, world: World) -> LabelDomains:
    """The domains of a label. Of nodes that stay as they are they are found once."""
    name = f"domains of label {key}"
    kept, view = world.lasting.get(name), world.view
    if isinstance(kept, LabelDomains) and kept.are_of(key, view):
        return kept
    domains = world.lasting[name] = LabelDomains(key, view)
    return domains


def open_domains(job: SessionJob, world: World) -> list[LabelDomain]:
    """The domains of the job's label that have the nodes of all members that hold a place; by
    value. A member whose node the cluster lost binds nobody."""
    domains = domains_of(job.job.topology_key, world)
    return [domains.listed[at] for at in _open(domains, job, world)]


def _open(domains: LabelDomains, job: SessionJob, world: World) -> list[int]:
    present = world.view.exists()
    held = {task.row for task in job.tasks if task.row >= 0 and task.status & HOLDS_PLACE}
    held = {row for row in held if present[row]}
    if not held:
        return [*range(len(domains.listed))]
    only = domains.of(held)
    return [only] if only >= 0 else []


class LabelSearch:
    """The domains to try for one turn of a job, and why none is left."""

    def __init__(self, ssn: Session, job: SessionJob, waiting: Iterable[TaskInfo]) -> None:
        """``waiting``: all members that could be placed, also those beyond the minimum."""
        self._ssn = ssn
        self._job = job
        self._alike = alike(waiting)
        self._all = domains_of(job.job.topology_key, ssn.world)
        self._open = np.array(_open(self._all, job, ssn.world), np.intp)
        self._rooms, self._rooms_now = self._count()

    @property
    def _missing(self) -> int:
        """Members that have to be placed for a turn to succeed."""
        census = self._job.census
        missing = self._job.minimum - census.ready - census.pending_best_effort
        return min(max(missing, 1), sum(map(len, self._alike)))

    def ranked(self) -> list[LabelDomain]:
        """The domains with room for what the job needs, best first: where members have nominations,
        where the job can start at once, where most of it fits, of the own shard, the fullest."""
        domains, missing = self._all, self._missing
        nominated = {
            task.nominated for group in self._alike for task in group if task.nominated >= 0
        }
        promised = domains.of(nominated)
        is_own = 2 * domains.sums(self._ssn.world.own()) > domains.sizes
        fits = self._rooms >= missing
        possible, rooms = self._open[fits], self._rooms[fits]
        order = np.lexsort(
            (
                self._free()[possible],
                ~is_own[possible],
                -rooms,
                self._rooms_now[fits] < missing,
                possible != promised,
            )
        )
        return [domains.listed[at] for at in possible[order].tolist()]

    def _count(self) -> tuple[Ints, Ints]:
        """How many waiting members fit each open domain, at most: later, and now."""
        domains, reach = self._all, self._ssn.world.in_reach()
        room_later, room_now = np.zeros((2, len(self._open)), np.int64)
        for group in self._alike:
            later, now = self._rooms_of(group[0], reach)
            fit_later = np.minimum(domains.sums(later)[self._open], len(group))
            room_later += fit_later
            if now is later:
                room_now += fit_later
            else:
                room_now += np.minimum(domains.sums(now)[self._open], len(group))
        return room_later, room_now

    def _rooms_of(self, task: TaskInfo, reach: Mask) -> tuple[Ints, Ints]:
        """:func:`rooms_per_row`. Where nobody leaves, a compiled class knows it by the rows that
        changed."""
        view = self._ssn.world.view
        if any(view.column("releasing", slot).any() for slot, _ in task.requests):
            return rooms_per_row(self._ssn, task.cls, reach)
        compiled = plain_classes(self._ssn).compiled(task)
        if compiled is None or not task.requests:
            return rooms_per_row(self._ssn, task.cls, reach)
        return compiled.counts, compiled.counts

    def _free(self) -> NDArray[np.float64]:
        """Free amounts of each domain, in multiples of what the group asks for."""
        asked: Amounts = {}
        for group in self._alike:
            add(asked, group[0].requests, len(group))
        free = np.zeros(len(self._all.listed))
        for slot, amount in asked.items():
            if slot != PODS and amount:
                idle = np.maximum(self._ssn.world.future_idle(slot), 0)
                free += self._all.sums(idle) / amount
        return free

    # --- why not ------------------------------------------------------------------------------

    def why_not(self) -> str:
        key, number = self._job.job.topology_key, len(self._open)
        if not number:
            if self._all.listed:
                where = f"its members run on nodes that no value of label {key} has together"
            else:
                where = f"no node has the label {key}"
            return f"no feasible placements found: {where}"
        status = f"0/{number} placements are available, first placement status: {self._first()}"
        if any(task.row >= 0 and task.status & HOLDS_PLACE for task in self._job.tasks):
            return f"{status}; its members run in {key}={self._all.listed[self._open[0]].value}"
        most = f"no value of label {key} has room for more than {max(self._rooms)} of its pods"
        return f"{status}; {most}"

    def _first(self) -> str:
        """The sentence of kube-scheduler about the first domain."""
        minimum, ready = self._job.minimum, self._job.census.ready
        if ready >= minimum:
            return "no pods were schedulable"
        counts = f"{ready + self._rooms[0]} scheduled, 0 remaining"
        return f"minCount ({minimum}) cannot be satisfied: {counts}"
