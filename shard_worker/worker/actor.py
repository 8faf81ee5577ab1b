"""The Ray actor around a worker: the only place in this room that does I/O.

A call carries turns; before placing them the view catches up with the log. The worker is a state
machine that asks for commits; the actor carries them to the ledger, one at a time, and sends a
batch whose answer was lost again (same sequence number, so it cannot happen twice). It keeps the
shard's lease, and fails when it cannot: the coordinator then replaces it.

The constructor does nothing: an actor that fails there is gone for good, while a failed ``begin``
is an error of one call that the coordinator can handle.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import orjson

from shard_worker.dialects.open_session import open_session
from shard_worker.framework.rule_times import RuleTimes
from shard_worker.inquiry.findings import FINDINGS, InquiryFindings
from shard_worker.inquiry.inquiry import INQUIRY, Inquiry
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shard_worker.worker.debugging import DEBUG, DebugVerb, answer_of_process, dump_of_view
from shard_worker.worker.figures import WorkerFigures
from shard_worker.worker.limits import Limits
from shard_worker.worker.served_calls import ServedCalls
from shard_worker.worker.transport import CONFIG, REPLY, PlaceReply, WorkerConfig
from shard_worker.worker.worker import CommitBatchRequest, Outcomes, Worker
from shared.garbage_collection import leave_loaded_objects_alone
from shared.ledger.errors import LedgerUnavailable
from shared.ledger.lease import HeldLease
from shared.ledger.protocol import Ledger
from shared.ledger.redis.client import RedisLedger
from shared.messages.messages import CommitBatch, CommitReply, Outcome, Turn
from shared.messages.wire import TURNS
from shared.policy.dialect import parse_policy
from shared.policy.volcano import DEFAULT_POLICY
from shared.telemetry.tracing import configure_tracing, span

LOG_BATCH = 512
"""Log entries read at once."""

AUDIT_ROWS = 512
"""Rows of the view that one idle moment compares with the ledger's records: about a millisecond."""

COMMIT_ATTEMPTS = 5
"""How often a batch is sent before the call fails; the coordinator then replaces the worker."""

INQUIRY_SECONDS = 1.0
"""How long an inquiry may delay turns: far less than the silence after which a worker is taken for
dead."""


class ShardActor:
    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._server: ShardServer | None = None

    def begin(self, config: bytes) -> bytes:
        """Load the view and take over the shard under the given epoch; returns our process id."""
        settings = CONFIG.decode(config)
        configure_tracing("worker")
        self.end()
        ledger = RedisLedger(settings.access)
        self._server = ShardServer(settings, ledger)
        self._runner.run(self._server.load())
        # What the view holds now lives as long as the process; a full collection over it would only
        # cost time.
        leave_loaded_objects_alone()
        return str(os.getpid()).encode()

    def end(self) -> None:
        """Release the shard; allowed also where it was never taken over."""
        server, self._server = self._server, None
        if server is not None:
            self._runner.run(server.close())

    def turns(self, epoch: bytes, number: int, call: bytes) -> bytes:
        """Place turns and commit the placements; an empty list only catches up with the log.

        Rejects calls of earlier coordinators: one that does not know yet that it was deposed may
        still call, and nobody would receive the outcomes. ``number`` is the call's: what was served
        before is rejected too.
        """
        if self._server is None:
            raise RuntimeError("the worker has not begun")
        self._server.expect(epoch.decode(), number)
        started = time.process_time()
        turns = TURNS.decode(call)
        outcomes = self._runner.run(self._server.serve(turns))
        busy = time.process_time() - started
        figures = self._server.take_figures() if turns or self._server.drifted else None
        return REPLY.encode(PlaceReply(outcomes, self._server.log_id, busy, figures))

    def alive(self) -> bool:
        """A sign of life. Served by a thread of its own, also while turns are placed."""
        return True

    def debug(self, call: bytes) -> bytes:
        """Answer an administrator in JSON. Profiles and log levels come in a thread of their own,
        also while turns are placed; a dump waits for them."""
        request = DEBUG.decode(call)
        if request.verb is DebugVerb.DUMP and self._server is not None:
            return orjson.dumps(self._server.dump())
        return orjson.dumps(answer_of_process(request))

    def inquire(self, call: bytes) -> bytes:
        """The results of turns without doing them (an :class:`Inquiry` in, findings out)."""
        if self._server is None:
            raise RuntimeError("the worker has not begun")
        return FINDINGS.encode(self._runner.run(self._server.inquire(INQUIRY.decode(call))))


class ShardServer:
    """One shard's worker connected to a ledger. Without Ray: usable in any event loop."""

    def __init__(self, config: WorkerConfig, ledger: Ledger) -> None:
        policy = DEFAULT_POLICY if config.policy is None else parse_policy(config.policy)
        self._config = config
        self._ledger = ledger
        self._times = RuleTimes(time.perf_counter)
        session = open_session(policy, times=self._times)
        self._view = View(shard=config.shard, residents=session.reads_residents)
        self._worker = Worker(
            session=session,
            view=self._view,
            mode=Mode(config.mode),
            shard=config.shard,
            seed=config.seed * 1009 + config.shard,
            limits=Limits(nomination_seconds=config.nomination_seconds),
        )
        self._lease = HeldLease(
            ledger,
            writer=str(config.shard),
            epoch=config.epoch,
            seconds=config.lease_seconds,
        )
        self._served = ServedCalls()
        self._log_id = "0"
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
        figures = self._worker.take_figures()
        figures.session_seconds.observe(self._session_seconds)
        figures.drifted, self.drifted = self.drifted, 0
        figures.rule_seconds, figures.rule_calls = self._times.take()
        for seconds, statements in self._commits:
            figures.commit_seconds.observe(seconds, statements)
        self._session_seconds, self._commits = 0.0, []
        return figures

    async def load(self) -> None:
        """Read the ledger's state once; from then on the view follows the log."""
        await self._lease.keep()
        self._log_id = await self._view.begin(self._ledger)
        self._worker.begin(self._config.epoch, self._config.run_id)

    async def close(self) -> None:
        await self._ledger.close()

    def expect(self, epoch: str, number: int) -> None:
        """Raises RuntimeError if a call was meant for another epoch of the shard, or was served
        before."""
        if epoch != str(self._config.epoch):
            raise RuntimeError(f"a call under epoch {epoch}, the worker's is {self._config.epoch}")
        if not self._served.is_new(number):
            raise RuntimeError(f"call {number} under epoch {epoch} was served before")

    async def serve(self, turns: list[Turn]) -> list[Outcome]:
        if self._worker.pending_batch() is not None:
            # An earlier call failed with this batch on its way: nobody knows what became of it.
            raise RuntimeError("an earlier batch is undecided; this worker has to be replaced")
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
        started = time.perf_counter()
        # `started` moves with every batch; `begun` is what nominations of a long call are counted
        # from.
        begun = started
        instructions = self._worker.on_turns(
            turns, now=time.time(), elapsed=lambda: time.perf_counter() - begun
        )
        while instructions:
            batch: CommitBatch | None = None
            for instruction in instructions:
                match instruction:
                    case CommitBatchRequest():
                        batch = instruction.batch
                    case Outcomes():
                        outcomes += instruction.outcomes
            self._session_seconds += time.perf_counter() - started
            if batch is None:
                break
            reply = await self._commit(batch)
            started = time.perf_counter()
            instructions = self._worker.on_reply(reply)
        return outcomes

    def dump(self) -> dict[str, Any]:
        """The worker's own records, for an administrator."""
        process = {
            "pid": os.getpid(),
            "epoch": str(self._config.epoch),
            "logPosition": self._log_id,
        }
        queues = {"openTurns": self._worker.open_turns}
        return process | {"queues": queues} | dump_of_view(self._view)

    async def inquire(self, inquiry: Inquiry) -> InquiryFindings:
        """Answer on the present view; no state is kept."""
        await self._follow()
        until = time.monotonic() + INQUIRY_SECONDS
        findings = self._worker.inquire(
            inquiry, now=time.time(), may_go_on=lambda: time.monotonic() < until
        )
        return InquiryFindings(self._log_id, findings)

    async def _audit(self) -> None:
        """Compare some rows of the view with the ledger's records, round robin."""
        first = self._audited if self._audited < self._view.size else 0
        self._audited = min(first + AUDIT_ROWS, self._view.size)
        # Records first, log second: an entry between the two makes the view newer than the record,
        # which is no difference. The other way round every commit of another shard would look like
        # one.
        fresh = await self._ledger.read_nodes([*range(first, self._audited)])
        await self._follow()  # now the view knows all that was in those records
        self.drifted += self._view.audit(fresh)

    async def _follow(self) -> None:
        while True:
            # Without a table of residents only rows matter: the rest of each entry is not decoded
            # (decision 0048).
            rows_only = self._view.residents is None
            entries = await self._ledger.read_log(
                self._log_id, count=LOG_BATCH, rows_only=rows_only
            )
            if entries:
                self._worker.on_log(entries, now=time.time())
                self._log_id = entries[-1].id
            if len(entries) < LOG_BATCH:
                return

    async def _commit(self, batch: CommitBatch) -> CommitReply:
        started = time.perf_counter()
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                await self._lease.keep()
                with span("commit", shard=self._config.shard, statements=len(batch.statements)):
                    reply = await self._ledger.commit(batch)
                self._commits.append((time.perf_counter() - started, len(batch.statements)))
                return reply
            # The batch may be written and only its answer lost. Sent again under the same sequence
            # number it gets the answer of the first time; made anew it would be judged against what
            # itself has written.
            except LedgerUnavailable:
                if attempt + 1 == COMMIT_ATTEMPTS:
                    raise
                await asyncio.sleep(0.05 * 2**attempt)
        raise AssertionError("unreachable")
