"""Everything in the ledger, as it is read at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.ledger.entries.intake_batch import PutPartition
from shared.ledger.entries.stored import JobRecord, QueueRecord, TaskRecord
from shared.messages.messages import Rows, Run


@dataclass(frozen=True, slots=True)
class Nomination:
    """Where the pipelined tasks of one job wait: one run per class, versions and specs empty."""

    jid: int
    priority: int
    since: float
    expiry: float
    runs: list[Run]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything, read without stopping the writers.

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
    """jid -> tix -> record; a task without one is pending."""
    nominations: dict[int, Nomination] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    partition: PutPartition | None = None
    domains: dict[str, int] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    """By key, in the order of keys."""
