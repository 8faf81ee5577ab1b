"""A turn that is not flat: the action's own function runs over the view and the turn's excerpt.

What it did is taken back from the view at once and put there again as a statement like that of a
flat turn, which the ledger is asked to judge and which can be rolled back. Where nothing came of
it, the view is as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TypeVar

from shard_worker.candidates import feasible
from shard_worker.columns import ALLOCATABLE, NOMINATED, RELEASING, USED
from shard_worker.displace import give_back_own, rivals, settle, withdraw_all
from shard_worker.excerpt_world import Decoded, Opened, open_world
from shard_worker.extender_http import Ask, answered, ask_over_http
from shard_worker.placing import Placed
from shard_worker.plugins.extender import Extender
from shard_worker.queue_totals import used
from shard_worker.reserving import rows_for
from shard_worker.session import Session
from shard_worker.session_job import SessionJob
from shard_worker.statement import Statement
from shard_worker.task_class import TOO_LARGE, Mode, too_large
from shard_worker.tasks import LOST, Status, TaskInfo
from shard_worker.view import View
from shard_worker.world_statement import Kind
from shared import messages
from shared.excerpt import Excerpt, decode_excerpt
from shared.messages import (
    ALLOCATE,
    GUARD_GANG,
    GUARD_GUARANTEE,
    NOMINATE,
    DomainOp,
    EvictRun,
    Level,
    Turn,
)
from shared.skips import written

T = TypeVar("T")
NAMES_VICTIMS = {
    "gangpreempt": "UnifiedEvictable",
    "gangreclaim": "UnifiedEvictable",
    "preempt": "Preemptable",
    "reclaim": "Reclaimable",
    "shuffle": "VictimTasks",
}
"""Action -> the point at which rules name its victims."""
BETWEEN_QUEUES = ("gangreclaim", "reclaim")

LOOSE = {Status.ALLOCATED: Kind.ALLOCATE, Status.PIPELINED: Kind.PIPELINE}
"""Statuses of tasks whose statement was neither committed nor discarded."""

COLUMN = {Kind.ALLOCATE: USED, Kind.PIPELINE: NOMINATED, Kind.EVICT: RELEASING}

NO_VICTIMS = "no task may be evicted for it"
NOTHING_TO_DO = "nothing to do"


@dataclass(slots=True)
class SessionPlaced(Placed):
    """What a session's statement has beside placements."""

    evictions: list[EvictRun] = field(default_factory=list)
    guards: int = 0
    reason: str = ""
    domains: list[DomainOp] = field(default_factory=list)
    victim_job: tuple[int, int, int, int] | None = None
    """Of a statement that is about no turn's job: jid, version, qid, priority of the victims'."""
    stale: bool = False
    """The view does not know the job's classes yet."""

    @property
    def empty(self) -> bool:
        return not (self.core or self.tail or self.evictions)

    def message(self, flat: messages.Statement) -> messages.Statement:
        """The statement of a flat turn with what is beside its placements."""
        jid, version, qid, priority = self.victim_job or (
            flat.jid,
            flat.job_version,
            flat.qid,
            flat.priority,
        )
        return replace(
            flat,
            jid=jid,
            job_version=version,
            qid=qid,
            priority=priority,
            evictions=self.evictions,
            guards=self.guards,
            reason=self.reason,
            domains=self.domains,
        )


@dataclass(frozen=True, slots=True)
class Did:
    """One operation of a session that is in effect at its end."""

    kind: Kind
    task: TaskInfo
    row: int
    reason: str = ""


class SessionTurns:
    """Runs turns over their excerpts; one for each worker."""

    def __init__(
        self,
        open_session: Callable[[], Session],
        *,
        view: View,
        mode: Mode,
        ask: Ask = ask_over_http,
    ) -> None:
        """``open_session`` opens one by the worker's policy: each turn has its own, as each of
        Volcano's cycles has. ``ask``: who answers the questions of the plugin extender."""
        self._ask = ask
        tiers = open_session().policy.tiers
        self._asks = any(option.name == Extender.name for tier in tiers for option in tier)
        self._open = open_session
        self._view = view
        self._mode = mode
        self._decoded = Decoded()
        self._memory: dict[str, float] = {}

    def aside(self, numbers: Mapping[int, int]) -> SessionTurns:
        """The same for turns that are only asked about: nothing that they remember stays.

        ``numbers``: what the view calls classes for the time being, by the numbers that jobs in
        excerpts have for them."""
        apart = SessionTurns(self._open, view=self._view, mode=self._mode)
        apart._memory = dict(self._memory)
        apart._decoded = Decoded(numbers=numbers) if numbers else self._decoded
        return apart

    def opened(self, turn: Turn, *, now: float) -> tuple[Session, SessionJob] | None:
        """The session that a turn would get, before it does anything; None where the view does not
        know a class of its job. Errors: Malformed."""
        opened = self._world(decode_excerpt(turn.world), now)
        if turn.jid in opened.missing or turn.jid not in opened.world.jobs:
            return None
        return self._session(opened), opened.world.session_job(turn.jid)

    def place(self, turn: Turn, *, now: float) -> SessionPlaced:
        """Run a turn about one job. Nominations of lower rank are respected at first; a turn that
        comes to less than all it wanted is tried again without them, and displaces those that are
        in its way. Errors: Malformed, where the excerpt is no excerpt."""
        excerpt = decode_excerpt(turn.world)
        return self._answered(lambda: self._place(turn, excerpt, now))

    def _answered(self, run: Callable[[], T]) -> T:
        """Run with what an extender answers, where the policy names one."""
        return answered(run, view=self._view, ask=self._ask) if self._asks else run()

    def _place(self, turn: Turn, excerpt: Excerpt, now: float) -> SessionPlaced:
        found = self._attempt(turn, excerpt, now, withdraw=False)
        if found.stale or _satisfied(found, turn) or not rivals(self._view, turn):
            return found
        polite = bool(found.core)
        found.statement.rollback()
        again = self._attempt(turn, excerpt, now, withdraw=True)
        if _satisfied(again, turn) or (again.core and not polite):
            return again
        again.statement.rollback()
        return self._attempt(turn, excerpt, now, withdraw=False)

    def reserve(self, turn: Turn, *, now: float) -> list[int]:
        """Rows to keep for the turn's job; nothing is changed. Errors: Malformed."""
        opened = self._world(decode_excerpt(turn.world), now)
        if turn.jid in opened.missing or turn.jid not in opened.world.jobs:
            return []
        return rows_for(self._session(opened), opened.world.session_job(turn.jid))

    def shuffle(self, turn: Turn, *, now: float) -> list[SessionPlaced]:
        """Run a turn about running tasks: one statement for each job that has victims."""
        excerpt = decode_excerpt(turn.world)
        return self._answered(lambda: self._shuffle(excerpt, now))

    def _shuffle(self, excerpt: Excerpt, now: float) -> list[SessionPlaced]:
        opened = self._world(excerpt, now)
        session = self._session(opened)
        _function("shuffle", "execute")(session)
        did = _take_back(session, None)
        found = []
        for jid in dict.fromkeys(one.task.job.job.jid for one in did):
            job = opened.world.session_job(jid)
            mine = [one for one in did if one.task.job is job and one.kind is Kind.EVICT]
            made = SessionPlaced(Statement(self._view))
            made.victim_job = (jid, job.job.spec, job.qid, job.job.priority)
            self._evict(made, mine, session, opened, "shuffle")
            found.append(made)
        return found

    # --- one attempt --------------------------------------------------------------------------

    def _attempt(
        self, turn: Turn, excerpt: Excerpt, now: float, *, withdraw: bool
    ) -> SessionPlaced:
        view = self._view
        statement = Statement(view)
        made = SessionPlaced(statement)
        opened = self._world(excerpt, now)
        if turn.jid in opened.missing or turn.jid not in opened.world.jobs:
            made.stale = True
            return made
        give_back_own(statement, view, turn)
        withdrawn = withdraw_all(statement, view, rivals(view, turn)) if withdraw else []
        job = opened.world.session_job(turn.jid)
        session = self._session(opened)
        session.lends = turn.action == "allocate"  # Order picked it, within its share or beyond
        held_back = [row for row, jid in view.reserved.items() if jid == turn.jid]
        held_back = [row for row in held_back if row < view.size and view.aside[row]]
        view.aside[held_back] = False
        try:
            first = self._run(turn, session, job)
        finally:
            view.aside[held_back] = True
        self._fill(made, turn, opened, session, _take_back(session, job, first), first=first)
        if made.empty:
            statement.rollback()
            evicting = turn.action in NAMES_VICTIMS
            made.reasons = _spared(session, job) if evicting else _reasons(session, job, turn)
            made.failed_role = job.failed_role
        else:
            made.displaced = settle(statement, view, withdrawn)
            if job.unschedulable:
                made.reasons, made.failed_role = dict(job.unschedulable), job.failed_role
        return made

    @staticmethod
    def _run(turn: Turn, session: Session, job: SessionJob) -> int:
        """Run the action for the job; returns how many operations its first step committed.

        Of allocate a further step for each elastic task that the turn may carry beside the first,
        as long as each is bound."""
        step = _function(turn.action, f"{turn.action}_job")
        left = turn.tail - 1 if session.ready(job) else turn.tail
        step(session, job)
        first = done = len(session.committed)
        while turn.action == "allocate" and done and left > 0:
            step(session, job)
            if len(session.committed) == done:
                break
            done = len(session.committed)
            left -= 1
        return first

    def _world(self, excerpt: Excerpt, now: float) -> Opened:
        return open_world(excerpt, view=self._view, mode=self._mode, now=now, decoded=self._decoded)

    def _session(self, opened: Opened) -> Session:
        session = self._open()
        session.memory = self._memory
        session.enter(opened.world)
        return session

    # --- what it did, as a statement ------------------------------------------------------------

    def _fill(
        self,
        made: SessionPlaced,
        turn: Turn,
        opened: Opened,
        session: Session,
        did: list[Did],
        *,
        first: int,
    ) -> None:
        """``first``: so many of the placements stand or fall together, 0 = all."""
        job = opened.world.session_job(turn.jid)
        evictions = [one for one in did if one.kind is Kind.EVICT]
        places = [one for one in did if one.kind is not Kind.EVICT and one.task.job is job]
        kept = session.ready(job)
        before = made.statement.checkpoint
        self._evict(made, evictions, session, opened, turn.action)
        for one in places:
            allocated = one.kind is Kind.ALLOCATE and kept
            made.statement.place(
                cid=one.task.cid,
                group=one.task.role.group,
                task=one.task.tix,
                row=one.row,
                level=self._level(one, allocated),
                kind=ALLOCATE if allocated else NOMINATE,
            )
        placed = made.statement.placed(before)
        alone = 1 if turn.action == "backfill" else (first or len(placed))
        made.core, made.tail = placed[:alone], placed[alone:]
        if placed:
            self._moves(made, opened, [turn.jid])

    def _level(self, one: Did, allocated: bool) -> Level:
        own = self._mode is Mode.NONE or bool(self._view.own[one.row])
        if allocated:
            return Level.IDLE_OWN if own else Level.IDLE_OTHER
        return Level.FUTURE_OWN if own else Level.FUTURE_OTHER

    def _evict(
        self,
        made: SessionPlaced,
        evictions: list[Did],
        session: Session,
        opened: Opened,
        action: str,
    ) -> None:
        if not evictions:
            return
        runs: dict[tuple[int, int, int], EvictRun] = {}
        for one in evictions:
            task, spec = one.task, one.task.job.job
            made.statement.let_go(task.requests, one.row)
            key = (spec.jid, task.cid, task.role.group)
            run = runs.get(key)
            if run is None:
                run = runs[key] = EvictRun(spec.jid, spec.spec, task.cid, task.role.group, [], [])
            run.tasks.append(task.tix)
            run.rows.append(one.row)
        made.evictions = list(runs.values())
        jobs = (opened.world.session_job(run.jid) for run in made.evictions)
        made.guards = guards(session, action, jobs)
        made.reason = evictions[0].reason
        self._moves(made, opened, [run.jid for run in made.evictions])

    @staticmethod
    def _moves(made: SessionPlaced, opened: Opened, jids: Iterable[int]) -> None:
        """The versions that the statement relies on, and moves."""
        known = {op.key for op in made.domains}
        for key in dict.fromkeys(key for jid in jids for key in opened.keys.get(jid, ())):
            if key not in known:
                made.domains.append(DomainOp(key, 1, "le", opened.versions.get(key, 0)))


def guards(session: Session, action: str, jobs: Iterable[SessionJob]) -> int:
    """What the ledger has to hold whole when an action evicts from these jobs: what a rule stands
    for, and what is whole as far as is known here. A tier without that rule may have decided; then
    the ledger would refuse for ever what was meant. Within a queue nothing is guaranteed."""
    victims = list(jobs)
    speaks = {hook.plugin for hook in session.hooks[NAMES_VICTIMS[action]]}
    found = 0
    gone = Counter(op.task.job.job.jid for op in session.committed if op.kind is Kind.EVICT)
    if "gang" in speaks and all(_whole(job, gone[job.job.jid]) for job in victims):
        found |= GUARD_GANG
    shares = action in BETWEEN_QUEUES and speaks & {"capacity", "proportion"}
    if shares and all(map(_guaranteed, victims)):
        found |= GUARD_GUARANTEE
    return found


def _whole(job: SessionJob, evicted: int) -> bool:
    """Is nothing left of each of its groups, or the minimum?

    ``evicted``: members that this session evicts. Others that leave, or ask for nothing, are none
    of the gang in a session; the ledger counts them, so that not nothing is left there."""
    others = job.best_effort[0] + job.census.of(LOST) - evicted
    return all(
        held >= group.minimum or held + others <= 0
        for held, group in zip(job.held, job.job.groups, strict=True)
    )


def _guaranteed(job: SessionJob) -> bool:
    """Have its queue and those above what they are guaranteed?"""
    queue = job.queue
    return queue is not None and all(
        used(info).get(slot, 0) >= least
        for info in (queue, *queue.above)
        for slot, least in info.queue.guarantee
    )


def _take_back(session: Session, job: SessionJob | None, first: int = 0) -> list[Did]:
    """Undo on the view what the session left in effect there, and tell what is to be kept.

    A gang that is only pipelined is neither committed nor discarded; of further steps, after one
    that committed (its ``first`` operations), only what they committed counts."""
    world = session.world
    did = [Did(op.kind, op.task, op.row, op.reason) for op in session.committed]
    told = {id(one.task) for one in did if one.kind is not Kind.EVICT}
    left = [] if job is None else [task for task in job.tasks if id(task) not in told]
    loose = [Did(LOOSE[t.status], t, t.row) for t in left if t.status in LOOSE]
    for one in reversed(did + loose):
        world.view.shift(COLUMN[one.kind], one.task.requests, one.row, -1)
    return did if first else did + loose


def _satisfied(found: SessionPlaced, turn: Turn) -> bool:
    """Got what the action is for: victims only ever make room for a nomination."""
    if turn.action in ("allocate", "backfill"):
        return any(place.kind == ALLOCATE for place in found.core)
    return not found.empty


def _reasons(session: Session, job: SessionJob, turn: Turn) -> dict[str, int]:
    """Why nothing came of it: reason -> nodes; or why the job was passed over as a whole."""
    never = _never(session, job)
    if never:
        return never
    nodes = int(session.world.view.exists().sum())
    word, sentence = session.skipped.get(turn.jid, ("", ""))
    if word and not (word == "NotEnoughResources" and job.unschedulable):
        return {written(str(word), sentence or str(word)): nodes}
    if job.unschedulable:
        return dict(job.unschedulable)
    return {NOTHING_TO_DO if turn.action in ("allocate", "backfill") else NO_VICTIMS: nodes}


def _never(session: Session, job: SessionJob) -> dict[str, int]:
    """Why no node at all takes its tasks, whoever leaves; empty where one does.

    Where amounts are short, that is what a session finds first, of every node."""
    if not any(reason.startswith("Insufficient ") for reason in job.unschedulable):
        return {}
    failed = (t for t in job.pending_tasks() if t.role.name == job.failed_role)
    task = next(failed, None)
    if task is None or session.pre_predicate(task) is not None:
        return {}
    found = feasible(session, task, fit=False)
    if not found.mask.any():
        return found.reasons
    large, columns = found.mask.copy(), session.world.view.columns.views[ALLOCATABLE]
    for slot, amount in task.requests:
        large &= columns[slot] >= amount
    if large.any():
        return {}
    text = too_large(task.requests, session.world.view, found.mask)
    return {**found.reasons, written(TOO_LARGE, text): int(found.mask.sum())}


def _spared(session: Session, job: SessionJob) -> dict[str, int]:
    """Who might have made way and does not: why -> tasks, where others count nodes. Where nobody
    was asked at all, why that is, of 0 tasks."""
    jid = job.job.jid
    if jid not in session.spared and jid in session.skipped:
        return {session.skipped[jid][1]: 0}
    return dict(session.spared.get(jid, {}))


def _function(action: str, name: str) -> Callable[..., object]:
    found: Callable[..., object] = getattr(import_module(f"shard_worker.actions.{action}"), name)
    return found
