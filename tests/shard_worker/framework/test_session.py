"""How a session combines what plugins say: tiers, switches, votes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shard_worker.dialects.open_session import open_session
from shard_worker.framework.extension_points import CLUSTER_ORDER, EXTENSION_POINTS, JOB_ORDER, Half
from shard_worker.framework.rules import ABSTAIN, PERMIT, REJECT
from shard_worker.framework.session import Session
from shard_worker.session_model.workload import ClusterInfo, JobInfo, Progress, QueueInfo
from shared.model.model import Job, Queue, Role
from shared.policy.model import PluginOption, Policy
from tests.shard_worker.dialects.volcano.plugins.table import Table, node, task

CLUSTER = ClusterInfo()
PROGRESS = Progress(parent=[-1], minimum=[1], held=[0], waiting=[0], best_effort=[0])


def job(**changes: Any) -> JobInfo:
    new_job = Job(0, "ns", "a", "PodGroup", "u", "q", 0.0, **changes)
    return JobInfo(job=new_job, qid=0, held=[0], waiting=[0], best_effort=[0])


def session_of(*tiers: list[tuple[str, Callable[..., object]]], **flags: bool) -> Session:
    """A session whose plugins (one per entry) speak once: (extension point, function)."""
    session = Session(Policy(actions=("allocate",), tiers=()))
    for tier, entries in enumerate(tiers):
        for i, (point, fn) in enumerate(entries):
            option = PluginOption(f"plugin{tier}{i}", flags=flags)
            with session.speaking(tier, option):
                session.add(EXTENSION_POINTS[point], fn, scalar=None)
    return session


def says(value: object) -> Callable[..., object]:
    return lambda *_: value


def test_every_point_says_where_it_is_asked_and_how_answers_combine() -> None:
    assert EXTENSION_POINTS["JobOrder"].half is Half.ORDER
    assert EXTENSION_POINTS["Predicate"].half is Half.PLACE
    assert EXTENSION_POINTS["JobReady"].half is Half.BOTH
    assert EXTENSION_POINTS["JobPipelined"].flag == "enableJobPipelined"
    assert EXTENSION_POINTS["Overused"].flag == "enabledOverused"
    assert EXTENSION_POINTS["JobValid"].flag is None
    assert all(point.combine.value for point in EXTENSION_POINTS.values())


def test_keys_follow_the_tiers() -> None:
    session = session_of(
        [("JobOrder", says(1.0)), ("JobOrder", says(2.0))], [("JobOrder", says(3))]
    )
    assert session.job_key(job(), CLUSTER) == (1.0, 2.0, 3)
    queues = session_of([("QueueOrder", says((1.0, 2.0)))], [("QueueOrder", says((3.0,)))])
    assert queues.queue_key(QueueInfo(Queue(0, "q")), CLUSTER) == ((1.0, 2.0), (3.0,))
    assert session.task_key(Role("r", 0, 0, 1)) == ()


def test_a_switch_silences_its_point_only() -> None:
    entries: list[tuple[str, Callable[..., object]]] = [
        ("JobOrder", says(1.0)),
        ("JobValid", says("no")),
    ]
    session = session_of(entries, enableJobOrder=False)
    assert not session.has(JOB_ORDER)
    assert session.job_valid(job(), CLUSTER) == "no"


def test_a_point_that_is_off_by_default_needs_its_switch() -> None:
    assert not session_of([("ClusterOrder", says(1))]).has(CLUSTER_ORDER)
    assert session_of([("ClusterOrder", says(1))], enabledClusterOrder=True).has(CLUSTER_ORDER)


def test_silence() -> None:
    session = session_of()
    queue = QueueInfo(Queue(0, "q"))
    assert session.job_ready(PROGRESS)
    assert session.job_pipelined(PROGRESS)
    assert not session.job_starving(job())
    assert session.job_valid(job(), CLUSTER) is None
    assert session.allocatable(queue, ((0, 1),), CLUSTER)
    assert not session.overused(queue, CLUSTER)
    assert session.job_enqueueable(job(), CLUSTER)
    assert session.scores_node_locally
    table = Table([node(0), node(1)])
    assert session.predicates(task(cpu=1), table) == []
    assert session.score(task(cpu=1), table, slice(None)).tolist() == [0.0, 0.0]


def test_any_and_all() -> None:
    queue = QueueInfo(Queue(0, "q"))
    assert session_of([("Overused", says(False))], [("Overused", says(True))]).overused(
        queue, CLUSTER
    )
    assert not session_of(
        [("Allocatable", says(True))], [("Allocatable", says(False))]
    ).allocatable(queue, (), CLUSTER)
    assert not session_of([("JobReady", says(True)), ("JobReady", says(False))]).job_ready(PROGRESS)


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([[ABSTAIN]], True),
        ([[REJECT]], False),
        ([[PERMIT, REJECT]], False),
        ([[REJECT, PERMIT]], False),
        ([[PERMIT], [REJECT]], True),
        ([[ABSTAIN], [REJECT]], False),
        ([[ABSTAIN], [PERMIT], [REJECT]], True),
        ([[PERMIT, ABSTAIN], [REJECT]], True),
    ],
)
def test_votes(tiers: list[list[int]], expected: bool) -> None:
    session = session_of(*([("JobPipelined", says(v)) for v in tier] for tier in tiers))
    assert session.job_pipelined(PROGRESS) is expected


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [([[True, False]], False), ([[True], [False]], True), ([[], [True]], True)],
)
def test_the_first_tier_with_an_opinion_decides_starvation(
    tiers: list[list[bool]], expected: bool
) -> None:
    session = session_of(*([("JobStarving", says(v)) for v in tier] for tier in tiers))
    assert session.job_starving(job()) is expected


def test_the_first_objection_counts() -> None:
    session = session_of(
        [("JobValid", says(None)), ("JobValid", says("first"))], [("JobValid", says("second"))]
    )
    assert session.job_valid(job(), CLUSTER) == "first"


def test_checks_are_charged_in_tier_order() -> None:
    mask = np.array([True])
    session = session_of(
        [("Predicate", says([("a", mask)]))], [("Predicate", says([("b", mask), ("c", mask)]))]
    )
    checks = session.predicates(task(cpu=1), Table([node()]))
    assert [reason for reason, _ in checks] == ["a", "b", "c"]


def test_task_order_is_the_pods_priority() -> None:
    policy = Policy(actions=("allocate",), tiers=((PluginOption("priority"),),))
    session = open_session(policy)
    roles = [Role("low", 0, 0, 1, priority=1), Role("high", 0, 1, 1, priority=9)]
    assert min(roles, key=session.task_key).name == "high"
