"""A turn that needs a session: the action's own function runs over the view and the turn's context.

Its effects are undone on the view at once and applied again as a statement like that of a turn
without a session, which the ledger judges and which can be rolled back. Without a result, the view
is as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from shard_worker.dialects.open_session import (
    binds_as_placed,
    end_session,
    run_for_job,
)
from shard_worker.dialects.volcano.actions.run import run_action
from shard_worker.dialects.volcano.plugins.node.extender import Extender
from shard_worker.eviction.victims import joined
from shard_worker.framework.operation import OpKind
from shard_worker.framework.session import Session
from shard_worker.placement.candidates import feasible
from shard_worker.placement.nominations import give_back_own, rivals, settle, withdraw_all
from shard_worker.placement.plain_class import forget_plain_classes
from shard_worker.placement.statement import ViewStatement
from shard_worker.placement.task_class import too_large
from shard_worker.session_model.context_world import ContextWorld, open_world
from shard_worker.session_model.decoded_jobs import Decoded
from shard_worker.session_model.job import SessionJob
from shard_worker.session_model.other_jobs import JobReadCache
from shard_worker.session_model.status import Status
from shard_worker.turns.extender_http import Ask, answered, ask_over_http
from shard_worker.turns.flat_turn import PlacedTurn
from shard_worker.turns.guards import NAMES_VICTIMS, Guards
from shard_worker.turns.reservation import rows_for
from shard_worker.turns.victim_runs import EffectiveOperation, evictions_of, victim_runs
from shard_worker.view.columns import NOMINATED, RELEASING, USED
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shared.codec.packed import replace
from shared.messages import messages
from shared.messages.messages import (
    ALLOCATE,
    NOMINATE,
    DomainOp,
    EvictRun,
    Level,
    Turn,
)
from shared.messages.reason import Reason
from shared.messages.skips import written
from shared.messages.turn_context import TURN_CONTEXT, VICTIMS, TurnContext

T = TypeVar("T")

LOOSE = {Status.ALLOCATED: OpKind.ALLOCATE, Status.PIPELINED: OpKind.PIPELINE}
"""Statuses of tasks whose statement was neither committed nor discarded."""

COLUMN = {OpKind.ALLOCATE: USED, OpKind.PIPELINE: NOMINATED, OpKind.EVICT: RELEASING}

MOVE_SECONDS = 600.0
"""How long a victim's new place is promised to it: until it has left the old one, which may take
its whole grace period."""
PLACING = ("allocate", "backfill")
"""Actions that place tasks, and evict nobody for them."""
NO_VICTIMS = "no task may be evicted for it"
NOTHING_TO_DO = "nothing to do"


@dataclass(slots=True)
class SessionPlaced(PlacedTurn):
    """A session's statement: placements and evictions."""

    evictions: list[EvictRun] = field(default_factory=list)
    reason: str = ""
    domains: list[DomainOp] = field(default_factory=list)
    victim_job: tuple[int, int, int, int] | None = None
    """For a statement without a job of its own (a shuffle): jid, version, qid, priority of the
    victims' job."""
    stale: bool = False
    """Whether the view does not know the job's classes yet."""

    @property
    def empty(self) -> bool:
        return not (self.core or self.tail or self.evictions)

    def message(self, flat: messages.Statement) -> messages.Statement:
        """The statement as a ledger message, with its evictions."""
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
            reason=self.reason,
            domains=self.domains,
        )


class SessionTurns:
    """Runs turns over their turn contexts; one per worker."""

    def __init__(
        self,
        open_session: Callable[[], Session],
        *,
        view: View,
        mode: Mode,
        ask: Ask = ask_over_http,
        kept: Session | None = None,
    ) -> None:
        """``kept``: a session that is opened once and entered for each turn (decision 0029); None:
        ``open_session`` opens one for each, by the worker's policy. ``ask`` sends the questions of
        the plugin extender."""
        self._ask = ask
        self._kept = kept
        policy = (kept or open_session()).policy
        options = (option for tier in policy.tiers for option in tier)
        named = (option for option in options if option.name == Extender.name)
        self._extender = next((Extender(option) for option in named), None)
        fills = "backfill" in policy.actions
        self._open_world = partial(open_world, view=view, mode=mode, backfills=fills)
        self._open = open_session
        self._view = view
        self._mode = mode
        self._decoded = Decoded()
        self._reading = JobReadCache()
        self._memory: dict[str, float] = {}

    def for_inquiries(self, numbers: Mapping[int, int]) -> SessionTurns:
        """A copy for inquiries: what rules remember in it does not come back to these turns.

        ``numbers``: class numbers of turn contexts -> the view's present numbers of these classes.
        """
        apart = SessionTurns(self._open, view=self._view, mode=self._mode, ask=self._ask)
        apart._memory = dict(self._memory)
        apart._reading = JobReadCache(self._reading.decoded, derived=self._reading.derived)
        apart._decoded = Decoded(numbers=numbers) if numbers else self._decoded
        return apart

    def forget_classes(self) -> None:
        """A rule raised: what it was evaluated for may be half done."""
        if self._kept is not None:
            forget_plain_classes(self._kept)

    def opened(self, turn: Turn, *, now: float) -> tuple[Session, SessionJob] | None:
        """The session of a turn, before it runs. None where the view does not know a class of its
        job. Errors: Malformed."""
        opened = self._world(TURN_CONTEXT.decode(turn.world), now)
        if turn.jid in opened.missing or turn.jid not in opened.world.jobs:
            return None
        return self._session(opened, alone=True), opened.world.session_job(turn.jid)

    def place(self, turn: Turn, *, now: float) -> SessionPlaced:
        """Run a turn of one job. Nominations of lower rank are respected at first; a turn that
        places less than it wanted is tried again without them, and displaces those that are in its
        way. Errors: Malformed, for an invalid turn context."""
        context = TURN_CONTEXT.decode(turn.world)
        placed = self._answered(lambda: self._place(turn, context, now))
        if self._extender is not None:
            answers = self._view.known.objects.extender
            placed.unanswered = self._extender.unanswered(answers)
        self._reading.window.go_on()
        return placed

    def _answered(self, run: Callable[[], T]) -> T:
        """Run with the answers of an extender, if the policy has one."""
        if self._extender is None:
            return run()
        return answered(run, view=self._view, ask=self._ask)

    def _place(self, turn: Turn, context: TurnContext, now: float) -> SessionPlaced:
        placed = self._attempt(turn, context, now, withdraw=False)
        if placed.stale or _satisfied(placed, turn) or not rivals(self._view, turn):
            return placed
        polite = bool(placed.core)
        placed.statement.rollback()
        again = self._attempt(turn, context, now, withdraw=True)
        if _satisfied(again, turn) or (again.core and not polite):
            return again
        again.statement.rollback()
        return self._attempt(turn, context, now, withdraw=False)

    def reserve(self, turn: Turn, *, now: float) -> list[int]:
        """Rows to reserve for the turn's job; nothing is changed. Errors: Malformed."""
        opened = self._world(TURN_CONTEXT.decode(turn.world), now)
        if turn.jid in opened.missing or turn.jid not in opened.world.jobs:
            return []
        session = self._session(opened)
        rows = rows_for(session, opened.world.session_job(turn.jid))
        self._end(session)
        return rows

    def shuffle(self, turn: Turn, *, now: float) -> list[SessionPlaced]:
        """Run a turn about running tasks: one statement for each job that has victims."""
        context = TURN_CONTEXT.decode(turn.world)
        return self._answered(lambda: self._shuffle(context, now))

    def _shuffle(self, context: TurnContext, now: float) -> list[SessionPlaced]:
        opened = self._world(context, now)
        session = self._session(opened)
        run_action(session, "shuffle")
        did = _take_back(session, None)
        statements = []
        for jid in dict.fromkeys(op.task.job.job.jid for op in did):
            job = opened.world.session_job(jid)
            evictions = [op for op in did if op.task.job is job and op.kind is OpKind.EVICT]
            placed = SessionPlaced(ViewStatement(self._view))
            placed.victim_job = (jid, job.job.spec, job.qid, job.job.priority)
            self._evict(placed, evictions, session, opened, "shuffle")
            statements.append(placed)
        self._end(session)
        return statements

    # --- one attempt --------------------------------------------------------------------------

    def _attempt(
        self, turn: Turn, context: TurnContext, now: float, *, withdraw: bool
    ) -> SessionPlaced:
        view = self._view
        statement = ViewStatement(view)
        placed = SessionPlaced(statement)
        opened = self._world(context, now)
        if turn.jid in opened.missing or turn.jid not in opened.world.jobs:
            placed.stale = True
            opened.world.take_apart()
            return placed
        give_back_own(statement, view, turn)
        withdrawn = withdraw_all(statement, view, rivals(view, turn)) if withdraw else []
        job = opened.world.session_job(turn.jid)
        held_back = [row for row, jid in view.reserved.items() if jid == turn.jid]
        held_back = [row for row in held_back if row < view.size and view.withheld[row]]
        session = self._session(opened, alone=bool(held_back))
        session.lends = turn.lends
        # The job's own reserved nodes are open to it for this one session. In place, so that
        # `revision` stays and no compiled class of flat turns is thrown away.
        view.withheld[held_back] = False
        try:
            first = run_for_job(session, job, turn.action, elastic=turn.tail)
        finally:
            view.withheld[held_back] = True
        self._fill(placed, turn, opened, session, _take_back(session, job, first), first=first)
        placed.ungated = [task.tix for task in session.ungated.values() if task.job is job]
        if placed.empty:
            statement.rollback()
            evicting = turn.action in NAMES_VICTIMS
            placed.reasons = _spared(session, job) if evicting else _reasons(session, job, turn)
            placed.failed_role = job.failed_role
        else:
            placed.displaced = settle(statement, view, withdrawn)
            if job.unschedulable:
                placed.reasons, placed.failed_role = dict(job.unschedulable), job.failed_role
        self._end(session)
        return placed

    def _world(self, context: TurnContext, now: float) -> ContextWorld:
        return self._open_world(context, now=now, decoded=self._decoded, reading=self._reading)

    def _session(self, opened: ContextWorld, *, alone: bool = False) -> Session:
        """``alone``: one whose compiled classes serve no other turn, as the view is another."""
        session = self._open() if alone or self._kept is None else self._kept
        # What rules do once in a while (tdm, rescheduling) is remembered from turn to turn, and
        # nothing else (decision 0034).
        session.memory = self._memory
        session.enter(opened.world)
        return session

    def _end(self, session: Session) -> None:
        session.world.take_apart()
        if session is not self._kept:
            end_session(session)

    # --- what it did, as a statement ------------------------------------------------------------

    def _fill(
        self,
        result: SessionPlaced,
        turn: Turn,
        opened: ContextWorld,
        session: Session,
        did: list[EffectiveOperation],
        *,
        first: int,
    ) -> None:
        """``first``: number of placements that are accepted or refused together, 0 = all."""
        job = opened.world.session_job(turn.jid)
        places = [op for op in did if op.kind is not OpKind.EVICT and op.task.job is job]
        binds = binds_as_placed(session, job)
        before = result.statement.checkpoint
        # Victims before placements, as the ledger judges them (decision 0028): what is nominated
        # may count on what leaves, what is allocated may not.
        self._evict(result, did, session, opened, turn.action)
        for op in places:
            allocated = op.kind is OpKind.ALLOCATE and binds
            result.statement.place(
                cid=op.task.cid,
                group=op.task.role.group,
                task=op.task.tix,
                row=op.row,
                level=self._level(op, allocated),
                kind=ALLOCATE if allocated else NOMINATE,
                devices=op.task.devices,
            )
        placed = result.statement.placed(before)
        # Backfill places tasks that ask for nothing one by one, each for itself: one refusal must
        # not take the others with it.
        alone = 1 if turn.action == "backfill" else (first or len(placed))
        result.core, result.tail = placed[:alone], placed[alone:]
        if placed:
            self._moves(result, opened, [turn.jid])

    def _level(self, op: EffectiveOperation, allocated: bool) -> Level:
        is_own = self._mode is Mode.NONE or bool(self._view.own[op.row])
        if allocated:
            return Level.IDLE_OWN if is_own else Level.IDLE_OTHER
        return Level.FUTURE_OWN if is_own else Level.FUTURE_OTHER

    def _evict(
        self,
        result: SessionPlaced,
        did: Sequence[EffectiveOperation],
        session: Session,
        opened: ContextWorld,
        action: str,
    ) -> None:
        evictions = evictions_of(did)
        if not evictions:
            return
        guards = Guards(session, action)
        result.evictions = victim_runs(result.statement, did, view=self._view, guards=guards.of)
        if any(run.to for run in result.evictions):
            result.promise_seconds = MOVE_SECONDS
        result.reason = joined(op.reason for op in evictions)
        self._moves(result, opened, [run.jid for run in result.evictions])
        result.domains += [
            DomainOp(key, 1, "le", version)
            for key, version in opened.versions.items()
            if key.startswith(VICTIMS)
        ]

    @staticmethod
    def _moves(result: SessionPlaced, opened: ContextWorld, jids: Iterable[int]) -> None:
        """Add the versions that the statement relies on, and those that it increments."""
        present = {op.key for op in result.domains}
        for key in dict.fromkeys(key for jid in jids for key in opened.keys.get(jid, ())):
            if key not in present:
                result.domains.append(DomainOp(key, 1, "le", opened.versions.get(key, 0)))


def _take_back(
    session: Session, job: SessionJob | None, first: int = 0
) -> list[EffectiveOperation]:
    """Undo on the view what the session left in effect; return the operations to keep.

    A gang that is only pipelined is neither committed nor discarded; of further steps (after
    ``first`` operations were committed) only what they committed counts.
    """
    world = session.world
    did = [
        EffectiveOperation(op.kind, op.task, op.row, op.taking, op.reason)
        for op in session.committed
    ]
    listed = {id(operation.task) for operation in did if operation.kind is not OpKind.EVICT}
    others = [] if job is None else [task for task in job.tasks if id(task) not in listed]
    loose = [
        EffectiveOperation(LOOSE[t.status], t, t.row, t.taking) for t in others if t.status in LOOSE
    ]
    # Off the view again before the statement puts it there: a session shifts amounts only, the
    # statement also notes the version of each row, which the ledger compares.
    for operation in reversed(did + loose):
        world.view.shift(COLUMN[operation.kind], operation.taking, operation.row, -1)
    return did if first else did + loose


def _satisfied(placed: SessionPlaced, turn: Turn) -> bool:
    """Whether the turn got what the action is for. Victims only ever make room for a nomination."""
    if turn.action in PLACING:
        return any(place.kind == ALLOCATE for place in placed.core)
    return not placed.empty


def _reasons(session: Session, job: SessionJob, turn: Turn) -> dict[str, int]:
    """Why nothing was placed: reason -> nodes; or why the job was skipped as a whole."""
    never = _never(session, job)
    if never:
        return never
    nodes = int(session.world.view.exists().sum())
    skip = session.skipped.get(turn.jid)
    if skip and not (skip[0] is Reason.NOT_ENOUGH_RESOURCES and job.unschedulable):
        word, sentence = skip
        return {written(word, sentence or word): nodes}
    if job.unschedulable:
        return dict(job.unschedulable)
    return {NOTHING_TO_DO if turn.action in PLACING else NO_VICTIMS: nodes}


def _never(session: Session, job: SessionJob) -> dict[str, int]:
    """Why no node can ever take its tasks, whichever tasks leave; empty if one can.

    A session reports the resource shortage of each node first, which can hide these reasons.
    """
    if not any(reason.startswith("Insufficient ") for reason in job.unschedulable):
        return {}
    failed = (t for t in job.pending_tasks() if t.role.name == job.failed_role)
    task = next(failed, None)
    if task is None or session.pre_predicate(task) is not None:
        return {}
    candidates = feasible(session, task, fit=False)
    if not candidates.mask.any():
        return candidates.reasons
    large = candidates.mask.copy()
    for slot, amount in task.requests:
        large &= session.world.view.column("allocatable", slot) >= amount
    if large.any():
        return {}
    text = too_large(task.requests, session.world.view, candidates.mask)
    return {
        **candidates.reasons,
        written(Reason.EXCEEDS_NODE_CAPACITY, text): int(candidates.mask.sum()),
    }


def _spared(session: Session, job: SessionJob) -> dict[str, int]:
    """Why possible victims were not evicted: reason -> tasks, reported in the place of node counts.
    If no task was considered at all, the reason for that, with 0 tasks."""
    jid = job.job.jid
    if jid not in session.spared and jid in session.skipped:
        return {session.skipped[jid][1]: 0}
    return dict(session.spared.get(jid, {}))
