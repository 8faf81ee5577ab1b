"""A snapshot of the whole ledger."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.ledger.entries.intake_batch import PutPartition
from shared.ledger.entries.stored import JobRecord, QueueRecord, TaskRecord
from shared.messages.messages import Rows, Run


@dataclass(frozen=True, slots=True)
class Nomination:
    """The places reserved for one job's pipelined tasks: one run per class, versions and specs
    empty."""

    jid: int
    priority: int
    since: float
    expiry: float
    runs: list[Run]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything, read while writers go on.

    ``log_id`` was read first: applying the log after it, with the version rule of ``Rows``, makes
    the snapshot consistent.
    """

    log_id: str
    nodes: Rows
    node_specs: dict[int, bytes]
    queues: dict[int, QueueRecord] = field(default_factory=dict)
    queue_specs: dict[int, bytes] = field(default_factory=dict)
    classes: dict[int, bytes] = field(default_factory=dict)
    jobs: dict[int, JobRecord] = field(default_factory=dict)
    job_specs: dict[int, bytes] = field(default_factory=dict)
    tasks: dict[int, dict[int, TaskRecord]] = field(default_factory=dict)
    """jid -> tix -> record; a task without a record is pending."""
    nominations: dict[int, Nomination] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    partition: PutPartition | None = None
    domains: dict[str, int] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    """By key, sorted by key."""
