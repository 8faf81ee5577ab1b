"""A node whose tasks hold more than it has does not hide what other nodes have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.intake.changes import Changes
from coordinator.jobs.charges.cluster_capacity import ClusterCapacity
from shared.messages.messages import Epoch, TaskState
from shared.model.model import Requests
from shared.units.slots import CPU
from tests.builders.rows import ONE, job, node
from tests.coordinator.core.test_core import sends
from tests.coordinator.jobs.leaving import run
from tests.coordinator.order.helpers import order

ROWS, SHARDS, SLOTS = 3, 2, (0, 1)

amounts = st.tuples(*[st.tuples(st.just(slot), st.integers(0, 9)) for slot in SLOTS])
Step = tuple[str, int, Requests, int]
"""(event, row, amounts, the shard that gets it)"""
steps = st.lists(
    st.tuples(
        st.sampled_from(["offer", "use", "return", "own"]),
        st.integers(0, ROWS - 1),
        amounts,
        st.integers(-1, SHARDS - 1),
    ),
    max_size=30,
)


class NaiveNodes:
    """Oracle of offered and used amounts of nodes, added up anew for each question."""

    def __init__(self) -> None:
        self.offered: dict[int, Requests] = {}
        self.used: dict[int, dict[int, int]] = {row: dict.fromkeys(SLOTS, 0) for row in range(ROWS)}
        self.owner: dict[int, int] = {}

    def idle(self, row: int, slot: int) -> int:
        return max(0, dict(self.offered.get(row, ())).get(slot, 0) - self.used[row][slot])


@given(steps, amounts)
def test_sums_are_those_of_a_naive_count_by_node(taken: list[Step], need: Requests) -> None:
    naive, dispatcher = NaiveNodes(), Dispatcher(SHARDS)
    for what, row, requests, shard in taken:
        if what == "own":
            dispatcher.assign({row: shard})
            naive.owner[row] = shard
        elif what == "offer":
            if row in naive.offered:
                dispatcher.offer(row, naive.offered[row], -1)
            dispatcher.offer(row, requests, +1)
            naive.offered[row] = requests
        else:
            sign = +1 if what == "use" else -1
            dispatcher.used([row], requests, sign)
            for slot, amount in requests:
                naive.used[row][slot] += sign * amount
    for shard, state in dispatcher.shards.items():
        rows = [row for row, owner in naive.owner.items() if owner == shard]
        for slot in SLOTS:
            assert state.idle.get(slot, 0) == sum(naive.idle(row, slot) for row in rows)
    capacity = ClusterCapacity(overfull=dispatcher.overfull)
    for slot in SLOTS:
        offered = [dict(requests).get(slot, 0) for requests in naive.offered.values()]
        used = [amounts_used[slot] for amounts_used in naive.used.values()]
        capacity.offered[slot] = sum(offered)
        capacity.idle[slot] = sum(offered) - sum(used)
        assert capacity.idle_on_nodes(slot) == sum(naive.idle(row, slot) for row in range(ROWS))
    covered = all(sum(naive.idle(row, slot) for row in range(ROWS)) >= n for slot, n in need)
    assert capacity.covers(dict(need)) is covered
    dispatcher.validate()


def test_a_gang_gets_a_turn_for_what_another_node_has() -> None:
    core = Coordinator(order(nodes=0), Dispatcher(1))
    core.admitted(Changes(classes={0: ONE}, nodes=[node(0, cpus=4)], jobs=[job(1, count=4)]))
    core.repartition()
    core.worker_up(0, Epoch(1, "x"))
    run(core, 1)
    core.admitted(Changes(nodes=[node(0, cpus=1), node(1, cpus=4)], jobs=[job(2, count=4)]))
    assert core.order.accounts.capacity.idle[CPU] == 1000
    assert [turn.jid for send in sends(core) for turn in send.turns] == [2]
    core.validate()


def test_a_node_that_is_deleted_under_its_tasks_hides_nothing_either() -> None:
    core = Coordinator(order(nodes=0), Dispatcher(1))
    core.admitted(Changes(classes={0: ONE}, nodes=[node(0, cpus=4)], jobs=[job(1, count=4)]))
    core.repartition()
    core.worker_up(0, Epoch(1, "x"))
    run(core, 1)
    core.admitted(Changes(nodes=[node(1, cpus=4)], nodes_gone=[0], jobs=[job(2, count=4)]))
    assert core.order.accounts.capacity.could_give(CPU) == 4000
    assert [turn.jid for send in sends(core) for turn in send.turns] == [2]
    assert core.order.accounts.tasks[TaskState.RUNNING] == 4
    core.validate()
