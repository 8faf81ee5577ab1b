"""When the garbage collector walks objects, in processes that hold very many for a long time.

Nearly all objects end by their reference count. To walk those that stay finds nothing, and was 26
us of a separate pod's 430 in all processes. So everything is walked at rest alone; while the
process is busy a sample of what is new is, which shows whether cycles are left behind there.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from typing import Any

LOOK_SECONDS = 1.0
"""Shortest time between two decisions."""
REST = 0.1
"""Part of a core below which the process is at rest, unless it makes many objects that stay: on a
crowded machine a busy process may get no more."""
REST_PERIODS = 2
"""Periods of rest in a row before all objects are walked."""
SAMPLE_EVERY = 8
"""One of so many busy periods is a sample, while samples find no garbage."""
GARBAGE = 0.001
"""Part of the sampled objects beyond which the next period is sampled too: what is not walked then
stays until the process is at rest."""
YOUNG, MIDDLE, OLD = 20_000, 0, 1_000_000
"""Thresholds of a sampled period: new objects until the youngest are walked, collections of the
youngest until the middle generation is walked, and of the middle one until all are. 20,000 objects
take some 5 ms, so that neither walk comes near the 20 ms that a callback may take
(``coordinator.service.metrics.loop_time``); with 50,000 and 2 the second one took 30 to 60 ms."""
GROWN, LEAST_GROWN = 0.25, 100_000
"""All objects are walked at rest once the memory has grown by this part, and by so many blocks."""
WALK_SECONDS = 0.5
"""All objects are never walked where that would take longer: a quarter of the leader's lease."""
BLOCK_SECONDS = 1e-7
"""Time to walk one block of memory, before it was measured."""


class RestingCollector:
    """Decides what is walked. One in a process, as the interpreter's collector is."""

    def __init__(self) -> None:
        self._looked_at = 0.0
        self._used = 0.0
        self._unsampled = 0
        """Busy periods until the next sample. 0 after a sample that found garbage or was not
        judged: sessions of a policy, for one, leave cycles behind with each turn."""
        self._resting = 0
        """Periods of rest in a row."""
        self._sampled: tuple[int, int] | None = None
        """(collections, collected objects) when the present sample began; None without one."""
        self._blocks = 0
        """Blocks of memory when all were walked."""
        self._block_seconds = BLOCK_SECONDS

    def begin(self) -> None:
        """Walk all objects, and from now on only what :meth:`look` decides. Call it after each
        load: what an earlier load left behind is collected, and what was loaded is set aside."""
        self._walk_all()
        self._stop_sample()
        gc.set_threshold(YOUNG, MIDDLE, OLD)

    def look_regularly(self) -> None:
        """Look now and every :data:`LOOK_SECONDS`, in the loop that runs."""
        self.look(time.monotonic(), time.process_time())
        asyncio.get_running_loop().call_later(LOOK_SECONDS, self.look_regularly)

    def look(self, now: float, used: float, *, hurry: bool = False) -> None:
        """Decide by the processor time ``used`` so far. Does nothing where the last decision is
        newer than :data:`LOOK_SECONDS`. ``hurry``: somebody waits, so that not all is walked."""
        elapsed = now - self._looked_at
        if elapsed < LOOK_SECONDS:
            return
        at_rest = used - self._used < REST * elapsed and gc.get_count()[0] < YOUNG
        self._looked_at, self._used = now, used
        self._resting = self._resting + 1 if at_rest else 0
        if at_rest:
            self._stop_sample()
            self._rest(hurry=hurry)
        elif self._sampled is not None:
            self._judge_sample(*self._sampled)
        else:
            gc.freeze()
            self._unsampled -= 1
            if self._unsampled <= 0:
                self._unsampled, self._sampled = 0, _collected()
                gc.enable()

    def _rest(self, *, hurry: bool) -> None:
        blocks = sys.getallocatedblocks()
        due = blocks - self._blocks >= max(LEAST_GROWN, GROWN * self._blocks)
        may = self._resting >= REST_PERIODS and not hurry
        if due and may and blocks * self._block_seconds <= WALK_SECONDS:
            self._walk_all()
            return
        gc.collect(0)
        gc.freeze()

    def _walk_all(self) -> None:
        gc.unfreeze()
        began = time.thread_time()
        gc.collect()
        gc.freeze()
        self._blocks = sys.getallocatedblocks()
        self._block_seconds = (time.thread_time() - began) / self._blocks

    def _judge_sample(self, collections: int, before: int) -> None:
        """End the sample unless it found garbage. What is not walked is set aside: frozen."""
        walks, after = _collected()
        walked = (walks - collections) * YOUNG
        if walked and after - before <= GARBAGE * walked:
            self._unsampled = SAMPLE_EVERY - 1
            self._stop_sample()
        else:
            self._sampled = walks, after
        gc.freeze()

    def _stop_sample(self) -> None:
        gc.disable()
        self._sampled = None


def _collected() -> tuple[int, int]:
    """The number of collections, each of which walks new objects, and of objects that they ended.
    With MIDDLE every second one counts as one of the middle generation."""
    generations = gc.get_stats()
    walks = sum(each["collections"] for each in generations)
    return walks, sum(each["collected"] for each in generations)


def figures() -> dict[str, Any]:
    """Figures of this process for an administrator."""
    return {
        "whileBusy": gc.isenabled(),
        "collections": [each["collections"] for each in gc.get_stats()],
        "collectedObjects": _collected()[1],
    }
