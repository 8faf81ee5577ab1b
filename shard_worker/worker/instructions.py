"""Instructions of a worker to its runner."""

from __future__ import annotations

from dataclasses import dataclass

from shared.messages.messages import CommitBatch, Outcome


@dataclass(frozen=True, slots=True)
class CommitBatchRequest:
    """Instruction: send this batch to the ledger; where the reply is lost, the same one again."""

    batch: CommitBatch


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Instruction: report these outcomes to Order."""

    outcomes: list[Outcome]


Instruction = CommitBatchRequest | Outcomes
