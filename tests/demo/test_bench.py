"""The bench's arithmetic: CPU by role out of /proc, what is over budget, what is reported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coordinator import cpu
from coordinator.checker import CheckReport
from coordinator.checker.report import Summary
from coordinator.commands.bench import BenchOptions, Size
from coordinator.commands.bench_run import BUDGET, Phase, bench_result, over_budget
from coordinator.commands.options import Mode, Output
from coordinator.cpu import LOAD, Process, by_role, processes
from coordinator.figures import Figures
from coordinator.supervisor import CLUSTER, COORDINATOR, RAY, REDIS


def test_a_process_plays_the_part_of_its_nearest_ancestor() -> None:
    found = [
        Process(1, 0, 100.0),
        Process(10, 1, 1.0),  # this process
        Process(11, 10, 2.0),  # a child that nobody named
        Process(20, 10, 4.0),  # ray
        Process(21, 20, 8.0),  # raylet
        Process(22, 21, 16.0),  # a worker
        Process(23, 22, 32.0),  # below the worker
        Process(30, 99, 64.0),  # its parent is gone
    ]
    roots = {10: LOAD, 20: RAY, 22: cpu.WORKERS, 77: REDIS}
    assert by_role(found, roots) == {LOAD: 1.0, RAY: 12.0, cpu.WORKERS: 48.0, REDIS: 0.0}


def test_proc_is_read_whatever_the_name_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    ticks = os.sysconf("SC_CLK_TCK")
    rest = " ".join(["S", "3", *["0"] * 9, str(2 * ticks), str(ticks), *["0"] * 20])
    (tmp_path / "7" / "stat").write_text(f"7 (odd) name (x)) {rest}")
    (tmp_path / "8").mkdir()  # ended meanwhile
    (tmp_path / "self").mkdir()
    assert processes(tmp_path) == [Process(7, 3, 3.0)]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
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
    options = BenchOptions(Size.BASIC, 5, 2, 1, Mode.SOFT, 0, None, Output.JSON)
    figures = Figures(
        jobs={
            1: ("default/pod-0", 10.0),
            2: ("default/pod-1", 10.0),
            3: ("default/job-wide", 20.0),
        },
        bound={(1, 0): 10.5, (2, 0): 11.0, (3, 0): 21.0},
    )
    phases = [
        Phase("separate pods", "default/pod-", 2, {COORDINATOR: 0.001}),
        Phase("one Job", "default/job-", 2),
    ]
    report = CheckReport("h", 1, False, False, (), {}, Summary())
    values = bench_result(options, phases, figures, report, {})
    pods = values["workloads"]["separate pods"]
    assert pods["tasks_per_second"] == 2.0
    assert pods["cpu_us_per_task"][COORDINATOR] == 500.0
    assert pods["over_budget"] == [COORDINATOR]
    assert values["faults"] == ["one Job: 1 of 2 tasks were bound"]
