"""One shard's worker connected to a ledger, in any event loop: the actor's, or a seeded run's.

A call carries turns; before placing them the view catches up with the log. The worker is a state
machine that asks for commits; the server carries them to the ledger, one at a time, and sends a
batch whose answer was lost again (same sequence number, so it cannot happen twice). It keeps the
shard's lease, and fails when it cannot: the coordinator then replaces it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from shard_worker.dialects.open_session import open_session
from shard_worker.framework.rule_times import RuleTimes
from shard_worker.framework.session import Session
from shard_worker.inquiry.findings import InquiryFindings
from shard_worker.inquiry.inquiry import Inquiry
from shard_worker.view.mode import Mode
from shard_worker.view.view import LoadsView, View
from shard_worker.worker.debugging import dump_of_view
from shard_worker.worker.figures import WorkerFigures
from shard_worker.worker.instructions import CommitBatchRequest, Outcomes
from shard_worker.worker.limits import WorkerLimits
from shard_worker.worker.served_calls import ServedCalls
from shard_worker.worker.transport import PlaceReply, WorkerConfig
from shard_worker.worker.worker import Worker
from shared import garbage_collection
from shared.ledger.entries.log import LogEntry
from shared.ledger.errors import LedgerUnavailable
from shared.ledger.lease import HeldLease, RenewsLeases
from shared.messages.messages import CommitBatch, CommitReply, Outcome, Rows, Turn
from shared.policy.dialect import parse_policy
from shared.policy.model import Policy
from shared.policy.volcano import DEFAULT_POLICY
from shared.telemetry.tracing import span

LOG_BATCH = 512
"""Log entries read at once."""

AUDIT_ROWS = 512
"""Rows of the view that one idle moment compares with the ledger's records: about a millisecond."""

COMMIT_ATTEMPTS = 5
"""How often a batch is sent before the call fails; the coordinator then replaces the worker."""

INQUIRY_SECONDS = 1.0
"""How long an inquiry may delay turns: far less than the silence after which a worker is taken for
dead."""


class WorkerLedger(LoadsView, RenewsLeases, Protocol):
    """The part of :class:`shared.ledger.protocol.Ledger` that a worker uses."""

    async def commit(self, batch: CommitBatch) -> CommitReply: ...

    async def read_log(
        self, after: str, *, count: int = ..., rows_only: bool = ...
    ) -> list[LogEntry]: ...

    async def read_nodes(self, rows: list[int]) -> Rows: ...


class MakesWorker(Protocol):
    def __call__(
        self,
        *,
        session: Session,
        view: View,
        mode: Mode,
        shard: int,
        seed: int,
        limits: WorkerLimits,
    ) -> Worker: ...


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where a server reads the time, in seconds; a seeded run has one virtual clock for all."""

    wall: Callable[[], float] = time.time
    """Since 1970."""
    steady: Callable[[], float] = time.monotonic
    """For deadlines and the lease."""
    precise: Callable[[], float] = time.perf_counter
    """For how long something took."""


class CallRefused(RuntimeError):
    """The worker does not serve a call. The coordinator replaces it if it still waits for the
    answer."""


class ServedBefore(CallRefused):
    """A copy of a call, whose answer nobody waits for."""


class ShardServer:
    def __init__(
        self,
        config: WorkerConfig,
        ledger: WorkerLedger,
        *,
        policy: Policy | None = None,
        worker: MakesWorker = Worker,
        clocks: Clocks | None = None,
        before: ShardServer | None = None,
    ) -> None:
        """``policy`` replaces that of the configuration. ``before``: the server that this one
        takes the place of, whose view it goes on with where that serves the policy too."""
        if policy is None:
            policy = DEFAULT_POLICY if config.policy is None else parse_policy(config.policy)
        self._clocks = clocks = clocks or Clocks()
        self._config = config
        self._ledger = ledger
        self._times = RuleTimes(clocks.precise)
        session = open_session(policy, times=self._times)
        self.view: View
        self._loaded = before is not None and before.serves(config, session)
        if before is not None and self._loaded:
            self.view, self._log_id = before.view, before.log_id
        else:
            pool = session.eligibility.pool
            self.view = View(shard=config.shard, residents=session.reads_residents, pool=pool)
            self._log_id = "0"
        self.worker = worker(
            session=session,
            view=self.view,
            mode=Mode(config.mode),
            shard=config.shard,
            seed=config.seed * 1009 + config.shard,
            limits=WorkerLimits(nomination_seconds=config.nomination_seconds),
        )
        self._lease = HeldLease(
            ledger,
            writer=str(config.shard),
            epoch=config.epoch,
            seconds=config.lease_seconds,
            clock=clocks.steady,
        )
        self._served = ServedCalls()
        self._audited = 0
        """Rows before this one were compared in this round."""
        self.drifted = 0
        """Rows that were not the ledger's, since the figures were taken."""
        self._session_seconds = 0.0
        self._commits: list[tuple[float, int]] = []
        """(seconds, statements) of each batch since the figures were taken."""

    @property
    def log_id(self) -> str:
        return self._log_id

    def take_figures(self) -> WorkerFigures:
        """Counts and measurements since the last call of this method."""
        figures = self.worker.take_figures()
        figures.session_seconds.observe(self._session_seconds)
        figures.drifted, self.drifted = self.drifted, 0
        figures.rule_seconds, figures.rule_calls = self._times.take()
        for seconds, statements in self._commits:
            figures.commit_seconds.observe(seconds, statements)
        self._session_seconds, self._commits = 0.0, []
        return figures

    async def load(self) -> None:
        """Read the ledger's state once, unless the view has it; it follows the log from then
        on."""
        await self._lease.keep()
        if not self._loaded:
            self._log_id = await self.view.begin(self._ledger)
        self.worker.begin(self._config.epoch, self._config.run_id)

    def serves(self, config: WorkerConfig, session: Session) -> bool:
        """Whether the view is one for another server with this configuration and session, too: it
        has what the rules read, nothing on it is undecided, and the ledger's server is the same,
        so that the log goes on where it was read to."""
        rules = session.reads_residents, session.eligibility.pool
        return (
            config.run_id == self._config.run_id
            and config.shard == self._config.shard
            and rules == (self.view.residents is not None, self.view.pool)
            and not self.worker.open_turns
        )

    def expect(self, epoch: str, number: int) -> None:
        """Raises CallRefused if a call was meant for another epoch of the shard, ServedBefore if it
        is a copy."""
        if epoch != str(self._config.epoch):
            raise CallRefused(f"a call under epoch {epoch}, the worker's is {self._config.epoch}")
        if not self._served.is_new(number):
            raise ServedBefore(f"call {number} under epoch {epoch} was served before")

    async def answer(self, turns: list[Turn]) -> PlaceReply:
        """Serve a call, and add the figures since the last answer that had any."""
        outcomes = await self.serve(turns)
        figures = self.take_figures() if turns or self.drifted else None
        return PlaceReply(outcomes, self._log_id, figures=figures)

    async def serve(self, turns: list[Turn]) -> list[Outcome]:
        if self.worker.pending_batch() is not None:
            # An earlier call failed with this batch on its way: nobody knows what became of it.
            raise CallRefused("an earlier batch is undecided; this worker has to be replaced")
        await self._lease.keep()
        # Caught up before placing: statements name the versions of the rows that they were planned
        # on, and with old ones more of them are rechecked or refused.
        await self._follow()
        if not turns:
            await self._audit()
            return []
        with self._times.call():
            return await self._place(turns)

    async def _place(self, turns: list[Turn]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        started = self._clocks.precise()
        # `started` moves with every batch; `begun` is what nominations of a long call are counted
        # from.
        begun = started
        instructions = self.worker.on_turns(
            turns, now=self._clocks.wall(), elapsed=lambda: self._clocks.precise() - begun
        )
        while instructions:
            batch: CommitBatch | None = None
            for instruction in instructions:
                match instruction:
                    case CommitBatchRequest():
                        batch = instruction.batch
                    case Outcomes():
                        outcomes += instruction.outcomes
            self._session_seconds += self._clocks.precise() - started
            if batch is None:
                break
            reply = await self._commit(batch)
            started = self._clocks.precise()
            instructions = self.worker.on_reply(reply)
        return outcomes

    def dump(self) -> dict[str, Any]:
        """The worker's own records, for an administrator."""
        process = {
            "pid": os.getpid(),
            "epoch": str(self._config.epoch),
            "logPosition": self._log_id,
            "garbageCollection": garbage_collection.figures(),
        }
        queues = {"openTurns": self.worker.open_turns}
        return process | {"queues": queues} | dump_of_view(self.view)

    async def inquire(self, inquiry: Inquiry) -> InquiryFindings:
        """Answer on the present view; no state is kept."""
        await self._follow()
        until = self._clocks.steady() + INQUIRY_SECONDS
        findings = self.worker.inquire(
            inquiry, now=self._clocks.wall(), may_go_on=lambda: self._clocks.steady() < until
        )
        return InquiryFindings(self._log_id, findings)

    async def _audit(self) -> None:
        """Compare some rows of the view with the ledger's records, round robin."""
        first = self._audited if self._audited < self.view.size else 0
        self._audited = min(first + AUDIT_ROWS, self.view.size)
        # Records first, log second: an entry between the two makes the view newer than the record,
        # which is no difference. The other way round every commit of another shard would look like
        # one.
        fresh = await self._ledger.read_nodes([*range(first, self._audited)])
        await self._follow()  # now the view knows all that was in those records
        self.drifted += self.view.audit(fresh)

    async def _follow(self) -> None:
        while True:
            # Without a table of residents only rows matter: the rest of each entry is not decoded
            # (decision 0048).
            rows_only = self.view.residents is None
            entries = await self._ledger.read_log(
                self._log_id, count=LOG_BATCH, rows_only=rows_only
            )
            if entries:
                self.worker.on_log(entries, now=self._clocks.wall())
                self._log_id = entries[-1].id
            if len(entries) < LOG_BATCH:
                return

    async def _commit(self, batch: CommitBatch) -> CommitReply:
        started = self._clocks.precise()
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                await self._lease.keep()
                with span("commit", shard=self._config.shard, statements=len(batch.statements)):
                    reply = await self._ledger.commit(batch)
                self._commits.append((self._clocks.precise() - started, len(batch.statements)))
                return reply
            # The batch may be written and only its answer lost. Sent again under the same sequence
            # number it gets the answer of the first time; made anew it would be judged against what
            # itself has written.
            except LedgerUnavailable:
                if attempt + 1 == COMMIT_ATTEMPTS:
                    raise
                await asyncio.sleep(0.05 * 2**attempt)
        raise AssertionError("unreachable")
