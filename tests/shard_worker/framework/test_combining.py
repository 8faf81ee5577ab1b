"""How answers of several plugins become one, point by point: each case tells its rule from others.

A case is what the plugins of each tier answer, and what the session makes of it. Plugins register
with the methods that third parties use. A point without a case fails by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from shard_worker.framework.extension_points import (
    EXTENSION_POINTS,
    SIMULATE_ADD_TASK,
    SIMULATE_PREDICATE,
    SIMULATE_REMOVE_TASK,
)
from shard_worker.framework.rules import Check, EventHandler, Purpose, Scope
from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.placement.candidates import fits_idle
from shard_worker.view.hyper_tree import HyperDomain
from shared.model.topology import SubGroupPolicy
from shared.policy.model import PluginOption

Tiers = Sequence[Sequence[Any]]


@dataclass
class PluginStage:
    """A session over two jobs on two nodes, and what its plugins were told."""

    session: Session
    told: list[str]

    def __post_init__(self) -> None:
        world = self.session.world
        self.runs, self.waits = world.session_jobs()
        self.task, self.other = self.waits.tasks[:2]
        self.victims = self.runs.tasks
        self.queue = world.queues[0]
        self.rows = np.array([0, 1])
        self.domain = HyperDomain("d", 1, self.rows)
        self.sub = next(iter(self.waits.subs.values()))


def stage() -> PluginStage:
    cluster = Cluster()
    cluster.node("a")
    cluster.node("b")
    cluster.queue("default")
    cluster.queue("other")
    cluster.job("runs", tasks=3, on=["a", "a", "b"])
    cluster.job("waits", tasks=2)
    return PluginStage(cluster.open(), [])


Cases = Sequence[tuple[Any, Any]]
Register = Callable[[PluginStage, Any], None]
Ask = Callable[[PluginStage], Any]


def compared(point: str) -> Register:
    def register(at: PluginStage, answer: Any) -> None:
        getattr(at.session, f"add_{point}_fn")(lambda *_: answer)

    return register


def said(point: str) -> Register:
    """The rule answers the same to everything."""
    return compared(point)


def chosen(point: str) -> Register:
    """The rule names some of the victims: their indexes, None to abstain."""

    def register(at: PluginStage, answer: Any) -> None:
        picked = None if answer is None else [at.victims[i] for i in answer]
        getattr(at.session, f"add_{point}_fn")(lambda *_: picked)

    return register


def told(point: str) -> Register:
    def register(at: PluginStage, answer: Any) -> None:
        getattr(at.session, f"add_{point}_fn")(lambda *_: at.told.append(answer))

    return register


def indexes(at: PluginStage, tasks: Sequence[Any]) -> list[int]:
    return [at.victims.index(task) for task in tasks]


def static_check(at: PluginStage, answer: Any) -> None:
    at.session.add_predicate_fn(lambda cls, node: answer)


def live_check(at: PluginStage, answer: Any) -> None:
    check = Check(answer, np.zeros(2, np.bool_))
    at.session.add_live_predicate_fn(lambda *_: [check] if answer else [], scope=Scope.NODE)


def reasons(at: PluginStage) -> list[str]:
    return [check.reason for check in at.session.checks(at.task)]


def listener(at: PluginStage, answer: Any) -> None:
    at.session.add_event_handler(
        EventHandler(
            allocate=lambda task: at.told.append(f"+{answer}"),
            deallocate=lambda task: at.told.append(f"-{answer}"),
        )
    )


def tell(at: PluginStage) -> list[str]:
    at.session.notify_allocated(at.task)
    at.session.notify_deallocated(at.task)
    return at.told


def tell_enqueued(at: PluginStage) -> list[str]:
    at.session.job_enqueued(at.waits, at.session.world)
    return at.told


def reserve(at: PluginStage) -> list[str]:
    at.session.reserve_nodes()
    return at.told


def mapped(at: PluginStage, answer: Any) -> None:
    at.session.add_node_map_fn(lambda task, row, world: answer * (row + 1))


def reduced(at: PluginStage, answer: Any) -> None:
    """Maps to the row's number, and reduces with a factor: of its own scores alone."""
    at.session.add_node_map_fn(lambda task, row, world: float(row))
    at.session.add_node_reduce_fn(lambda task, scores: scores * answer)


def scores(at: PluginStage) -> list[float]:
    return list(at.session.node_scores(at.task, at.rows).tolist())


def placed_on_devices(at: PluginStage) -> Any:
    """Devices that a task takes while it is placed; undone, it has none."""
    statement = WorldStatement(at.session)
    statement.allocate(at.task, 0)
    devices = at.task.devices
    statement.rollback()
    assert at.task.devices == ()
    return devices


def idle_devices(at: PluginStage, rows: Sequence[int]) -> None:
    mask = np.isin(at.rows, rows)
    at.session.add_devices_idle_fn(lambda *_: mask)


def named(names: Sequence[str] | None) -> list[list[HyperDomain]]:
    return [[HyperDomain(name, 1, np.array([0])) for name in names or ()]]


def groups(domains: list[list[HyperDomain]]) -> list[list[str]]:
    return [[domain.name for domain in group] for group in domains]


FIRST: Cases = [
    ([[1.0], [-1.0]], 1.0),  # the first tier decides
    ([[0.0, -1.0], [1.0]], -1.0),  # inside a tier the first that tells apart
    ([[0.0], [1.0]], 1.0),
]
ALL: Cases = [
    ([[True, True], [True]], True),
    ([[True], [False]], False),  # a later tier may deny
    ([[False], [True]], False),
    ([], True),
]
VOTE: Cases = [
    ([[1], [-1]], True),  # a permission ends it: the next tier is not heard
    ([[1, -1]], False),  # in one tier a rejection outweighs
    ([[-1, 1]], False),
    ([[0], [-1]], False),
    ([[0], [0]], True),
    ([], True),
]
VICTIMS: Cases = [
    ([[[0, 1], [1, 2]], [[0]]], [1]),  # intersection in a tier; the next one is not heard
    ([[[0], [1]], [[2]]], [2]),  # nothing in common: the next tier
    ([[[], [0, 1]], [[2]]], [2]),
    ([[None, [0, 2]], []], [2, 0]),
    ([[None], [None]], []),
    ([], []),
]
FAILURE: Cases = [
    ([[None, "b"], ["c"]], "b"),
    ([["a"], ["b"]], "a"),
    ([[None]], None),
    ([], None),
]
SUM: Cases = [([[1.0, 2.0], [4.0]], [7.0, 7.0]), ([], [0.0, 0.0])]
EACH: Cases = [([["a", "b"], ["c"]], ["a", "b", "c"])]

POINTS: dict[str, tuple[Register, Ask, Cases]] = {
    "JobOrder": (
        compared("job_order"),
        lambda at: at.session.compare_jobs(at.waits, at.runs),
        FIRST,
    ),
    "QueueOrder": (
        compared("queue_order"),
        lambda at: at.session.compare_queues(at.queue, at.session.world.queues[1]),
        FIRST,
    ),
    "TaskOrder": (
        compared("task_order"),
        lambda at: at.session.compare_tasks(at.other, at.task),
        FIRST,
    ),
    "SubJobOrder": (
        compared("sub_job_order"),
        lambda at: at.session.compare_sub_jobs(at.sub, at.sub),
        FIRST,
    ),
    "ClusterOrder": (
        compared("cluster_order"),
        lambda at: at.session.compare_clusters("x", "y"),
        FIRST,
    ),
    "VictimQueueOrder": (
        compared("victim_queue_order"),
        lambda at: at.session.compare_victim_queues(at.queue, at.session.world.queues[1], at.queue),
        [*FIRST, ([[0.0]], 1.0), ([], 1.0)],  # else the queue that QueueOrder puts last
    ),
    "Preemptable": (
        chosen("preemptable"),
        lambda at: indexes(at, at.session.preemptable(at.task, at.victims)),
        VICTIMS,
    ),
    "Reclaimable": (
        chosen("reclaimable"),
        lambda at: indexes(at, at.session.reclaimable(at.task, at.victims)),
        VICTIMS,
    ),
    "UnifiedEvictable": (
        chosen("unified_evictable"),
        lambda at: indexes(at, at.session.unified_evictable(at.waits, at.victims, Purpose.PREEMPT)),
        VICTIMS,
    ),
    "VictimTasks": (
        chosen("victim_tasks"),
        lambda at: indexes(at, at.session.victim_tasks(at.victims)),
        [
            ([[[0], [1]], [[2]]], [0, 1]),  # union in a tier; the next one is not heard
            ([[[], []], [[2]]], [2]),
            ([[[0], [0]]], [0]),
            ([], []),
        ],
    ),
    "Overused": (
        said("overused"),
        lambda at: at.session.queue_overused(at.queue),
        [([[False], [True]], True), ([[True], [False]], True), ([[False]], False), ([], False)],
    ),
    "Preemptive": (said("preemptive"), lambda at: at.session.preemptive(at.queue, [at.task]), ALL),
    "Allocatable": (
        said("allocatable"),
        lambda at: at.session.task_allocatable(at.queue, at.task),
        ALL,
    ),
    "SimulateAllocatable": (
        said("simulate_allocatable"),
        lambda at: at.session.simulate_allocatable(at.queue, at.task),
        ALL,
    ),
    "JobReady": (said("job_ready"), lambda at: at.session.ready(at.waits), ALL),
    "SubJobReady": (said("sub_job_ready"), lambda at: at.session.sub_ready(grouped(at)), ALL),
    "JobPipelined": (said("job_pipelined"), lambda at: at.session.pipelined(at.waits), VOTE),
    "SubJobPipelined": (
        said("sub_job_pipelined"),
        lambda at: at.session.sub_pipelined(grouped(at)),
        VOTE,
    ),
    "JobEnqueueable": (
        said("job_enqueueable"),
        lambda at: at.session.job_enqueueable(at.waits, at.session.world),
        VOTE,
    ),
    "JobEnqueued": (told("job_enqueued"), tell_enqueued, EACH),
    "JobStarving": (
        said("job_starving"),
        lambda at: at.session.job_starving(at.waits),
        [
            ([[True], [False]], True),  # the first tier with a rule decides
            ([[False], [True]], False),
            ([[True, False]], False),  # all of it must agree
            ([], False),  # nobody starves where nobody says so
        ],
    ),
    "JobValid": (
        said("job_valid"),
        lambda at: at.session.job_valid(at.waits, at.session.world),
        FAILURE,
    ),
    "TargetJob": (
        said("target_job"),
        lambda at: at.session.target_job([at.waits]),
        [([["a"], ["b"]], "a"), ([[None], ["b"]], None), ([], None)],
    ),
    "ReservedNodes": (told("reserved_nodes"), reserve, EACH),
    "PrePredicate": (said("pre_predicate"), lambda at: at.session.pre_predicate(at.task), FAILURE),
    "Predicate": (static_check, reasons, [([["a"], ["b"]], ["a", "b"]), ([[None]], [])]),
    "LivePredicate": (live_check, reasons, [([["a"], ["b"]], ["a", "b"]), ([[None]], [])]),
    "SimulatePredicate": (
        said("simulate_predicate"),
        lambda at: at.session.simulate(SIMULATE_PREDICATE, at.task, 0),
        FAILURE,
    ),
    "SimulateAddTask": (
        said("simulate_add_task"),
        lambda at: at.session.simulate(SIMULATE_ADD_TASK, at.task, at.other, 0),
        FAILURE,
    ),
    "SimulateRemoveTask": (
        said("simulate_remove_task"),
        lambda at: at.session.simulate(SIMULATE_REMOVE_TASK, at.task, at.other, 0),
        FAILURE,
    ),
    "DeviceChoice": (
        said("device_choice"),
        placed_on_devices,
        [
            ([[(("gpu/1", (1, 2)),)], [(("gpu/0", (3,)),)]], (("gpu/0", (3,)), ("gpu/1", (1, 2)))),
            ([[(("gpu/0", (1,)),), (("gpu/0", (2, 5)),)]], (("gpu/0", (3, 5)),)),
            ([], ()),
        ],
    ),
    "DevicesIdle": (
        idle_devices,
        lambda at: fits_idle(at.session, at.task).tolist(),
        [([[[0], [0, 1]]], [True, False]), ([[[0]], [[1]]], [False, False]), ([], [True, True])],
    ),
    "BestNode": (
        said("best_node"),
        lambda at: at.session.best_node(at.task, at.rows, np.zeros(2)),
        [([[None, 1], [0]], 1), ([[0], [1]], 0), ([], None)],  # row 0 is an answer
    ),
    "NodeOrder": (said("node_order"), scores, SUM),
    "BatchNodeOrder": (said("batch_node_order"), scores, SUM),
    "NodeMap": (mapped, scores, [([[1.0, 2.0], [4.0]], [7.0, 14.0])]),
    "NodeReduce": (reduced, scores, [([[2.0], [10.0]], [0.0, 12.0])]),  # each its own scores
    "HyperNodeOrder": (
        said("hyper_node_order"),
        lambda at: at.session.hyper_node_scores(at.sub, {"d": [0], "e": [1]}),
        [([[{"d": 1.0}, {"d": 2.0, "e": 1.0}]], {"d": 3.0, "e": 1.0}), ([], {"d": 0.0, "e": 0.0})],
    ),
    "HyperNodeGradientForJob": (
        lambda at, names: at.session.add_hyper_node_gradient_for_job_fn(lambda *_: named(names)),
        lambda at: groups(at.session.job_gradients(at.waits, at.domain, Purpose.ALLOCATE)),
        [([["a"], ["b"]], [["a"]]), ([[""], ["b"]], [[]]), ([], [["d"]])],
    ),
    "HyperNodeGradientForSubJob": (
        lambda at, names: at.session.add_hyper_node_gradient_for_sub_job_fn(
            lambda *_: named(names)
        ),
        lambda at: groups(at.session.sub_job_gradients(at.sub, at.domain, Purpose.ALLOCATE)),
        [([["a"], ["b"]], [["a"]]), ([[""], ["b"]], [[]]), ([], [["d"]])],
    ),
    "EventHandler": (listener, tell, [([["a"], ["b"]], ["+a", "+b", "-a", "-b"])]),
}


def grouped(_: PluginStage) -> Any:
    """A sub job of a job with policies: without any it is the job that is asked about."""
    policy = SubGroupPolicy("p", selector=())
    cluster = Cluster()
    cluster.job("parts", tasks=2, sub_groups=(policy,))
    (job,) = cluster.open().world.session_jobs()
    return next(iter(job.subs.values()))


def play(point: str, tiers: Tiers) -> Any:
    register, ask, _ = POINTS[point]
    at = stage()
    for tier, answers in enumerate(tiers):
        for i, answer in enumerate(answers):
            flags = dict.fromkeys(filter(None, [EXTENSION_POINTS[point].flag]), True)
            with at.session.speaking(tier, PluginOption(f"plugin{tier}{i}", flags=flags)):
                register(at, answer)
    return ask(at)


CASES = [(point, tiers, want) for point, (_, _, cases) in POINTS.items() for tiers, want in cases]


@pytest.mark.parametrize(("point", "tiers", "want"), CASES, ids=lambda v: str(v)[:60])
def test_answers_become_one(point: str, tiers: Tiers, want: Any) -> None:
    actual = play(point, tiers)
    if point in ("Preemptable", "Reclaimable", "UnifiedEvictable"):
        actual, want = sorted(actual), sorted(want)
    assert actual == want


def test_every_point_is_here() -> None:
    assert set(EXTENSION_POINTS) - set(POINTS) == set()


@pytest.mark.parametrize("point", [p for p in POINTS if EXTENSION_POINTS[p].flag])
def test_a_switched_off_rule_is_not_asked(point: str) -> None:
    register, ask, cases = POINTS[point]
    flag = EXTENSION_POINTS[point].flag
    assert flag is not None
    tiers = next(tiers for tiers, _ in cases if tiers)
    at, silent = stage(), stage()
    for tier, answers in enumerate(tiers):
        for answer in answers:
            with at.session.speaking(tier, PluginOption("off", flags={flag: False})):
                register(at, answer)
    assert not at.session.rules(EXTENSION_POINTS[point])
    assert repr(ask(at)) == repr(ask(silent))
