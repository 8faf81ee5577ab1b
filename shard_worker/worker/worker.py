"""The worker of one shard as a state machine: events in, instructions out.

Turns are placed on the view at once, on top of what is not committed yet, and wait as statements.
One batch at a time goes to the ledger. Its reply undoes what the batch's statements had added to
the view, brings the current rows, and says which statements were accepted. Refused ones are placed
again on the fresh rows a few times before they go back to Order.

No clock, no I/O, no randomness but the seed: the service and the simulation run the same worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from shard_worker.dialects.kai.evictions import SearchRecord
from shard_worker.dialects.open_session import turn_session
from shard_worker.framework.plugin_errors import PluginError
from shard_worker.framework.raised_rule import plugin_error
from shard_worker.framework.session import Session
from shard_worker.inquiry.findings import InquiryFinding
from shard_worker.inquiry.inquiry import Inquiry, examine
from shard_worker.inquiry.turn_steps import placement_step, steps_before
from shard_worker.placement.statement import TaskPlace, ViewStatement, runs_of
from shard_worker.placement.task_class import CompiledClasses
from shard_worker.turns.extender_http import Ask, ask_over_http
from shard_worker.turns.flat_turn import FlatTurns, PlacedTurn
from shard_worker.turns.session_turn import SessionPlaced, SessionTurns
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shard_worker.worker.attempts import Attempt, LikeRun, Tally
from shard_worker.worker.figures import WorkerFigures
from shard_worker.worker.instructions import CommitBatchRequest, Instruction, Outcomes
from shard_worker.worker.limits import INQUIRY_CLASSES, WorkerLimits
from shared.codec.packed import replace
from shared.ledger.codec import accepted_runs
from shared.ledger.entries.log import LogEntry
from shared.messages import messages
from shared.messages.messages import (
    ACCEPTED,
    NOBODY,
    NOMINATE,
    Answer,
    CommitBatch,
    CommitReply,
    Epoch,
    Outcome,
    OutcomeCode,
    Placement,
    Run,
    Turn,
    Verdict,
)

HOPELESS = frozenset({Verdict.JOB, Verdict.TASK})
"""Refusals that mean the turn itself is out of date."""
NOT_OURS = frozenset({Verdict.QUEUE})
"""Refusals that another node cannot cure: Order has to decide."""

OF_THE_CONTEXT = frozenset({*HOPELESS, *NOT_OURS, Verdict.GANG, Verdict.DOMAIN})
"""Refusals of a turn with a session that follow from its context: Order must send a new one."""
NOT_AS_TOLD = frozenset({*HOPELESS, Verdict.DOMAIN})
TRUST_ATTEMPTS = 2
"""After this many refusals in a row by one of these, Order's knowledge is out of date, and the job
is reread."""


RESERVE = "reserve"
"""Action of a turn that only chooses nodes to reserve for its job: the outcome is INFEASIBLE, and
its placements carry the rows."""


class Worker:
    """Places turns on a view and commits them to the ledger."""

    def __init__(
        self,
        *,
        session: Session,
        view: View,
        mode: Mode,
        shard: int,
        seed: int = 0,
        limits: WorkerLimits | None = None,
        ask: Ask = ask_over_http,
    ) -> None:
        """``seed`` breaks ties between equal nodes; different for each shard, or they conflict."""
        self.session = session
        self.view = view
        self.shard = shard
        self.limits = limits or WorkerLimits()
        self.classes = CompiledClasses(
            view=view, session=session, mode=mode, seed=seed, limit=self.limits.compiled_classes
        )
        self._in_part = not session.keeps_gangs
        """Kept, because every statement says it."""
        self._figures = WorkerFigures()
        self._traced: set[str] = set()
        """Kinds of plugin errors whose traceback was sent."""
        self._epoch: Epoch | None = None
        self._run_id = ""
        self._sequence = 0
        self._now = 0.0
        self._elapsed: Callable[[], float] = lambda: 0.0
        self._sessions = 0
        """Number of calls with turns: each is one pass over the view."""
        self._waiting: deque[Attempt | LikeRun] = deque()
        self._flying: list[Attempt | LikeRun] = []
        self._batch: CommitBatch | None = None
        self._flat = FlatTurns(session=session, view=view, classes=self.classes)
        # A plugin from outside may keep what it likes from one `on_session_open` to the next.
        kept = None if session.guarded else self._open_session(lasts=True)
        self._turns = SessionTurns(self._open_session, view=view, mode=mode, ask=ask, kept=kept)
        """For turns that need a session."""

    def _open_session(self, *, lasts: bool = False) -> Session:
        return turn_session(self.session, clock=self._clock, on_search=self._searched, lasts=lasts)

    def _clock(self) -> float:
        return self._elapsed()

    def _searched(self, record: SearchRecord) -> None:
        self._figures.searched(record)

    # --- events -------------------------------------------------------------------------------

    def begin(self, epoch: Epoch, run_id: str) -> list[Instruction]:
        """Commit under this epoch from now on. Open turns are undone and reported as fenced."""
        instructions = self._fence()
        self._epoch = epoch
        self._run_id = run_id
        self._sequence = 0
        return instructions

    def on_log(self, entries: list[LogEntry], *, now: float = 0.0) -> None:
        """Apply the ledger's log. ``now``: seconds since 1970, for when tasks began to run."""
        self.view.apply(entries, now=now)

    def on_turns(
        self, turns: list[Turn], *, now: float, elapsed: Callable[[], float] = lambda: 0.0
    ) -> list[Instruction]:
        """Place turns. ``now``: seconds since 1970; ``elapsed``: seconds since then. Both are for
        the expiry of nominations, the second for budgets of searches as well."""
        self._now, self._elapsed = now, elapsed
        self._sessions += bool(turns)
        outcomes: list[Outcome] = []
        run: LikeRun | None = None
        for turn in turns:
            if turn.jid == NOBODY:
                outcomes += self._shuffle(turn)
                run = None
                continue
            if run is None:
                run = LikeRun([], [], ViewStatement(self.view))
            attempt = self._repeat(turn, run) or self._try(turn, Tally())
            if isinstance(attempt, Outcome):
                outcomes.append(attempt)
            elif attempt is not run:
                self._waiting.append(attempt)
                run = None
            elif len(run.turns) == 1:
                self._waiting.append(run)
        return self._instructions(outcomes)

    def on_reply(self, reply: CommitReply) -> list[Instruction]:
        """Take the ledger's answer to the batch in flight."""
        batch, attempts = self._batch, self._flying
        if batch is None:
            return []
        self._figures.replays += reply.replayed
        if reply.verdict not in ACCEPTED:
            for _ in batch.statements:
                self._figures.judged(reply.verdict)
            return self._fence()
        self._batch, self._flying = None, []
        # All of them, accepted ones too, whose operations come back within the fresh rows. What is
        # placed again below then sees what others have taken.
        for attempt in attempts:
            attempt.statement.rollback()
        self.view.set_rows(reply.fresh)
        outcomes: list[Outcome] = []
        again: list[Attempt | LikeRun] = []
        judged = ((attempt, at) for attempt in attempts for at in range(len(attempt.turns)))
        for (attempt, at), answer in zip(judged, reply.answers, strict=True):
            decided = self._judged(attempt, at, answer)
            if isinstance(decided, Outcome):
                outcomes.append(decided)
            else:
                again.append(decided)
        # Ahead of all that wait: their turns came before those.
        self._waiting.extendleft(reversed(again))
        return self._instructions(outcomes)

    # --- questions ----------------------------------------------------------------------------

    def pending_batch(self) -> CommitBatch | None:
        """The batch in flight, to be sent again unchanged where its reply was lost."""
        return self._batch

    def inquire(
        self, inquiry: Inquiry, *, now: float, may_go_on: Callable[[], bool] = lambda: True
    ) -> list[InquiryFinding]:
        """Answer what these turns would do now; keep nothing, not even a compiled class."""
        apart = CompiledClasses(
            view=self.view,
            session=self.session,
            mode=self.classes.mode,
            seed=self.classes.seed,
            limit=INQUIRY_CLASSES,
        )
        return examine(inquiry, apart, turns=self._turns, now=now, may_go_on=may_go_on)

    def take_figures(self) -> WorkerFigures:
        """The figures since they were last taken."""
        figures, self._figures = self._figures, WorkerFigures()
        return figures

    @property
    def open_turns(self) -> int:
        """Number of turns that were placed and are not decided."""
        return sum(len(attempt.turns) for attempt in (*self._waiting, *self._flying))

    def validate(self) -> None:
        """Raise AssertionError if the worker's own records do not agree."""
        assert (self._batch is None) == (not self._flying), "a batch without its statements"
        if self._batch is not None:
            flying = [message for attempt in self._flying for message in attempt.messages]
            assert self._batch.statements == flying, "the batch changed after it was sent"
            assert self._batch.sequence == self._sequence, "a batch of another sequence"
            size = sum(attempt.operations for attempt in self._flying)
            assert size <= self.limits.batch_operations or len(flying) == 1, "batch too large"
        assert self._batch is not None or not self._waiting, "statements wait with no batch sent"
        if not self.open_turns:
            settled = self.view.columns.settled and self.view.things.settled
            assert settled, "no open turn, but the view differs from its records"

    # --- placing ------------------------------------------------------------------------------

    def _try(self, turn: Turn, tally: Tally, repairs: int = 0) -> Attempt | Outcome:
        """Place a turn on the view: an attempt to commit, or an outcome at once. What a plugin
        raises is the outcome; the view is then as before."""
        try:
            with self.view.undone_if_raised():
                return self._place(turn, tally, repairs)
        except Exception as error:
            return self._raised(turn, plugin_error(self.session, error), tally)

    def _repeat(self, turn: Turn, run: LikeRun) -> LikeRun | Outcome | None:
        """Add a turn to the run where it is like the one before it; None where it is to be tried by
        itself. What a plugin raises is the outcome, as in :meth:`_try`."""
        if turn.traced or turn.world:
            return None
        try:
            place = self._flat.repeat(turn, run.statement)
        except Exception as error:
            return self._raised(turn, plugin_error(self.session, error), Tally())
        if place is None:
            return None
        run.turns.append(turn)
        run.messages.append(self._of_one(turn, place))
        return run

    def _raised(self, turn: Turn, error: PluginError, tally: Tally) -> Outcome:
        """The outcome of a turn in which a plugin raised: nothing fits until something changes."""
        self._figures.raised(error, traced=error.kind in self._traced)
        self._traced.add(error.kind)
        self.classes.forget({run.cid for run in turn.runs})
        self._turns.forget_classes()
        outcome = self._outcome(turn, OutcomeCode.INFEASIBLE, tally)
        outcome.reasons[error.reason] = int(self.view.exists().sum())
        return outcome

    def _place(self, turn: Turn, tally: Tally, repairs: int) -> Attempt | Outcome:
        if turn.traced:
            tally.steps += steps_before(
                turn,
                session=self.session,
                classes=self.classes,
                sessions=self._turns,
                now=self._now,
            )
        if turn.world:
            return self._try_session(turn, tally, repairs)
        classes = self.view.classes
        if not turn.runs or any(run.cid not in classes for run in turn.runs):
            return self._outcome(turn, OutcomeCode.STALE, tally)
        placed = self._flat.place(turn)
        if not placed.core:
            if placed.undone:
                self._figures.waste("rollback", placed.undone)
            return self._outcome(turn, OutcomeCode.INFEASIBLE, tally, placed=placed)
        return Attempt(
            turn=turn,
            placed=placed,
            message=self._statement(turn, placed),
            operations=len(placed.core) + len(placed.tail),
            repairs=repairs,
            tally=tally,
        )

    def _try_session(self, turn: Turn, tally: Tally, repairs: int) -> Attempt | Outcome:
        """Place a turn that needs a session."""
        if turn.action == RESERVE:
            rows = self._turns.reserve(turn, now=self._now)
            chosen = [Placement(0, NOMINATE, [0] * len(rows), rows, [0] * len(rows))]
            outcome = self._outcome(turn, OutcomeCode.INFEASIBLE, tally)
            return replace(outcome, placements=chosen if rows else [])
        placed = self._turns.place(turn, now=self._now)
        if placed.stale:
            return self._outcome(turn, OutcomeCode.STALE, tally)
        if placed.empty:
            return self._outcome(turn, OutcomeCode.INFEASIBLE, tally, placed=placed)
        return self._attempt_of(turn, placed, tally, repairs)

    def _shuffle(self, turn: Turn) -> list[Outcome]:
        """Run a turn without a job: its statements are judged one by one, and not tried again."""
        try:
            with self.view.undone_if_raised():
                statements = self._turns.shuffle(turn, now=self._now)
        except Exception as error:
            return [self._raised(turn, plugin_error(self.session, error), Tally())]
        for placed in statements:
            self._waiting.append(self._attempt_of(turn, placed, Tally(), self.limits.repairs))
        return [self._outcome(turn, OutcomeCode.INFEASIBLE, Tally())]

    def _attempt_of(self, turn: Turn, placed: SessionPlaced, tally: Tally, repairs: int) -> Attempt:
        message = placed.message(self._statement(turn, placed))
        victims = sum(len(run.tasks) for run in placed.evictions)
        operations = len(placed.core) + len(placed.tail) + victims
        return Attempt(turn, placed, message, operations, repairs, tally)

    def _statement(self, turn: Turn, placed: PlacedTurn) -> messages.Statement:
        waits = any(op.kind == NOMINATE for op in (*placed.core, *placed.tail))
        # Until it was renewed, by a turn that may take as long as this one: a gang of thousands.
        lasts = 2 * self._elapsed() + self.limits.nomination_seconds if waits else 0.0
        lasts = max(lasts, placed.promise_seconds)
        return messages.Statement(
            jid=turn.jid,
            job_version=turn.job_version,
            qid=turn.qid,
            priority=turn.priority,
            core=runs_of(placed.core),
            tail=runs_of(placed.tail),
            displaced=list(placed.displaced),
            domains=[],
            expiry=self._now + lasts if lasts else 0.0,
            in_part=self._in_part,
        )

    def _of_one(self, turn: Turn, place: TaskPlace) -> messages.Statement:
        """:meth:`_statement` of one task on an idle node."""
        kind, cid, group, task, row, version, spec, level, _, devices = place
        run = Run(kind, cid, group, [task], [row], [version], [spec], [int(level)], devices)
        jid, job_version, qid, priority = turn.jid, turn.job_version, turn.qid, turn.priority
        return messages.Statement(
            jid, job_version, qid, priority, [run], [], [], [], in_part=self._in_part
        )

    # --- committing ---------------------------------------------------------------------------

    def _instructions(self, outcomes: list[Outcome]) -> list[Instruction]:
        instructions: list[Instruction] = [Outcomes(outcomes)] if outcomes else []
        if self._batch is None and self._waiting:
            instructions.append(CommitBatchRequest(self._next_batch()))
        return instructions

    def _next_batch(self) -> CommitBatch:
        """The oldest statements that fit one batch; at least one."""
        if self._epoch is None:
            raise RuntimeError("worker got turns before begin(epoch, run_id)")
        room = self.limits.batch_operations
        attempts: list[Attempt | LikeRun] = []
        while self._waiting and (not attempts or room > 0):
            attempt = self._waiting[0]
            if isinstance(attempt, LikeRun) and attempt.operations > room:
                self._waiting[0] = attempt.cut(room)
            elif not attempts or attempt.operations <= room:
                self._waiting.popleft()
            else:
                break
            attempts.append(attempt)
            room -= attempt.operations
            statements = len(attempt.turns)
            self._figures.operations.observe(attempt.operations // statements, statements)
        self._sequence += 1
        self._flying = attempts
        self._batch = CommitBatch(
            writer=str(self.shard),
            epoch=self._epoch,
            sequence=self._sequence,
            run_id=self._run_id,
            statements=[message for attempt in attempts for message in attempt.messages],
        )
        return self._batch

    def _fence(self) -> list[Instruction]:
        """The shard is no longer ours: undo everything that is open."""
        attempts = [*self._flying, *self._waiting]
        self._flying, self._batch = [], None
        self._waiting.clear()
        outcomes: list[Outcome] = []
        for attempt in attempts:
            attempt.statement.rollback()
            self._figures.waste("epoch", attempt.operations)
            tally = attempt.tally if isinstance(attempt, Attempt) else Tally()
            outcomes += [self._outcome(t, OutcomeCode.FENCED, tally) for t in attempt.turns]
        return [Outcomes(outcomes)] if outcomes else []

    # --- answers ------------------------------------------------------------------------------

    def _judged(self, attempt: Attempt | LikeRun, at: int, answer: Answer) -> Attempt | Outcome:
        """Take the ledger's answer to one statement: of a run, the one at this place."""
        if isinstance(attempt, LikeRun):
            if answer.verdict in ACCEPTED:
                return self._bound(attempt.messages[at], answer.verdict)
            attempt = attempt.apart(at)
        if attempt.turn.traced:
            attempt.note_verdict(answer, attempts=self.limits.repairs + 1)
        if answer.verdict in ACCEPTED:
            return self._accepted(attempt, answer)
        return self._refused(attempt, answer.verdict)

    def _bound(self, message: messages.Statement, verdict: Verdict) -> Outcome:
        """:meth:`_accepted` of one task on an idle node, at the first attempt."""
        self.view.nominations.pop(message.jid, None)
        self._figures.judged(verdict)
        return Outcome(
            jid=message.jid,
            code=OutcomeCode.PLACED,
            placements=[Placement.of(message.core[0])],
            reasons={},
            committed=1,
            rechecked=int(verdict is Verdict.RECHECKED),
            session=self._sessions,
        )

    def _accepted(self, attempt: Attempt, answer: Answer) -> Outcome:
        turn, message = attempt.turn, attempt.message
        tail = accepted_runs(message.tail, answer.tail) if message.tail else []
        runs = [*message.core, *tail]
        for jid in message.displaced:
            self.view.nominations.pop(jid, None)
        expiry, evictions = message.expiry, message.evictions
        self.view.take_promises(turn.jid, turn.priority, runs, evictions, expiry)
        rechecked = Verdict.RECHECKED in answer.tail or answer.verdict is Verdict.RECHECKED
        self._count(attempt, Verdict.RECHECKED if rechecked else Verdict.COMMITTED)
        for verdict in answer.tail:
            if verdict not in ACCEPTED:
                self._count(attempt, verdict, wasted=1)
        only_waits = bool(runs) and all(run.kind == NOMINATE for run in runs)
        code = OutcomeCode.NOMINATED if only_waits else OutcomeCode.PLACED
        outcome = self._outcome(turn, code, attempt.tally, placed=attempt.placed, runs=runs)
        if turn.world:
            outcome = replace(
                outcome,
                evictions=message.evictions,
                reason=message.reason,
                moved={op.key: op.delta for op in message.domains},
            )
        return outcome

    def _refused(self, attempt: Attempt, verdict: Verdict) -> Attempt | Outcome:
        """Place a refused statement again, or report it to Order."""
        self._count(attempt, verdict, wasted=attempt.operations)
        if attempt.turn.world and verdict in OF_THE_CONTEXT:
            stale = verdict in NOT_AS_TOLD and attempt.turn.attempt >= TRUST_ATTEMPTS
            return self._conflict(attempt, verdict, OutcomeCode.STALE if stale else None)
        if verdict in HOPELESS:
            return self._outcome(attempt.turn, OutcomeCode.STALE, attempt.tally)
        if verdict in NOT_OURS or attempt.repairs >= self.limits.repairs:
            return self._conflict(attempt, verdict)
        return self._try(attempt.turn, attempt.tally, attempt.repairs + 1)

    def _conflict(
        self, attempt: Attempt, verdict: Verdict, code: OutcomeCode | None = None
    ) -> Outcome:
        outcome = self._outcome(attempt.turn, code or OutcomeCode.CONFLICT, attempt.tally)
        outcome.reasons[f"the ledger refused: {verdict.name.lower()}"] = attempt.repairs + 1
        return outcome

    def _count(self, attempt: Attempt, verdict: Verdict, *, wasted: int = 0) -> None:
        attempt.tally.count(verdict)
        self._figures.judged(verdict, wasted=wasted)

    def _outcome(
        self,
        turn: Turn,
        code: OutcomeCode,
        tally: Tally,
        *,
        placed: PlacedTurn | None = None,
        runs: list[Run] | None = None,
    ) -> Outcome:
        if turn.traced and placed is not None and code is OutcomeCode.INFEASIBLE:
            tally.steps += (placement_step(placed, victims=0),)
        return Outcome(
            jid=turn.jid,
            code=code,
            placements=[Placement.of(run) for run in runs or []],
            reasons=dict(placed.reasons) if placed is not None else {},
            failed_role=placed.failed_role if placed is not None else "",
            fitting=placed.fitting if placed is not None else 0,
            displaced=list(placed.displaced) if placed is not None else [],
            ungated=list(placed.ungated) if placed is not None else [],
            unanswered=dict(placed.unanswered) if placed is not None else {},
            committed=tally.committed,
            rechecked=tally.rechecked,
            conflicts_true=tally.conflicts_true,
            conflicts_read=tally.conflicts_read,
            session=self._sessions,
            steps=tally.steps,
        )
