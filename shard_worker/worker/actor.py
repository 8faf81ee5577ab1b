"""The Ray actor around a worker's server: processes, bytes and one event loop a call.

The constructor does nothing: an actor that fails there is gone for good, while a failed ``begin``
is an error of one call that the coordinator can handle.
"""

from __future__ import annotations

import asyncio
import os
import time

import orjson

from shard_worker.inquiry.findings import FINDINGS
from shard_worker.inquiry.inquiry import INQUIRY
from shard_worker.worker.debugging import DEBUG, DebugVerb, answer_of_process
from shard_worker.worker.server import ShardServer
from shard_worker.worker.transport import CONFIG, REPLY
from shared.codec.packed import replace
from shared.garbage_collection import RestingCollector
from shared.ledger.redis.client import RedisLedger
from shared.messages.wire import TURNS
from shared.telemetry.tracing import configure_tracing


class ShardActor:
    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._ledger: RedisLedger | None = None
        self._collector = RestingCollector()
        self._server: ShardServer | None = None
        """None before the first ``begin``, and once the shard was released."""

    def begin(self, config: bytes) -> bytes:
        """Load the view, or go on with the one there is, and take over the shard under the given
        epoch; returns our process id."""
        settings = CONFIG.decode(config)
        configure_tracing("worker")
        before = self._server if settings.keeps_view else None
        self.end()
        self._ledger = ledger = RedisLedger(settings.access)
        self._server = ShardServer(settings, ledger, before=before)
        self._runner.run(self._server.load())
        # What the view holds now lives as long as the process; a full collection over it would only
        # cost time.
        self._collector.begin()
        return str(os.getpid()).encode()

    def end(self) -> None:
        """Release the shard; allowed also where it was never taken over."""
        ledger, self._ledger, self._server = self._ledger, None, None
        if ledger is not None:
            self._runner.run(ledger.close())

    def turns(self, epoch: bytes, number: int, call: bytes) -> bytes:
        """Place turns and commit the placements; an empty list only catches up with the log.

        Rejects calls of earlier coordinators: one that does not know yet that it was deposed may
        still call, and nobody would receive the outcomes. ``number`` is the call's: what was served
        before is rejected too.
        """
        if self._server is None:
            raise RuntimeError("the worker has not begun")
        started = time.process_time()
        self._server.expect(epoch.decode(), number)
        turns = TURNS.decode(call)
        self._collector.look(time.monotonic(), time.process_time(), hurry=bool(turns))
        reply = self._runner.run(self._server.answer(turns))
        return REPLY.encode(replace(reply, busy_seconds=time.process_time() - started))

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
