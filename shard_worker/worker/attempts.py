"""A turn that a worker has placed, until the ledger has decided it."""

from __future__ import annotations

from dataclasses import dataclass, field

from shard_worker.inquiry.turn_steps import commit_step, placement_step
from shard_worker.placement.statement import ViewStatement
from shard_worker.turns.flat_turn import PlacedTurn
from shared.messages import messages
from shared.messages.messages import ACCEPTED, TRUE_CONFLICTS, Answer, Turn, Verdict
from shared.messages.trace import TraceStep


@dataclass(slots=True)
class Tally:
    """The ledger's verdicts on the statements of a turn."""

    committed: int = 0
    rechecked: int = 0
    conflicts_true: int = 0
    conflicts_read: int = 0
    steps: tuple[TraceStep, ...] = ()
    """Trace so far, in a traced turn."""

    def count(self, verdict: Verdict) -> None:
        """Count the verdict on a statement, or on a refused tail operation."""
        if verdict in ACCEPTED:
            self.committed += 1
            self.rechecked += verdict is Verdict.RECHECKED
        elif verdict in TRUE_CONFLICTS:
            self.conflicts_true += 1
        else:
            self.conflicts_read += 1


@dataclass(slots=True)
class Attempt:
    """A turn that was placed on the view and is not decided yet."""

    turn: Turn
    placed: PlacedTurn
    message: messages.Statement
    operations: int
    repairs: int = 0
    tally: Tally = field(default_factory=Tally)

    @property
    def turns(self) -> list[Turn]:
        return [self.turn]

    @property
    def messages(self) -> list[messages.Statement]:
        return [self.message]

    @property
    def statement(self) -> ViewStatement:
        return self.placed.statement

    def note_verdict(self, answer: Answer, *, attempts: int) -> None:
        """Add the statement and the ledger's answer to the steps of a traced turn."""
        victims = sum(len(run.tasks) for run in self.message.evictions)
        self.tally.steps += (
            placement_step(self.placed, victims=victims),
            commit_step(answer, attempt=self.repairs + 1, attempts=attempts),
        )


@dataclass(slots=True)
class LikeRun:
    """Like turns of one-task jobs, placed one after the other: each has a statement of its own,
    which is accepted or refused by itself."""

    turns: list[Turn]
    messages: list[messages.Statement]
    statement: ViewStatement
    """One operation on the view for each turn."""

    @property
    def operations(self) -> int:
        return len(self.turns)

    def cut(self, at: int) -> LikeRun:
        """Keep the first turns; return a run of the others."""
        rest = LikeRun(self.turns[at:], self.messages[at:], self.statement.cut(at))
        del self.turns[at:], self.messages[at:]
        return rest

    def apart(self, at: int) -> Attempt:
        """One of its turns, which was rolled back with the run."""
        none = self.statement.cut(self.statement.checkpoint)
        return Attempt(self.turns[at], PlacedTurn(none), self.messages[at], operations=1)
