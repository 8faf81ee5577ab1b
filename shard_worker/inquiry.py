"""An inquiry: what would come of these turns on this shard's view, and why not, without doing it.

The turns are placed one after the other, each on top of those before it, as real turns are; then
everything is undone. Nothing goes to the ledger, no figure is counted, and the worker's own
compiled classes stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shard_worker.columns import USED
from shard_worker.displace import give_back_own
from shard_worker.findings import Finding, RoleFunnel
from shard_worker.funnel import funnel
from shard_worker.here import why_here
from shard_worker.placing import Placed, place
from shard_worker.plugins.extender import Extender
from shard_worker.rules import Check
from shard_worker.session_turn import SessionTurns
from shard_worker.statement import Place, Statement, runs_of
from shard_worker.task_class import Classes
from shard_worker.view import View
from shared.checked import (
    binary,
    boolean,
    count,
    mapping,
    pack_sealed,
    row,
    unpack_sealed,
)
from shared.messages import NOMINATE, OutcomeCode, Placement, TaskRun, Turn
from shared.model import TaskClass
from shared.specs import decode_class
from shared.wire import decode_turns, encode_turns

if TYPE_CHECKING:
    from shard_worker.session import Session
    from shard_worker.tasks import TaskInfo

_INQUIRY = b"inquiry"

HERE = "here"
"""Action of a turn that asks why one task is where it is. ``nominated`` tells both; without it, the
question is where the first pending task would go. Its excerpt has the task pending."""

ROLES = 4
"""Roles of a job that get a funnel."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What is asked of one worker."""

    turns: list[Turn]
    wanted: list[dict[int, int]]
    """Of each turn: class -> tasks of it that have to start together."""
    classes: dict[int, bytes] = field(default_factory=dict)
    """Classes that nothing accepted has yet, encoded; they are forgotten again."""
    implied: dict[int, int] = field(default_factory=dict)
    """Slots that nothing accepted names yet: what every node offers of them by nature."""
    funnels: bool = False
    """Funnels also for turns that find a place, where they are the first."""
    apart: bool = False
    """Each turn on the view as it is, not on top of those before it."""

    def encode(self) -> bytes:
        turns, flags = encode_turns(self.turns), [self.funnels, self.apart]
        return pack_sealed(_INQUIRY, [turns, self.wanted, self.classes, self.implied, *flags])

    @classmethod
    def decode(cls, data: bytes) -> Inquiry:
        """Errors: Malformed."""
        turns, wanted, classes, implied, funnels, apart = row(
            unpack_sealed(_INQUIRY, data), "inquiry", 6
        )
        asked = decode_turns(binary(turns, "inquiry.turns"))
        return cls(
            turns=asked,
            wanted=[_counts(w, "inquiry.wanted") for w in row(wanted, "inquiry", len(asked))],
            classes=mapping(classes, "inquiry.classes", count, binary),
            implied=_counts(implied, "inquiry.implied"),
            funnels=boolean(funnels, "inquiry.funnels"),
            apart=boolean(apart, "inquiry.apart"),
        )


def examine(
    inquiry: Inquiry,
    classes: Classes,
    *,
    turns: SessionTurns | None = None,
    now: float = 0.0,
    may_go_on: Callable[[], bool] = lambda: True,
) -> list[Finding]:
    """One finding per turn, of as many as there is time for (of one at least).

    ``turns``: runs those that are not flat, at ``now`` (seconds since 1970); without it they are
    STALE. The view of ``classes`` is as before when this returns, whatever happens."""
    view = classes.view
    with _known(view, inquiry) as numbers:
        aside = None if turns is None else turns.aside(numbers)
        trial = _Trial(inquiry, classes, numbers, aside, now)
        try:
            found = [trial.turn(i, turn) for i, turn in enumerate(inquiry.turns[:1])]
            for i, turn in enumerate(inquiry.turns[1:], start=1):
                if not may_go_on():
                    break
                found.append(trial.turn(i, turn))
            return found
        finally:
            for statement in reversed(trial.statements):
                statement.rollback()


@contextmanager
def _known(view: View, inquiry: Inquiry) -> Iterator[dict[int, int]]:
    """The classes and slots that travelled with the inquiry are known meanwhile.

    Yields the number that each class has here: another than it was sent with, as that one may be
    given to another class by now."""
    numbers = {cid: -1 - i for i, cid in enumerate(inquiry.classes)}
    revision = view.revision
    try:
        for slot, amount in inquiry.implied.items():
            view.columns.imply(slot, amount)
            view.revision += 1
        for cid, spec in inquiry.classes.items():
            view.classes[numbers[cid]] = decode_class(spec)
        yield numbers
    finally:
        for number in numbers.values():
            view.classes.pop(number, None)
        for slot in inquiry.implied:
            view.columns.imply(slot, 0)
            view.revision += 1
        assert view.revision >= revision


class _Trial:
    """Turns on a view, each on top of those before."""

    def __init__(
        self,
        inquiry: Inquiry,
        classes: Classes,
        numbers: dict[int, int],
        sessions: SessionTurns | None,
        now: float,
    ) -> None:
        """``numbers``: what the view calls the classes that came with the inquiry."""
        self._inquiry = inquiry
        self._view = classes.view
        self._session = classes.session
        self._mode = classes.mode
        self._classes = classes
        self._numbers = numbers
        self._sessions = sessions
        self._now = now
        self.statements: list[Statement] = []

    def turn(self, index: int, asked: Turn) -> Finding:
        numbers, view = self._numbers, self._view
        runs = [replace(run, cid=numbers.get(run.cid, run.cid)) for run in asked.runs]
        turn = replace(asked, runs=runs)
        if turn.world:
            return self._by_session(index, turn)
        if not runs or any(run.cid not in view.classes for run in runs):
            return Finding(turn.jid, OutcomeCode.STALE)
        wanted, told = self._inquiry.wanted[index], list[RoleFunnel]()
        if self._inquiry.funnels and not index:
            told = self._funnels(turn, wanted)
        placed = place(turn, session=self._session, view=view, classes=self._classes)
        self._keep(placed)
        if not placed.core:
            told = told or self._funnels(turn, wanted)
        return self._finding(turn, placed, told)

    def _keep(self, placed: Placed) -> None:
        """For the turns that follow, where they are on top of this one."""
        if placed.core and not self._inquiry.apart:
            self.statements.append(placed.statement)
        elif placed.core:
            placed.statement.rollback()

    def _finding(self, turn: Turn, placed: Placed, told: list[RoleFunnel]) -> Finding:
        code = _code(placed)
        if code is OutcomeCode.INFEASIBLE:
            told.sort(key=lambda funnel: funnel.role != placed.failed_role)
        return Finding(
            jid=turn.jid,
            code=code,
            placements=self._placements([*placed.core, *placed.tail]),
            displaced=list(placed.displaced),
            reasons=dict(placed.reasons),
            funnels=told,
        )

    # --- turns that are not flat --------------------------------------------------------------

    def _by_session(self, index: int, turn: Turn) -> Finding:
        """As the worker would run it, over what the turn brings along."""
        if self._sessions is None or self._asks_others():
            return Finding(turn.jid, OutcomeCode.STALE)
        if turn.action == HERE:
            return self._here(turn)
        told: list[RoleFunnel] = []
        if not index or not self._inquiry.apart:
            told = self._funnels_of(turn, self._inquiry.wanted[index])
        placed = self._sessions.place(turn, now=self._now)
        if placed.stale:
            return Finding(turn.jid, OutcomeCode.STALE)
        self._keep(placed)
        return self._finding(turn, placed, told)

    def _asks_others(self) -> bool:
        """Would the session have to wait for answers from elsewhere? A question may not."""
        hooks = self._session.hooks.values()
        return any(hook.plugin == Extender.name for speaking in hooks for hook in speaking)

    def _funnels_of(self, turn: Turn, wanted: dict[int, int]) -> list[RoleFunnel]:
        """Of each role that has tasks pending, with the checks that change with what runs."""
        aside = Statement(self._view)
        give_back_own(aside, self._view, turn)
        try:
            opened = None if self._sessions is None else self._sessions.opened(turn, now=self._now)
            if opened is None:
                return []
            session, job = opened
            first: dict[tuple[str, int], TaskInfo] = {}
            for task in job.pending_tasks():
                first.setdefault((task.role.name, task.cid), task)
            return [self._live(session, task, wanted) for task in [*first.values()][:ROLES]]
        finally:
            aside.rollback()

    def _live(self, session: Session, task: TaskInfo, wanted: dict[int, int]) -> RoleFunnel:
        cid = {number: cid for cid, number in self._numbers.items()}.get(task.cid, task.cid)
        live, reason = session.live_checks(task), session.pre_predicate(task)
        if reason is not None:
            live.insert(0, Check(reason, np.zeros(self._view.size, np.bool_)))
        need, view = wanted.get(cid, 1), self._view
        found = funnel(
            task.cls, view=view, session=session, mode=self._mode, wanted=need, live=live
        )
        return RoleFunnel(cid, task.role.name, need, found)

    def _here(self, turn: Turn) -> Finding:
        """Why the turn's task is where ``turn.nominated`` says: as nodes stand without it."""
        assert self._sessions is not None
        opened = self._sessions.opened(turn, now=self._now)
        pending = [] if opened is None else opened[1].pending_tasks()
        tix, row = next(iter(turn.nominated.items()), (pending[0].tix if pending else -1, -1))
        if opened is None or not pending or row >= self._view.size:
            return Finding(turn.jid, OutcomeCode.STALE)
        session, job = opened
        task = job.tasks[tix]
        if row >= 0:
            self._view.shift(USED, task.requests, row, -1)
        try:
            return Finding(turn.jid, OutcomeCode.PLACED, here=[why_here(session, task, row)])
        finally:
            if row >= 0:
                self._view.shift(USED, task.requests, row, 1)

    # --- parts --------------------------------------------------------------------------------

    def _placements(self, places: list[Place]) -> list[Placement]:
        """With the class numbers of the inquiry."""
        sent = {number: cid for cid, number in self._numbers.items()}
        return [
            Placement(sent.get(r.cid, r.cid), r.kind, r.tasks, r.rows, r.levels)
            for r in runs_of(places)
        ]

    def _funnels(self, turn: Turn, wanted: dict[int, int]) -> list[RoleFunnel]:
        """Of each role, with what the job itself holds by nomination given back."""
        view = self._view
        sent = {number: cid for cid, number in self._numbers.items()}
        aside = Statement(view)
        give_back_own(aside, view, turn)
        try:
            return [
                self._funnel(run, sent.get(run.cid, run.cid), wanted)
                for run in turn.runs[:ROLES]
                if not view.classes[run.cid].best_effort
            ]
        finally:
            aside.rollback()

    def _funnel(self, run: TaskRun, cid: int, wanted: dict[int, int]) -> RoleFunnel:
        need = wanted.get(cid, 1)
        cls: TaskClass = self._view.classes[run.cid]
        found = funnel(cls, view=self._view, session=self._session, mode=self._mode, wanted=need)
        return RoleFunnel(cid, run.role, need, found)


def _code(placed: Placed) -> OutcomeCode:
    if not placed.core:
        return OutcomeCode.INFEASIBLE
    waits = any(op.kind == NOMINATE for op in placed.core)
    return OutcomeCode.NOMINATED if waits else OutcomeCode.PLACED


# --- wire ---------------------------------------------------------------------------------------


def _counts(value: Any, at: str) -> dict[int, int]:
    return mapping(value, at, count, count)
