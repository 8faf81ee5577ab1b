"""A job, or its sub jobs, placed domain by domain: dry runs in each of a gradient, the best kept.

The widest domain that may be looked at is cut into gradients: groups of domains, the closest tier
first. In each domain of a group the job is placed for a try, sub job by sub job, and each of those
by gradients of its own inside that domain. What a try did is undone and remembered as operations;
those of the domain whose sub jobs scored most are done once more. Nothing is copied for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shard_worker.domain_room import DomainRoom
from shard_worker.error_cache import ErrorCache
from shard_worker.filling import Filled, Filling
from shard_worker.rules import Purpose
from shard_worker.world_statement import Operation, WorldStatement

if TYPE_CHECKING:
    from shard_worker.hyper_tree import Domain, HyperTree
    from shard_worker.session import Session
    from shard_worker.session_job import SubJob
    from shard_worker.tasks import TaskInfo
    from shard_worker.worksheet import Mark, Sheet, SubSheet


@dataclass(slots=True)
class Tried:
    """A try in one domain that came out well."""

    domain: Domain
    operations: list[Operation]
    mark: Mark
    score: float = 0.0
    reached: dict[str, str] = field(default_factory=dict)
    """Sub job -> the domain it is in then."""


class DomainSearch:
    """One turn of one job."""

    def __init__(self, ssn: Session, sheet: Sheet, tree: HyperTree) -> None:
        self.ssn = ssn
        self.sheet = sheet
        self.job = sheet.job
        self.tree = tree
        self.room = DomainRoom(ssn, tree)
        self.statement = WorldStatement(ssn)
        self.filled: Filled | None = None
        """How the last try of a sub job that failed went."""
        self.looked: list[Domain] = []
        """Domains that were candidates for the job."""
        self.counted_out = 0
        """Domains that were not tried, for they have too little room."""
        self.best: Tried | None = None

    # --- the job ------------------------------------------------------------------------------

    def run(self, within: Domain) -> bool:
        """Place what a turn places; True where the job is ready or pipelined with it."""
        for group in self.ssn.job_gradients(self.job, within, Purpose.ALLOCATE):
            self.looked += group
            for domain in group:
                tried = self._try_job(domain)
                if tried is not None and (self.best is None or tried.score > self.best.score):
                    self.best = tried
            if self.best is not None:
                self.statement.redo(self.best.operations)
                self.sheet.restore(self.best.mark)
                return True
        return False

    def keep(self) -> None:
        """The turn was committed: from now on the job is where it was placed."""
        best, job, tree = self.best, self.job, self.tree
        if best is None:
            return
        job.allocated_hyper_node = tree.lca(job.allocated_hyper_node, best.domain.name)
        for name, reached in best.reached.items():
            sub = job.subs[name]
            sub.allocated_hyper_node = tree.lca(sub.allocated_hyper_node, reached)
            sub.nominated_hyper_node = ""

    def _try_job(self, domain: Domain) -> Tried | None:
        """A dry run of the whole job in a domain; everything is as before afterwards."""
        if self._hopeless(domain, [t for sub in self.sheet.queued for t in sub.left()]):
            return None
        before = self.sheet.mark()
        at = {name: sub.allocated_hyper_node for name, sub in self.job.subs.items()}
        score, reached = self._fill_job(domain)
        good = self.statement.operations and (self.ssn.ready(self.job) or self._pipelined())
        mark = self.sheet.mark()
        operations = self.statement.rollback()
        self.sheet.restore(before)
        for name, where in at.items():
            self.job.subs[name].allocated_hyper_node = where
        return Tried(domain, operations, mark, score, reached) if good else None

    def _fill_job(self, domain: Domain) -> tuple[float, dict[str, str]]:
        total, reached = 0.0, {}
        while self.sheet.queued:
            sheet = self.sheet.pop(self.ssn)
            score = self._place_sub(sheet, domain)
            if score is None:
                continue
            total += score
            reached[sheet.sub.name] = sheet.sub.allocated_hyper_node
            if len(sheet):
                self.sheet.queued.append(sheet)
            if self.ssn.ready(self.job):
                break
        return total, reached

    def _hopeless(self, domain: Domain, tasks: Sequence[TaskInfo]) -> bool:
        ready = lambda: self.ssn.ready(self.job) or self._pipelined()  # noqa: E731
        if not self.room.hopeless(domain, tasks, ready):
            return False
        self.counted_out += 1
        return True

    def _pipelined(self) -> bool:
        return self.ssn.pipelined(self.job)

    # --- a sub job ----------------------------------------------------------------------------

    def _place_sub(self, sheet: SubSheet, within: Domain) -> float | None:
        """Place one sub job somewhere below a domain; its score, None where it has no place."""
        sub = sheet.sub
        if sub.nominated_hyper_node and self._as_nominated(sheet):
            return 0.0
        for group in self.ssn.sub_job_gradients(sub, within, Purpose.ALLOCATE):
            tried = [found for d in group if (found := self._try_sub(sheet, d)) is not None]
            if tried:
                best, score = self._best_of(sub, tried)
                self.statement.redo(best[1])
                sheet.at = best[2]
                sub.allocated_hyper_node = self.tree.lca(sub.allocated_hyper_node, best[0].name)
                return score
        return None

    def _try_sub(
        self, sheet: SubSheet, domain: Domain
    ) -> tuple[Domain, list[Operation], int] | None:
        """A dry run of a sub job in a domain: what it did, and where it left the sheet."""
        ssn, sub = self.ssn, sheet.sub
        ready = lambda: ssn.sub_ready(sub) or ssn.sub_pipelined(sub)  # noqa: E731
        if self.room.hopeless(domain, sheet.left(), ready, what=f"sub job {sub.name}"):
            self.counted_out += 1
            return None
        start, at = self.statement.checkpoint, sheet.at
        sheet.failed = {}
        filled = Filling(ssn, self.statement, sheet, tree=self.tree, domain=domain).run()
        left, sheet.at = sheet.at, at
        operations = self.statement.rollback(start)
        if not operations:
            self.filled = filled
            return None
        return domain, operations, left

    def _best_of(
        self, sub: SubJob, tried: list[tuple[Domain, list[Operation], int]]
    ) -> tuple[tuple[Domain, list[Operation], int], float]:
        """The try in the domain with the highest score, the first of equals."""
        domains = {domain.name: domain.rows.tolist() for domain, _, _ in tried}
        scores = self.ssn.hyper_node_scores(sub, domains)
        best = max(tried, key=lambda found: scores[found[0].name])
        return best, scores[best[0].name]

    # --- promised domains ---------------------------------------------------------------------

    def _as_nominated(self, sheet: SubSheet) -> bool:
        """Take the domain and nodes that an eviction made room in; all of them, or none."""
        sub = sheet.sub
        domain = self.tree.domains.get(sub.nominated_hyper_node)
        start = self.statement.checkpoint
        if domain is not None and domain.parent is not None and self._on_nominated(sheet, domain):
            sheet.at = len(sheet.tasks)
            sub.allocated_hyper_node = self.tree.lca(sub.allocated_hyper_node, domain.name)
            return True
        self.statement.rollback(start)
        sub.nominated_hyper_node = ""
        for task in sheet.left():
            task.nominated = -1
        return False

    def _on_nominated(self, sheet: SubSheet, domain: Domain) -> bool:
        ssn, rows = self.ssn, set(domain.rows.tolist())
        queue = sheet.sub.job.queue
        tasks = sheet.left()
        if not all(task.nominated in rows for task in tasks):
            return False
        if queue is not None and not all(ssn.task_allocatable(queue, task) for task in tasks):
            return False
        cache = ErrorCache(ssn, "allocate")
        if not all(fits_nominated(ssn, task, cache) for task in tasks):
            return False
        return all(put_on_nominated(ssn, self.statement, task) for task in tasks)


def fits_nominated(ssn: Session, task: TaskInfo, cache: ErrorCache) -> bool:
    """Does the task pass every check on the node that it was promised?"""
    if ssn.pre_predicate(task) is not None:
        return False
    alone = ssn.world.view.exists()
    alone[:] = False
    alone[task.nominated] = True
    return bool(cache.feasible(task, within=alone).mask.any())


def put_on_nominated(ssn: Session, statement: WorldStatement, task: TaskInfo) -> bool:
    """Place it there: now, later, or not at all."""
    row = task.nominated
    if ssn.world.fits_idle(task.requests)[row]:
        statement.allocate(task, row)
    elif ssn.world.fits_future(task.requests)[row]:
        statement.pipeline(task, row)
    else:
        return False
    return True
