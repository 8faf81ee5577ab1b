"""Order under a KAI policy: the queue is chosen with the next job of each, down the tree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.order.order import Order
from shard_worker.dialects.kai.actions import allocate
from shard_worker.dialects.kai.model import KaiJob
from shard_worker.dialects.kai.service.queues import QueueShares
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.dialects.open_session import open_session
from shared.codec.packed import replace
from shared.messages.messages import (
    ALLOCATE,
    Group,
    Outcome,
    OutcomeCode,
    Placement,
    TaskState,
    Turn,
)
from shared.model.model import Node, Queue
from shared.policy.dialect import parse_policy
from tests.coordinator.order.helpers import answer, turns
from tests.shard_worker.dialects.kai.clusters import GPU, KaiCluster


@dataclass(frozen=True)
class Queue_:
    name: str
    parent: str = ""
    quota: int = 0
    limit: int = -1
    priority: int = 100


@dataclass(frozen=True)
class QueuedJob:
    name: str
    queue: str
    tasks: int = 1
    gpus: int = 1
    minimum: int | None = None
    priority: int = 50


class SessionAndOrder:
    """The same queues and jobs for a session, as a replay has it, and for Order."""

    def __init__(
        self, queues: list[Queue_], jobs: list[QueuedJob], *, gpus: int, policy: dict[str, object]
    ) -> None:
        self._cluster = KaiCluster(**policy)
        self._policy = parse_policy({"dialect": "kai", "actions": "allocate", **policy})
        self._cluster.node("n", resources={GPU: gpus})
        for queue in queues:
            self._cluster.queue(
                queue.name,
                parent=queue.parent,
                quota=queue.quota,
                limit=queue.limit,
                priority=queue.priority,
            )
        for job in jobs:
            self._cluster.job(
                job.name,
                tasks=job.tasks,
                minimum=job.minimum,
                queue=job.queue,
                priority=job.priority,
                resources={GPU: job.gpus, "cpu": 0.1},
            )

    def session(self) -> KaiSession:
        return self._cluster.open()

    def order(self, *, window: int = 1) -> Order:
        world = self.session().world
        order = Order(open_session(self._policy), window=window, tail_limit=1)
        accounts, objects = order.accounts, world.objects
        accounts.cluster.names = world.view.slot_names
        accounts.classes.update({task.role.cid: task.cls for task in world.tasks()})
        for row in range(world.view.size):
            if world.view.exists()[row]:
                accounts.put_node(Node(row, "n", tuple(sorted(world.total.items()))))
        qids = {name: at for at, name in enumerate(objects.kai_queues)}
        for name, record in objects.kai_queues.items():
            order.put_object(record)
            parent = qids.get(record.parent, -1)
            gpu = list(world.view.slot_names).index(GPU)
            limit = record.gpu.limit
            order.put_queue(
                Queue(
                    qids[name],
                    name,
                    parent=parent,
                    capability=None if limit < 0 else ((gpu, limit),),
                    created=record.created,
                )
            )
        for job in world.session_jobs():
            group = objects.kai_groups[job.job.key]
            order.put_object(group)
            groups = (Group(parent=-1, minimum=group.min_member),)
            order.put_job(replace(job.job, kind="PodGroup", queue=group.queue, groups=groups))
        return order


def turns_of_session(session: KaiSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs whose turns placed something, in order."""
    placed: list[str] = []
    turn = allocate.turn

    def recording_turn(ssn: KaiSession, job: KaiJob) -> bool:
        did = turn(ssn, job)
        placed.extend([job.job.job.name] * did)
        return did

    with monkeypatch.context() as patch:
        patch.setattr(allocate, "turn", recording_turn)
        allocate.execute(session)
    return placed


def turns_of_order(order: Order, *, limit: int = 200) -> list[str]:
    """The jobs of the turns, each of which finds its place at once."""
    placed: list[str] = []
    for _ in range(limit):
        order.begin(0.0)
        turn = order.next_turn()
        if turn is None:
            return placed
        placed.append(order.jobs[turn.jid].job.name)
        order.outcome(whole(order, turn))
    raise AssertionError(placed)


def whole(order: Order, turn: Turn) -> Outcome:
    """All that the turn needs got node 0."""
    left = dict(order.jobs[turn.jid].charge)
    placements = []
    for run in turn.runs:
        tasks = run.tasks[: left.get(run.cid, 0)]
        left[run.cid] = left.get(run.cid, 0) - len(tasks)
        places = [0] * len(tasks)
        placements.append(
            Placement(cid=run.cid, kind=ALLOCATE, tasks=tasks, rows=places, levels=[1] * len(tasks))
        )
    return Outcome(
        jid=turn.jid,
        code=OutcomeCode.PLACED,
        placements=[p for p in placements if p.tasks],
        reasons={},
    )


def infeasible(turn: Turn) -> Outcome:
    return answer(turn, OutcomeCode.INFEASIBLE, {"NotEnoughResources": 1})


TREE = [
    Queue_("left", quota=4),
    Queue_("right", quota=4),
    Queue_("l1", "left", quota=2),
    Queue_("l2", "left", quota=2, priority=200),
    Queue_("r1", "right", quota=4),
    Queue_("deep", "right"),
    Queue_("d1", "deep", quota=1),
    Queue_("d2", "deep", limit=5),
]
LEAVES = ["l1", "l2", "r1", "d1", "d2"]

quotas = st.lists(st.sampled_from([-1, 0, 1, 2, 4]), min_size=len(TREE), max_size=len(TREE))
job_shapes = st.lists(
    st.builds(
        partial(QueuedJob, "?"),
        st.sampled_from(LEAVES),
        tasks=st.integers(1, 3),
        gpus=st.integers(0, 3),
        minimum=st.sampled_from([1, None]),
        priority=st.sampled_from([50, 50, 75]),
    ),
    min_size=1,
    max_size=10,
)


@given(quotas, job_shapes, st.integers(1, 3))
@example([4, 4, 2, 2, 4, 0, 1, 0], [QueuedJob("?", leaf, 2) for leaf in LEAVES * 2], 2)
def test_turns_come_in_the_order_of_a_session(
    quotas: list[int], shapes: list[QueuedJob], room: int
) -> None:
    """With room for all, so that a session's one pass is what a service's many passes are."""
    queues = [replace_quota(queue, quota) for queue, quota in zip(TREE, quotas, strict=True)]
    queues = [Queue_(q.name, q.parent, q.quota, -1, q.priority) for q in queues]
    jobs = [
        QueuedJob(f"j{at}", s.queue, s.tasks, s.gpus, s.minimum, s.priority)
        for at, s in enumerate(shapes)
    ]
    both = SessionAndOrder(queues, jobs, gpus=100 * room, policy={})
    with pytest.MonkeyPatch.context() as patch:
        expected = turns_of_session(both.session(), patch)
    assert turns_of_order(both.order()) == expected


def replace_quota(queue: Queue_, quota: int) -> Queue_:
    return Queue_(queue.name, queue.parent, quota, queue.limit, queue.priority)


def test_the_next_job_of_each_queue_counts() -> None:
    """Both have nothing: the one whose job stays within its quota goes first, else the older."""
    queues = [Queue_("a", quota=2), Queue_("b", quota=2)]
    jobs = [QueuedJob("large", "a", gpus=3), QueuedJob("small", "b", gpus=2)]
    order = SessionAndOrder(queues, jobs, gpus=8, policy={}).order()
    assert turns_of_order(order) == ["small", "large"]


def test_a_job_that_its_queue_has_no_room_for_counts_until_its_turn_came() -> None:
    """Queue a comes last with its job beyond its limit, which then fails; the job behind it would
    have come first. Nobody waits behind the one that failed."""
    queues = [Queue_("a", quota=8, limit=4), Queue_("b", quota=8)]
    jobs = [
        QueuedJob("beyond", "a", gpus=5, priority=75),
        QueuedJob("behind", "a", gpus=1),
        QueuedJob("other", "b", gpus=3),
    ]
    both = SessionAndOrder(queues, jobs, gpus=8, policy={})
    order = both.order(window=8)
    order.begin(0.0)
    turns = [order.next_turn() for _ in range(3)]
    names = [None if turn is None else order.jobs[turn.jid].job.name for turn in turns]
    assert names == ["other", "behind", None]
    with pytest.MonkeyPatch.context() as patch:
        assert turns_of_session(both.session(), patch) == names[:2]
    assert order.jobs[first_of(order, "beyond")].reason == "WaitingForQuota"


def first_of(order: Order, name: str) -> int:
    return next(jid for jid, state in order.jobs.items() if state.job.name == name)


def test_an_infeasible_job_does_not_block_the_job_behind_it() -> None:
    """It comes first in its queue again, and does not keep the job behind it from its turn."""
    queues = [Queue_("a", quota=8)]
    jobs = [QueuedJob("hopeless", "a", gpus=4, priority=75), QueuedJob("behind", "a", gpus=1)]
    order = SessionAndOrder(queues, jobs, gpus=8, policy={}).order()
    order.begin(0.0)
    turn = order.next_turn()
    assert turn is not None and order.jobs[turn.jid].job.name == "hopeless"
    order.outcome(infeasible(turn))
    order.begin(0.0)
    turn = order.next_turn()
    assert turn is not None and order.jobs[turn.jid].job.name == "behind"


@pytest.mark.parametrize("others", [0, 40])
def test_exactly_the_first_n_jobs_of_each_queue_are_tried(others: int) -> None:
    """By job order, over lines of different needs, those that fail included. ``others``: jobs with
    needs of their own, so that the lines of the queue are kept sorted."""
    queues = [Queue_("a", quota=8), Queue_("b", quota=8)]
    jobs = [
        QueuedJob("third", "a", gpus=1),
        QueuedJob("first", "a", gpus=3, priority=90),
        QueuedJob("second", "a", gpus=99, priority=80),
        QueuedJob("fourth", "a", gpus=1, priority=40),
        QueuedJob("b1", "b", gpus=1),
    ]
    jobs += [QueuedJob(f"o{at}", "a", gpus=1, tasks=2 + at, priority=10) for at in range(others)]
    policy: dict[str, object] = {"queueDepthPerAction": {"allocate": 2}}
    order = SessionAndOrder(queues, jobs, gpus=20, policy=policy).order(window=8)
    order.begin(0.0)
    opened = []
    while (turn := order.next_turn()) is not None:
        opened.append(turn)
    assert sorted(order.jobs[turn.jid].job.name for turn in opened) == ["b1", "first"]
    assert not again(order), "a job that is out counts"
    for turn in opened:
        order.outcome(whole(order, turn))
    assert again(order) == ["third"], "second has no room and counts all the same"


def test_a_job_whose_turn_is_lost_counts_among_the_first() -> None:
    jobs = [QueuedJob("first", "a", priority=90), QueuedJob("second", "a")]
    policy: dict[str, object] = {"queueDepthPerAction": {"allocate": 1}}
    order = SessionAndOrder([Queue_("a", quota=8)], jobs, gpus=20, policy=policy).order(window=8)
    (turn,) = turns(order)
    order.outcome(answer(turn, OutcomeCode.STALE))
    assert not turns(order), "the records of the first are being read"
    order.resolve(turn.jid, bytearray([TaskState.PENDING]))
    assert not turns(order), "what the lost turn may have promised is being released"
    order.nominations_released([turn.jid])
    assert [order.jobs[turn.jid].job.name for turn in turns(order)] == ["first"]


def again(order: Order) -> list[str]:
    order.begin(0.0)
    turn = order.next_turn()
    return [] if turn is None else [order.jobs[turn.jid].job.name]


def test_a_flat_tree_compares_leaves_alone() -> None:
    """The quota of left is less than that of l1 below it, which only a flat tree leaves to it."""
    queues = [
        Queue_("left", quota=1),
        Queue_("right", quota=9),
        Queue_("l1", "left", quota=5),
        Queue_("r1", "right", quota=0),
    ]
    jobs = [QueuedJob("l", "l1", gpus=2), QueuedJob("r", "r1", gpus=2)]
    assert turns_of_order(SessionAndOrder(queues, jobs, gpus=8, policy={}).order()) == ["r", "l"]
    flat: dict[str, object] = {"options": {"full-hierarchy-fairness": False}}
    assert turns_of_order(SessionAndOrder(queues, jobs, gpus=8, policy=flat).order()) == ["l", "r"]


def test_a_full_cluster_asks_for_no_queues_place(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = [Queue_("top"), *(Queue_(f"q{at}", "top") for at in range(30))]
    jobs = [QueuedJob(f"j{at}", f"q{at % 30}") for at in range(60)]
    order = SessionAndOrder(queues, jobs, gpus=2, policy={}).order(window=64)
    asked: list[str] = []
    contender = QueueShares.contender

    def counted(self, queue, asks, cluster):  # type: ignore[no-untyped-def]
        asked.append(queue.queue.name)
        return contender(self, queue, asks, cluster)

    monkeypatch.setattr(QueueShares, "contender", counted)
    assert len(turns(order)) == 2
    assert len(asked) <= 31 + 2 * 2, "each queue once, and the path of each turn"
    asked.clear()
    assert not turns(order, now=1.0)
    assert not asked
