"""The benchmarks of KAI's shapes through a service: what is submitted, and which times count."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.cli.options.failure import CommandError
from coordinator.cli.options.options import ModeChoice, Output
from coordinator.intake.intake import Intake
from coordinator.supervisor import cpu_time
from coordinator.supervisor.supervisor import COORDINATOR, RAY, REDIS
from laboratory.checker.report.report import CheckReport, Summary
from laboratory.cli.bench.bench_idle import GOAL_PERCENT, idle_result, run_idle
from laboratory.cli.bench.bench_kai import MeasuredShape, run_kai_shape, shape_result
from laboratory.cli.bench.bench_options import SIZES, BenchOptions, BenchSize
from laboratory.history.figures import figures_of
from laboratory.workloads.kai_service import (
    IDLE_PODS,
    PREFIX,
    SERVICE_SHAPES,
    idle_cluster,
    idle_jobs,
)
from shared.model.model import Job
from shared.policy.model import Dialect
from tests.laboratory.history.test_figures import HISTORY

REPORT = CheckReport("h", 1, False, False, (), {}, Summary())
GPU = "nvidia.com/gpu"


def options(size: BenchSize, *, nodes: int | None = None, pods: int | None = None) -> BenchOptions:
    return BenchOptions(size, nodes, pods, 1, ModeChoice.SOFT, 0, None, None, Output.JSON)


def gpus_of(intake: Intake, jobs: list[Job]) -> int:
    """What these jobs ask for."""
    slot = intake.registry.slots.names.index(GPU)
    classes = {cid: cls for cls, cid in intake.registry.classes.items()}
    asks = sum(
        role.count * dict(classes[role.cid].requests).get(slot, 0)
        for job in jobs
        for role in job.roles
    )
    return asks // 1000


@pytest.mark.parametrize("name", SERVICE_SHAPES)
def test_what_is_measured_has_room_as_the_shape_says(name: str) -> None:
    shape, nodes = SERVICE_SHAPES[name], 100
    intake = Intake(dialect=Dialect.KAI)
    assert not intake.admit([*shape.before(nodes)], 1.0).refused
    before = list(intake.registry.jobs.values())
    assert gpus_of(intake, before) == shape.running(nodes)
    assert not intake.admit([*shape.jobs(nodes)], 2.0).refused
    jobs = [job for job in intake.registry.jobs.values() if job not in before]
    assert all(job.key.startswith(PREFIX) and job.queue == "poor" for job in jobs)
    # Half of the cluster is the queue's quota; beyond it nobody is evicted for it.
    wanted, gets = gpus_of(intake, jobs), shape.placed(nodes) * shape.gpus
    assert gets == (min(wanted, nodes * 4) if shape.displaces else wanted)
    assert set(shape.goals) == {SIZES[BenchSize(name)][0]}


def test_a_promise_counts_where_somebody_has_to_go_first() -> None:
    commit = {"jid": 2, "nominate": [[0, 5, 1, 3]]}
    events: list[dict[str, Any]] = [
        {**event, "jobs": [{"jid": 2, "key": f"{PREFIX}1"}]} if event["ev"] == "job" else event
        for event in HISTORY
    ]
    events.insert(2, {"src": "ledger", "ev": "commit", "t": 100.5, "statements": [commit]})
    figures = figures_of(events)
    for name, seconds, counts in (
        ("consolidate", 2.5, "a promise"),  # the other task was bound without one
        ("topology", 2.5, "a bind"),
    ):
        measured = MeasuredShape(SERVICE_SHAPES[name], {COORDINATOR: 0.5})
        values = shape_result(options(BenchSize(name), nodes=50), measured, figures, REPORT, {})
        assert (values["seconds"], values["counts"]) == (seconds, counts)
        assert values["cpu_seconds"][COORDINATOR] == 0.5
        assert values["goal_seconds"] is None
        assert "2 of" in values["faults"][0]
    assert figures.only(PREFIX).promised == {(2, 0): 100.5}


def test_idle_counts_the_scheduler_alone() -> None:
    nodes = 3
    intake = Intake(dialect=Dialect.KAI)
    assert not intake.admit([*idle_cluster(nodes), *idle_jobs(nodes)], 1.0).refused
    jobs = intake.registry.jobs.values()
    assert sum(role.count for job in jobs for role in job.roles) == nodes * IDLE_PODS
    cpu = {COORDINATOR: 0.6, cpu_time.WORKERS: 1.2, REDIS: 0.3, RAY: 5.0}
    values = idle_result(options(BenchSize.IDLE, nodes=nodes), cpu, figures_of([]), REPORT, {})
    assert (values["scheduler_percent"], values["goal_percent"]) == (3.5, GOAL_PERCENT)
    assert values["faults"] == ["0 of 105 tasks ran"]


def test_what_they_cannot_do_is_refused() -> None:
    for run, size in ((run_kai_shape, BenchSize.TOPOLOGY), (run_idle, BenchSize.IDLE)):
        with pytest.raises(CommandError, match="--pods"):
            run(options(size, pods=5))
    with pytest.raises(CommandError, match="--nodes: none of consolidate's jobs fits on 10"):
        run_kai_shape(options(BenchSize.CONSOLIDATE, nodes=10))
