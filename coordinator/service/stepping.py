"""When the state machine steps: whenever something happened, and where something may be due."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.instructions import Instruction

IDLE_STEP_SECONDS = 0.05
"""The longest the loop sleeps while jobs wait for a deadline (nominations, infeasible lines)."""


async def step_forever(
    core: Coordinator,
    execute: Callable[[Instruction], None],
    *,
    kicked: asyncio.Event,
    stopping: Callable[[], bool],
    settled: asyncio.Event,
) -> None:
    """Step on every event, and every :data:`IDLE_STEP_SECONDS` without one; events during a step
    are handled together by the next. Once ``stopping`` is true no turn goes out any more;
    ``settled`` is set when none is open."""
    while True:
        wait, due = IDLE_STEP_SECONDS, core.dispatcher.next_due()
        if due is not None and not stopping():  # then it is sent no more
            wait = min(wait, max(due - time.time(), 0.0))
        # Not wait_for: before Python 3.12 it may swallow the cancellation that stops us.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await kicked.wait()
        # Before the step: what happens while it runs sets the event again, and the next step
        # handles it.
        kicked.clear()
        if stopping():
            # No call is open: every outcome has been taken up, and nothing has to be reread by the
            # next leader.
            if not any(state.calls for state in core.dispatcher.shards.values()):
                settled.set()
            continue
        for instruction in core.step(time.time()):
            execute(instruction)
        if core.unfinished:
            kicked.set()
        # `wait` does not suspend where the event is set already: without this a stream of events
        # would keep everybody else from the loop.
        await asyncio.sleep(0)
