"""The bench's arithmetic: CPU by role, what is over budget, what is reported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coordinator.cli.options.options import ModeChoice, Output
from coordinator.supervisor import cpu_time
from coordinator.supervisor.cpu_time import LOAD, ProcessTime, by_role, processes
from coordinator.supervisor.supervisor import CLUSTER, COORDINATOR, RAY, REDIS
from laboratory.checker.report.report import CheckReport, Summary
from laboratory.cli.bench.bench_frame import policy_of
from laboratory.cli.bench.bench_options import BenchOptions, BenchSize
from laboratory.cli.bench.bench_run import BUDGET, BenchPhase, bench_result, over_budget
from laboratory.history.figures import Figures
from shared.settings.settings import SettingsError, load_settings


def test_a_process_plays_the_part_of_its_nearest_ancestor() -> None:
    found = [
        ProcessTime(1, 0, 100.0),
        ProcessTime(10, 1, 1.0),  # this process
        ProcessTime(11, 10, 2.0),  # a child that nobody named
        ProcessTime(20, 10, 4.0),  # ray
        ProcessTime(21, 20, 8.0),  # raylet
        ProcessTime(22, 21, 16.0),  # a worker
        ProcessTime(23, 22, 32.0),  # below the worker
        ProcessTime(30, 99, 64.0),  # its parent is gone
    ]
    roots = {10: LOAD, 20: RAY, 22: cpu_time.WORKERS, 77: REDIS}
    assert by_role(found, roots) == {LOAD: 1.0, RAY: 12.0, cpu_time.WORKERS: 48.0, REDIS: 0.0}


def test_this_process_has_used_cpu() -> None:
    used = by_role(processes(), {os.getpid(): LOAD})
    assert 0 < used[LOAD] < 3600


def test_roles_without_a_budget_share_the_slack() -> None:
    within = {role: float(budget) for role, (budget, _) in BUDGET.items()}
    assert sum(within.values()) == 140
    assert over_budget(within) == []
    assert over_budget({**within, CLUSTER: 1.0}) == [LOAD]
    assert over_budget({**within, LOAD: 10.0, CLUSTER: 30.0, RAY: 10.0}) == []
    assert over_budget({**within, COORDINATOR: 71.0}) == [COORDINATOR]


def test_a_workload_that_was_not_bound_completely_is_a_fault() -> None:
    options = BenchOptions(BenchSize.BASIC, 5, 2, 1, ModeChoice.SOFT, 0, None, None, Output.JSON)
    figures = Figures(
        jobs={
            1: ("default/pod-0", 10.0),
            2: ("default/pod-1", 10.0),
            3: ("default/job-wide", 20.0),
        },
        bound={(1, 0): 10.5, (2, 0): 11.0, (3, 0): 21.0},
    )
    phases = [
        BenchPhase("separate pods", "default/pod-", 2, {COORDINATOR: 0.001}),
        BenchPhase("one Job", "default/job-", 2),
    ]
    report = CheckReport("h", 1, False, False, (), {}, Summary())
    values = bench_result(options, phases, figures, report, {})
    pods = values["workloads"]["separate pods"]
    assert pods["tasks_per_second"] == 2.0
    assert pods["cpu_us_per_task"][COORDINATOR] == 500.0
    assert pods["over_budget"] == [COORDINATOR]
    assert values["faults"] == ["one Job: 1 of 2 tasks were bound"]


def test_figures_say_under_which_policy_they_are() -> None:
    assert policy_of(load_settings())["actions"] == ["enqueue", "allocate", "backfill"]
    file = Path(__file__).parents[4] / "examples" / "policies" / "allocate-only.yaml"
    assert policy_of(load_settings(policy=file)) == {
        "file": str(file),
        "actions": ["allocate"],
        "plugins": [
            "priority",
            "gang",
            "conformance",
            "drf",
            "predicates",
            "proportion",
            "nodeorder",
        ],
    }


def test_a_policy_that_is_none_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("actions: alocate")
    with pytest.raises(SettingsError, match="did you mean 'allocate'"):
        policy_of(load_settings(policy=file))
