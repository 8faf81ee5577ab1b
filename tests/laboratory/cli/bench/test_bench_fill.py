"""The fill of the bench: what fills the cluster, and which times count."""

from __future__ import annotations

import pytest

from coordinator.cli.options.failure import CommandError
from coordinator.cli.options.options import ModeChoice, Output
from coordinator.intake.intake import Intake
from laboratory.checker.report.report import CheckReport, Summary
from laboratory.cli.bench.bench_fill import NAMES, fill_result, run_fill
from laboratory.cli.bench.bench_options import BenchOptions, BenchSize
from laboratory.cli.bench.bench_run import BenchPhase
from laboratory.history.figures import figures_of
from laboratory.workloads.fill import POLICY, PREFIX, cluster, jobs, jobs_that_fill
from shared.policy.dialect import parse_policy
from shared.policy.model import Dialect

REPORT = CheckReport("h", 1, False, False, (), {}, Summary())


def options(
    nodes: int | None = None, pods: int | None = None, *, size: BenchSize = BenchSize.FILL
) -> BenchOptions:
    return BenchOptions(size, nodes, pods, 1, ModeChoice.SOFT, 0, None, None, Output.JSON)


def test_the_jobs_have_a_gpu_each_and_the_cluster_no_more() -> None:
    assert (options().nodes, options().pods) == (500, 4_000)
    assert jobs_that_fill(options().nodes) == options().pods
    intake = Intake(dialect=Dialect.KAI)
    assert not intake.admit([*cluster(3), *jobs(24)], 1.0).refused
    gpu = intake.registry.slots.names.index("nvidia.com/gpu")
    nodes = intake.registry.nodes.values()
    assert sum(dict(node.allocatable)[gpu] for node in nodes) == 24 * 1000
    made = intake.registry.jobs.values()
    assert {(job.queue, len(job.roles)) for job in made} == {("team", 1)}
    assert all(job.key.startswith(PREFIX) for job in made)
    assert parse_policy(POLICY).dialect is Dialect.KAI


def test_of_halves_there_are_two_for_each_gpu() -> None:
    chosen = options(size=BenchSize.FRACTIONS)
    assert (chosen.nodes, chosen.pods) == (1_000, 16_000)
    assert jobs_that_fill(1_000, halves=True) == 16_000
    intake = Intake(dialect=Dialect.KAI)
    assert not intake.admit([*cluster(1), *jobs(16, halves=True)], 1.0).refused
    (annotations,) = {
        role.annotations for job in intake.registry.jobs.values() for role in job.roles
    }
    assert dict(annotations)["gpu-fraction"] == "0.5"
    with pytest.raises(CommandError, match="4 nodes have 8 GPUs each"):
        run_fill(options(4, 65, size=BenchSize.FRACTIONS))


def test_time_runs_from_the_first_submission_to_the_last_bind() -> None:
    head = {"src": "ledger"}
    figures = figures_of(
        [
            {
                **head,
                "ev": "job",
                "t": 9.0,
                "jobs": [{"jid": 1, "key": "default/pod-0"}, {"jid": 2, "key": "default/pod-1"}],
            },
            {**head, "ev": "status", "t": 10.0, "items": [["BOUND", 1, [0], [0]]]},
            {**head, "ev": "status", "t": 11.5, "items": [["BOUND", 2, [0], [0]]]},
        ]
    )
    sent = {"default/pod-0": 8.0, "default/pod-1": 8.5}
    phases = [BenchPhase(NAMES[BenchSize.FILL], PREFIX, 2)]
    values = fill_result(options(1, 2), phases, figures, REPORT, sent)
    assert (values["last_bind_seconds"], values["faults"]) == (3.5, [])
    assert values["goal_seconds"] is None, "of another size"
    (wrong,) = fill_result(
        options(1, 3), [BenchPhase(NAMES[BenchSize.FILL], PREFIX, 3)], figures, REPORT, sent
    )["faults"]
    assert "2 of 3 tasks were bound" in wrong


def test_more_pods_than_gpus_are_refused() -> None:
    with pytest.raises(CommandError, match="4 nodes have 8 GPUs each"):
        run_fill(options(4, 33))
