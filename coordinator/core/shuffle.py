"""Shuffle: each shard's running tasks are examined from time to time, and some are moved.

One shard after the other. An evicted task is placed again like any other; nothing waits for it, and
a shuffle without result is not reported.
"""

from __future__ import annotations

from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.order.order import Order
from shared.messages.messages import NOBODY, Outcome, TaskState, Turn

SHUFFLE_SECONDS = 10.0
"""How often: rules that want tasks elsewhere look at nodes over minutes."""

_RUNS = (TaskState.BOUND, TaskState.RUNNING)


class Shuffling:
    def __init__(self, order: Order, dispatcher: Dispatcher) -> None:
        self._order = order
        self._dispatcher = dispatcher
        self._next = 0.0
        self._left: list[int] = []
        """Shards that have their turn in this round."""
        self._out = -1
        """The shard whose turn is out, -1 where none is."""

    def step(self, now: float) -> None:
        """Send the turn that is due."""
        if "shuffle" not in self._order.session.policy.actions:
            return
        if now >= self._next and not self._left:
            self._left = sorted(self._order.reachable)
            self._next = now + SHUFFLE_SECONDS
        while self._left and self._out < 0:
            self._send(self._left.pop(0))

    def _send(self, shard: int) -> None:
        state, order = self._dispatcher.shards[shard], self._order
        rows = frozenset(row for row, owner in self._dispatcher.shard_of.items() if owner == shard)
        if state.epoch is None or not any(order.accounts.tasks[s] for s in _RUNS):
            return
        world, keys = order.contexts.of_running(order.jobs.values(), rows)
        if order.spanning.touched(keys):
            return  # a turn is out that touches the same: next time
        order.spanning.take(NOBODY, keys)
        self._out = shard
        turn = Turn(
            jid=NOBODY,
            job_version=0,
            qid=0,
            priority=0,
            groups=[],
            runs=[],
            total=0,
            action="shuffle",
            world=world,
        )
        state.waiting.append(turn)
        state.outstanding += 1

    def outcome(self, outcome: Outcome) -> None:
        """Apply the outcome of one job's part of a shuffle: it evicts in the name of that job
        itself."""
        for run in outcome.evictions[:1]:
            self._order.spanning.accepted(run.jid, outcome.moved, evicts=True, out_as=NOBODY)

    def came_back(self) -> None:
        """The turn has no further outcome, or its worker is lost."""
        self._out = -1
        self._order.came_back(NOBODY)

    def lost(self, shard: int, *, sent: bool) -> None:
        """The shard's worker is gone. What its turn moved is read from the ledger; a turn that was
        not ``sent`` moved nothing, and nothing else tells that it is over."""
        if self._out == shard:
            self._out = -1
            if not sent:
                self._order.came_back(NOBODY)

    def next_due(self) -> float | None:
        return self._next if "shuffle" in self._order.session.policy.actions else None
