"""A cluster process that was killed goes on where it was, by what its history says."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from coordinator.cluster.history.file import HistoryFile
from coordinator.cluster.protocol import BindAnswer, BindRequests, Report
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.memory import read_memory

SPEEDUP, GRACE = 2.0, 0.5


def new() -> LocalCluster:
    return LocalCluster(speedup=SPEEDUP, grace=GRACE)


def asking(
    *tasks: str, uid: str = "u", duration: float | None = 2.0, code: int = 0
) -> BindRequests:
    count = len(tasks)
    return BindRequests(
        tasks=list(tasks),
        uids=[uid] * count,
        pods=[f"ns/{task}" for task in tasks],
        nodes=[f"n{i % 3}" for i in range(count)],
        durations=[duration] * count,
        exit_codes=[code] * count,
    )


def killed(cluster: LocalCluster, path: Path) -> LocalCluster:
    """Successor of a killed cluster, restored from the history."""
    history = HistoryFile(path)
    history.cluster_events(cluster.drain())
    history.close()
    after = new()
    after.restore(read_memory(path))
    return after


def report_kinds(cluster: LocalCluster, after: int) -> list[tuple[Report, str]]:
    reports = cluster.reports(after)
    return [(Report(kind), task) for kind, task in zip(reports.kinds, reports.tasks, strict=True)]


def test_running_tasks_survive_a_restart_and_end_on_time(tmp_path: Path) -> None:
    cluster = new()
    cluster.bind(asking("1.0"), 10.0)
    cluster.bind(asking("1.1", duration=None), 10.0)
    cluster.bind(asking("1.2", code=3), 10.0)
    cluster.advance(10.0)
    observed = cluster.reports(0).last
    again = killed(cluster, tmp_path / "h")
    assert again.bind(asking("1.0"), 10.5).answers == [BindAnswer.ALREADY]
    assert report_kinds(again, observed) == []
    again.advance(11.0)
    assert report_kinds(again, observed) == [(Report.RELEASING, "1.0"), (Report.RELEASING, "1.2")]
    again.advance(20.0)
    ended = report_kinds(again, observed)[2:]
    assert sorted(ended) == [(Report.SUCCEEDED, "1.0"), (Report.FAILED, "1.2")]
    assert again.holds("1.1")
    assert not again.holds("1.0")


def test_numbers_of_reports_go_on_and_nothing_unheard_is_lost(tmp_path: Path) -> None:
    cluster = new()
    cluster.bind(asking("1.0", "1.1"), 0.0)
    cluster.advance(5.0)
    first = cluster.reports(0, 3)
    again = killed(cluster, tmp_path / "h")
    assert report_kinds(again, first.last) == report_kinds(cluster, first.last)
    assert again.reports(first.last).last == 6


def test_ended_and_deleted_tasks_are_not_bound_again_after_a_restart(tmp_path: Path) -> None:
    cluster = new()
    cluster.bind(asking("1.0"), 0.0)
    cluster.advance(5.0)
    cluster.delete(["2.0"], 5.0)
    again = killed(cluster, tmp_path / "h")
    assert again.bind(asking("2.0"), 6.0).answers == [BindAnswer.GONE]
    assert again.bind(asking("1.0"), 6.0).answers == [BindAnswer.ALREADY]
    again.reports(3)
    assert again.bind(asking("1.0"), 6.0).answers == [BindAnswer.SUCCEEDED]
    assert again.bind(asking("1.0", uid="other"), 6.0).answers == [BindAnswer.OK]


@pytest.mark.parametrize("seed", range(20))
def test_a_killed_cluster_reports_the_same_as_one_that_lived_on(tmp_path: Path, seed: int) -> None:
    """Killed again and again between requests, at any moment of its pods' lives."""
    rng = Random(seed)
    lived, path = new(), tmp_path / "h"
    died = new()
    now, number = 0.0, 0
    for _ in range(60):
        now = round(now + rng.choice([0.0, 0.1, 0.3, 1.0]), 3)
        if rng.random() < 0.6:
            number += 1
            tasks = [f"{number}.{tix}" for tix in range(rng.randint(1, 4))]
            duration = rng.choice([0.4, 1.0, None])
            request = asking(*tasks, duration=duration, code=rng.choice([0, 0, 1]))
            assert lived.bind(request, now) == died.bind(request, now)
        else:
            task = [f"{rng.randint(1, number + 1)}.{rng.randint(0, 3)}"]
            assert lived.delete(task, now) == died.delete(task, now)
        if rng.random() < 0.3:
            died = killed(died, path)
        lived.advance(now)
        died.advance(now)
    died = killed(died, path)
    lived.advance(now + 10.0)
    died.advance(now + 10.0)
    assert sorted(report_kinds(lived, 0)) == sorted(report_kinds(died, 0))


def test_no_history_is_nothing_to_remember(tmp_path: Path) -> None:
    memory = read_memory(tmp_path / "none")
    assert (memory.pods, memory.ended, memory.reports) == ({}, {}, [])
