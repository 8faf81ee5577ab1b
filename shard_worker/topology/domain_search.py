"""Search for the best domain of a job, or of its sub jobs, by dry runs.

The widest domain that may be searched is split into gradients: groups of domains, the closest tier
first. In each domain of a group the job is placed in a dry run, sub job by sub job, and each of
those by gradients of its own inside that domain. A dry run is rolled back and remembered as a list
of operations; those of the domain whose sub jobs scored highest are applied again. No state is
copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from shard_worker.framework.operation import Operation
from shard_worker.framework.rules import Purpose
from shard_worker.framework.statement import WorldStatement
from shard_worker.placement.candidates import fits_idle
from shard_worker.placement.error_cache import ErrorCache
from shard_worker.placement.task_loop import Filling, FillResult
from shard_worker.topology.domain_room import DomainRoom, alike

if TYPE_CHECKING:
    from shard_worker.framework.rules import Mask
    from shard_worker.framework.session import Session
    from shard_worker.placement.worksheet import Mark, Sheet, SubSheet
    from shard_worker.session_model.job import SubJob, TaskInfo
    from shard_worker.view.hyper_tree import HyperDomain, HyperTree


@dataclass(slots=True)
class DomainTrial:
    """A dry run of a job that succeeded in one domain."""

    domain: HyperDomain
    operations: list[Operation]
    mark: Mark
    score: float = 0.0
    reached: dict[str, str] = field(default_factory=dict)
    """Sub job -> the domain that it is then in."""


@dataclass(slots=True)
class SubJobTrial:
    """A dry run of one sub job that succeeded in one domain."""

    domain: HyperDomain
    operations: list[Operation]
    at: int
    """The position in the sub job's sheet that it reached."""
    score: float = 0.0


class DomainSearch:
    """The search for one job in one turn."""

    def __init__(self, ssn: Session, sheet: Sheet, tree: HyperTree) -> None:
        self.ssn = ssn
        self.sheet = sheet
        self.job = sheet.job
        self.tree = tree
        self.room = DomainRoom(ssn, tree)
        self.statement = WorldStatement(ssn)
        self.filled: FillResult | None = None
        """The result of the last dry run of a sub job that failed."""
        self.counted_out = 0
        """Number of domains skipped because they have too little room."""
        self.best: DomainTrial | None = None

    # --- the job ------------------------------------------------------------------------------

    def run(self, within: HyperDomain) -> bool:
        """Place as much as one turn may; True if that makes the job ready or pipelined."""
        for group in self.ssn.job_gradients(self.job, within, Purpose.ALLOCATE):
            open_to = self._with_room(group)
            # Where eviction has made room for it comes first; only if that has gone are all tried.
            if self._try_all(self._promised(open_to)) or self._try_all(open_to):
                return True
        return False

    def _try_all(self, domains: list[HyperDomain]) -> bool:
        """Place the job in the best of these domains; False if none takes it."""
        for domain, most in self._in_order(domains):
            # The bounds descend: no later domain can score higher than what is found, so that
            # mostly one dry run is made (decision 0030: 1,250 racks took 41 seconds, one takes
            # 0.2).
            if self.best is not None and most <= self.best.score:
                break
            tried = self._try_job(domain)
            if tried is not None and (self.best is None or tried.score > self.best.score):
                self.best = tried
        if self.best is None:
            return False
        before = [sheet.at for sheet in self.sheet.subs]
        self.statement.redo(self.best.operations)
        self.sheet.restore(self.best.mark)
        for sheet, start in zip(self.sheet.subs, before, strict=True):
            if _may_widen(sheet.sub):
                self.sheet.put_back(sheet, start)
        return True

    def _promised(self, domains: Sequence[HyperDomain]) -> list[HyperDomain]:
        """The domains that contain every domain nominated for a sub job; they come first."""
        names = {sheet.sub.nominated_hyper_node for sheet in self.sheet.queued} - {""}
        promised = [self.tree.domains[name] for name in names if name in self.tree.domains]
        return [d for d in domains if promised and all(below.within(d) for below in promised)]

    def good(self) -> bool:
        """Whether the job is ready or pipelined, so that it may keep its placements."""
        return self.ssn.ready(self.job) or self.ssn.pipelined(self.job)

    def _with_room(self, group: Sequence[HyperDomain]) -> list[HyperDomain]:
        """The domains of the group whose room does not rule the job out."""
        groups = alike(t for sub in self.sheet.queued for t in sub.left())
        possible = [domain for domain in group if not self.room.hopeless(domain, groups, self.good)]
        self.counted_out += len(group) - len(possible)
        return possible

    def _in_order(self, domains: list[HyperDomain]) -> list[tuple[HyperDomain, float]]:
        """The domains by an upper bound of the job's score there, best first.

        The bound is known only if a single sub job is placed whole and at once, and scores do not
        depend on other placements; otherwise it is infinite and the order stays.
        """
        subs = [sheet.sub for sheet in self.sheet.queued]
        whole = len(subs) == 1 and self.job.minimum >= len(self.job.tasks)
        # Beyond its minimum a sub job is placed in further rounds, each with a score of its own.
        at_once = whole and subs[0].minimum >= len(subs[0].tasks)
        if not at_once or len(domains) < 2 or not self.ssn.scored_alone(subs[0]):
            return [(domain, math.inf) for domain in domains]
        sub = subs[0]
        below = {
            domain.name: list(chain(*self.ssn.sub_job_gradients(sub, domain, Purpose.ALLOCATE)))
            for domain in domains
        }
        scores = self._scores(sub, dict.fromkeys(chain(*below.values())))
        best = {
            name: max((scores[d.name] for d in listed), default=-math.inf)
            for name, listed in below.items()
        }
        return sorted(((d, best[d.name]) for d in domains), key=lambda scored: -scored[1])

    def _scores(self, sub: SubJob, domains: Iterable[HyperDomain]) -> dict[str, float]:
        rows = {domain.name: domain.rows.tolist() for domain in domains}
        return self.ssn.hyper_node_scores(sub, rows) if rows else {}

    def keep(self) -> None:
        """Commit the domain: the job's later tasks are placed relative to it."""
        best, job, tree = self.best, self.job, self.tree
        if best is None:
            return
        job.allocated_hyper_node = tree.lca(job.allocated_hyper_node, best.domain.name)
        for name, reached in best.reached.items():
            sub = job.subs[name]
            sub.allocated_hyper_node = tree.lca(sub.allocated_hyper_node, reached)
            sub.nominated_hyper_node = ""

    def _try_job(self, domain: HyperDomain) -> DomainTrial | None:
        """Place the whole job in a domain as a dry run, and roll it back."""
        before = self.sheet.mark()
        at = {name: sub.allocated_hyper_node for name, sub in self.job.subs.items()}
        score, reached = self._fill_job(domain)
        good = self.statement.operations and (
            self.ssn.ready(self.job) or self.ssn.pipelined(self.job)
        )
        mark = self.sheet.mark()
        operations = self.statement.rollback()
        self.sheet.restore(before)
        # A dry run moves the domain that each sub job has reached, which no statement undoes.
        for name, where in at.items():
            self.job.subs[name].allocated_hyper_node = where
        return DomainTrial(domain, operations, mark, score, reached) if good else None

    def _fill_job(self, domain: HyperDomain) -> tuple[float, dict[str, str]]:
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

    # --- a sub job ----------------------------------------------------------------------------

    def _place_sub(self, sheet: SubSheet, within: HyperDomain) -> float | None:
        """Place one sub job in the best domain below ``within``; returns its score, None if it has
        no place."""
        sub = sheet.sub
        if (
            sub.nominated_hyper_node
            and self._promised_in(sub, within)
            and self._as_nominated(sheet)
        ):
            return 0.0
        for group in self.ssn.sub_job_gradients(sub, within, Purpose.ALLOCATE):
            best = self._best_of(sheet, self._open_to(sheet, group))
            if best is not None:
                self.statement.redo(best.operations)
                sheet.at = best.at
                sub.allocated_hyper_node = self.tree.lca(sub.allocated_hyper_node, best.domain.name)
                return best.score
        return None

    def _open_to(self, sheet: SubSheet, group: Sequence[HyperDomain]) -> list[HyperDomain]:
        ssn, sub = self.ssn, sheet.sub
        groups, question = alike(sheet.left()), f"sub job {sub.name}"
        good = lambda: ssn.sub_ready(sub) or ssn.sub_pipelined(sub)  # noqa: E731
        possible = [d for d in group if not self.room.hopeless(d, groups, good, question)]
        self.counted_out += len(group) - len(possible)
        return possible

    def _best_of(self, sheet: SubSheet, domains: list[HyperDomain]) -> SubJobTrial | None:
        """The dry run with the highest score; the first one on ties."""
        sub = sheet.sub
        if self.ssn.scored_alone(sub):
            scores = self._scores(sub, domains)
            for domain in sorted(domains, key=lambda domain: -scores[domain.name]):
                attempt = self._try_sub(sheet, domain)
                if attempt is not None:
                    # Scores that do not depend on the others are known before: the first that takes
                    # it is the best.
                    attempt.score = scores[domain.name]
                    return attempt
            return None
        tried = [attempt for d in domains if (attempt := self._try_sub(sheet, d)) is not None]
        scores = self._scores(sub, [attempt.domain for attempt in tried])
        for attempt in tried:
            attempt.score = scores[attempt.domain.name]
        return max(tried, key=lambda attempt: attempt.score, default=None)

    def _try_sub(self, sheet: SubSheet, domain: HyperDomain) -> SubJobTrial | None:
        """Place a sub job in a domain as a dry run, and roll it back."""
        start, at = self.statement.checkpoint, sheet.at
        sheet.failed = {}
        filled = Filling(
            self.ssn, self.statement, sheet, tree=self.tree, within=self._mask(domain)
        ).run()
        end, sheet.at = sheet.at, at
        operations = self.statement.rollback(start)
        if not operations:
            self.filled = filled
            return None
        return SubJobTrial(domain, operations, end)

    def _mask(self, domain: HyperDomain) -> Mask:
        mask = np.zeros(self.ssn.world.size, np.bool_)
        mask[domain.rows] = True
        return mask

    # --- promised domains ---------------------------------------------------------------------

    def _promised_in(self, sub: SubJob, within: HyperDomain) -> bool:
        """Whether the nominated domain is below the one being tried. True for a deleted one, which
        :meth:`_as_nominated` drops."""
        domain = self.tree.domains.get(sub.nominated_hyper_node)
        return domain is None or domain.within(within)

    def _as_nominated(self, sheet: SubSheet) -> bool:
        """Place the sub job on its nominated nodes; all tasks or none."""
        sub = sheet.sub
        domain = self.tree.domains.get(sub.nominated_hyper_node)
        start = self.statement.checkpoint
        if domain is not None and domain.parent is not None and self._on_nominated(sheet, domain):
            sheet.at = len(sheet.tasks)
            sub.allocated_hyper_node = self.tree.lca(sub.allocated_hyper_node, domain.name)
            return True
        self.statement.rollback(start)
        sub.nominated_hyper_node = ""
        # All or nothing, as in Volcano: with one promise gone the others are of no use to a sub job
        # that has to be together.
        for task in sheet.left():
            task.nominated = -1
        return False

    def _on_nominated(self, sheet: SubSheet, domain: HyperDomain) -> bool:
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


def _may_widen(sub: SubJob) -> bool:
    """Whether a task without room in the best domain may have it in one that a later turn tries."""
    topology = sub.topology or sub.job.job.topology
    return topology is not None and not topology.hard


def fits_nominated(ssn: Session, task: TaskInfo, cache: ErrorCache) -> bool:
    """Whether the task passes every check on its nominated node."""
    if ssn.pre_predicate(task) is not None:
        return False
    alone = ssn.world.view.exists()
    alone[:] = False
    alone[task.nominated] = True
    return bool(cache.feasible(task, within=alone).mask.any())


def put_on_nominated(ssn: Session, statement: WorldStatement, task: TaskInfo) -> bool:
    """Place the task on its nominated node: allocated, pipelined, or False if neither is
    possible."""
    row = task.nominated
    if fits_idle(ssn, task)[row]:
        statement.allocate(task, row)
    elif ssn.world.fits_future(task.cls)[row]:
        statement.pipeline(task, row)
    else:
        return False
    return True
