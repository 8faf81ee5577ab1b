"""An inquiry: the results of given turns on this shard's view, with reasons, as a dry run.

The turns are placed one after the other, each on top of those before it, as real turns are; then
everything is undone. Nothing is written to the ledger, no metric is counted, and the worker's own
compiled classes do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from shard_worker.dialects.volcano.plugins.node.extender import Extender
from shard_worker.framework.raised_rule import plugin_error
from shard_worker.framework.rules import Check
from shard_worker.inquiry.findings import InquiryFinding, RoleFunnel
from shard_worker.inquiry.foreseen_evictions import ForeseenEvictions
from shard_worker.inquiry.funnel import funnel
from shard_worker.inquiry.node_scores import why_here
from shard_worker.placement.nominations import give_back_own
from shard_worker.placement.statement import TaskPlace, ViewStatement, runs_of
from shard_worker.placement.task_class import CompiledClasses
from shard_worker.turns.flat_turn import PlacedTurn, place
from shard_worker.turns.session_turn import PLACING, SessionPlaced, SessionTurns
from shard_worker.view.columns import USED
from shard_worker.view.view import View
from shared.codec.packed import Codec, Count, Packed, replace
from shared.messages.messages import NOMINATE, OutcomeCode, Placement, TaskRun, Turn
from shared.model.model import TaskClass
from shared.records.specs import decode_class

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import TaskInfo

HERE = "here"
"""Action of a turn that asks why one task is on its node. ``nominated`` names the task and the
node; without it, the question is where the first pending task would go. In the turn's context the
task is pending."""

ROLES = 4
"""Maximum number of a job's roles that get a funnel."""


class Inquiry(Packed, frozen=True):
    """A request to one worker to try some turns."""

    turns: list[Turn]
    needed: list[dict[Count, Count]]
    """For each turn: class -> number of its tasks that have to start together."""
    classes: dict[Count, bytes] = msgspec.field(default_factory=dict)
    """Encoded classes that the view does not have yet; known only for the inquiry."""
    funnels: bool = False
    """Compute funnels for the first turn even if it finds a place."""
    apart: bool = False
    """Try each turn on the view as it is, not on top of the turns before it."""

    def __post_init__(self) -> None:
        if len(self.needed) != len(self.turns):
            raise ValueError("its turns and what they need differ in number")


INQUIRY = Codec(b"inquiry", Inquiry)


def examine(
    inquiry: Inquiry,
    classes: CompiledClasses,
    *,
    turns: SessionTurns | None = None,
    now: float = 0.0,
    may_go_on: Callable[[], bool] = lambda: True,
) -> list[InquiryFinding]:
    """One finding per turn, for as many as there is time for (at least one).

    ``turns``: runs turns that are not flat, at ``now`` (seconds since 1970); without it they are
    STALE. The view of ``classes`` is as before when this returns, whatever happens.
    """
    view = classes.view
    with _known(view, inquiry) as numbers:
        own_turns = None if turns is None else turns.for_inquiries(numbers)
        trial = _Trial(inquiry, classes, numbers, own_turns, now)
        try:
            findings = [trial.turn(i, turn) for i, turn in enumerate(inquiry.turns[:1])]
            for i, turn in enumerate(inquiry.turns[1:], start=1):
                if not may_go_on():
                    break
                findings.append(trial.turn(i, turn))
            return findings
        finally:
            trial.undo()


@contextmanager
def _known(view: View, inquiry: Inquiry) -> Iterator[dict[int, int]]:
    """Add the classes that came with the inquiry to the view, inside the block. Yields each class
    number of the inquiry -> its number in this view, where the sent number may belong to another
    class.
    """
    numbers = {cid: -1 - i for i, cid in enumerate(inquiry.classes)}
    try:
        for cid, spec in inquiry.classes.items():
            view.classes[numbers[cid]] = decode_class(spec)
        yield numbers
    finally:
        for number in numbers.values():
            view.classes.pop(number, None)


class _Trial:
    """The turns of one inquiry placed on a view, each on top of those before it."""

    def __init__(
        self,
        inquiry: Inquiry,
        classes: CompiledClasses,
        numbers: dict[int, int],
        sessions: SessionTurns | None,
        now: float,
    ) -> None:
        """``numbers``: class number in the inquiry -> class number in the view."""
        self._inquiry = inquiry
        self._view = classes.view
        self._session = classes.session
        self._mode = classes.mode
        self._classes = classes
        self._numbers = numbers
        self._sessions = sessions
        self._now = now
        self.statements: list[ViewStatement] = []
        self._foreseen = ForeseenEvictions(self._view)

    def undo(self) -> None:
        self._foreseen.undo()
        for statement in reversed(self.statements):
            statement.rollback()

    def turn(self, index: int, original: Turn) -> InquiryFinding:
        """The result that the turn would have. If a plugin raises, the turn is infeasible with the
        error as its reason."""
        try:
            with self._view.undone_if_raised():
                return self._turn(index, original)
        except Exception as error:
            raised = plugin_error(self._session, error)
            reasons = {raised.reason: int(self._view.exists().sum())}
            return InquiryFinding(original.jid, OutcomeCode.INFEASIBLE, reasons=reasons)

    def _turn(self, index: int, original: Turn) -> InquiryFinding:
        numbers, view = self._numbers, self._view
        runs = [replace(run, cid=numbers.get(run.cid, run.cid)) for run in original.runs]
        turn = replace(original, runs=runs)
        if turn.world:
            return self._by_session(index, turn)
        if not runs or any(run.cid not in view.classes for run in runs):
            return InquiryFinding(turn.jid, OutcomeCode.STALE)
        needed, funnels = self._inquiry.needed[index], list[RoleFunnel]()
        if self._inquiry.funnels and not index:
            funnels = self._funnels(turn, needed)
        placed = place(turn, session=self._session, view=view, classes=self._classes)
        self._keep(placed)
        if not placed.core:
            funnels = funnels or self._funnels(turn, needed)
        return self._finding(turn, placed, funnels)

    def _keep(self, placed: PlacedTurn) -> None:
        """Keep the placements for the turns after this one, unless each is tried on its own."""
        if placed.empty:
            return  # nothing was changed on the view
        if self._inquiry.apart:
            placed.statement.rollback()
        else:
            self.statements.append(placed.statement)

    def _finding(self, turn: Turn, placed: PlacedTurn, funnels: list[RoleFunnel]) -> InquiryFinding:
        code = _code(placed)
        if code is OutcomeCode.INFEASIBLE:
            funnels.sort(key=lambda funnel: funnel.role != placed.failed_role)
        return InquiryFinding(
            jid=turn.jid,
            code=code,
            placements=self._placements([*placed.core, *placed.tail]),
            displaced=list(placed.displaced),
            evictions=placed.evictions if isinstance(placed, SessionPlaced) else [],
            evicted_by=placed.reason if isinstance(placed, SessionPlaced) else "",
            reasons=dict(placed.reasons),
            funnels=funnels,
        )

    # --- turns that are not flat --------------------------------------------------------------

    def _by_session(self, index: int, turn: Turn) -> InquiryFinding:
        """Run the turn as a session, as the worker would, over the context that it carries."""
        if self._sessions is None or self._asks_others():
            return InquiryFinding(turn.jid, OutcomeCode.STALE)
        if turn.action == HERE:
            return self._here(turn)
        if turn.action not in PLACING:
            return self._evicting(turn)
        funnels: list[RoleFunnel] = []
        if not index or not self._inquiry.apart:
            funnels = self._funnels_of(turn, self._inquiry.needed[index])
        placed = self._sessions.place(turn, now=self._now)
        if placed.stale:
            return InquiryFinding(turn.jid, OutcomeCode.STALE)
        self._keep(placed)
        return self._finding(turn, placed, funnels)

    def _evicting(self, turn: Turn) -> InquiryFinding:
        """Run a turn that may evict; of several turns of one job the first with a result counts, as
        Order goes through the actions of a policy."""
        assert self._sessions is not None
        if self._foreseen.served(turn.jid):
            return InquiryFinding(turn.jid, OutcomeCode.INFEASIBLE)
        placed = self._sessions.place(self._foreseen.seen_by(turn), now=self._now)
        if placed.stale:
            return InquiryFinding(turn.jid, OutcomeCode.STALE)
        self._keep(placed)
        if not placed.empty and not self._inquiry.apart:
            self._foreseen.take(turn, placed)
        return self._finding(turn, placed, [])

    def _asks_others(self) -> bool:
        """Whether the session would ask an extender, for whose answer an inquiry may not wait."""
        return self._session.has_rule_of(Extender.name)

    def _funnels_of(self, turn: Turn, needed: dict[int, int]) -> list[RoleFunnel]:
        """A funnel for each role with pending tasks, with the checks that depend on running
        pods."""
        own_turns = ViewStatement(self._view)
        give_back_own(own_turns, self._view, turn)
        try:
            opened = None if self._sessions is None else self._sessions.opened(turn, now=self._now)
            if opened is None:
                return []
            session, job = opened
            first: dict[tuple[str, int], TaskInfo] = {}
            for task in job.pending_tasks():
                first.setdefault((task.role.name, task.cid), task)
            return [self._live(session, task, needed) for task in [*first.values()][:ROLES]]
        finally:
            own_turns.rollback()

    def _live(self, session: Session, task: TaskInfo, needed: dict[int, int]) -> RoleFunnel:
        cid = {number: cid for cid, number in self._numbers.items()}.get(task.cid, task.cid)
        live, reason = session.live_checks(task), session.pre_predicate(task)
        if reason is not None:
            live.insert(0, Check(reason, np.zeros(self._view.size, np.bool_)))
        need, view = needed.get(cid, 1), self._view
        role_funnel = funnel(
            task.cls, view=view, session=session, mode=self._mode, needed=need, live=live
        )
        return RoleFunnel(cid, task.role.name, need, role_funnel)

    def _here(self, turn: Turn) -> InquiryFinding:
        """Explain why the turn's task is on the node that ``turn.nominated`` names, as if not
        placed yet."""
        assert self._sessions is not None
        opened = self._sessions.opened(turn, now=self._now)
        pending = [] if opened is None else opened[1].pending_tasks()
        tix, row = next(iter(turn.nominated.items()), (pending[0].tix if pending else -1, -1))
        if opened is None or not pending or row >= self._view.size:
            return InquiryFinding(turn.jid, OutcomeCode.STALE)
        session, job = opened
        task = job.tasks[tix]
        if row >= 0:
            self._view.shift(USED, task.cls, row, -1)
        try:
            return InquiryFinding(
                turn.jid, OutcomeCode.PLACED, placement_scores=[why_here(session, task, row)]
            )
        finally:
            if row >= 0:
                self._view.shift(USED, task.cls, row, 1)

    # --- parts --------------------------------------------------------------------------------

    def _placements(self, places: list[TaskPlace]) -> list[Placement]:
        """The placements with the class numbers of the inquiry."""
        sent = {number: cid for cid, number in self._numbers.items()}
        return [
            Placement(sent.get(r.cid, r.cid), r.kind, r.tasks, r.rows, r.levels)
            for r in runs_of(places)
        ]

    def _funnels(self, turn: Turn, needed: dict[int, int]) -> list[RoleFunnel]:
        """A funnel for each role, computed with the job's own nominations released."""
        view = self._view
        sent = {number: cid for cid, number in self._numbers.items()}
        own_turns = ViewStatement(view)
        give_back_own(own_turns, view, turn)
        try:
            return [
                self._funnel(run, sent.get(run.cid, run.cid), needed) for run in turn.runs[:ROLES]
            ]
        finally:
            own_turns.rollback()

    def _funnel(self, run: TaskRun, cid: int, needed: dict[int, int]) -> RoleFunnel:
        need = needed.get(cid, 1)
        cls: TaskClass = self._view.classes[run.cid]
        role_funnel = funnel(
            cls, view=self._view, session=self._session, mode=self._mode, needed=need
        )
        return RoleFunnel(cid, run.role, need, role_funnel)


def _code(placed: PlacedTurn) -> OutcomeCode:
    if not placed.core:
        return OutcomeCode.INFEASIBLE
    waits = any(op.kind == NOMINATE for op in placed.core)
    return OutcomeCode.NOMINATED if waits else OutcomeCode.PLACED


# --- wire ---------------------------------------------------------------------------------------
