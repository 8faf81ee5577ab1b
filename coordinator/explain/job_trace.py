"""The trace of a job: each step of its next turns, as it happens.

Order's part is looked at when the core has opened what may go out, the worker's comes with the
outcome of each traced turn. A trace has an end: so many turns, so much time, and so many steps that
its reader has not taken.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.reasons import why
from coordinator.errors import Problem
from coordinator.explain.queues.queue_position import place_in_queue
from coordinator.explain.subject import find_subject
from coordinator.intake.admission.registry import Registry
from coordinator.jobs.pending_order import PendingQueue
from coordinator.jobs.state import JobState, SchedulingStatus, amounts
from shard_worker.framework.extension_points import OVERUSED
from shared.messages.messages import Outcome, OutcomeCode, Turn
from shared.messages.trace import TracedNode, TraceStage, TraceStep
from shared.units.amount_text import name_of, plural
from shared.units.times import rfc3339

Entry = dict[str, Any]

MOST_TRACES = 4
"""Traces at a time: each makes the worker of a traced turn look at its nodes once more."""
RETRY_SECONDS = 5.0
MOST_STEPS = 1000
"""Steps that wait for the reader; beyond it the oldest are dropped, and counted."""
LOOK_SECONDS = 0.05
"""Shortest interval between two looks at Order's part."""
POSITION_SECONDS = 1.0
"""The same for the position in the queue, which walks over all jobs that wait there."""
MOST_WAITING = 20_000
"""Up to so many jobs in a queue a position is told: 10 ms."""

OUTCOMES = {
    OutcomeCode.PLACED: "placed: the tasks are committed, and will be bound",
    OutcomeCode.NOMINATED: "nominated: the places are promised until their tasks have left",
    OutcomeCode.INFEASIBLE: "infeasible: nothing was placed",
    OutcomeCode.CONFLICT: "conflict: handed back to be placed again",
    OutcomeCode.STALE: "stale: the worker knew another version of the job, which is read again",
    OutcomeCode.FENCED: "fenced: the worker has lost its shard, and the job is read again",
}


class JobTrace:
    """A trace under way. Implements :class:`coordinator.core.traces.TurnFollower`."""

    def __init__(
        self,
        core: Coordinator,
        jid: int,
        *,
        turns: int,
        names: Callable[[], Sequence[str]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``turns``: how many are followed. ``names``: the resource of each slot."""
        self._core = core
        self._jid = jid
        self._left = turns
        self._names = names
        self._clock = clock
        self._turn = 0
        """Number of the newest turn; 0 before the first."""
        self._open = False
        self._steps: deque[Entry] = deque(maxlen=MOST_STEPS)
        self._dropped = 0
        self._reported: dict[TraceStage, str] = {}
        """The text that was reported last of each stage of Order's."""
        self._looked = self._positioned = 0.0
        self.ended = ""
        """Why there is nothing more to come; "" while there is."""

    def take(self) -> list[Entry]:
        """The steps since they were last taken."""
        steps, dropped = [*self._steps], self._dropped
        self._steps.clear()
        self._dropped = 0
        if dropped:
            text = f"{plural(dropped, 'step')} dropped: the reader was too slow"
            steps.insert(0, {"stage": "dropped", "message": text})
        return steps

    # --- what the core reports ----------------------------------------------------------------

    @property
    def wants_turns(self) -> bool:
        return self._left > 0

    def opened(self, turn: Turn, shard: int) -> None:
        if self._left <= 0:
            return
        self._left -= 1
        self._turn += 1
        self._open = True
        self._reported.clear()
        tasks = sum(len(run.tasks) for run in turn.runs)
        text = f"{turn.action} of {plural(tasks, 'task')} goes to shard-{shard}"
        if turn.attempt:
            text += f", after {plural(turn.attempt, 'attempt')} in vain"
        self._add(TraceStep(TraceStage.TURN, text=text), shard)

    def returned(self, shard: int, outcome: Outcome) -> None:
        if not self._open:
            return
        self._open = False
        for step in outcome.steps:
            self._add(step, shard)
        text = OUTCOMES[outcome.code]
        if outcome.evictions:
            victims = sum(len(run.tasks) for run in outcome.evictions)
            text += f"; {plural(victims, 'task')} evicted: {outcome.reason}"
        reasons = dict(outcome.reasons)
        self._add(TraceStep(TraceStage.OUTCOME, text=text, reasons=reasons), shard)
        if self._left <= 0:
            self.ended = f"{plural(self._turn, 'turn')} told"

    def stepped(self, now: float) -> None:
        if self.ended or now < self._looked + LOOK_SECONDS:
            return
        self._looked = now
        state = self._core.order.jobs.get(self._jid)
        if state is None:
            self.ended = "the job is gone"
        elif state.status in (SchedulingStatus.SETTLED, SchedulingStatus.DONE):
            self.ended = "nothing of it is left to place"
        elif state.status is SchedulingStatus.OPEN:
            return
        else:
            if self._open:
                self._open = False
                self._add(TraceStep(TraceStage.OUTCOME, text="lost with its worker, or overtaken"))
            self._look(state, now)

    # --- Order's part -------------------------------------------------------------------------

    def _look(self, state: JobState, now: float) -> None:
        reason = why(self._core, state, names=self._names())
        text = state.status.value
        if reason is not None:
            text += f": {reason.reason}: {reason.message}"
        self._report(TraceStage.JOB, text)
        if state.status is not SchedulingStatus.READY:
            return
        queue = self._core.order.lines.queues[state.info.qid]
        self._report(TraceStage.QUEUE, self._queue_text(state, queue))
        if now >= self._positioned + POSITION_SECONDS and queue.waiting <= MOST_WAITING:
            self._positioned = now
            place = place_in_queue(self._core, state)
            text = f"{place.position} of {place.of} in queue {queue.info.queue.name}"
            if place.ahead:
                text += f", behind {', '.join(place.ahead)}"
            if place.position:
                self._report(TraceStage.JOB_ORDER, text)

    def _queue_text(self, state: JobState, queue: PendingQueue) -> str:
        """Whether the queue is skipped, by which plugins, or takes the job's tasks."""
        order, name = self._core.order, queue.info.queue.name
        session, cluster = order.session, order.accounts.cluster
        if not queue.info.queue.open:
            return f"{name} is closed, and skipped"
        overused = [rule.plugin for rule in session.rules(OVERUSED) if rule.fn(queue.info, cluster)]
        if overused:
            return f"{name} is overused ({', '.join(overused)}), and skipped"
        asks = amounts(order.need_of(state), order.accounts.classes)
        requests = tuple(sorted(asks.items()))
        lacking = session.lacking(queue.info, requests, cluster)
        if lacking is not None:
            slots = ", ".join(name_of(slot, self._names()) for slot in lacking.slots)
            limit = lacking.queue.queue.name
            return f"{name} does not admit the tasks: {limit} lacks {lacking.why or slots}"
        if state.line is not None and order.lines.held_back(state.line, now=order.now):
            return f"{name} may have a turn; jobs like this one wait until capacity is freed"
        return f"{name} may have a turn, and admits the tasks"

    def _report(self, stage: TraceStage, text: str) -> None:
        if self._reported.get(stage) != text:
            self._reported[stage] = text
            self._add(TraceStep(stage, text=text))

    # --- as people and programs read it ---------------------------------------------------------

    def _add(self, step: TraceStep, shard: int = -1) -> None:
        self._dropped += len(self._steps) == MOST_STEPS
        entry: Entry = {
            "time": rfc3339(self._clock(), "milliseconds"),
            "turn": self._turn,
            "stage": step.stage.value,
        }
        if shard >= 0:
            entry["shard"] = f"shard-{shard}"
        if step.role:
            entry["role"] = step.role
        if step.text or step.rows:
            entry["message"] = step.text
        if step.reasons:
            entry["reasons"] = dict(step.reasons)
        if step.levels:
            entry["levels"] = {f"L{i}": count for i, count in enumerate(step.levels, start=1)}
        if step.nodes:
            entry["candidates"] = [self._candidate(node) for node in step.nodes]
        if step.rows:
            entry["nodes"] = [self._node(row) for row in step.rows]
        self._steps.append(entry)

    def _candidate(self, node: TracedNode) -> Entry:
        scores = {plugin: round(score, 3) for plugin, score in node.scores.items()}
        return {
            "node": self._node(node.row),
            "level": f"L{node.level}",
            "score": round(sum(node.scores.values()), 3),
            "scores": scores,
        }

    def _node(self, row: int) -> str:
        return self._core.names.get(row, f"row {row}")


class Tracer:
    """The traces under way; a bounded number."""

    def __init__(
        self,
        core: Coordinator,
        registry: Callable[[], Registry],
        *,
        most: int = MOST_TRACES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._core = core
        self._registry = registry
        self._most = most
        self._clock = clock
        self._running = 0

    @contextmanager
    def trace(self, kind: str, namespace: str, name: str, *, turns: int) -> Iterator[JobTrace]:
        """Trace the next turns of a job inside the block. Raises Problem (404, 429)."""
        jid = find_subject(self._core, self._registry(), kind, namespace=namespace, name=name).jid
        if self._running >= self._most:
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{self._most} traces are running; end one, or ask again in a moment",
                retry_after=RETRY_SECONDS,
            )
        trace = JobTrace(
            self._core,
            jid,
            turns=turns,
            names=lambda: self._registry().slots.names,
            clock=self._clock,
        )
        self._running += 1
        self._core.traces.begin(jid, trace)
        try:
            trace.stepped(self._clock())
            yield trace
        finally:
            self._core.traces.end(jid, trace)
            self._running -= 1
