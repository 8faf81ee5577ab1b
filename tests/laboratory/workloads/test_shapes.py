"""The table of the bench: each shape has room for its loads, and its goals are for its size."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.intake.intake import Intake
from laboratory.workloads.shapes import (
    GPUS,
    IDLE_PODS,
    OF_KAI,
    POOR,
    RECLAIMS,
    SHAPES,
    Size,
    kai_pods,
    two_queues,
)
from shared.model.model import Job
from shared.policy.dialect import parse_policy
from shared.policy.model import Dialect

GPU = "nvidia.com/gpu"
NODES = 100
SIZES = {"fill": Size(3, 24), "fractions": Size(3, 48), "basic": Size(3, 40), "wide": Size(3, 40)}


def size_of(name: str) -> Size:
    return SIZES.get(name, Size(NODES, 0))


def dialect_of(name: str) -> Dialect:
    policy = SHAPES[name].policy
    return Dialect.VOLCANO if policy is None else parse_policy(policy).dialect


def gpus_of(intake: Intake, jobs: list[Job]) -> int:
    """The GPUs that these jobs ask for."""
    slot = intake.registry.slots.names.index(GPU)
    classes = {cid: cls for cls, cid in intake.registry.classes.items()}
    asks = sum(
        role.count * dict(classes[role.cid].requests).get(slot, 0)
        for job in jobs
        for role in job.roles
    )
    return asks // 1000


@pytest.mark.parametrize("name", SHAPES)
def test_intake_takes_all_of_a_shape_and_each_load_has_its_tasks(name: str) -> None:
    shape, size = SHAPES[name], size_of(name)
    intake = Intake(dialect=dialect_of(name))
    assert not intake.admit([*shape.cluster(size, dialect_of(name))], 1.0).refused
    assert not intake.admit([*shape.before(size)], 1.0).refused
    jobs = intake.registry.jobs.values()
    assert sum(role.count for job in jobs for role in job.roles) == shape.running(size)
    for load in shape.loads:
        registered = list(intake.registry.jobs.values())
        assert not intake.admit([*load.jobs(size)], 2.0).refused
        new = [job for job in intake.registry.jobs.values() if job not in registered]
        tasks = sum(role.count for job in new for role in job.roles)
        assert all(job.key.startswith(load.prefix) for job in new)
        # Half of the cluster is the queue's share; beyond it nobody is evicted for it.
        half = size.nodes * GPUS // 2 // (load.gpus or 1)
        assert load.tasks(size) == (min(tasks, half) if load.displaced(size) else tasks)
        if load.gpus:
            assert gpus_of(intake, new) == tasks * load.gpus
            assert {job.queue for job in new} == {POOR}


@pytest.mark.parametrize("name", SHAPES)
def test_goals_are_for_the_size_of_the_table(name: str) -> None:
    shape = SHAPES[name]
    for load in shape.loads:
        goals = load.goals or {}
        assert not goals or (dialect_of(name), shape.size.nodes) in goals
    if shape.most is not None:
        assert shape.size.pods <= shape.most(shape.size)
    else:
        assert all(load.seconds or load.tasks(shape.size) > 0 for load in shape.loads)


def test_jobs_of_kai_that_fill_have_a_gpu_or_half_of_one() -> None:
    for halves, marks in ((False, {}), (True, {"gpu-fraction": "0.5"})):
        intake = Intake(dialect=Dialect.KAI)
        cluster = SHAPES["fill"].cluster(Size(1, 8), Dialect.KAI)
        assert not intake.admit([*cluster, *kai_pods(8, halves=halves)], 1.0).refused
        jobs = list(intake.registry.jobs.values())
        assert {(job.queue, len(job.roles)) for job in jobs} == {("team", 1)}
        assert gpus_of(intake, jobs) == (0 if halves else 8)
        roles = [dict(role.annotations) for job in jobs for role in job.roles]
        assert all(marks.items() <= annotations.items() for annotations in roles)


def test_both_queues_have_a_right_to_half_of_the_cluster() -> None:
    def queues(dialect: Dialect) -> list[dict[str, Any]]:
        items = two_queues(Size(10, 0), dialect)
        return [item["spec"] for item in items if item["kind"] == "Queue"]

    assert [spec["weight"] for spec in queues(Dialect.VOLCANO)] == [1, 1]
    assert [spec["resources"]["gpu"]["quota"] for spec in queues(Dialect.KAI)] == [40, 40]
    assert "reclaim" in parse_policy(RECLAIMS).actions
    assert parse_policy(OF_KAI).dialect is Dialect.KAI


def test_the_idle_shape_has_every_pod_running() -> None:
    shape = SHAPES["idle"]
    assert shape.running(shape.size) == shape.size.nodes * IDLE_PODS == shape.size.pods
