"""The content of a call to a shard worker, whatever carries it (Ray, or a queue in one process)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shard_worker.worker.figures import WorkerFigures
from shared.codec.checked import (
    binary,
    count,
    integer,
    number,
    pack_sealed,
    row,
    text,
    unpack_sealed,
    wrong,
)
from shared.ledger.redis.access import Access
from shared.messages.messages import Epoch, Outcome
from shared.messages.wire import (
    OUTCOMES,
    parse_epoch,
)

_CONFIG = b"worker"
_REPLY = b"placed"


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The start configuration of a worker; everything else it reads from the ledger."""

    shard: int
    epoch: Epoch
    run_id: str
    mode: str
    seed: int
    policy: dict[str, Any] | None
    """The policy file's content; None = the default policy."""
    access: Access
    nomination_seconds: float
    lease_seconds: float = 0.0
    """How long it may commit without renewing its lease; 0 = no expiry."""

    def encode(self) -> bytes:
        return pack_sealed(
            _CONFIG,
            [
                self.shard,
                str(self.epoch),
                self.run_id,
                self.mode,
                self.seed,
                self.policy,
                self.access.plain(),
                self.nomination_seconds,
                self.lease_seconds,
            ],
        )

    @classmethod
    def decode(cls, data: bytes) -> WorkerConfig:
        """Errors: Malformed."""
        at = "worker"
        values = row(unpack_sealed(_CONFIG, data), at, 9)
        shard, epoch, run_id, mode, seed, policy, access, nomination, lease = values
        if policy is not None and type(policy) is not dict:
            raise wrong(policy, f"{at}.policy", "map")
        return cls(
            shard=count(shard, f"{at}.shard"),
            epoch=parse_epoch(epoch, f"{at}.epoch"),
            run_id=text(run_id, f"{at}.run_id"),
            mode=text(mode, f"{at}.mode"),
            seed=integer(seed, f"{at}.seed"),
            policy=policy,
            access=Access.of(access),
            nomination_seconds=number(nomination, f"{at}.nomination_seconds"),
            lease_seconds=number(lease, f"{at}.lease_seconds"),
        )


@dataclass(frozen=True, slots=True)
class PlaceReply:
    """The outcomes of a call's turns, and the log position of the worker's view."""

    outcomes: list[Outcome]
    log_id: str
    busy_seconds: float = 0.0
    """Processor time the call took in the worker."""
    figures: WorkerFigures | None = None
    """The worker's counts since its last answer with counts; None for a call without turns, unless
    the audit of the view found a difference."""

    def encode(self) -> bytes:
        figures = None if self.figures is None else self.figures.plain()
        outcomes = OUTCOMES.encode(self.outcomes)
        return pack_sealed(_REPLY, [outcomes, self.log_id, self.busy_seconds, figures])

    @classmethod
    def decode(cls, data: bytes) -> PlaceReply:
        """Errors: Malformed."""
        outcomes, log_id, busy, figures = row(unpack_sealed(_REPLY, data), "placed", 4)
        return cls(
            OUTCOMES.decode(binary(outcomes, "placed.outcomes")),
            text(log_id, "placed.log_id"),
            number(busy, "placed.busy_seconds"),
            None if figures is None else WorkerFigures.of(figures),
        )
