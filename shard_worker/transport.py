"""What a call to a shard worker carries, whatever carries it (Ray, or a queue in one process)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shard_worker.figures import WorkerFigures
from shared.messages import (
    Epoch,
    Outcome,
    Turn,
    decode,
    decode_outcomes,
    decode_turns,
    encode,
    encode_outcomes,
    encode_turns,
)


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker needs to begin: all else it reads from the ledger."""

    shard: int
    epoch: Epoch
    run_id: str
    mode: str
    seed: int
    policy: dict[str, Any] | None
    """The policy file's content; None = the default policy."""
    redis_url: str
    redis_password: str | None
    nomination_seconds: float

    def encode(self) -> bytes:
        return encode(
            [
                self.shard,
                str(self.epoch),
                self.run_id,
                self.mode,
                self.seed,
                self.policy,
                self.redis_url,
                self.redis_password,
                self.nomination_seconds,
            ]
        )

    @classmethod
    def decode(cls, data: bytes) -> WorkerConfig:
        shard, epoch, *rest = decode(data)
        return cls(shard, Epoch.parse(epoch), *rest)


@dataclass(frozen=True, slots=True)
class PlaceReply:
    """The outcomes of a call's turns, and how far the worker's view has followed the log."""

    outcomes: list[Outcome]
    log_id: str
    busy_seconds: float = 0.0
    """Processor time the call took in the worker."""
    figures: WorkerFigures | None = None
    """What the worker counted since its last answer; None where it placed nothing."""

    def encode(self) -> bytes:
        figures = None if self.figures is None else self.figures.plain()
        return encode([encode_outcomes(self.outcomes), self.log_id, self.busy_seconds, figures])

    @classmethod
    def decode(cls, data: bytes) -> PlaceReply:
        outcomes, log_id, busy, figures = decode(data)
        counted = None if figures is None else WorkerFigures.of(figures)
        return cls(decode_outcomes(outcomes), log_id, busy, counted)


def encode_call(turns: list[Turn]) -> bytes:
    return encode_turns(turns)


def decode_call(data: bytes) -> list[Turn]:
    return decode_turns(data)
