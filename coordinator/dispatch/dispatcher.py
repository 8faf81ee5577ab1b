"""Dispatch: which shard a turn goes to, and when it is sent.

A job's home shard is one that can hold its need by idle capacity, least outstanding work first;
it is kept while the job lives (its members' neighbours and the shard's caches are there). Turns
for a shard travel in batches, a few calls at a time, so that one call is placed while the next is
on its way."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from coordinator.dispatch.window import Pace
from shard_worker.session_model.workload import Amounts, add
from shared.messages.messages import Epoch, Turn
from shared.model.model import Requests

SESSION_TASKS = 30
"""A turn that needs a session costs its worker as much as so many tasks of flat turns: some 2 ms
(with one term between pods and 160 nodes) against 50 to 70 us. 256 of them in one call are half a
second of processor time, and on a busy machine more than a worker may be silent: it was given up as
dead, its turns were read anew and sent again in such calls (44 times in three minutes, seen with
5,000 such jobs at a load of 20 on two cores)."""


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
    pace: Pace
    """How many turns may be open at its worker."""
    epoch: Epoch | None = None
    """None while no worker is up."""
    pid: int | None = None
    """The process of the worker that is up, on its machine."""
    fenced: bool = True
    """Whether nothing that a worker of it still does can count: there was none since its epoch was
    made void. None in ``epoch`` comes before that."""
    served: str = ""
    """The newest epoch under which one was up, as text; "" where none ever was."""
    outstanding: int = 0
    """Tasks in turns that were sent or wait to be sent."""
    calls: dict[int, list[Turn]] = field(default_factory=dict)
    waiting: deque[Turn] = field(default_factory=deque)
    idle: Amounts = field(default_factory=dict)
    nodes: int = 0
    """Nodes that there are, of the rows that it has or is to get."""
    giving: int = 0
    """Nodes that are on their way to another shard."""
    taking: int = 0
    """Nodes that are on their way to this one."""
    position: str = ""
    """Up to where in the log its worker told to have read; "" while it told nothing."""

    @property
    def in_use(self) -> int:
        """Nodes that are its own now: a giver has them until the taker does."""
        return self.nodes - self.taking + self.giving

    @property
    def open_turns(self) -> int:
        """Turns that were sent and have no outcome yet."""
        return sum(map(len, self.calls.values()))


class Dispatcher:
    def __init__(
        self,
        shards: int,
        *,
        calls_in_flight: int = 2,
        turns_per_call: int = 64,
        tasks_per_call: int = 512,
    ) -> None:
        most = calls_in_flight * turns_per_call
        self.shards = {shard: ShardState(shard, Pace(most)) for shard in range(shards)}
        self.shard_of: dict[int, int] = {}
        self.calls_in_flight = calls_in_flight
        self.turns_per_call = turns_per_call
        self.tasks_per_call = tasks_per_call
        self._home: dict[int, int] = {}
        self.last_call = 0
        """Number of the newest call that was sent."""
        self._node_idle: dict[int, Amounts] = {}
        self._present: set[int] = set()
        """Rows of nodes that there are."""

    # --- which shard --------------------------------------------------------------------------

    def route(self, turn: Turn, need: Amounts, *, tried: Collection[int] = ()) -> None:
        """Queue a turn for its home shard; one of those ``tried`` only where no other is up."""
        shard = self._home_of(turn, need, tried)
        state = self.shards[shard]
        state.waiting.append(turn)
        state.outstanding += weight(turn)

    def ready(self) -> bool:
        """Whether any worker is up: turns are only opened then."""
        return any(state.epoch is not None for state in self.shards.values())

    def _home_of(self, turn: Turn, need: Amounts, tried: Collection[int]) -> int:
        home = self._home.get(turn.jid)
        stays = not turn.attempt or turn.nominated  # what it was promised is where home put it
        if home is not None and self.shards[home].epoch is not None and stays:
            return home
        up = [state for state in self.shards.values() if state.epoch is not None]
        up = [state for state in up if state.shard not in tried] or up
        if turn.attempt and home is not None:
            # It found no place at home, or lost there: the next shard in turn, so that all see it.
            best = min(up, key=lambda s: (s.shard - home - 1) % len(self.shards))
        else:
            best = min(up, key=lambda s: (not _covers(s.idle, need), s.outstanding, s.shard))
        self._home[turn.jid] = best.shard
        return best.shard

    def forget(self, jid: int) -> None:
        """The job ended: its home is free."""
        self._home.pop(jid, None)

    # --- when ---------------------------------------------------------------------------------

    def send(self) -> list[SendTurns]:
        """The calls that may go out now."""
        out = []
        for state in self.shards.values():
            while (
                state.epoch is not None
                and state.waiting
                and len(state.calls) < self.calls_in_flight
                and (room := state.pace.limit - state.open_turns) > 0
            ):
                # A small limit makes small calls rather than few: they see fresher views.
                each = -(-state.pace.limit // self.calls_in_flight)
                out.append(self._call_of(state, state.epoch, most=min(room, each)))
        return out

    def nudge(self, shards: Iterable[int]) -> list[SendTurns]:
        """Calls without turns to those that have no call open: they read the log at once."""
        states = [self.shards[shard] for shard in shards]
        return [
            self._sent(state, state.epoch, [])
            for state in states
            if state.epoch is not None and not state.calls
        ]

    def _call_of(self, state: ShardState, epoch: Epoch, *, most: int) -> SendTurns:
        turns: list[Turn] = []
        tasks = 0
        while state.waiting and len(turns) < min(most, self.turns_per_call):
            size = cost(state.waiting[0])
            if turns and tasks + size > self.tasks_per_call:
                break
            turns.append(state.waiting.popleft())
            tasks += size
        return self._sent(state, epoch, turns)

    def _sent(self, state: ShardState, epoch: Epoch, turns: list[Turn]) -> SendTurns:
        self.last_call += 1
        state.calls[self.last_call] = turns
        return SendTurns(shard=state.shard, epoch=epoch, call=self.last_call, turns=turns)

    def returned(self, shard: int, call: int) -> list[Turn]:
        """A call came back; the turns it carried ([] where the worker was given up meanwhile)."""
        state = self.shards[shard]
        turns = state.calls.pop(call, [])
        state.outstanding -= sum(weight(turn) for turn in turns)
        return turns

    def judged(self, shard: int, call: int, *, statements: int, lost: int) -> None:
        """Count the statements of a call that were judged, and those that lost to other shards."""
        self.shards[shard].pace.judged(
            call=call, last_call=self.last_call, statements=statements, lost=lost
        )

    # --- workers ------------------------------------------------------------------------------

    def up(self, shard: int, epoch: Epoch) -> None:
        self.shards[shard].epoch = epoch
        self.shards[shard].served = str(epoch)
        self.shards[shard].position = ""
        self.shards[shard].fenced = False

    def followed(self, shard: int, epoch: Epoch, position: str) -> None:
        """Note how far the worker under this epoch has read the log."""
        state = self.shards[shard]
        if state.epoch == epoch:
            state.position = position

    def down(self, shard: int) -> tuple[list[Turn], list[Turn]]:
        """A worker is gone: the turns that it had (outcome unknown) and those never sent."""
        state = self.shards[shard]
        sent = [turn for turns in state.calls.values() for turn in turns]
        unsent = list(state.waiting)
        state.calls.clear()
        state.waiting.clear()
        state.outstanding = 0
        state.epoch = None
        state.fenced = True
        return sent, unsent

    # --- capacity per shard -------------------------------------------------------------------

    def assign(self, changed: Mapping[int, int]) -> None:
        """Other shards for these rows: idle sums follow their nodes. Rows of a shard that there is
        not are left out."""
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
        """Take up the nodes that are moving between shards: (giver, taker) of each."""
        for state in self.shards.values():
            state.giving = state.taking = 0
        for giver, taker in moves:
            if giver in self.shards and taker in self.shards:
                self.shards[giver].giving += 1
                self.shards[taker].taking += 1

    def _count(self, row: int, shard: int, sign: int) -> None:
        state = self.shards[shard]
        state.nodes += sign * (row in self._present)
        add(state.idle, self._node_idle.get(row, {}).items(), sign)

    def offer(self, row: int, requests: Requests, sign: int) -> None:
        """A node came (+1) or went (-1) with this allocatable."""
        if sign > 0:
            self._present.add(row)
        else:
            self._present.discard(row)
        add(self._node_idle.setdefault(row, {}), requests, sign)
        shard = self.shard_of.get(row)
        if shard is not None:
            add(self.shards[shard].idle, requests, sign)
            self.shards[shard].nodes += sign

    def idle_of(self, row: int) -> Mapping[int, int]:
        """The idle amounts of a node, by slot; empty where the row is unknown."""
        return self._node_idle.get(row, {})

    def busy(self, row: int, allocatable: Requests) -> bool:
        """Whether tasks have something of a node that offers this much."""
        idle = self._node_idle.get(row, {})
        return any(idle.get(slot, 0) != amount for slot, amount in allocatable)

    def used(self, rows: Iterable[int], requests: Requests, sign: int) -> None:
        """Tasks took (+1) or left (-1) their nodes, also such as are gone and may come back."""
        for row, count in Counter(rows).items():
            add(self._node_idle.setdefault(row, {}), requests, -sign * count)
            shard = self.shard_of.get(row)
            if shard is not None:
                add(self.shards[shard].idle, requests, -sign * count)


def cost(turn: Turn) -> int:
    """The share of a call that a turn uses, counted in tasks of flat turns."""
    return weight(turn) + (SESSION_TASKS if turn.world else 0)


def weight(turn: Turn) -> int:
    """Work in a turn: its tasks (at least one)."""
    return max(1, sum(len(run.tasks) for run in turn.runs))


def _covers(idle: Amounts, need: Amounts) -> bool:
    return all(idle.get(slot, 0) >= amount for slot, amount in need.items())
