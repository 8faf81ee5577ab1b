"""The interface of the ledger: every call the rest of the system may make, and its answer.

Three kinds of batch change it, each in one script call: ``commit`` (a shard's statements),
``record`` (what happened to tasks) and ``store`` (accepted objects). Every change leaves one entry
in the log, in the order in which the changes happened; allocations and evictions also leave one in
the bind stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from shared.ledger.entries.changes import Moved
from shared.ledger.entries.intake_batch import IntakeBatch, IntakeReply
from shared.ledger.entries.log import LogEntry
from shared.ledger.entries.repair import AuditPage, RepairBatch, RepairReply, Table
from shared.ledger.entries.snapshot import Nomination, Snapshot
from shared.ledger.entries.stored import BindEntry, JobRecord, TaskRecord
from shared.ledger.schema import SchemaState, TakeUpProgress
from shared.messages.messages import CommitBatch, CommitReply, Epoch, Rows, StatusBatch, StatusReply

COORDINATOR = "coordinator"
"""The writer name of the coordinator; shards are written as their number."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who claimed the leadership last. ``seconds_left`` 0: anyone may claim it now."""

    epoch: Epoch
    holder: str
    seconds_left: float


class Ledger(Protocol):
    """Every call may raise ``LedgerUnavailable``; after that the outcome of a write is unknown and
    the same batch must be sent again (same sequence), which is safe.

    Leases are measured by the server's clock alone. One that ran out ends its writer's right to
    write, but not its epoch: until somebody claims the writer it may be renewed, and a leader may
    claim and bless."""

    async def open(self) -> str:
        """Check identity and schema, and make what readers need; returns the cluster's id. A new
        ledger is founded on an empty server where none is expected. Errors: LedgerIdentity."""
        ...

    async def claim(
        self, writer: str, *, leader: Epoch | None = None, lease: float = 0.0, holder: str = ""
    ) -> Epoch:
        """Begin a new epoch of a writer; from now on no batch of an earlier one is accepted.

        ``leader``: the coordinator's own epoch, for every writer but ``COORDINATOR`` itself.
        ``lease``: seconds it may write without renewing, 0 = without end. ``holder``: who it is,
        for people. Errors: LeaseHeld where another still leads, Deposed where ``leader`` does not
        lead any more."""
        ...

    async def renew(self, writer: str, epoch: Epoch, *, lease: float) -> bool:
        """Begin the lease anew. False: the writer was claimed by another, or given back. Raises
        LedgerIdentity where the ledger was emptied or exchanged."""
        ...

    async def release(self, writer: str, epoch: Epoch) -> None:
        """End the lease and the right to write at once; nothing where the epoch is another's."""
        ...

    async def leader(self) -> Leader | None:
        """Who leads, None where nobody ever did."""
        ...

    async def bless(self, leader: Epoch, *, after: str = "0") -> str:
        """Accept this run of the server, after everything it holds was taken up; returns its run
        id. Nothing is accepted of any writer before.

        ``after``: a log id that was seen in this ledger. Errors: Deposed where ``leader`` does not
        lead any more, LedgerIdentity, LedgerBehind where the log does not have what was seen."""
        ...

    async def schema(self) -> SchemaState:
        """Of which version the records are, and whether they are on their way to another."""
        ...

    async def take_up(self, leader: Epoch, on_progress: Callable[[TakeUpProgress], None]) -> None:
        """Bring the records to this version's schema; nothing to do where they have it already.
        Call it after every writer was claimed and before anything is read; after an error or a
        kill, call it again. ``on_progress`` is called after every slice. Errors: Deposed where
        ``leader`` does not lead any more, LedgerIdentity where the records cannot be taken up."""
        ...

    async def run_id(self) -> str:
        """The blessed run id, "" where none is."""
        ...

    async def commit(self, batch: CommitBatch) -> CommitReply: ...

    async def record(self, batch: StatusBatch) -> StatusReply: ...

    async def store(self, batch: IntakeBatch) -> IntakeReply: ...

    async def repair(self, batch: RepairBatch) -> RepairReply:
        """Recompute records from the task records, and write those that differ. Reads all task
        records: 0.2 s of the server's time at 140,000 of them."""
        ...

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
        the page is as of the last of the entries. Errors: LedgerTrimmed where the log after
        ``after`` is no longer there."""
        ...

    async def open_binds(self, after: str, *, count: int) -> tuple[list[BindEntry], str]:
        """The entries among the next ``count`` of the bind stream that are not acknowledged, and
        the id to go on from; "" at the end."""
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
        """Whether the log has this very entry, or had it before it was cut off. Others that are
        newer do not show it: they may have been added to an old copy."""
        ...

    async def read_binds(
        self, consumer: str, *, count: int = 64, block: float | None = None, own: bool = False
    ) -> list[BindEntry]:
        """New entries for the binders' group; with ``own`` those delivered to this consumer (or to
        one that died) and never acknowledged."""
        ...

    async def ack_binds(self, ids: list[str]) -> None: ...

    async def snapshot(self, *, workload: bool = True) -> Snapshot:
        """``workload=False`` leaves out jobs, tasks and documents (as a shard worker wants it)."""
        ...

    async def read_tasks(
        self, jids: list[int]
    ) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]:
        """The records of these jobs and their tasks (read after a worker died with their turns)."""
        ...

    async def read_moved(self, changed: Moved) -> Snapshot:
        """Read the changed records as they are now. The snapshot has nothing else, and no
        ``log_id``."""
        ...

    async def read_nodes(self, rows: list[int]) -> Rows:
        """The current records of these nodes; rows without a record are left out."""
        ...

    async def read_nominations(self) -> dict[int, Nomination]:
        """Every nomination there is, by job."""
        ...

    async def read_domains(self) -> dict[str, int]:
        """Every counter of a cross-node rule, by key."""
        ...

    async def tell_reader(self, reader: str, log_id: str | None) -> None:
        """Record up to where a follower has read the log; None: it has stopped following."""
        ...

    async def readers(self) -> dict[str, str]:
        """Up to where each follower has read the log. A follower that died stays listed until
        somebody reports that it stopped."""
        ...

    async def trim(self, *, log_before: str) -> None:
        """Forget log entries below an id that every follower has passed, and acknowledged binds."""
        ...

    def for_another_loop(self) -> Ledger:
        """The same ledger with connections of its own, which the caller has to close: a client's
        connections belong to one event loop."""
        ...

    async def close(self) -> None: ...
