"""The bench's arithmetic: CPU by role, what is over budget, what is reported."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from coordinator.cli.options.failure import CommandError
from coordinator.supervisor import cpu_time
from coordinator.supervisor.cpu_time import LOAD, ProcessTime, by_role, processes
from coordinator.supervisor.supervisor import CLUSTER, COORDINATOR, LEDGER, RAY
from laboratory.checker.report.report import CheckReport, Summary
from laboratory.cli.bench.bench_options import BenchOptions, BenchOutput, BenchSize
from laboratory.cli.bench.bench_result import (
    BUDGET,
    IDLE_GOAL_PERCENT,
    BenchMeasurement,
    LoadMeasurement,
    bench_result,
    over_budget,
)
from laboratory.cli.bench.bench_run import policy_of, run_bench, size_of
from laboratory.history.figures import Event, figures_of
from laboratory.workloads.shapes import SHAPES, Size
from shared.policy.model import Dialect
from shared.settings.settings import SettingsError, load_settings

REPORT = CheckReport("h", 1, False, False, (), {}, Summary())


def test_a_process_plays_the_part_of_its_nearest_ancestor() -> None:
    results = [
        ProcessTime(1, 0, 100.0),
        ProcessTime(10, 1, 1.0),  # this process
        ProcessTime(11, 10, 2.0),  # a child that nobody named
        ProcessTime(20, 10, 4.0),  # ray
        ProcessTime(21, 20, 8.0),  # raylet
        ProcessTime(22, 21, 16.0),  # a worker
        ProcessTime(23, 22, 32.0),  # below the worker
        ProcessTime(30, 99, 64.0),  # its parent is gone
    ]
    roots = {10: LOAD, 20: RAY, 22: cpu_time.WORKERS, 77: LEDGER}
    assert by_role(results, roots) == {LOAD: 1.0, RAY: 12.0, cpu_time.WORKERS: 48.0, LEDGER: 0.0}


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


def measured(
    name: str, size: Size, events: list[Event], sent: dict[str, float]
) -> BenchMeasurement:
    shape = SHAPES[name]
    dialect = Dialect.VOLCANO if name in ("basic", "reclaim") else Dialect.KAI
    loads = [LoadMeasurement({COORDINATOR: 0.001}) for _ in shape.loads]
    return BenchMeasurement(shape, size, dialect, loads, figures_of(events), sent)


def job(jid: int, key: str, at: float) -> Event:
    return {"src": "ledger", "ev": "job", "t": at, "jobs": [{"jid": jid, "key": key}]}


def bound(jid: int, tasks: list[int], at: float) -> Event:
    items = [["BOUND", jid, tasks, tasks]]
    return {"src": "ledger", "ev": "status", "t": at, "items": items}


def stopped(tasks: list[str], at: float) -> Event:
    return {"src": "cluster", "ev": "delete", "t": at, "tasks": tasks}


def test_a_load_that_was_not_bound_completely_is_a_fault() -> None:
    events = [job(1, "default/pod-0", 10.0), job(2, "default/pod-1", 10.0)]
    events += [job(3, "default/job-wide", 20.0)]
    events += [bound(1, [0], 10.5), bound(2, [0], 11.0), bound(3, [0], 21.0)]
    values = bench_result(measured("basic", Size(5, 2), events, {}), REPORT)
    pods = values["workloads"]["separate pods"]
    assert (pods["tasks_per_second"], pods["seconds"], pods["until"]) == (2.0, 1.0, "bind")
    assert pods["cpu_us_per_task"][COORDINATOR] == 500.0
    assert pods["over_budget"] == [COORDINATOR]
    assert values["faults"] == ["one Job: 1 of 2 tasks got a place"]


def test_time_runs_from_the_first_submission_and_has_a_goal_where_the_nodes_are_filled() -> None:
    events = [job(number, f"default/pod-{number}", 9.0) for number in range(4000)]
    events += [bound(number, [0], 10.0 + number / 4000) for number in range(4000)]
    sent = {"default/pod-0": 8.0, "default/pod-1": 8.5}
    for nodes, goal in ((500, 3.0), (501, None)):
        values = bench_result(measured("fill", Size(nodes, 4000), events, sent), REPORT)
        part = values["workloads"]["one-GPU jobs"]
        assert (part["seconds"], part["goal_seconds"], values["faults"]) == (3.0, goal, [])


@pytest.mark.parametrize(
    ("victims", "gang", "faults"),
    [
        (16, 2, []),
        (17, 2, ["17 tasks were evicted, 16 are enough"]),
        (16, 1, ["1 of 2 tasks got a place"]),
    ],
)
def test_a_reclaim_is_timed_until_the_first_word_about_its_last_victim(
    victims: int, gang: int, faults: list[str]
) -> None:
    tasks = [f"{number}.0" for number in range(victims)]
    events = [job(0, "default/one-1", 9.0), job(99, "default/wants-all", 9.9)]
    events += [stopped(tasks[:10], 10.5), stopped(tasks[9:], 11.5), stopped(tasks[-1:], 13.0)]
    events += [bound(99, list(range(gang)), 12.0)]
    result = measured("reclaim", Size(4, 0), events, {"default/wants-all": 10.0})
    values = bench_result(result, REPORT)
    (name, part), *_ = values["workloads"].items()
    assert (part["seconds"], part["until"], part["evicted"]) == (1.5, "eviction", victims)
    assert values["faults"] == [f"{name}: {fault}" for fault in faults]


def test_a_promise_is_a_place_where_others_have_to_move_first() -> None:
    commit = {"jid": 2, "nominate": [[1, 5, 1, 3]]}
    events = [job(2, "default/wants-0", 100.0), bound(2, [0], 102.0)]
    events += [{"src": "ledger", "ev": "commit", "t": 103.0, "statements": [commit]}]
    for name, seconds, places in (("consolidate", 3.0, 2), ("topology", 2.0, 1)):
        values = bench_result(measured(name, Size(50, 0), events, {}), REPORT)
        assert [part["seconds"] for part in values["workloads"].values()] == [seconds]
        assert f" {places} of " in values["faults"][0]


def test_idle_counts_the_scheduler_alone() -> None:
    cpu = {COORDINATOR: 0.6, cpu_time.WORKERS: 1.2, LEDGER: 0.3, RAY: 5.0}
    loads = [LoadMeasurement(cpu)]
    measured = BenchMeasurement(SHAPES["idle"], Size(3, 0), Dialect.KAI, loads, figures_of([]), {})
    values = bench_result(measured, REPORT)
    assert (values["scheduler_percent"], values["goal_percent"]) == (3.5, IDLE_GOAL_PERCENT)
    assert values["faults"] == ["before: 0 of 105 tasks were bound"]


def options(name: str, nodes: int | None = None, pods: int | None = None) -> BenchOptions:
    size = BenchSize(name)
    return BenchOptions(size, nodes, pods, "1", "soft", 0, None, None, BenchOutput.JSON)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (options("fill", 4, 33), "--pods: 4 nodes have room for 32, not for 33"),
        (options("fractions", 4, 65), "--pods: 4 nodes have room for 64"),
        (options("reclaim", 10, 5), "--pods: of reclaim they follow from the nodes"),
        (options("reclaim", 1), "--nodes: none of reclaim's jobs fits on 1"),
        (options("consolidate", 10), "--nodes: none of consolidate's jobs fits on 10"),
        (options("topology", pods=5), "--pods: of topology"),
        (options("native", 1666), "--nodes: none of native's jobs fits on 1,666"),
        (options("idle", pods=5), "--pods: of idle"),
    ],
)
def test_a_size_that_a_shape_cannot_have_is_refused(wrong: BenchOptions, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        run_bench(wrong)


def test_the_command_takes_the_shapes_of_the_table() -> None:
    assert {*SHAPES, BenchSize.KUBERNETES.value, BenchSize.SCALE.value} == {
        size.value for size in BenchSize
    }
    shape = SHAPES["idle"]
    assert size_of(options("idle"), shape, "idle") == shape.size
    assert size_of(options("idle", 7), shape, "idle").nodes == 7


def test_each_gang_of_native_is_a_group_of_one_rack() -> None:
    shape, size = SHAPES["native"], Size(1667, 0)
    nodes = list(shape.cluster(size, Dialect.VOLCANO))
    assert len({node["metadata"]["labels"]["rack"] for node in nodes}) == 17
    for load, gangs, width in zip(shape.loads, (250, 1), (4, 1000), strict=True):
        items = list(load.jobs(size))
        groups = [item for item in items if item["kind"] == "PodGroup"]
        pods = [item for item in items if item["kind"] == "Pod"]
        assert (len(groups), len(pods), load.tasks(size)) == (gangs, gangs * width, gangs * width)
        members = Counter(pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods)
        assert members == {group["metadata"]["name"]: width for group in groups}
        assert all(f"default/{name}".startswith(load.prefix) for name in members)


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
