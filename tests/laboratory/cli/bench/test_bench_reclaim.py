"""The reclaim of the bench: what fills the cluster, what is measured, and what counts as wrong."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.cli.options.failure import CommandError
from coordinator.cli.options.options import ModeChoice, Output
from coordinator.supervisor.supervisor import COORDINATOR
from laboratory.checker.report.report import CheckReport, Summary
from laboratory.cli.bench.bench_options import BenchOptions, BenchSize
from laboratory.cli.bench.bench_reclaim import (
    ReclaimFigures,
    reclaim_of,
    reclaim_result,
    run_reclaim,
)
from laboratory.history.figures import figures_of
from laboratory.workloads.reclaim import (
    GANG,
    POLICY,
    cluster,
    gang,
    jobs_before,
    rich_jobs,
    victims_wanted,
)
from shared.policy.dialect import parse_policy
from shared.policy.model import Dialect

REPORT = CheckReport("h", 1, False, False, (), {}, Summary())


def options(nodes: int | None = 10, pods: int | None = None) -> BenchOptions:
    size = BenchSize.RECLAIM
    return BenchOptions(size, nodes, pods, 1, ModeChoice.SOFT, 0, None, None, Output.JSON)


def gpus(items: list[dict[str, Any]]) -> int:
    total = 0
    for item in items:
        for role in item["spec"]["tasks"]:
            (container,) = role["template"]["spec"]["containers"]
            total += role["replicas"] * int(container["resources"]["requests"]["nvidia.com/gpu"])
    return total


def test_the_gang_asks_for_half_of_a_full_cluster() -> None:
    offered = [item["status"]["allocatable"] for item in cluster(10) if item["kind"] == "Node"]
    capacity = sum(int(offer["nvidia.com/gpu"]) for offer in offered)
    jobs = list(rich_jobs(10))
    assert len(jobs) == gpus(jobs) == jobs_before(10) == capacity
    assert 2 * gpus([gang(10)]) == capacity
    assert victims_wanted(10) == gpus([gang(10)])
    assert "reclaim" in parse_policy(POLICY).actions


def test_queues_of_kai_have_half_of_the_cluster_as_their_quota() -> None:
    queues = [item for item in cluster(10, Dialect.KAI) if item["kind"] == "Queue"]
    assert {queue["apiVersion"] for queue in queues} == {"scheduling.run.ai/v2"}
    assert [queue["spec"]["resources"]["gpu"]["quota"] for queue in queues] == [40, 40]


def test_time_runs_from_the_gang_to_the_first_word_about_each_victim() -> None:
    at = {"src": "cluster", "ev": "delete"}
    figures = figures_of(
        [
            {
                "src": "ledger",
                "ev": "job",
                "t": 9.0,
                "jobs": [{"jid": 1, "key": "default/one-1"}, {"jid": 7, "key": GANG}],
            },
            {**at, "t": 10.5, "tasks": ["1.0", "2.0"]},
            {**at, "t": 11.5, "tasks": ["1.0", "3.0"]},
            {**at, "t": 13.0, "tasks": ["3.0"]},
            {"src": "ledger", "ev": "status", "t": 12.0, "items": [["BOUND", 7, [0, 1], [0, 1]]]},
        ]
    )
    assert reclaim_of(figures, {GANG: 10.0}, {}) == ReclaimFigures(3, 1.5, 2, 2.0, {})


@pytest.mark.parametrize(
    ("victims", "bound", "faults"),
    [
        (40, 5, []),
        (48, 5, ["48 tasks were evicted, 40 enough"]),
        (40, 4, ["4 of 5 tasks of the gang were bound"]),
    ],
)
def test_more_victims_than_enough_are_a_fault(victims: int, bound: int, faults: list[str]) -> None:
    seen = ReclaimFigures(victims, 0.5, bound, 0.7, {COORDINATOR: 0.25})
    values = reclaim_result(options(), seen, REPORT)
    assert values["faults"] == faults
    assert (values["last_eviction_seconds"], values["last_bind_seconds"]) == (0.5, 0.7)
    assert values["cpu_seconds"][COORDINATOR] == 0.25


@pytest.mark.parametrize(
    ("wrong", "said"), [(options(pods=5), "--pods"), (options(nodes=1), "--nodes")]
)
def test_what_it_cannot_do_is_refused(wrong: BenchOptions, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run_reclaim(wrong)
