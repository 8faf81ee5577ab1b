"""The content of a call to a shard worker, whatever carries it (Ray, or a queue in one process)."""

from __future__ import annotations

from typing import Any

from shard_worker.worker.figures import WorkerFigures
from shared.codec.packed import Codec, Count, Finite, Packed
from shared.ledger.redis.access import Access
from shared.messages.messages import Epoch, Outcome


class WorkerConfig(Packed, frozen=True):
    """The start configuration of a worker; everything else it reads from the ledger."""

    shard: Count
    epoch: Epoch
    run_id: str
    mode: str
    seed: int
    policy: dict[str, Any] | None
    """The policy file's content; None = the default policy."""
    access: Access
    nomination_seconds: Finite
    lease_seconds: Finite = 0.0
    """How long it may commit without renewing its lease; 0 = no expiry."""
    keeps_view: bool = False
    """Whether a worker that served the shard until now, and has answered all calls, may keep its
    view: only the policy and the epoch are others."""


class PlaceReply(Packed, frozen=True):
    """The outcomes of a call's turns, and the log position of the worker's view."""

    outcomes: list[Outcome]
    log_id: str
    busy_seconds: Finite = 0.0
    """Processor time the call took in the worker."""
    figures: WorkerFigures | None = None
    """The worker's counts since its last answer with counts; None for a call without turns, unless
    the audit of the view found a difference."""


CONFIG = Codec(b"worker", WorkerConfig)
REPLY = Codec(b"placed", PlaceReply)
