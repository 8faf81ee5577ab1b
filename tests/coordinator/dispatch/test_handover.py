"""Hand-over: two phases, nothing is two shards' own, and no crash or lost worker skips one.

The core is driven step by step here; runs with everything in them are in
``tests/laboratory/simulation``.
"""

from __future__ import annotations

import pytest

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher, SendTurns
from coordinator.dispatch.instructions import Repartition, Reread
from coordinator.dispatch.rebalance import PAUSE_SECONDS
from coordinator.intake.changes import Changes
from shared.ledger.entries.intake_batch import Move, PutPartition
from shared.messages.messages import Epoch
from shared.model.topology import HyperNode
from shared.units.slots import CPU
from tests.builders.rows import ONE, job, node
from tests.coordinator.order.helpers import order

EPOCH = Epoch(1, "x")


class HandoverStage:
    """A core, and what it gave out; partitions are stored as soon as they are asked for."""

    def __init__(self, *, nodes: int = 20, shards: int = 2, jobs: int = 0, up: bool = True) -> None:
        self.core = Coordinator(order(nodes=0, window=16), Dispatcher(shards), mode="hard")
        self.puts: list[PutPartition] = []
        self.calls: dict[int, SendTurns] = {}
        self.log = 0
        self.core.admitted(
            Changes(
                classes={0: ONE},
                nodes=[node(row) for row in range(nodes)],
                jobs=[job(jid) for jid in range(jobs)],
            )
        )
        if up:
            self.look()
            for shard in range(shards):
                self.core.worker_up(shard, EPOCH)

    def look(self, now: float = 0.0) -> PutPartition | None:
        """Store the result of :meth:`Coordinator.repartition`."""
        partition = self.core.repartition(now)
        return None if partition is None else self.store(partition)

    def store(self, repartition: Repartition) -> PutPartition:
        self.puts.append(repartition.put)
        self.log += 1
        self.core.partition_stored(f"{self.log}-0")
        return repartition.put

    def step(self, now: float = 0.0) -> list[PutPartition]:
        stored = []
        for instruction in self.core.step(now):
            match instruction:
                case SendTurns():
                    self.calls[instruction.call] = instruction
                case Repartition():
                    stored.append(self.store(instruction))
                case _:
                    assert isinstance(instruction, Reread)
        return stored

    def answer(self, send: SendTurns, *, read: int | None = None) -> None:
        """The call comes back; its worker has read the log up to ``read``, else all of it."""
        del self.calls[send.call]
        position = f"{self.log if read is None else read}-0"
        self.core.followed(send.shard, send.epoch, position)
        self.core.turns_returned(send.shard, send.call, [])

    def answer_all(self) -> None:
        for send in list(self.calls.values()):
            self.answer(send)

    def pull_together(self) -> PutPartition:
        """A domain of rows 0 and 1, of two shards by now: one of them changes hands."""
        self.core.admitted(Changes(hyper_nodes=[HyperNode.of("h", 1, ("n0", "n1"))]))
        put = self.look()
        assert put is not None
        return put


def owner(put: PutPartition, row: int) -> int | None:
    results = [shard for shard, rows in put.shards.items() if row in rows]
    assert len(results) <= 1
    return results[0] if results else None


# --- two phases -------------------------------------------------------------------------------


def test_first_nobody_has_the_row_then_the_taker() -> None:
    stage = HandoverStage()
    assert owner(stage.puts[0], 1) == 1
    first = stage.pull_together()
    assert first.moving == [Move(giver=1, taker=0, rows=[1])]
    assert owner(first, 1) is None
    assert first.mode == "hard"
    assert stage.step() == []
    assert [send.shard for send in stage.calls.values()] == [1]  # asked to read the log
    assert stage.step() == []
    stage.answer_all()
    (second,) = stage.step()
    assert second.moving == []
    assert second.revision == first.revision + 1
    assert owner(second, 1) == 0
    assert stage.core.tally.nodes_moved == 1
    assert stage.look() is None
    assert stage.step() == []


def test_a_call_that_may_have_been_planned_before_holds_it_up() -> None:
    stage = HandoverStage(jobs=4)
    stage.step()
    sent = [send for send in stage.calls.values() if send.shard == 1]
    assert sent
    stage.pull_together()
    assert stage.step() == []
    stage.core.followed(1, EPOCH, "9-0")  # the worker has read of it, in a call that is not back
    assert stage.step() == []
    for send in sent:
        stage.answer(send)
    assert len(stage.step()) == 1


def test_a_position_before_the_move_does_not_count() -> None:
    """A call came twice, say: its first answer is here, the second is at work on an old view."""
    stage = HandoverStage()
    first = stage.pull_together()
    stage.step()
    (beat,) = stage.calls.values()
    stage.answer(beat, read=stage.log - 1)
    assert stage.step() == []
    stage.answer_all()
    (second,) = stage.step()
    assert second.revision == first.revision + 1


def test_it_does_not_begin_before_it_is_told() -> None:
    stage = HandoverStage()
    stage.core.admitted(Changes(hyper_nodes=[HyperNode.of("h", 1, ("n0", "n1"))]))
    given_out = stage.core.repartition()
    assert given_out is not None
    stage.core.followed(1, EPOCH, "100-0")
    assert stage.step() == []
    assert stage.core.repartition() is None  # one at a time
    stage.store(given_out)
    stage.core.followed(1, EPOCH, "100-0")
    assert len(stage.step()) == 1


def test_the_takers_and_other_shards_need_not_be_asked() -> None:
    stage = HandoverStage(nodes=30, shards=3)
    stage.pull_together()
    stage.core.worker_lost(2)
    stage.core.followed(1, EPOCH, "9-0")
    (second,) = stage.step()
    assert owner(second, 1) == 0


def test_a_lost_giver_holds_nothing_up_and_its_successor_must_have_read() -> None:
    stage = HandoverStage()
    stage.pull_together()
    stage.step()
    stage.core.dispatcher.shards[1].epoch = None  # given up; its epoch is not void yet
    assert stage.step() == []
    stage.core.worker_lost(1)
    stage.core.worker_up(1, Epoch(2, "y"))
    stage.core.followed(1, EPOCH, "9-0")  # the last word of the old one
    stage.calls.clear()
    assert stage.step() == []
    stage.answer_all()
    assert len(stage.step()) == 1


def test_new_nodes_do_not_wait_for_moves_under_way() -> None:
    stage = HandoverStage()
    first = stage.pull_together()
    stage.core.admitted(Changes(nodes=[node(20)]))
    between = stage.look()
    assert between is not None
    assert between.moving == first.moving
    assert owner(between, 20) is not None
    assert stage.look() is None
    stage.step()
    stage.answer_all()
    (second,) = stage.step()
    assert second.moving == []


def test_a_node_that_comes_back_has_its_shard_again() -> None:
    """Not yet read by the worker that had it, its return must not make it two shards' own."""
    stage = HandoverStage()
    shard = owner(stage.puts[-1], 3)
    stage.core.admitted(Changes(nodes_gone=[3]))
    stage.look()
    stage.core.admitted(Changes(nodes=[node(3)]))
    stage.look()
    assert all(owner(put, 3) == shard for put in stage.puts)
    assert all(not put.moving for put in stage.puts)


def test_figures_follow_the_nodes() -> None:
    stage = HandoverStage(nodes=8)
    shards = stage.core.dispatcher.shards
    assert [shards[s].nodes for s in (0, 1)] == [4, 4]
    stage.core.admitted(Changes(nodes_gone=[0, 2]))
    assert [shards[s].nodes for s in (0, 1)] == [2, 4]
    assert shards[0].idle[CPU] == 2 * 4000
    stage.look()
    assert stage.core.partition.handover.moving
    assert [shards[s].nodes for s in (0, 1)] == [3, 3]
    assert shards[0].idle[CPU] == shards[1].idle[CPU] == 3 * 4000


# --- whoever dies -----------------------------------------------------------------------------


@pytest.mark.parametrize("workers_first", [True, False])
def test_a_successor_finishes_a_begun_handover(*, workers_first: bool) -> None:
    first = HandoverStage().pull_together()
    stage = HandoverStage(up=False)
    stage.core.restore_partition(first, at="7-0")
    stage.log = 7
    if workers_first:
        for shard in (0, 1):
            stage.core.worker_up(shard, Epoch(2, "z"))
        assert stage.step() == []
        stage.answer_all()
    stored = stage.step()  # nobody is up: all that there was is void
    assert [put.revision for put in stored] == [first.revision + 1]
    assert owner(stored[0], 1) == 0


def test_a_successor_keeps_a_finished_handover() -> None:
    before = HandoverStage()
    stage = HandoverStage(up=False)
    stage.core.restore_partition(before.puts[-1], at="7-0")
    assert stage.look() is None
    assert stage.step() == []


def test_a_successor_in_another_mode_tells_so() -> None:
    before = HandoverStage()
    core = Coordinator(order(nodes=0), Dispatcher(2), mode="soft")
    core.restore_partition(before.puts[-1], at="7-0")
    core.admitted(Changes(nodes=[node(row) for row in range(20)]))
    partition = core.repartition()
    assert partition is not None
    assert partition.put.mode == "soft"
    assert partition.put.shards == before.puts[-1].shards
    assert core.repartition() is None


def test_more_shards_take_their_part_at_once_and_in_two_phases() -> None:
    before = HandoverStage(nodes=40)
    stage = HandoverStage(nodes=40, shards=4, up=False)
    stage.core.restore_partition(before.puts[-1], at="7-0")
    first = stage.look()
    assert first is not None
    assert sum(len(move.rows) for move in first.moving) >= 18
    (second,) = stage.step()
    sizes = [len(rows) for rows in second.shards.values()]
    assert max(sizes) - min(sizes) <= 1


# --- all together -----------------------------------------------------------------------------


def test_a_rebalance_goes_on_in_pauses_until_it_is_done() -> None:
    stage = HandoverStage(nodes=200)
    stage.core.partition.rebalancer.__init__(60)  # type: ignore[misc]
    stage.core.dispatcher.used(range(200), ONE.requests, +1)
    gone = [row for row in range(200) if row % 2 == 0 and row < 170]
    stage.core.admitted(Changes(nodes_gone=gone))
    now, sizes = 0.0, []
    for _ in range(400):
        stage.look(now)
        stage.step(now)
        stage.answer_all()
        stage.step(now)
        sizes.append([stage.core.dispatcher.shards[s].nodes for s in (0, 1)])
        now += PAUSE_SECONDS / 4
    assert sum(sizes[-1]) == 115
    assert abs(sizes[-1][0] - sizes[-1][1]) <= 6
    assert stage.core.tally.nodes_moved <= 43
    assert stage.look(now) is None
