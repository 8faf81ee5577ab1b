"""Dispatch: which shard a turn goes to, and when it is sent.

A job's home shard is one whose idle capacity can hold its need, the one with the least outstanding
work first. The job keeps it, because its neighbours and the shard's caches are there, until a turn
fails there or the worker is gone.
Turns for a shard travel in batches with a few calls in flight, so that one call is placed while the
next is on its way.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from coordinator.dispatch.window import ConcurrencyLimit
from shard_worker.session_model.workload import Amounts, add
from shared.messages.messages import Epoch, Turn
from shared.model.model import Requests

SESSION_TASKS = 30
"""Cost of a turn that needs a session, in tasks of turns without one: some 2 ms (with one pod
affinity term and 160 nodes) against 50 to 70 us.

Counted as one task, 256 of them made a call of half a second of processor time, which on a busy
machine exceeds the worker's deadline: it was given up as dead, and its turns were reread and sent
again in such calls (44 times in three minutes, with 5,000 such jobs at a load of 20 on two cores).
"""


PACE_SECONDS = 0.02
"""Where pods come one by one, a call for each costs more than all else: Ray takes half a
millisecond on either side, and each commit is an entry of the log that every process reads. So a
small call waits this long after the last one, and takes along what comes meanwhile. Nothing waits
after a quiet moment."""

GATHERED_TASKS = 16
"""Fewer tasks (:func:`cost`) are gathered for one shard while their call waits. As many, or a turn
that needs a session, wait for nothing."""


@dataclass(frozen=True, slots=True)
class SendTurns:
    """Instruction: call a shard's worker with these turns."""

    shard: int
    epoch: Epoch
    call: int
    turns: list[Turn]


@dataclass(slots=True)
class ShardState:
    shard: int
    concurrency: ConcurrencyLimit
    """The limit on open turns of its worker."""
    epoch: Epoch | None = None
    """The epoch of its live worker; None while it has none."""
    pid: int | None = None
    """Process id of the live worker, on its machine."""
    held: bool = False
    """True while no call goes to its worker, which is about to get another policy."""
    refused: str = ""
    """Why the worker that started last is not used, though it lives: it is of another version."""
    fenced: bool = True
    """True once the shard's epoch is revoked, so that late commits are rejected. ``epoch`` becomes
    None earlier."""
    served: str = ""
    """The newest epoch under which a worker was up, as text; "" for none."""
    outstanding: int = 0
    """Tasks in turns that were sent or wait to be sent."""
    calls: dict[int, list[Turn]] = field(default_factory=dict)
    waiting: deque[Turn] = field(default_factory=deque)
    idle: Amounts = field(default_factory=dict)
    """Idle amounts of its nodes; an overfull node has none, not less than none."""
    nodes: int = 0
    """Existing nodes among the rows that it owns or will own."""
    giving: int = 0
    """Nodes that are moving to another shard."""
    taking: int = 0
    """Nodes that are moving to this shard."""
    position: str = ""
    """The log position up to which its worker reported to have read; "" before the first report."""

    @property
    def in_use(self) -> int:
        """Nodes that it owns now: a moving node belongs to its giver until the taker owns it."""
        return self.nodes - self.taking + self.giving

    @property
    def open_turns(self) -> int:
        """Number of turns that were sent and have no outcome yet."""
        return sum(map(len, self.calls.values()))


class Dispatcher:
    def __init__(
        self,
        shards: int,
        *,
        calls_in_flight: int = 2,
        turns_per_call: int = 64,
        tasks_per_call: int = 512,
        pace: float = 0.0,
    ) -> None:
        """``pace``: seconds that a small call waits after the one before it, of any shard; 0: none
        waits (:data:`PACE_SECONDS`)."""
        most = calls_in_flight * turns_per_call
        self.shards = {shard: ShardState(shard, ConcurrencyLimit(most)) for shard in range(shards)}
        self.shard_of: dict[int, int] = {}
        self.calls_in_flight = calls_in_flight
        self.turns_per_call = turns_per_call
        self.tasks_per_call = tasks_per_call
        self._home: dict[int, int] = {}
        self.last_call = 0
        """Number of the newest call that was sent."""
        self._pace = pace
        self._sent_at = -math.inf
        self._held_until: float | None = None
        """When the call that waits for others is due; None: none waits."""
        self.overfull: Amounts = {}
        """Sum over nodes of what tasks hold beyond the node's allocatable: a node that shrank, or
        was deleted, under its tasks."""
        self._node_idle: dict[int, Amounts] = {}
        """Row -> allocatable less what tasks hold; below zero where the node is overfull."""
        self._present: set[int] = set()
        """Rows of nodes that there are -> their allocatable."""
        self._largest: Amounts | None = None
        """Slot -> the most that any node has; None before it was asked for."""

    # --- which shard --------------------------------------------------------------------------

    def route(self, turn: Turn, need: Amounts, *, tried: Collection[int] = ()) -> int:
        """Queue a turn for its home shard, which is returned; avoids the shards ``tried`` unless no
        other has a worker."""
        shard = self._home_of(turn, need, tried)
        state = self.shards[shard]
        state.waiting.append(turn)
        state.outstanding += weight(turn)
        return shard

    def ready(self) -> bool:
        """Whether any worker is up; turns are opened only then."""
        return any(state.epoch is not None for state in self.shards.values())

    def _home_of(self, turn: Turn, need: Amounts, tried: Collection[int]) -> int:
        home = self._home.get(turn.jid)
        stays = not turn.attempt or turn.nominated  # what it was promised is where home put it
        if home is not None and self.shards[home].epoch is not None and stays:
            return home
        up = [state for state in self.shards.values() if state.epoch is not None]
        if tried:
            up = [state for state in up if state.shard not in tried] or up
        if turn.attempt and home is not None:
            # It found no place at home, or lost there: the next shard in turn, so that all see it.
            best = min(up, key=lambda s: (s.shard - home - 1) % len(self.shards))
        else:
            # The least work first: load evens itself out within a call or two, which is why only
            # capacity is balanced by moving nodes (decision 0021).
            best = min(
                up,
                key=lambda s: (
                    not _covers(s.idle, need),
                    not self._gathers(s),
                    s.outstanding,
                    s.shard,
                ),
            )
        self._home[turn.jid] = best.shard
        return best.shard

    def forget(self, jid: int) -> None:
        """Forget the home shard of a finished or deleted job."""
        self._home.pop(jid, None)

    # --- when ---------------------------------------------------------------------------------

    def _gathers(self, state: ShardState) -> bool:
        """Whether few turns wait for a call of the shard, so that it may wait for others."""
        if not self._pace or not 0 < len(state.waiting) < GATHERED_TASKS:
            return False
        return sum(map(cost, state.waiting)) < GATHERED_TASKS

    def next_due(self) -> float | None:
        """When to call :meth:`send` for what it holds back; None for never. While no worker is up
        nobody calls it: what it held then is no reason to wake."""
        return self._held_until if self.ready() else None

    def send(self, now: float = 0.0) -> list[SendTurns]:
        """The calls to send now."""
        out: list[SendTurns] = []
        waits, self._held_until = 0 <= now - self._sent_at < self._pace, None
        for state in self.shards.values():
            while (
                state.epoch is not None
                and not state.held
                and state.waiting
                and len(state.calls) < self.calls_in_flight
                and (room := state.concurrency.limit - state.open_turns) > 0
            ):
                # A small limit makes small calls rather than few: they see fresher views.
                each = -(-state.concurrency.limit // self.calls_in_flight)
                if state.calls and not self._fills(state, each):
                    break
                if waits and not state.calls and self._gathers(state):
                    self._held_until = self._sent_at + self._pace
                    break
                out.append(self._call_of(state, state.epoch, most=min(room, each)))
        if out:
            self._sent_at = now
        return out

    def _fills(self, state: ShardState, most: int) -> bool:
        """Whether the turns that wait make a full call. A worker takes up one call after the other,
        so that a small one behind it gains nothing, and a commit costs much whatever it carries
        (100,000 pods in Lists of 500, four shards: twice the commits, a fifth more of all time)."""
        most = min(most, self.turns_per_call)
        if len(state.waiting) >= most:
            return True
        return sum(map(cost, state.waiting)) >= self.tasks_per_call

    def nudge(self, shards: Iterable[int]) -> list[SendTurns]:
        """Calls without turns to the shards that have no call open, so that they read the log at
        once."""
        states = [self.shards[shard] for shard in shards]
        return [
            self._sent(state, state.epoch, [])
            for state in states
            if state.epoch is not None and not state.held and not state.calls
        ]

    def _call_of(self, state: ShardState, epoch: Epoch, *, most: int) -> SendTurns:
        turns: list[Turn] = []
        tasks = 0
        while state.waiting and len(turns) < min(most, self.turns_per_call):
            size = cost(state.waiting[0])
            # `turns and`: a turn that is larger than a call goes alone, or it would never go.
            if turns and tasks + size > self.tasks_per_call:
                break
            turns.append(state.waiting.popleft())
            tasks += size
        return self._sent(state, epoch, turns)

    def _sent(self, state: ShardState, epoch: Epoch, turns: list[Turn]) -> SendTurns:
        self.last_call += 1
        state.calls[self.last_call] = turns
        return SendTurns(shard=state.shard, epoch=epoch, call=self.last_call, turns=turns)

    def returned(self, shard: int, call: int, *, only: Collection[int] | None = None) -> list[Turn]:
        """Close a call; returns its turns ([] where the worker was given up meanwhile).

        ``only``: close the turns of these jobs alone; the call stays open with the others."""
        state = self.shards[shard]
        # The call of a worker that was given up is closed already, and its turns are being reread:
        # an answer that comes after all changes nothing.
        turns = state.calls.pop(call, [])
        if only is not None and turns:
            state.calls[call] = [turn for turn in turns if turn.jid not in only]
            turns = [turn for turn in turns if turn.jid in only]
        state.outstanding -= sum(weight(turn) for turn in turns)
        return turns

    def judged(self, shard: int, call: int, *, statements: int, lost: int) -> None:
        """Count the judged statements of a call, and those that lost a conflict with another
        shard."""
        self.shards[shard].concurrency.judged(
            call=call, last_call=self.last_call, statements=statements, lost=lost
        )

    def turns(self) -> Iterator[Turn]:
        """Yield turns without an outcome: sent, or waiting to be sent."""
        for state in self.shards.values():
            yield from chain(*state.calls.values(), state.waiting)

    # --- workers ------------------------------------------------------------------------------

    def up(self, shard: int, epoch: Epoch) -> None:
        self.shards[shard].epoch = epoch
        self.shards[shard].refused = ""
        self.shards[shard].served = str(epoch)
        self.shards[shard].position = ""
        self.shards[shard].fenced = False

    def followed(self, shard: int, epoch: Epoch, position: str) -> None:
        """Note the log position that the worker under this epoch has read."""
        state = self.shards[shard]
        if state.epoch == epoch:
            state.position = position

    def down(self, shard: int) -> tuple[list[Turn], list[Turn]]:
        """Note that a worker is gone: returns (turns it had, outcome unknown; turns never sent)."""
        state = self.shards[shard]
        sent = [turn for turns in state.calls.values() for turn in turns]
        unsent = list(state.waiting)
        state.calls.clear()
        state.waiting.clear()
        state.outstanding = 0
        state.epoch = None
        # The caller has claimed the shard's next epoch before: nothing of this worker can commit.
        state.fenced = True
        return sent, unsent

    # --- capacity per shard -------------------------------------------------------------------

    def assign(self, changed: Mapping[int, int]) -> None:
        """Assign rows to shards; the idle sums follow their nodes. Unknown shards own nothing."""
        for row, shard in changed.items():
            before = self.shard_of.get(row)
            if before is not None:
                self._count(row, before, -1)
            if shard in self.shards:
                self._count(row, shard, +1)
                self.shard_of[row] = shard
            elif before is not None:
                del self.shard_of[row]

    def under_way(self, moves: Iterable[tuple[int, int]]) -> None:
        """Set the nodes that are moving between shards: (giver, taker) of each."""
        for state in self.shards.values():
            state.giving = state.taking = 0
        for giver, taker in moves:
            if giver in self.shards and taker in self.shards:
                self.shards[giver].giving += 1
                self.shards[taker].taking += 1

    def _count(self, row: int, shard: int, sign: int) -> None:
        state = self.shards[shard]
        state.nodes += sign * (row in self._present)
        add(state.idle, _above_zero(self._node_idle.get(row, {})).items(), sign)

    def offer(self, row: int, requests: Requests, sign: int) -> None:
        """Add (+1) or remove (-1) a node with this allocatable."""
        if sign > 0:
            self._present.add(row)
        else:
            self._present.discard(row)
        self._add_idle(row, requests, sign)
        shard = self.shard_of.get(row)
        if shard is not None:
            self.shards[shard].nodes += sign

    def idle_of(self, row: int) -> Mapping[int, int]:
        """The idle amounts of a node, by slot; empty where the row is unknown."""
        return self._node_idle.get(row, {})

    def busy(self, row: int, allocatable: Requests) -> bool:
        """Whether tasks hold any of the node's allocatable."""
        idle = self._node_idle.get(row, {})
        return any(idle.get(slot, 0) != amount for slot, amount in allocatable)

    def used(self, rows: Iterable[int], requests: Requests, sign: int) -> None:
        """Subtract (+1) or return (-1) the requests of tasks on these nodes, one per row; rows of
        deleted nodes included."""
        counts = dict[int, int]()
        for row in rows:
            counts[row] = counts.get(row, 0) + 1
        for row, count in counts.items():
            self._add_idle(row, requests, -sign * count)

    def _add_idle(self, row: int, requests: Requests, times: int) -> None:
        """Change a node's idle amounts, and the sums over nodes. A node below zero counts as zero
        in them: what it lacks is not taken from what other nodes have."""
        idle = self._node_idle.setdefault(row, {})
        shard = self.shard_of.get(row)
        sums: Amounts = {} if shard is None else self.shards[shard].idle
        for slot, amount in requests:
            before = idle.get(slot, 0)
            now = idle[slot] = before + amount * times
            change = now - before
            if before < 0 or now < 0:
                lacks = min(before, 0) - min(now, 0)
                self.overfull[slot] = self.overfull.get(slot, 0) + lacks
                change += lacks
            sums[slot] = sums.get(slot, 0) + change

    # --- invariants ---------------------------------------------------------------------------

    def validate(self) -> None:
        """Raise AssertionError where a sum over nodes differs from a recomputed one."""
        overfull: Amounts = {}
        idle: dict[int, Amounts] = {shard: {} for shard in self.shards}
        for row, amounts in self._node_idle.items():
            for slot, amount in amounts.items():
                add(overfull, [(slot, max(-amount, 0))], 1)
            if row in self.shard_of:
                add(idle[self.shard_of[row]], _above_zero(amounts).items(), 1)
        assert _nonzero(overfull) == _nonzero(self.overfull), ("overfull", overfull, self.overfull)
        for shard, recorded in self.shards.items():
            now = idle[shard]
            assert _nonzero(now) == _nonzero(recorded.idle), (shard, "idle", now, recorded.idle)


def cost(turn: Turn) -> int:
    """Weight of a turn in a call, in tasks of turns without a session."""
    return weight(turn) + (SESSION_TASKS if turn.world else 0)


def weight(turn: Turn) -> int:
    """Work of a turn: its number of tasks, at least one."""
    tasks = 0
    for run in turn.runs:
        tasks += len(run.tasks)
    return tasks or 1


def _above_zero(amounts: Mapping[int, int]) -> Amounts:
    return {slot: amount for slot, amount in amounts.items() if amount > 0}


def _nonzero(amounts: Amounts) -> Amounts:
    return {slot: amount for slot, amount in amounts.items() if amount}


def _covers(idle: Amounts, need: Amounts) -> bool:
    # For each shard at each turn: a generator takes twice as long.
    for slot, amount in need.items():  # noqa: SIM110
        if idle.get(slot, 0) < amount:
            return False
    return True
