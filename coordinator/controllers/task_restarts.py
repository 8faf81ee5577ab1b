"""Begins tasks of a job anew: those that have ended at once, those that run once they are stopped.

What has ended goes back to pending in one call to the ledger; what is on a node is evicted by a
statement of the coordinator's own, and comes back as after any eviction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from coordinator.jobs.state import JobState
from coordinator.order.order import Order
from shared.messages.messages import ENDED, StatusItem, TaskState

AT_ONCE = 2000
"""Tasks of one item: bounds how long the ledger's one thread is busy with it."""


class RecordsStates(Protocol):
    async def record(self, items: list[StatusItem]) -> None: ...


class EvictsTasks(Protocol):
    async def restart(self, jid: int, tasks: Sequence[int]) -> None:
        """Evict these tasks of a job, or none of them."""
        ...


class TaskRestarts:
    def __init__(self, order: Order, recorder: RecordsStates, evictor: EvictsTasks) -> None:
        self._order = order
        self._recorder = recorder
        self._evictor = evictor

    async def begin_anew(self, jid: int, tasks: Sequence[int]) -> None:
        """Begin these tasks anew as far as they can be now. Who asks looks whether all are."""
        state = self._order.jobs.get(jid)
        if state is None:
            return
        ended = [tix for tix in tasks if state.states[tix] in ENDED]
        for at in range(0, len(ended), AT_ONCE):
            await self._recorder.record([_item(state, ended[at : at + AT_ONCE])])
        await self._evictor.restart(jid, [tix for tix in tasks if tix not in set(ended)])


def _item(state: JobState, tasks: list[int]) -> StatusItem:
    return StatusItem(
        TaskState.PENDING,
        state.job.jid,
        tasks,
        [max(0, state.rows[tix]) for tix in tasks],
        restarts=tuple(state.incarnations.get(tix, 0) for tix in tasks),
    )
