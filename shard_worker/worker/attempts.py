"""A turn that a worker has placed, until the ledger has decided it."""

from __future__ import annotations

from dataclasses import dataclass, field

from shard_worker.inquiry.turn_steps import commit_step, placement_step
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

    def note_verdict(self, answer: Answer, *, attempts: int) -> None:
        """Add the statement and the ledger's answer to the steps of a traced turn."""
        victims = sum(len(run.tasks) for run in self.message.evictions)
        self.tally.steps += (
            placement_step(self.placed, victims=victims),
            commit_step(answer, attempt=self.repairs + 1, attempts=attempts),
        )
