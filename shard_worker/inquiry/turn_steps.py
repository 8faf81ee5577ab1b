"""The steps of a traced turn: the same questions as the turn asks, answered just before it.

The turn runs in the same call on the same view, so what is reported is what it decides by. Nothing
of this runs for a turn that is not traced, and no loop of the placement has a line for it. The
first pending task of each role stands for its role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from shard_worker.dialects.volcano.plugins.node.extender import Extender
from shard_worker.framework.extension_points import NODE_ORDER
from shard_worker.placement.candidates import feasible, levels
from shard_worker.placement.nominations import give_back_own
from shard_worker.placement.statement import ViewStatement
from shard_worker.turns.guards import NAMES_VICTIMS
from shard_worker.view.node_reasons import PARTLY
from shared.messages.messages import ACCEPTED, NOMINATE, Answer, Level, Verdict
from shared.messages.trace import TracedNode, TraceStage, TraceStep
from shared.units.amount_text import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shard_worker.framework.session import Session
    from shard_worker.placement.statement import TaskPlace
    from shard_worker.placement.task_class import CompiledClasses
    from shard_worker.session_model.job import SessionJob, TaskInfo
    from shard_worker.turns.flat_turn import PlacedTurn
    from shard_worker.turns.session_turn import SessionTurns
    from shard_worker.view.view import View
    from shared.messages.messages import TaskRun, Turn
    from shared.model.model import TaskClass

    LevelRows = list[tuple[Level, NDArray[np.intp]]]
    PartsOf = Callable[[NDArray[np.intp]], dict[str, NDArray[np.float64]]]

ROLES = 4
"""Roles that are looked at; with the number of turns of a trace the bound of its cost."""
TOP = 5
"""Nodes with their scores."""
SCORED = 4096
"""Nodes that are scored for it, lowest rows first."""
NAMED = 8
"""Nodes named with a placement."""

OVER_HTTP = "not told: the policy has an extender, which is asked over HTTP by the turn alone"


def steps_before(
    turn: Turn, *, session: Session, classes: CompiledClasses, sessions: SessionTurns, now: float
) -> tuple[TraceStep, ...]:
    """The steps up to the choice of a node. The view is as before when this returns."""
    view = classes.view
    own = ViewStatement(view)
    give_back_own(own, view, turn)
    try:
        if not turn.world:
            return tuple(_of_flat(turn, session, classes))
        if session.has_rule_of(Extender.name):
            return (TraceStep(TraceStage.PREDICATE, text=OVER_HTTP),)
        opened = sessions.for_inquiries({}).opened(turn, now=now)
        return () if opened is None else tuple(_of_session(turn, *opened))
    finally:
        own.rollback()


# --- a flat turn ----------------------------------------------------------------------------------


def _of_flat(turn: Turn, session: Session, classes: CompiledClasses) -> Iterator[TraceStep]:
    for run in turn.runs[:ROLES]:
        if run.cid in classes.view.classes:
            yield from _of_run(run, session, classes)


def _of_run(run: TaskRun, session: Session, classes: CompiledClasses) -> Iterator[TraceStep]:
    compiled, view = classes.get(run.cid), classes.view
    by_level = compiled.levels()
    reasons = {name: count for name, count in compiled.reasons().items() if name != PARTLY}
    yield _predicate_step(run.role, reasons, sum(len(rows) for _, rows in by_level))
    yield from _choice(run.role, by_level, lambda rows: _flat_parts(session, run.cid, view, rows))


def _flat_parts(
    session: Session, cid: int, view: View, rows: NDArray[np.intp]
) -> dict[str, NDArray[np.float64]]:
    cls: TaskClass = view.classes[cid]
    parts: dict[str, NDArray[np.float64]] = {}
    for rule in session.rules(NODE_ORDER):
        part = rule.fn.rows(cls, view, rows)
        parts[rule.plugin] = parts.get(rule.plugin, 0.0) + part
    return parts


# --- a turn with a session ------------------------------------------------------------------------


def _of_session(turn: Turn, session: Session, job: SessionJob) -> Iterator[TraceStep]:
    session.lends = turn.lends
    first: dict[tuple[str, int], TaskInfo] = {}
    for task in job.pending_tasks():
        first.setdefault((task.role.name, task.cid), task)
    for task in [*first.values()][:ROLES]:
        yield from _of_task(session, task, evicts=turn.action in NAMES_VICTIMS)


def _of_task(session: Session, task: TaskInfo, *, evicts: bool) -> Iterator[TraceStep]:
    role, queue = task.role.name, task.job.queue
    if queue is not None and not evicts:
        refused = _queue_refusal(session, task)
        yield TraceStep(TraceStage.QUEUE, role, refused or f"{queue.queue.name} takes the task")
    reason = session.pre_predicate(task)
    yield TraceStep(TraceStage.PRE_PREDICATE, role, reason or "passed")
    if reason is not None:
        return
    candidates = feasible(session, task, cure=evicts)
    yield _predicate_step(
        role, candidates.reasons, int(candidates.mask.sum()), "could with victims" if evicts else ""
    )
    by_level = levels(session, task, candidates.mask)
    yield from _choice(role, by_level, lambda rows: session.score_parts(task, rows))


def _queue_refusal(session: Session, task: TaskInfo) -> str:
    queue = task.job.queue
    assert queue is not None
    name = queue.queue.name
    if session.queue_overused(queue):
        return f"{name} is overused"
    return "" if session.task_allocatable(queue, task) else f"{name} does not admit the task"


# --- of both --------------------------------------------------------------------------------------


def _predicate_step(role: str, reasons: dict[str, int], fit: int, word: str = "") -> TraceStep:
    every = fit + sum(reasons.values())
    text = f"{fit} of {plural(every, 'node')} {word or 'can take a task'}"
    return TraceStep(TraceStage.PREDICATE, role, text, reasons=reasons)


def _choice(role: str, by_level: LevelRows, parts_of: PartsOf) -> Iterator[TraceStep]:
    """The gradient, and the scores within the first level that has a node."""
    yield TraceStep(TraceStage.GRADIENT, role, levels=[len(rows) for _, rows in by_level])
    level, rows = next(((level, rows) for level, rows in by_level if len(rows)), (None, None))
    if level is None or rows is None:
        return
    scored = rows[:SCORED]
    parts = parts_of(scored)
    total = sum(parts.values(), np.zeros(len(scored)))
    best = np.argsort(-total, kind="stable")[:TOP]
    tied = int((total == total[best[0]]).sum())
    text = f"{plural(tied, 'node')} of L{int(level)} with the highest score"
    if len(rows) > SCORED:
        text += f" (of the first {SCORED} of {len(rows)})"
    nodes = [
        TracedNode(
            int(scored[i]), int(level), {name: float(part[i]) for name, part in parts.items()}
        )
        for i in best
    ]
    yield TraceStep(TraceStage.NODE_ORDER, role, text, nodes=nodes)


def placement_step(placed: PlacedTurn, *, victims: int) -> TraceStep:
    """The statement that goes to the ledger, or why nothing does."""
    places = [*placed.core, *placed.tail]
    if not places and not victims:
        undone = f", {plural(placed.undone, 'placement')} undone" if placed.undone else ""
        return TraceStep(
            TraceStage.PLACEMENT,
            placed.failed_role,
            f"discarded: nothing to commit{undone}",
            reasons=dict(placed.reasons),
        )
    promised = sum(place.kind == NOMINATE for place in places)
    text = f"{plural(len(places), 'task')} placed"
    if promised:
        text += f", {promised} of them as nominations"
    if placed.tail:
        text += f"; {len(placed.core)} stand or fall together, {len(placed.tail)} each alone"
    if victims:
        text += f"; {plural(victims, 'victim')} to evict"
    if placed.displaced:
        text += f"; nominations of {plural(len(placed.displaced), 'job')} displaced"
    return TraceStep(
        TraceStage.PLACEMENT,
        placed.failed_role if placed.reasons else "",
        text,
        reasons=dict(placed.reasons),
        levels=_levels_of(places),
        rows=[*dict.fromkeys(place.row for place in places)][:NAMED],
    )


def _levels_of(places: list[TaskPlace]) -> list[int]:
    counts = [0] * len(Level)
    for place in places:
        counts[place.level - 1] += 1
    return counts


VERDICTS = {
    Verdict.COMMITTED: "committed",
    Verdict.RECHECKED: "committed after a recheck: a node had changed, and it still fits",
    Verdict.FIT: "refused: another shard took the idle room of a node first",
    Verdict.NOMINATION: "refused: the room of a node is promised to others",
    Verdict.QUEUE: "refused: a queue would exceed its capability",
    Verdict.RANK: "refused: a nomination in the way is of equal or higher priority",
    Verdict.JOB: "refused: the job is gone or was changed",
    Verdict.NODE: "refused: a node is gone or was changed",
    Verdict.TASK: "refused: a task is not pending any more",
    Verdict.GANG: "refused: a gang would be left with fewer members than its minimum",
    Verdict.DOMAIN: "refused: something the statement relied on has changed meanwhile",
    Verdict.CORE: "refused: the core of the statement was",
    Verdict.EPOCH: "refused: this worker is no longer the owner of its shard",
    Verdict.RUN: "refused: the leader has not accepted this run of the ledger's server",
    Verdict.OLD: "refused: the request is too old",
}
AT_ROW = frozenset({Verdict.FIT, Verdict.NOMINATION, Verdict.NODE})


def commit_step(answer: Answer, *, attempt: int, attempts: int) -> TraceStep:
    """The ledger's verdict. ``attempt`` counts from 1; beyond ``attempts`` no other follows."""
    text = VERDICTS[answer.verdict]
    if answer.verdict not in ACCEPTED:
        text += f" (attempt {attempt} of at most {attempts})"
    refused = sum(verdict not in ACCEPTED for verdict in answer.tail)
    if refused:
        text += f"; {refused} of {plural(len(answer.tail), 'single task')} refused"
    rows = [answer.at] if answer.verdict in AT_ROW and answer.at >= 0 else []
    return TraceStep(TraceStage.COMMIT, text=text, rows=rows)
