"""Domains of a node label: nodes with one value are one domain, nodes without it are in none.

A job with a ``topology_key`` runs in one of them, under policies of every dialect. Where members
run already, or hold a place, only the domain that has all their nodes is left, so that growth and
replacements stay there or wait. Sentences begin with those of kube-scheduler 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard_worker.session_model.job import requested
from shard_worker.session_model.status import OCCUPYING, Status
from shard_worker.topology.allocated_domains import asks_for_domains
from shard_worker.topology.domain_room import alike, room_per_row
from shared.units.slots import PODS

if TYPE_CHECKING:
    from shard_worker.framework.rules import Mask
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob, TaskInfo
    from shard_worker.session_model.world import World

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


def open_domains(job: SessionJob, world: World) -> list[LabelDomain]:
    """The domains of the job's label that have the nodes of all members that hold a place; by
    value. A member whose node the cluster lost binds nobody."""
    present = world.view.exists()
    held = {task.row for task in job.tasks if task.row >= 0 and task.status & HOLDS_PLACE}
    held = {row for row in held if present[row]}
    return [
        domain
        for domain in _domains(job.job.topology_key, world)
        if not held or held <= set(domain.rows.tolist())
    ]


def _domains(key: str, world: World) -> list[LabelDomain]:
    column = world.view.label(key)
    codes = np.where(world.view.exists(), column.codes[: world.size], -1)
    named = {column.values[code]: code for code in np.unique(codes).tolist() if code >= 0}
    return [
        LabelDomain(value, np.flatnonzero(codes == named[value]))
        for value in sorted(named)
        if value
    ]


class LabelSearch:
    """The domains to try for one turn of a job, and why none is left."""

    def __init__(self, ssn: Session, job: SessionJob, waiting: Iterable[TaskInfo]) -> None:
        """``waiting``: all members that could be placed, also those beyond the minimum."""
        self._ssn = ssn
        self._job = job
        self._alike = alike(waiting)
        self._domains = open_domains(job, ssn.world)
        self._rooms = self._count(now=False)

    @property
    def _missing(self) -> int:
        """Members that have to be placed for a turn to succeed."""
        census = self._job.census
        missing = self._job.minimum - census.ready - census.pending_best_effort
        return min(max(missing, 1), sum(map(len, self._alike)))

    def ranked(self) -> list[LabelDomain]:
        """The domains with room for what the job needs, best first: where members have nominations,
        where the job can start at once, where most of it fits, of the own shard, the fullest."""
        nominated = {
            task.nominated for group in self._alike for task in group if task.nominated >= 0
        }
        own, now, missing = self._ssn.world.own(), self._count(now=True), self._missing

        def rank(at: int) -> tuple[bool, bool, int, bool, float]:
            rows = self._domains[at].rows
            promised = bool(nominated) and nominated <= set(rows.tolist())
            is_own = 2 * int(own[rows].sum()) > len(rows)
            most = -self._rooms[at]
            return not promised, now[at] < missing, most, not is_own, self._free(rows)

        possible = [at for at, room in enumerate(self._rooms) if room >= missing]
        return [self._domains[at] for at in sorted(possible, key=rank)]

    def _count(self, *, now: bool) -> list[int]:
        """How many waiting members fit each domain, at most."""
        reach = self._ssn.world.in_reach()
        rooms = [0] * len(self._domains)
        for group in self._alike:
            per_row = room_per_row(self._ssn, group[0].cls, reach, now=now)
            for at, domain in enumerate(self._domains):
                rooms[at] += min(len(group), int(per_row[domain.rows].sum()))
        return rooms

    def _free(self, rows: NDArray[np.intp]) -> float:
        """Free amounts of these rows, in multiples of what the group asks for."""
        asked = requested(task for group in self._alike for task in group)
        world = self._ssn.world
        return sum(
            int(np.maximum(world.future_idle(slot)[rows], 0).sum()) / amount
            for slot, amount in asked.items()
            if slot != PODS and amount
        )

    # --- why not ------------------------------------------------------------------------------

    def why_not(self) -> str:
        key, number = self._job.job.topology_key, len(self._domains)
        if not number:
            if _domains(key, self._ssn.world):
                where = f"its members run on nodes that no value of label {key} has together"
            else:
                where = f"no node has the label {key}"
            return f"no feasible placements found: {where}"
        status = f"0/{number} placements are available, first placement status: {self._first()}"
        if any(task.row >= 0 and task.status & HOLDS_PLACE for task in self._job.tasks):
            return f"{status}; its members run in {key}={self._domains[0].value}"
        most = f"no value of label {key} has room for more than {max(self._rooms)} of its pods"
        return f"{status}; {most}"

    def _first(self) -> str:
        """The sentence of kube-scheduler about the first domain."""
        minimum, ready = self._job.minimum, self._job.census.ready
        if ready >= minimum:
            return "no pods were schedulable"
        counts = f"{ready + self._rooms[0]} scheduled, 0 remaining"
        return f"minCount ({minimum}) cannot be satisfied: {counts}"
