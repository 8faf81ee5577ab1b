"""The interface of the ledger: every call the rest of the system may make, and its answer.

Three kinds of batch change it, each in one script call: ``commit`` (a shard's statements),
``record`` (new states of tasks) and ``store`` (accepted objects). Every change leaves one entry in
the log, in the order of the changes; allocations and evictions also leave one in the bind stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from shared.ledger.entries.audit import AuditPage, Table
from shared.ledger.entries.changes import ChangedKeys
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeReply
from shared.ledger.entries.log import LogEntry
from shared.ledger.entries.snapshot import Nomination, Snapshot
from shared.ledger.entries.stored import BindEntry, JobRecord, TaskRecord, Write
from shared.ledger.residents import Residents
from shared.ledger.schema import SchemaState, TakeUpProgress
from shared.messages.messages import CommitBatch, CommitReply, Epoch, Rows, StatusBatch, StatusReply

COORDINATOR = "coordinator"
"""The writer name of the coordinator; shards are written as their number."""

RECOUNT = "recount"
"""Field of the meta record: why the next leader recounts the totals."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The last claim of the leadership. ``seconds_left`` 0: anyone may claim it now."""

    epoch: Epoch
    holder: str
    seconds_left: float


class Ledger(Protocol):
    """Every call may raise ``LedgerUnavailable``; after that the outcome of a write is unknown and
    the same batch must be sent again (same sequence), which is safe.

    Leases are measured by the server's clock alone. An expired one ends its writer's right to
    write, but not its epoch: until another claims the writer it may be renewed, and a leader may
    claim and bless.
    """

    async def open(self) -> str:
        """Check identity and schema, and create what readers need; returns the cluster's id. A new
        ledger is created on an empty server where none is expected. Errors: LedgerIdentity."""
        ...

    async def claim(
        self, writer: str, *, leader: Epoch | None = None, lease: float = 0.0, holder: str = ""
    ) -> Epoch:
        """Start a new epoch of a writer; batches of earlier epochs are refused from now on.

        ``leader``: the coordinator's own epoch, for every writer but ``COORDINATOR`` itself.
        ``lease``: seconds it may write without renewing, 0 = no expiry. ``holder``: a name for
        people. Errors: LeaseHeld where another still leads, Deposed where ``leader`` does not lead
        any more.
        """
        ...

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        """Restart the lease. False: the writer was claimed by another, or released. Raises
        LedgerIdentity where the ledger was emptied or replaced."""
        ...

    async def release(self, writer: str, epoch: Epoch) -> None:
        """End the lease and the right to write at once; no effect for another's epoch."""
        ...

    async def leader(self) -> Leader | None:
        """The last leader; None where nobody ever led."""
        ...

    async def bless(self, leader: Epoch, *, after: str = "0") -> str:
        """Accept this run of the server, after everything it holds was read; returns its run id. No
        batch of any writer is accepted before.

        ``after``: a log id that was seen in this ledger. Errors: Deposed where ``leader`` does not
        lead any more, LedgerIdentity, LedgerBehind where the log lacks the entry that was seen.
        """
        ...

    async def schema(self) -> SchemaState:
        """The version of the records, and the progress of a migration under way."""
        ...

    async def take_up(self, leader: Epoch, on_progress: Callable[[TakeUpProgress], None]) -> str:
        """Migrate the records to this version's schema; no effect where they have it. Call it after
        every writer was claimed and before anything is read; after an error or a kill, call it
        again. ``on_progress`` is called after every slice. Returns why a recount was requested, ""
        where none was. Errors: Deposed where ``leader`` does not lead any more, LedgerIdentity
        where the records cannot be migrated."""
        ...

    async def request_recount(self, reason: str) -> None:
        """Mark the ledger: its next leader recounts the totals before it leads."""
        ...

    async def rewrite(
        self, leader: Epoch, writes: Sequence[Write], binds: Sequence[BindEntry] = ()
    ) -> None:
        """Write fields of hashes, and add bind entries, in one script call. For a new leader only:
        from the first call on no batch of any writer is accepted until it blesses the run. Errors:
        Deposed where ``leader`` does not lead any more."""
        ...

    async def run_id(self) -> str:
        """The blessed run id, "" where none is."""
        ...

    async def commit(self, batch: CommitBatch) -> CommitReply: ...

    async def record(self, batch: StatusBatch) -> StatusReply: ...

    async def store(self, batch: IntakeBatch) -> IntakeReply: ...

    async def audit_page(
        self,
        table: Table,
        *,
        after: str,
        cursor: int = 0,
        count: int = 500,
        fields: Sequence[str] = (),
    ) -> AuditPage:
        """A page of one table, or these fields of it, and the log after an id, read in one call:
        the page is as of the last entry. Errors: LedgerTrimmed where the log after ``after`` was
        trimmed."""
        ...

    async def open_binds(self, after: str, *, count: int) -> tuple[list[BindEntry], str]:
        """The unacknowledged entries among the next ``count`` of the bind stream, and the id to go
        on from; "" at the end."""
        ...

    async def read_log(
        self,
        after: str,
        *,
        count: int = 512,
        block: float | None = None,
        rows_only: bool = False,
    ) -> list[LogEntry]:
        """Entries after an id ("0" = from the start). ``block`` seconds to wait for the first one.

        ``rows_only``: entries may leave out what changes neither nodes, classes nor nominations."""
        ...

    async def log_tail(self) -> str:
        """The id of the newest entry, "0" where the log is empty."""
        ...

    async def has_entry(self, log_id: str) -> bool:
        """Whether the log has this very entry, or had it before it was trimmed. Newer entries do
        not prove it: they may have been added to an old copy."""
        ...

    async def read_binds(
        self, consumer: str, *, count: int = 64, block: float | None = None, own: bool = False
    ) -> list[BindEntry]:
        """New entries for the binders' group; with ``own`` those delivered to this consumer (or to
        a dead one) and never acknowledged."""
        ...

    async def ack_binds(self, ids: list[str]) -> None: ...

    async def snapshot(self, *, workload: bool = True) -> Snapshot:
        """``workload=False`` leaves out jobs, tasks and documents (as a shard worker wants it)."""
        ...

    async def read_residents(self) -> Residents:
        """Every task and every job, as columns. Read after a snapshot's ``log_id``, the log after
        that makes them right."""
        ...

    async def read_tasks(
        self, jids: list[int]
    ) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]:
        """The records of these jobs and their tasks (read after a worker died with their turns)."""
        ...

    async def read_moved(self, changed: ChangedKeys) -> Snapshot:
        """Read the changed records as they are now. The snapshot has nothing else, and no
        ``log_id``."""
        ...

    async def read_nodes(self, rows: list[int]) -> Rows:
        """The current records of these nodes; rows without a record are left out."""
        ...

    async def read_nominations(self) -> dict[int, Nomination]:
        """Every nomination, by job."""
        ...

    async def read_domains(self) -> dict[str, int]:
        """Every counter of a cross-node rule, by key."""
        ...

    async def report_reader(self, reader: str, log_id: str | None) -> None:
        """Record how far a follower has read the log; None: it has stopped following."""
        ...

    async def readers(self) -> dict[str, str]:
        """How far each follower has read the log. A dead follower stays listed until its end is
        reported."""
        ...

    async def trim(self, *, log_before: str) -> None:
        """Remove log entries below an id that every follower has passed, and acknowledged binds."""
        ...

    def for_another_loop(self) -> Ledger:
        """The same ledger with connections of its own, which the caller has to close: a client's
        connections belong to one event loop."""
        ...

    async def close(self) -> None: ...
