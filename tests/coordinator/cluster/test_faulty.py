"""A cluster that answers badly but acts honestly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.cluster.protocol import BindAnswer, ClusterTimeout
from coordinator.cluster.simulated.cluster import LocalCluster
from coordinator.cluster.simulated.faulty import Faults, FaultyCluster, parse_faults
from tests.coordinator.cluster.support import asking, report_rows
from tests.examples import examples


def faulty(seed: int = 1, **faults: float) -> FaultyCluster:
    return FaultyCluster(LocalCluster(grace=0.1), Faults(**faults), seed)


def test_refused_tasks_are_not_bound_and_the_history_knows() -> None:
    cluster = faulty(refuse=1.0)
    assert cluster.bind(asking({"1.0": "n0"}), 0.0).answers == [BindAnswer.REFUSED]
    cluster.advance(0.0)
    assert report_rows(cluster.reports(0)) == []
    assert [(e.kind, e.answers) for e in cluster.drain()] == [("bind", ["REFUSED"])]


def test_a_task_on_a_node_is_not_refused() -> None:
    inner = LocalCluster()
    inner.bind(asking({"1.0": "n0"}), 0.0)
    cluster = FaultyCluster(inner, Faults(refuse=1.0), 1)
    assert cluster.bind(asking({"1.0": "n0"}), 0.0).answers == [BindAnswer.ALREADY]


def test_a_task_that_ran_is_not_refused() -> None:
    """Seed 127: asked again by a successor that had not heard of its end."""
    inner = LocalCluster(grace=0.0)
    inner.bind(asking({"1.0": "n0"}), 0.0)
    inner.advance(100.0)
    assert not inner.holds("1.0")
    cluster = FaultyCluster(inner, Faults(refuse=1.0), 1)
    assert cluster.bind(asking({"1.0": "n0"}), 100.0).answers == [BindAnswer.ALREADY]


@pytest.mark.parametrize(("fault", "bound"), [("unknown_before", False), ("unknown_after", True)])
def test_unknown_before_or_after_the_effect(fault: str, bound: bool) -> None:
    inner = LocalCluster()
    cluster = FaultyCluster(inner, Faults(**{fault: 1.0}), 1)
    told_answers = cluster.bind(asking({"1.0": "n0"}), 0.0)
    assert told_answers.answers == [BindAnswer.UNKNOWN]
    assert told_answers.where == [""]
    assert inner.holds("1.0") is bound
    assert [e.answers for e in cluster.drain()] == ([["OK"]] if bound else [])


@pytest.mark.parametrize(("fault", "bound"), [("silent_before", False), ("silent_after", True)])
def test_silence_before_or_after_the_effect(fault: str, bound: bool) -> None:
    inner = LocalCluster()
    cluster = FaultyCluster(inner, Faults(**{fault: 1.0}), 1)
    with pytest.raises(ClusterTimeout):
        cluster.bind(asking({"1.0": "n0"}), 0.0)
    assert inner.holds("1.0") is bound


def test_reports_come_again_without_moving_the_count() -> None:
    cluster = faulty(duplicate=1.0)
    cluster.bind(asking({f"1.{i}": "n0" for i in range(10)}, duration=None), 0.0)
    cluster.advance(0.0)
    reports = cluster.reports(0)
    assert reports.last == 10
    assert len(reports.tasks) == 20
    assert cluster.reports(10).tasks == []


def test_the_seed_decides() -> None:
    def answers(seed: int) -> list[int]:
        cluster = faulty(seed, refuse=0.3, unknown_after=0.3)
        return cluster.bind(asking({f"1.{i}": "n0" for i in range(50)}), 0.0).answers

    assert answers(1) == answers(1)
    assert answers(1) != answers(2)


@settings(max_examples=examples(50))
@given(st.integers(0, 2**32), st.floats(0, 0.6), st.floats(0, 0.6), st.floats(0, 0.6))
def test_asking_until_answered_binds_everything_once(
    seed: int, silent: float, unknown: float, refuse: float
) -> None:
    faults = Faults(
        refuse=refuse,
        unknown_before=unknown,
        unknown_after=unknown,
        silent_before=silent / 2,
        silent_after=silent,
        duplicate=0.5,
    )
    cluster = FaultyCluster(LocalCluster(grace=0.1), faults, seed)
    open_tasks = {f"1.{i}": f"n{i}" for i in range(8)}
    while open_tasks:
        try:
            answers = cluster.bind(asking(open_tasks, duration=1.0), 0.0)
        except ClusterTimeout:
            continue
        for task, answer in zip(list(open_tasks), answers.answers, strict=True):
            if answer in (BindAnswer.OK, BindAnswer.ALREADY):
                del open_tasks[task]
    cluster.advance(5.0)
    observed = report_rows(cluster.reports(0))
    first = list(dict.fromkeys(observed))
    assert len(first) == 24
    taken = [
        (task, node)
        for event in cluster.drain()
        if event.kind == "bind"
        for task, node, answer in zip(event.tasks, event.nodes, event.answers, strict=True)
        if answer == "OK"
    ]
    assert sorted(taken) == [(f"1.{i}", f"n{i}") for i in range(8)]


def test_a_delete_whose_request_is_lost_changes_nothing() -> None:
    local = LocalCluster(grace=0.0)
    cluster = FaultyCluster(local, Faults(silent_before=1.0), seed=1)
    local.bind(asking({"1.0": "n0"}, duration=None), 0.0)
    with pytest.raises(ClusterTimeout):
        cluster.delete(["1.0", "2.0"], 1.0)
    cluster.advance(2.0)
    assert local.holds("1.0")
    assert not local.knows("2.0")


def test_a_delete_whose_answer_is_lost_is_done_all_the_same() -> None:
    local = LocalCluster(grace=0.0)
    cluster = FaultyCluster(local, Faults(silent_after=1.0), seed=1)
    local.bind(asking({"1.0": "n0"}, duration=None), 0.0)
    with pytest.raises(ClusterTimeout):
        cluster.delete(["1.0", "2.0"], 1.0)
    cluster.advance(2.0)
    assert not local.holds("1.0")
    assert local.delete(["1.0", "2.0"], 3.0) == ["2.0"]


def test_faults_from_text() -> None:
    assert parse_faults("") == Faults()
    assert parse_faults("refuse=0.25, duplicate=1") == Faults(refuse=0.25, duplicate=1.0)
    assert parse_faults("silent_after") == Faults(silent_after=1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("crash=1", "'crash' is not known; choose from refuse"),
        ("refuse=often", "'often' is not a number"),
        ("refuse=2", "refuse: 2.0 is not between 0 and 1"),
        ("refuse=nan", "refuse: nan is not between"),
    ],
)
def test_wrong_faults_are_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_faults(text)
