"""A worker that sometimes evicts tasks in its way, more boldly than any policy would.

If a turn finds no room, it may take that of tasks running on one node, by an ordinary statement:
nominations for its gang and evictions in their favour. Victims are drawn at random, so that every
kind of victim occurs in some run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from shard_worker.placement.statement import ViewStatement
from shard_worker.turns.session_turn import SessionPlaced
from shard_worker.view.mode import Mode
from shard_worker.worker.attempts import Attempt, Tally
from shard_worker.worker.instructions import Instruction
from shard_worker.worker.worker import Worker
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.messages.messages import (
    GUARD_GANG,
    GUARD_GUARANTEE,
    NOMINATE,
    CommitReply,
    DomainOp,
    EvictRun,
    Level,
    Outcome,
    OutcomeCode,
    TaskState,
    Turn,
)

SIMULATED = "simulated"
"""Name of the action under which these workers evict."""

CHANCE = 0.5
"""Probability that a turn without room evicts."""

FRESH = 0.6
"""Fraction of the evictions based on the ledger's current state; others use the state at the
eviction before."""

BESIDE = 0.3
"""Fraction of the evictions with a victim of a second job, which has guards of its own."""

GUARDED = (GUARD_GANG, GUARD_GANG | GUARD_GUARANTEE)
ANYHOW = (0, GUARD_GUARANTEE, *GUARDED)
"""Guards for that second job: a policy may break up gangs."""

MOST = 8
"""Maximum statements with evictions per worker, since everything has to finish in the end."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Contents of the ledger."""

    jobs: Mapping[int, JobRecord]
    tasks: Mapping[int, Mapping[int, TaskRecord]]
    budgets: list[str]
    """Keys of the disruption budgets."""


_ABLE = (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING)
"""States of possible victims. The first is refused by the ledger, as its bind is in progress."""


class CheckedWorker(Worker):
    """Checks its own records after every event that makes instructions."""

    def on_turns(
        self, turns: list[Turn], *, now: float, elapsed: Callable[[], float] = lambda: 0.0
    ) -> list[Instruction]:
        instructions = super().on_turns(turns, now=now, elapsed=elapsed)
        self.validate()
        return instructions

    def on_reply(self, reply: CommitReply) -> list[Instruction]:
        instructions = super().on_reply(reply)
        self.validate()
        return instructions


class EvictingWorker(CheckedWorker):
    """``truth`` reads the possible victims; ``draw`` chooses."""

    def __init__(self, *, truth: Callable[[], Truth], draw: Random, **options: Any) -> None:
        super().__init__(**options)
        self.truth = truth
        self.draw = draw
        self.left = MOST
        self._seen: Truth | None = None
        """The state used at the last eviction."""

    def _try(self, turn: Turn, tally: Tally, repairs: int = 0) -> Attempt | Outcome:
        tried = super()._try(turn, tally, repairs)
        if not isinstance(tried, Outcome) or tried.code is not OutcomeCode.INFEASIBLE:
            return tried
        if self.left <= 0 or repairs or not turn.runs or self.draw.random() >= CHANCE:
            return tried  # a turn without runs is a shuffle: it places nobody
        placed = self._evicting(turn)
        if placed is None:
            return tried
        self.left -= 1
        return self._attempt_of(turn, placed, tally, self.limits.repairs)

    def _evicting(self, turn: Turn) -> SessionPlaced | None:
        """Choose victims of one job, as many as the turn's first run has tasks, or all; sometimes
        one of another job too."""
        truth = self.truth()
        if self._seen is None or self.draw.random() < FRESH:
            self._seen = truth
        jobs, tasks = self._seen.jobs, self._seen.tasks
        able = {
            jid: [t for t, task in sorted(states.items()) if self._may(task)]
            for jid, states in sorted(tasks.items())
            if jid != turn.jid and not jobs[jid].gone
        }
        able = {jid: found for jid, found in able.items() if found}
        if not able:
            return None
        jid = self.draw.choice(list(able))
        whole = self.draw.random() < 0.5
        number_wanted = len(able[jid]) if whole else len(turn.runs[0].tasks)
        evictions = self._runs(jid, able[jid][:number_wanted], self.draw.choice(GUARDED))
        others = [other for other in able if other != jid]
        if others and self.draw.random() < BESIDE:
            other = self.draw.choice(others)
            evictions += self._runs(other, able[other][:1], self.draw.choice(ANYHOW))
        placed = self._placed(turn, evictions)
        # As a session does it (`SessionTurn._moves`), or a drain that counted the victims as
        # healthy would be accepted. Every budget: which ones protect the victims, the coordinator
        # knows.
        placed.domains = [DomainOp(key, 1) for key in truth.budgets]
        return placed

    def _runs(self, jid: int, tasks: list[int], guards: int) -> list[EvictRun]:
        """Evict these tasks of a job, one run each."""
        assert self._seen is not None
        records = self._seen.tasks
        version = self._seen.jobs[jid].spec_version
        return [
            EvictRun(jid, version, task.cid, task.group, [tix], [task.row], guards)
            for tix in tasks
            for task in [records[jid][tix]]
        ]

    def _may(self, task: TaskRecord) -> bool:
        """Whether the task may be evicted: it is on a node that this worker may use."""
        view, row = self.view, task.row
        if task.state not in _ABLE or row >= view.size or view.spec[row] < 0:
            return False
        if task.cid not in view.classes:  # the view may be older than the ledger's state
            return False
        return self.classes.mode is not Mode.HARD or bool(view.own[row])

    def _placed(self, turn: Turn, evictions: list[EvictRun]) -> SessionPlaced:
        statement, run = ViewStatement(self.view), turn.runs[0]
        self.classes.get(run.cid)  # the view has a column for all that the class asks for
        placed = SessionPlaced(statement)
        rows = [victim.rows[0] for victim in evictions]
        for victim, row in zip(evictions, rows, strict=True):
            statement.let_go(self.view.classes[victim.cid], row)
        placed.evictions = evictions
        before = statement.checkpoint
        for tix, row in zip(run.tasks, rows, strict=False):
            statement.place(
                cid=run.cid,
                group=run.group,
                task=tix,
                row=row,
                level=Level.FUTURE_OWN if self.view.own[row] else Level.FUTURE_OTHER,
                kind=NOMINATE,
            )
        placed.core = statement.placed(before)
        placed.reason = SIMULATED
        return placed
