"""Standby: follow the ledger while another leads, and take the leadership when it is free.

Every coordinator begins here; where nobody leads, it has the leadership at once::

    claim --- held ---> follow for a moment --- claim ...
      |
      +------ ours ---> (the other writers are claimed) ---> catch_up ---> finish
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from coordinator.core.coordinator import Coordinator
from coordinator.intake.intake import Intake
from coordinator.ledger_audit.findings import Finding
from coordinator.service.leadership.follower import Following
from coordinator.service.leadership.lease import KeepsLease, Leadership
from shared.ledger.entries.changes import ChangedKeys
from shared.ledger.entries.log import LogEntry
from shared.ledger.entries.snapshot import Nomination, Snapshot
from shared.ledger.errors import LeaseHeld, LedgerBehind
from shared.ledger.protocol import COORDINATOR
from shared.ledger.retry import insist
from shared.ledger.schema import SchemaState, TakeUpProgress
from shared.messages.messages import Epoch

LOOKS = 6
"""Times per lease that the log is followed and the leadership requested."""

ENTRIES = 1024
"""Entries of the log read at once."""

FEW = 200
"""Up to this many records are applied on the loop; more of them in a thread, so that probes are
answered meanwhile and the lease is kept."""

log = structlog.get_logger(__name__)


def _taken_up(progress: TakeUpProgress) -> None:
    log.info(
        "Taking the ledger up to a new schema",
        of=progress.schema,
        step=progress.step,
        done=progress.done,
        all=progress.of,
    )


@dataclass(frozen=True, slots=True)
class Takeover:
    """The result of becoming the leader."""

    leadership: Leadership
    intake: Epoch
    """The epoch of the writer that stores objects."""
    evictor: Epoch
    """The epoch of the writer that evicts pods on request."""


class FollowsLedger(KeepsLease, Protocol):
    """The ledger's methods that a standby uses."""

    async def claim(
        self, writer: str, *, leader: Epoch | None = None, lease: float = 0.0, holder: str = ""
    ) -> Epoch: ...

    async def schema(self) -> SchemaState: ...

    async def take_up(
        self, leader: Epoch, on_progress: Callable[[TakeUpProgress], None]
    ) -> str: ...

    async def log_tail(self) -> str: ...

    async def read_log(
        self,
        after: str,
        *,
        count: int = 512,
        block: float | None = None,
        rows_only: bool = False,
    ) -> list[LogEntry]: ...

    async def has_entry(self, log_id: str) -> bool: ...

    async def report_reader(self, reader: str, log_id: str | None) -> None: ...

    async def snapshot(self, *, workload: bool = True) -> Snapshot: ...

    async def read_moved(self, changed: ChangedKeys) -> Snapshot: ...

    async def read_nominations(self) -> dict[int, Nomination]: ...

    async def read_domains(self) -> dict[str, int]: ...


class Standby:
    """``intake`` and ``core`` are empty at first; they are complete after :meth:`finish`."""

    def __init__(
        self,
        ledger: FollowsLedger,
        intake: Intake,
        core: Coordinator,
        *,
        lease: float,
        holder: str,
        recount: Callable[[Epoch], Awaitable[list[Finding]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``lease``: seconds of leading without renewing. ``holder``: our name for people.
        ``recount`` puts totals right, see :func:`coordinator.ledger_audit.recount.recount`."""
        self.leader = ""
        """The present leader; "" where it is unknown or we are."""
        self._ledger = ledger
        self._core = core
        self._following = Following(intake, core)
        self._lease = lease
        self._holder = holder
        self._recount = recount
        self._clock = clock
        self._log_id: str | None = None

    @property
    def log_id(self) -> str:
        """How far the log was followed, "0" where it was not."""
        return self._log_id or "0"

    async def wait(self) -> Leadership:
        """Returns once the leadership is ours."""
        while True:
            # Taken before the claim: the lease then ends here before it ends for the ledger.
            sent = self._clock()
            try:
                epoch = await insist(
                    lambda: self._ledger.claim(COORDINATOR, lease=self._lease, holder=self._holder),
                    call_name="claim the leadership",
                )
            except LeaseHeld as held:
                await self._stand_by(held)
                continue
            self.leader = ""
            return Leadership(
                self._ledger, epoch=epoch, seconds=self._lease, asked=sent, clock=self._clock
            )

    async def _stand_by(self, lease: LeaseHeld) -> None:
        leader = lease.holder or f"epoch {lease.epoch}"
        if leader != self.leader:
            log.info("Standing by", leader=leader, seconds_left=round(lease.seconds_left, 3))
            self.leader = leader
        looked = self._clock()
        if await self._readable():
            # To the end of the log before it asks again: who takes over must have little left to
            # read.
            while await self._follow() == ENTRIES:
                pass
            await self._report_position(self._log_id)
        pause = min(self._lease / LOOKS, lease.seconds_left) - (self._clock() - looked)
        await asyncio.sleep(max(pause, 0.001))

    async def _readable(self) -> bool:
        """Whether the ledger's records are of our version. Where a leader of the version before
        leads, we wait for the leadership without following. Errors: LedgerIdentity where it is a
        later one that leads, which we cannot follow."""
        state = await insist(self._ledger.schema, call_name="read the schema")
        state.check()
        return state.current

    async def take_up(self, leader: Epoch) -> None:
        """Migrate the ledger to our version, once nobody else may write to it, and recount its
        totals where the leader before found them wrong."""
        damage = await insist(
            lambda: self._ledger.take_up(leader, _taken_up), call_name="take up the ledger"
        )
        if damage:
            log.warning("Recounting the ledger's totals", because=damage)
            figures = self._core.tally.ledger_audit
            for finding in await self._recount(leader):
                figures.recounted[finding.kind.value] += 1
                log.warning("Put a record of the ledger right", finding=str(finding))

    async def catch_up(self) -> None:
        """Read everything up to the end of the log. Nobody else may write to it any more."""
        while await self._follow():
            pass

    async def finish(self) -> None:
        """The books are the leader's from now on."""
        await self._report_position(None)
        nominations = await insist(self._ledger.read_nominations, call_name="read nominations")
        versions = await insist(self._ledger.read_domains, call_name="read domains")
        self._following.finish(nominations, versions)

    # --- following ----------------------------------------------------------------------------

    async def _follow(self) -> int:
        """Apply a portion of the changes, at first everything. Returns the number of log entries,
        at most :data:`ENTRIES`.

        The process must restart where this raises: LedgerTrimmed, where we were away for minutes
        and the log is gone; LedgerBehind, where an old copy was accepted meanwhile, which never had
        some of what we read.
        """
        if self._log_id is None:
            # Before the snapshot: else the log could be cut between the snapshot and the first read
            # behind it.
            await self._report_position(await insist(self._ledger.log_tail, call_name="log tail"))
            snapshot = await insist(self._ledger.snapshot, call_name="snapshot")
            await asyncio.to_thread(self._following.take, snapshot)
            self._log_id = snapshot.log_id
            return ENTRIES
        after = self._log_id
        entries = await insist(
            lambda: self._ledger.read_log(after, count=ENTRIES), call_name="read the log"
        )
        if not entries:
            return 0
        # After the read: entries that come behind a missing one are those of another history.
        if not await insist(
            lambda: self._ledger.has_entry(after), call_name="look for what was read"
        ):
            raise LedgerBehind(
                f"the ledger's log does not have {after}, up to which it was followed: an old copy "
                "took its place, and somebody accepted it; begin anew"
            )
        changed = ChangedKeys()
        changed.note(entries)
        unread = await self._take_up(changed)
        if unread:
            await self._take_up(ChangedKeys(jobs=unread))
        self._log_id = entries[-1].id
        return len(entries)

    async def _report_position(self, log_id: str | None) -> None:
        """Report our position, so that the log is not trimmed before we have read it."""
        await insist(
            lambda: self._ledger.report_reader(self._holder, log_id), call_name="report reader"
        )

    async def _take_up(self, changed: ChangedKeys) -> set[int]:
        """Returns jobs that must be read as a whole."""
        part = await insist(lambda: self._ledger.read_moved(changed), call_name="read what moved")
        if len(changed) <= FEW:
            return self._following.follow(changed, part)
        return await asyncio.to_thread(self._following.follow, changed, part)
