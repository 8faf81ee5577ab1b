"""The ledger's interface for the audit: consistent reads of its tables at one log position, and the
call that repairs records which contradict the task records.

The totals of nodes, queues and groups are sums over task records, nominations and class records.
The audit (:mod:`coordinator.ledger_audit`) looks for totals that are wrong; the ledger recomputes
them itself, so that nothing the audit computed is ever written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from shared.ledger.entries.log import LogEntry
from shared.ledger.entries.stored import BindEntry
from shared.messages.messages import Epoch, Rows, Verdict

EVIDENCE = 8
"""Length in bytes of the evidence for a record: its seal, which depends on all bytes before it. A
record that changed since it was read has another one."""


class Table(StrEnum):
    """The ledger's hashes that the audit reads."""

    NODE = "node"
    QUEUE = "queue"
    CLASS = "class"
    JOB = "job"
    JOB_SPEC = "jobspec"
    TASK = "task"
    NOMINATION = "nom"
    DOMAIN = "domain"
    THING = "thing"


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Records of one table, as of right after the last of ``entries``."""

    entries: Iterable[LogEntry | None]
    """The log after the requested position. Each entry is unpacked when it is taken, a large one in
    portions under the same id; None where a portion took a while. Unpacking is most of what
    following the log costs."""
    current: bool
    """Whether the log had no further entries; if it had, ``records`` is empty: ask again."""
    cursor: int = 0
    """Where to go on in the table; 0 at its end."""
    records: list[tuple[bytes, bytes]] = field(default_factory=list)
    """(field, record). A field may occur twice if the table is rehashed meanwhile."""


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """Records to recompute, each with its evidence (:data:`EVIDENCE`) from when it was read; for
    tasks the whole record. A record that changed since then is skipped."""

    nodes: list[tuple[int, bytes]] = field(default_factory=list)
    queues: list[tuple[int, bytes]] = field(default_factory=list)
    jobs: list[tuple[int, bytes]] = field(default_factory=list)
    nominations: list[tuple[int, bytes]] = field(default_factory=list)
    """(jid, evidence)."""
    domains: list[tuple[str, bytes]] = field(default_factory=list)
    tasks: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(jid, tix, record) of tasks without a job, or BINDING without a bind entry."""

    def __len__(self) -> int:
        records = len(self.nodes) + len(self.queues) + len(self.jobs) + len(self.nominations)
        return records + len(self.domains) + len(self.tasks)


@dataclass(frozen=True, slots=True)
class RepairBatch:
    writer: str
    epoch: Epoch
    sequence: int
    run_id: str
    request: RepairRequest


class RepairResult(IntEnum):
    """The ledger's result for one record of a repair."""

    REPAIRED = 0
    SOUND = 1  # recomputed, and as it should be: nothing was written
    MOVED = 2  # another record stands there by now
    UNKNOWN = 3  # it cannot be recomputed: a class record or a job's specification is missing
    DEFERRED = 4  # too many bind entries are open to search them in one call


@dataclass(frozen=True, slots=True)
class RepairReply:
    """``verdict`` is COMMITTED unless the whole batch was refused (EPOCH, RUN, OLD)."""

    verdict: Verdict
    results: list[list[RepairResult]]
    """For nodes, queues, jobs, nominations, domains and tasks, each parallel to the batch's
    list."""
    fresh: Rows
    replayed: bool = False


OPEN_ENTRIES = 512
"""Open bind entries that one call searches for a task: 512 entries of 6 KB take about 3 ms of the
server's time. More are open only where the cluster does not answer; then nothing is urgent."""


def named_in(entries: Iterable[BindEntry]) -> set[tuple[int, int, int]]:
    """(jid, tix, row) of every bind in these entries."""
    return {
        (jid, tix, row)
        for entry in entries
        for jid, _, tasks, rows in entry.binds
        for tix, row in zip(tasks, rows, strict=True)
    }
