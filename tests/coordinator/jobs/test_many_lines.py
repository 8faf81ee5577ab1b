"""Many different needs in one queue: the same turns as by a scan of every line, in few looks."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.order.order import Order
from shard_worker.dialects.open_session import open_session
from shard_worker.framework.session import Session
from shard_worker.session_model.workload import ClusterInfo, JobInfo, QueueInfo
from shared.messages.messages import Outcome, OutcomeCode, TaskState, Turn
from shared.model.model import Node, Queue, Requests, TaskClass
from shared.policy.dialect import parse_policy
from shared.units.slots import CPU, MEMORY, PODS
from tests.builders.rows import job
from tests.coordinator.order.helpers import answer, placed, turns
from tests.examples import examples

GPU = 7
EVERY_LINE = 10**9
"""No queue has so many lines: all are scanned."""


class Odd:
    """Refuses what no amount tells."""

    name = "odd"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_allocatable_fn(self.allocatable)
        ssn.report_limits(lambda queue, asked, cluster: None)

    def allocatable(self, queue: QueueInfo, requests: Requests, cluster: ClusterInfo) -> bool:
        del queue, cluster
        return sum(amount for _, amount in requests) % 3 != 0


class Compared:
    """An order of jobs that has no keys."""

    name = "compared"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_fn(self.compare)

    def compare(self, left: JobInfo, right: JobInfo, cluster: ClusterInfo) -> float:
        del cluster
        return right.job.priority % 3 - left.job.priority % 3


FIRST = [{"name": "priority"}, {"name": "gang"}, {"name": "drf"}]
POLICIES: dict[str, list[dict[str, Any]]] = {
    "proportion": [{"plugins": FIRST}, {"plugins": [{"name": "proportion"}]}],
    "capacity": [{"plugins": FIRST}, {"plugins": [{"name": "capacity"}]}],
    "capacity of a tree": [
        {"plugins": FIRST},
        {"plugins": [{"name": "capacity", "enableHierarchy": True}]},
    ],
    "sla": [{"plugins": [{"name": "sla"}, {"name": "proportion"}, *FIRST]}],
    "odd": [{"plugins": [{"name": "odd"}, *FIRST]}, {"plugins": [{"name": "proportion"}]}],
    "compared": [{"plugins": [{"name": "compared"}, {"name": "proportion"}]}],
    "no shares": [{"plugins": [{"name": "drf"}]}],
}


def opened(policy: str, actions: str = "allocate") -> Session:
    items = [
        {**tier, "plugins": [p for p in tier["plugins"] if p["name"] not in ("odd", "compared")]}
        for tier in POLICIES[policy]
    ]
    parsed = parse_policy({"actions": actions, "tiers": items})
    session = open_session(parsed)
    for own in (Odd, Compared):
        if any(own.name == p["name"] for tier in POLICIES[policy] for p in tier["plugins"]):
            with session.speaking(0, parsed.tiers[0][0]):
                own().on_session_open(session)
    return session


class Twin:
    """Two orders that hear the same: one scans every line, one keeps all in order."""

    def __init__(
        self, policy: str, *, window: int, lend: bool, count_first: bool, scanned: int
    ) -> None:
        """``scanned``: lines of a queue that the second one scans, too."""
        self.orders = [
            Order(opened(policy), window=window, work_conserving=lend, count_first=count_first)
            for _ in range(2)
        ]
        for order, lines in zip(self.orders, (EVERY_LINE, scanned), strict=True):
            order.lines.scanned = lines

    def each(self, what: Callable[[Order], Any]) -> list[Any]:
        return [what(order) for order in self.orders]

    def tell(self, method: str, *args: Any, **options: Any) -> None:
        for order in self.orders:
            attrgetter(method)(order)(*args, **options)

    def turns(self, now: float) -> list[Turn]:
        scanned, searched = self.each(lambda order: turns(order, now))
        assert [turn_fields(t) for t in searched] == [turn_fields(t) for t in scanned]
        self.each(lambda order: order.validate())
        left, right = self.each(lambda o: {j: (s.status, s.attempts) for j, s in o.jobs.items()})
        assert left == right
        heads = self.each(lambda o: [head(o, queue) for queue in o.lines.queues.values()])
        assert heads[0] == heads[1]
        result: list[Turn] = scanned
        return result


def turn_fields(turn: Turn) -> tuple[Any, ...]:
    return (turn.jid, turn.qid, turn.runs, turn.tail, turn.attempt, turn.nominated)


def head(order: Order, queue: Any) -> Any:
    result = order.lines.head(queue)
    return None if result is None else result.need


QUEUES = [
    Queue(qid=0, name="root"),
    Queue(qid=1, name="a", parent=0),
    Queue(qid=2, name="b", parent=0),
    Queue(qid=3, name="c", parent=2),
]


def play(rng: Random, twin: Twin, policy: str) -> None:
    cids = 24
    classes = {
        cid: TaskClass(
            requests=(
                (CPU, 500 * rng.randrange(1, 7)),
                *([(MEMORY, rng.randrange(1, 6))] if rng.random() < 0.6 else []),
                *([(GPU, rng.randrange(1, 3))] if rng.random() < 0.2 else []),
                (PODS, 1),
            )
        )
        for cid in range(cids)
    }
    leaves = ["a", "c"] if "tree" in policy else ["a", "b", "c"]
    twin.tell("accounts.classes.update", classes)
    for queue in QUEUES if "tree" in policy else QUEUES[1:]:
        parent = queue.parent if "tree" in policy else -1
        new_queue = Queue(qid=queue.qid, name=queue.name, parent=parent, weight=rng.randrange(1, 4))
        twin.tell("put_queue", new_queue)
    for row in range(3):
        offer = ((CPU, 4000), (MEMORY, 8), (GPU, 2), (PODS, 9))
        node = Node(row=row, name=f"n{row}", allocatable=offer)
        twin.tell("accounts.put_node", node)
    now, jid, out = 0.0, 0, list[Turn]()
    placed_tasks: list[tuple[int, int]] = []
    for _ in range(40):
        for _ in range(rng.randrange(6)):
            jid += 1
            count = rng.choice([1, 1, 1, 2, 3])
            new = job(
                jid,
                count=count,
                minimum=rng.randrange(0, count + 1),
                queue=rng.choice([*leaves, "c"]),
                cid=rng.randrange(cids),
                priority=rng.randrange(3),
                created=float(rng.randrange(5)),
            )
            twin.tell("put_job", new)
        match rng.randrange(12):
            case 0 if jid:
                gone = rng.randrange(1, jid + 1)
                twin.tell("drop_job", gone)
            case 1:
                queue = rng.choice(QUEUES[1:])
                limit = ((CPU, 500 * rng.randrange(12)),) if rng.random() < 0.6 else None
                changed = Queue(
                    qid=queue.qid,
                    name=queue.name,
                    parent=queue.parent if "tree" in policy else -1,
                    capability=limit,
                    open=rng.random() < 0.8,
                )
                twin.tell("put_queue", changed)
            case 2:
                twin.tell("look_again")
            case 3:
                other = rng.choice([policy, policy, "no shares"])
                for order in twin.orders:
                    order.adopt(opened(other))
            case 4:
                row = rng.randrange(3)
                twin.tell("accounts.drop_node", row)
            case 5:
                row = rng.randrange(3)
                offer = ((CPU, 1000 * rng.randrange(8)), (MEMORY, 8), (GPU, 1), (PODS, 9))
                back = Node(row=row, name=f"n{row}", allocatable=offer)
                twin.tell("accounts.put_node", back)
            case 6 | 7 if placed_tasks:
                ended = placed_tasks.pop(rng.randrange(len(placed_tasks)))
                twin.tell("task_changed", ended[0], TaskState.SUCCEEDED, [ended[1]], [0])
            case _:
                pass
        out += twin.turns(now)
        rng.shuffle(out)
        for turn in out[: rng.randrange(len(out) + 1)]:
            outcome = came_of(rng, turn)
            if outcome.code is OutcomeCode.PLACED:
                placed_tasks += [(turn.jid, tix) for p in outcome.placements for tix in p.tasks]
            twin.tell("outcome", outcome, shard=0)
            out.remove(turn)
        now += rng.choice([0.0, 0.005, 0.02, 0.3])


def came_of(rng: Random, turn: Turn) -> Outcome:
    match rng.randrange(6):
        case 0 | 1:
            return answer(turn, OutcomeCode.INFEASIBLE, {"Insufficient cpu": 3})
        case 2:
            return answer(turn, OutcomeCode.CONFLICT)
        case 3:
            least = max(g.minimum - g.held for g in turn.groups)
            return placed(turn, max(1, least), level=rng.choice([1, 3]))
        case _:
            return placed(turn)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=examples(15), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    window=st.sampled_from([1, 4, 64]),
    lend=st.booleans(),
    count_first=st.booleans(),
    scanned=st.sampled_from([0, 3]),
)
def test_the_turns_are_those_of_a_scan(
    policy: str, *, seed: int, window: int, lend: bool, count_first: bool, scanned: int
) -> None:
    """Under any policy, for any arrivals, departures and outcomes."""
    twin = Twin(policy, window=window, lend=lend, count_first=count_first, scanned=scanned)
    play(Random(seed), twin, policy)


# --- what it costs --------------------------------------------------------------------------------


def looks(order: Order) -> int:
    """Lines and branches that were looked at for picks, so far."""
    orders = [queue.order for queue in order.lines.queues.values() if queue.order is not None]
    return order.lines.looks + sum(one.tree.looks for one in orders)


def waiting(count: int, *, capability: int = 0, policy: str = "proportion") -> Order:
    """A full cluster of one node, and so many jobs of one task that all ask for different amounts
    of both cores and memory. Each job holds 1 core of the 64 that are taken."""
    order = Order(opened(policy), window=64)
    order.accounts.classes.update(
        {
            cid: TaskClass(requests=((CPU, 1000 + cid), (MEMORY, 1000 + cid), (PODS, 1)))
            for cid in range(count + 1)
        }
    )
    limit = ((CPU, capability),) if capability else None
    order.put_queue(Queue(qid=0, name="a", capability=limit))
    offer = ((CPU, 64_000), (MEMORY, 10**9), (PODS, 10**6))
    order.accounts.put_node(Node(row=0, name="n0", allocatable=offer))
    for jid in range(64):
        order.put_job(job(jid, priority=1))
    for turn in turns(order):
        order.outcome(placed(turn))
    for jid in range(64, 64 + count):
        order.put_job(job(jid, cid=jid - 63))
    turns(order)
    return order


def one_more(order: Order, ended: int, now: float) -> int:
    """A task of a running job ends; the looks that it took to find out who is next."""
    before = looks(order)
    order.task_changed(ended, TaskState.SUCCEEDED, [0], [0])
    for turn in turns(order, now):
        order.outcome(placed(turn))
    return looks(order) - before


@pytest.mark.parametrize("case", ["full", "one fits", "beyond its capability", "infeasible"])
def test_a_pick_costs_the_same_for_5000_needs_as_for_200(
    case: str,
) -> None:
    """Looks at lines and branches are counted: a scan takes one for each need."""

    def cost(count: int) -> int:
        order = waiting(count, capability=64_000 if case == "beyond its capability" else 0)
        if case == "beyond its capability":  # the cluster has room for all, the queue has not
            offer = ((CPU, 10**9), (MEMORY, 10**9), (PODS, 10**6))
            order.accounts.put_node(Node(row=1, name="n1", allocatable=offer))
            turns(order, 1.0)
        if case in ("one fits", "infeasible"):  # two that end make room for a few of them
            one_more(order, 0, 1.0)
        if case == "infeasible":
            before = looks(order)
            order.task_changed(1, TaskState.SUCCEEDED, [0], [0])
            for turn in turns(order, 2.0):
                order.outcome(answer(turn, OutcomeCode.INFEASIBLE, {"Insufficient cpu": 1}))
            turns(order, 3.0)
            return looks(order) - before
        return max(one_more(order, ended, 2.0 + ended) for ended in range(1, 20))

    few, many = cost(200), cost(5_000)
    assert many <= 2 * few + 64  # the depth of a tree doubles at most; a scan would take 5,000
    assert many < 400


def test_reading_the_head_of_a_queue_visits_few_lines() -> None:
    """The head of a queue (metrics, aging), and whether anybody else waits (elastic tails)."""
    order = waiting(5_000)
    before = looks(order)
    head = order.lines.head(order.lines.queues[0])
    assert head is not None
    assert head.need == ((1, 1),)
    assert not order.lines.alone()
    assert looks(order) - before < 100
