"""Allocate, the half that places: one turn of one job becomes a statement or reasons why not.

The rules are Volcano's for a job without subgroups: tasks in order until JobReady; a failed role is
not tried again; after a failure go on only while the gang can still be completed. Ready: the
statement is committed, and elastic tasks may follow it one by one. Only pipelined: every placement
becomes a nomination. Neither: everything is undone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, groupby, repeat, starmap

from shard_worker.framework.session import Session
from shard_worker.placement.gradient import is_idle, kept_level, nominated, pick, try_row
from shard_worker.placement.nominations import give_back_own, rivals, settle, withdraw_all
from shard_worker.placement.statement import TaskPlace, ViewStatement
from shard_worker.placement.task_class import Compiled, CompiledClasses
from shard_worker.session_model.workload import Progress
from shard_worker.view.view import View
from shared.messages.messages import ALLOCATE, NOMINATE, TaskRun, Turn

_Next = tuple[TaskRun, Compiled, int]
"""The next task of a turn, with its run and compiled class."""

TOO_FEW = "the gang has too few tasks left to reach its minimum"


@dataclass(slots=True)
class PlacedTurn:
    """The result of a turn on the view. Without placements nothing was changed on it."""

    statement: ViewStatement
    core: list[TaskPlace] = field(default_factory=list)
    """The gang core: accepted or refused as a whole."""
    tail: list[TaskPlace] = field(default_factory=list)
    """Elastic tasks, each accepted or refused on its own."""
    displaced: list[int] = field(default_factory=list)
    """Jobs that lose their nominations to this statement."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why the first failed role found no node: reason -> nodes."""
    failed_role: str = ""
    undone: int = 0
    """Placements of a gang that were undone, because the rest of it found no room."""
    fitting: int = 0
    """Tasks of such a gang that would find a place if the rest of it had one."""
    ungated: list[int] = field(default_factory=list)
    """Tasks of the job whose own scheduling gate may go: their queue has room for them."""
    promise_seconds: float = 0.0
    """How long its promises hold at least."""
    unanswered: dict[str, int] = field(default_factory=dict)
    """Decisions made without the answer of another server: sentence -> number of questions."""

    @property
    def empty(self) -> bool:
        return not (self.core or self.tail)


def place(turn: Turn, *, session: Session, view: View, classes: CompiledClasses) -> PlacedTurn:
    """Place a turn on the view, as the open statement in the result.

    Nominations of lower rank are respected at first; only a turn that is not ready with them is
    tried again without them, and then displaces those that are in its way. Raises KeyError for a
    task class that the view does not know.
    """
    return _placed(_Attempt(turn, session=session, view=view, classes=classes))


def _placed(attempt: _Attempt) -> PlacedTurn:
    view = attempt.view
    # Politely first: to take a lower job's nominations away where other nodes would have done makes
    # that job wait for nothing.
    lower = [] if attempt.run() else rivals(view, attempt.turn)
    if lower:
        polite = attempt.pipelined
        attempt.restart()
        withdrawn = withdraw_all(attempt.statement, view, lower)
        # Displacing is worth it if the job starts by it, or is promised places that it would not
        # get otherwise. Only to swap one promise for another it is not: both jobs would go on
        # waiting.
        if attempt.run() or (attempt.pipelined and not polite):
            attempt.found.displaced = settle(attempt.statement, view, withdrawn)
        else:
            attempt.restart()
            attempt.run()
    return attempt.finish()


class FlatTurns:
    """:func:`place` for turns that come one after the other, many of them alike.

    Of one-task jobs that need the same, only the node has to be chosen again: that one task makes
    the job ready was found out for the first of them.
    """

    def __init__(self, *, session: Session, view: View, classes: CompiledClasses) -> None:
        self._session = session
        self._view = view
        self._classes = classes
        self._example: _Attempt | None = None
        """The last turn of a one-task job that became ready on an idle node."""

    def place(self, turn: Turn) -> PlacedTurn:
        """Place a turn as :func:`place` does."""
        statement = ViewStatement(self._view)
        if (again := self.repeat(turn, statement)) is not None:
            return PlacedTurn(statement, core=[again])
        self._example = None
        attempt = _Attempt(turn, session=self._session, view=self._view, classes=self._classes)
        placed = _placed(attempt)
        if turn.total == 1 and not turn.nominated and attempt.ready and not placed.displaced:
            self._example = attempt
        return placed

    def repeat(self, turn: Turn, statement: ViewStatement) -> TaskPlace | None:
        """Place the one task of a turn like the last one on an idle node, within this statement;
        None where it is not like that one, or there is no such node."""
        example = self._example
        if example is None or not example.is_like(turn):
            return None
        return example.repeat(turn.runs[0], statement)


class _Attempt:
    """The task loop over one turn, and what it counts."""

    def __init__(
        self, turn: Turn, *, session: Session, view: View, classes: CompiledClasses
    ) -> None:
        self.turn = turn
        self.session = session
        self.view = view
        self.classes = classes
        self.statement = ViewStatement(view)
        self.restart()

    def restart(self) -> None:
        """Undo everything and start again."""
        self.compiled: list[tuple[TaskRun, Compiled]] = []
        self.statement.rollback()
        self.progress = _progress(self.turn)
        self.found = PlacedTurn(self.statement)
        self.failed_roles: dict[str, int] = {}
        self.failed_kinds: set[str | int] = set()
        """Roles, or classes of members without one, of which a task found no node."""
        self.ready = False
        self.pipelined = False

    def run(self) -> bool:
        """Place tasks in order; True where the job is ready with them."""
        give_back_own(self.statement, self.view, self.turn)
        self.begin = self.statement.checkpoint
        self._compile()
        self.ready = not self._hopeless() and self._core()
        self.found.core = self._placed(self.begin)
        if self.found.core:
            self.pipelined = self.ready or self.session.job_pipelined(self.progress)
        return self.ready

    def finish(self) -> PlacedTurn:
        """Add the tail to a ready job, turn a pipelined one into nominations, undo the rest."""
        placed = self.found
        if self.ready:
            self._tail()
        elif self.pipelined:
            self._nominate_all()
        else:
            if placed.core and not placed.reasons:
                placed.reasons = {TOO_FEW: int(self.view.exists().sum())}
            self.statement.rollback()
            placed.undone = len(placed.core)
            placed.fitting = placed.fitting or placed.undone
            placed.core, placed.displaced = [], []
        return placed

    def _compile(self) -> None:
        """Update the compiled classes of the turn. A class with a new slot replaces the view's
        columns, so that classes compiled before it are compiled again."""
        # The first class may be out of date when the last one is compiled: columns for a new slot
        # replace all arrays.
        revision = None
        while revision != self.view.revision:
            revision = self.view.revision
            self.compiled = [(run, self.classes.get(run.cid)) for run in self.turn.runs]

    # --- the same again -----------------------------------------------------------------------

    def is_like(self, turn: Turn) -> bool:
        """Whether a turn differs from this one in nothing that placing its task reads."""
        this = self.turn
        return (
            turn.runs == this.runs
            and turn.groups == this.groups
            and turn.total == 1
            and not turn.nominated
            and turn.jid not in self.view.nominations
            and turn.runs[0].cid in self.view.classes
        )

    def repeat(self, run: TaskRun, statement: ViewStatement) -> TaskPlace | None:
        """Place the one task of a like turn on an idle node; None where there is none."""
        compiled = self.classes.get(run.cid)
        choice = pick(compiled)
        if choice is None or not is_idle(choice[1]):
            return None
        row, level = choice
        chosen = compiled.devices_at(row)
        if chosen is None or not chosen[1]:
            return None
        return statement.place(
            cid=run.cid,
            group=run.group,
            task=run.tasks[0],
            row=row,
            level=level,
            kind=ALLOCATE,
            devices=chosen[0],
        )

    # --- counting before trying ---------------------------------------------------------------

    def _hopeless(self) -> bool:
        """Whether the job would not even be pipelined if each class filled all the room it has."""
        # A gang that cannot fit would otherwise place most of its members one by one and undo them
        # all, every time it is tried on a full cluster. `room` is an upper bound, so that nothing
        # that fits is refused: it counts each class alone, as if the others took nothing.
        short = [
            (run, compiled_class)
            for run, compiled_class in self.compiled
            if compiled_class.room < len(run.tasks)
        ]
        if not short:
            return False
        now = self.progress
        waiting = list(now.waiting)
        for run, compiled in self.compiled:
            _count(waiting, now.parent, run.group, min(compiled.room, len(run.tasks)))
        # Pipelined rather than ready: room in the future counts, and so does what would be
        # nominated.
        most = Progress(now.parent, now.minimum, now.held, waiting, now.best_effort)
        if self.session.job_pipelined(most):
            return False
        self._fail(*short[0])
        self.found.fitting = sum(min(c.room, len(run.tasks)) for run, c in self.compiled)
        return True

    # --- the task loop ------------------------------------------------------------------------

    def _core(self) -> bool:
        """Place tasks in order until the job is ready (True) or the gang cannot be completed any
        more."""
        for run, compiled, task in self._in_order():
            if self.failed_roles and self._failed(run):
                continue
            if not self._place(run, compiled, task):
                self._fail(run, compiled)
                if not self._go_on():
                    break
            elif self.session.job_ready(self.progress):
                return True
        return False

    def _in_order(self) -> Iterable[_Next]:
        """The tasks by rank and, within a rank, member by member, as Volcano places roles of equal
        priority."""
        if len(self.compiled) == 1:
            return _tasks_of(*self.compiled[0])
        ranks = groupby(self.compiled, key=lambda each: each[0].rank)
        return chain.from_iterable(
            merge(*starmap(_tasks_of, runs), key=_member) for _, runs in ranks
        )

    def _failed(self, run: TaskRun) -> bool:
        """Whether a task like those of the run found no node."""
        return (run.role or run.cid) in self.failed_kinds

    def _place(self, run: TaskRun, compiled: Compiled, task: int, *, now: bool = False) -> bool:
        """Place one task on the best node, its nominated node first; ``now``: on idle capacity
        only."""
        compiled.refresh()
        at: int | None = self.turn.nominated.get(task)
        # A nominated node first, as in Volcano: the room there was kept for this very task. It is
        # checked like any other, because the promise may have ended meanwhile.
        level = None if at is None else try_row(compiled, at)
        if at is None or level is None:
            choice = pick(compiled)
            if choice is None:
                return False
            at, level = choice
        chosen = compiled.devices_at(at)
        if chosen is None:
            return False
        devices, at_once = chosen
        if not at_once and at == self.turn.nominated.get(task):
            cached_rows = compiled.kept_at(at)
            if cached_rows is not None:
                devices, at_once, level = cached_rows, True, kept_level(level)
        if not at_once:
            level = nominated(level)
        idle = is_idle(level)
        if now and not idle:
            return False
        kind = ALLOCATE if idle else NOMINATE
        self.statement.place(
            cid=run.cid,
            group=run.group,
            task=task,
            row=at,
            level=level,
            kind=kind,
            devices=devices,
        )
        progress = self.progress
        _count(progress.held if idle else progress.waiting, progress.parent, run.group, 1)
        return True

    def _fail(self, run: TaskRun, compiled: Compiled) -> None:
        """No node for a run: its other tasks are alike and would fail too."""
        if not self.failed_roles:
            self.found.failed_role = run.role
            self.found.reasons = compiled.reasons()
        self.failed_roles[run.role] = run.group
        self.failed_kinds.add(run.role or run.cid)

    def _go_on(self) -> bool:
        """NeedContinueAllocating for a job without subgroups: can the other roles still complete
        the gang?"""
        turn, members = self.turn, self.progress.held
        minimum = turn.groups[0].minimum
        # Every member is needed, and one has failed.
        if minimum >= turn.total or not self.session.flat.goes_on:
            return False
        if self._roles_bypassed():
            pending = sum(
                self._unplaced(run) for run in turn.runs if run.role not in self.failed_roles
            )
            return members[0] + pending >= minimum
        return all(
            group == 0 or members[group] >= turn.groups[group].minimum
            for group in self.failed_roles.values()
        )

    def _roles_bypassed(self) -> bool:
        """Whether the job's minimum is below the sum of its roles' minima (which the turn then has
        as 0)."""
        minimum, *roles = (group.minimum for group in self.turn.groups)
        return bool(roles) and (minimum < sum(roles) or 0 in roles)

    def _unplaced(self, run: TaskRun) -> int:
        """Tasks of a run that are still pending."""
        tasks = set(run.tasks)
        placed = sum(place.task in tasks for place in self.statement.placed(self.begin))
        return len(run.tasks) - placed

    # --- after the loop -----------------------------------------------------------------------

    def _tail(self) -> None:
        """Place elastic tasks while idle nodes take them.

        The first task of a job that was ready before is the core of its statement, and counts
        against the turn's limit of elastic tasks; the others are its tail.
        """
        remaining = self.turn.tail
        # Asked of the counts before the turn: a job that was ready then has no gang to complete,
        # and its statement's core is one elastic task.
        if remaining and self.session.job_ready(_progress(self.turn)):
            remaining -= 1
        if remaining <= 0:
            return
        start = self.statement.checkpoint
        in_core = {place.task for place in self.found.core}
        for run, compiled, task in self._in_order():
            if remaining <= 0:
                break
            # The core ended where the job became ready, in the middle of a run.
            if task in in_core or self._failed(run):
                continue
            if self._place(run, compiled, task, now=True):
                remaining -= 1
            elif not self.session.flat.goes_on:
                break
            else:
                self.failed_kinds.add(run.role or run.cid)
        self.found.tail = self._placed(start)

    def _placed(self, since: int) -> list[TaskPlace]:
        """The placements after a checkpoint; those of one class are neighbours, which share a run
        of the message."""
        places = self.statement.placed(since)
        if len({run.cid for run, _ in self.compiled}) == 1:
            return places
        by_class: dict[int, list[TaskPlace]] = {}
        for place in places:
            by_class.setdefault(place.cid, []).append(place)
        return [*chain.from_iterable(by_class.values())]

    def _nominate_all(self) -> None:
        """The gang is pipelined: its placements on idle capacity become nominations."""
        places = self.found.core
        # A member that binds while others wait would hold its node without the gang running: all
        # wait, or none.
        if any(place.kind == ALLOCATE for place in places):
            self.statement.rollback_places(self.begin)
            for place in places:
                self.statement.place(
                    cid=place.cid,
                    group=place.group,
                    task=place.task,
                    row=place.row,
                    level=nominated(place.level),
                    kind=NOMINATE,
                    devices=place.devices,
                )
            self.found.core = self._placed(self.begin)


def _tasks_of(run: TaskRun, compiled: Compiled) -> Iterable[_Next]:
    return zip(repeat(run), repeat(compiled), run.tasks)


def _member(task: _Next) -> int:
    """The index of a task within its role."""
    return task[2] - task[0].first


def _progress(turn: Turn) -> Progress:
    """The counts of the job before the turn."""
    groups = turn.groups
    return Progress(
        parent=[g.parent for g in groups],
        minimum=[g.minimum for g in groups],
        held=[g.held for g in groups],
        waiting=[0] * len(groups),
        best_effort=[0] * len(groups),
    )


def _count(counts: list[int], parent: list[int], group: int, more: int) -> None:
    """Add members to a group and all its ancestors."""
    while group >= 0:
        counts[group] += more
        group = parent[group]
