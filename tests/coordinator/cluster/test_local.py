"""The local cluster on virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.cluster.protocol import BindAnswer, BindRequests, Report
from coordinator.cluster.simulated.cluster import LocalCluster
from tests.coordinator.cluster.support import asking, report_rows


def test_a_pod_starts_runs_releases_and_succeeds() -> None:
    cluster = LocalCluster(speedup=10, grace=0.5)
    answers = cluster.bind(asking({"1.0": "n0"}, duration=20), 100.0)
    assert answers.answers == [BindAnswer.OK]
    assert answers.where == ["n0"]
    cluster.advance(100.0)
    assert report_rows(cluster.reports(0)) == [("STARTED", "1.0", "n0")]
    assert cluster.next_due() == 102.0
    cluster.advance(101.999)
    assert report_rows(cluster.reports(1)) == []
    cluster.advance(102.0)
    assert report_rows(cluster.reports(1)) == [("RELEASING", "1.0", "n0")]
    assert cluster.next_due() == 102.5  # grace is not divided by the speedup
    cluster.advance(102.5)
    assert report_rows(cluster.reports(2)) == [("SUCCEEDED", "1.0", "n0")]
    assert cluster.next_due() is None


def test_a_late_look_finds_everything_in_order() -> None:
    cluster = LocalCluster(grace=0.5)
    cluster.bind(asking({"1.0": "n0"}, duration=1), 0.0)
    cluster.bind(asking({"2.0": "n1"}, duration=50), 0.0)
    cluster.advance(10.0)
    assert [kind for kind, task, _ in report_rows(cluster.reports(0)) if task == "1.0"] == [
        "STARTED",
        "RELEASING",
        "SUCCEEDED",
    ]
    assert cluster.next_due() == 50.0


def test_without_duration_a_pod_runs_until_it_is_deleted() -> None:
    cluster = LocalCluster(grace=0.5)
    cluster.bind(asking({"1.0": "n0"}, duration=None), 0.0)
    cluster.advance(1e9)
    assert report_rows(cluster.reports(0)) == [("STARTED", "1.0", "n0")]
    cluster.delete(["1.0"], 1e9)
    assert report_rows(cluster.reports(1)) == [("RELEASING", "1.0", "n0")]
    cluster.advance(1e9 + 0.5)
    assert report_rows(cluster.reports(2)) == [("FAILED", "1.0", "n0")]


def test_a_pod_that_was_evicted_runs_for_its_whole_duration_again() -> None:
    cluster = LocalCluster(grace=0.0)
    cluster.bind(asking({"1.0": "n0"}, duration=10, uid="u1"), 0.0)
    cluster.delete(["1.0"], 4.0)
    cluster.advance(4.0)
    cluster.reports(3)
    cluster.bind(asking({"1.0": "n0"}, duration=10, uid="u1~~1"), 6.0)
    cluster.advance(15.0)  # the first incarnation would have ended at 10
    assert report_rows(cluster.reports(3)) == [("STARTED", "1.0", "n0")]
    cluster.advance(16.0)
    assert [kind for kind, *_ in report_rows(cluster.reports(4))] == ["RELEASING", "SUCCEEDED"]


def test_asking_again_tells_where_the_task_is() -> None:
    cluster = LocalCluster()
    cluster.bind(asking({"1.0": "n0"}), 0.0)
    assert cluster.bind(asking({"1.0": "n0"}), 0.0).answers == [BindAnswer.ALREADY]
    elsewhere = cluster.bind(asking({"1.0": "n1"}), 0.0)
    assert elsewhere.answers == [BindAnswer.ELSEWHERE]
    assert elsewhere.where == ["n0"]
    assert cluster.bind(asking({"1.0": "n0"}, uid="u2"), 0.0).answers == [BindAnswer.GONE]


def test_twice_in_one_request_is_bound_once() -> None:
    cluster = LocalCluster()
    request = BindRequests(["1.0", "1.0"], ["u", "u"], ["p", "p"], ["n0", "n1"], [1.0, 1.0])
    assert cluster.bind(request, 0.0).answers == [BindAnswer.OK, BindAnswer.ELSEWHERE]


def test_an_incarnation_runs_once() -> None:
    cluster = LocalCluster(grace=0.0)
    cluster.bind(asking({"1.0": "n0"}, duration=1), 0.0)
    cluster.advance(1.0)
    last = cluster.reports(0).last
    # Its end is not acknowledged: the binder may not know of it, and is told of the bind.
    assert cluster.bind(asking({"1.0": "n0"}), 2.0).answers == [BindAnswer.ALREADY]
    assert cluster.bind(asking({"1.0": "n1"}), 2.0).answers == [BindAnswer.ELSEWHERE]
    cluster.reports(last)
    assert cluster.bind(asking({"1.0": "n0"}), 2.0).answers == [BindAnswer.SUCCEEDED]
    assert cluster.bind(asking({"1.0": "n0"}, uid="u2"), 2.0).answers == [BindAnswer.OK]


def test_a_bind_after_the_deletion_is_answered_gone() -> None:
    cluster = LocalCluster()
    assert cluster.delete(["1.0"], 0.0) == ["1.0"]
    assert cluster.bind(asking({"1.0": "n0"}), 1.0).answers == [BindAnswer.GONE]
    assert report_rows(cluster.reports(0)) == []
    assert cluster.delete(["1.0"], 2.0) == ["1.0"]  # the first answer may have been lost


def test_deleting_tells_which_tasks_will_never_report() -> None:
    cluster = LocalCluster(grace=0.5)
    cluster.bind(asking({"1.0": "n0", "1.1": "n0"}, duration=1), 0.0)
    cluster.bind(asking({"1.2": "n0"}, duration=None), 0.0)
    cluster.advance(1.2)  # two are leaving by themselves
    assert cluster.delete(["1.0", "1.1", "1.2", "2.0"], 1.2) == ["2.0"]
    cluster.advance(9.0)
    assert cluster.delete(["1.0", "1.1", "1.2"], 9.0) == []
    cluster.reports(cluster.reports(0).last)
    assert cluster.delete(["1.0", "1.1", "1.2"], 9.0) == []  # their ends are known


def test_deleting_a_leaving_object_changes_nothing() -> None:
    cluster = LocalCluster(grace=1.0)
    cluster.bind(asking({"1.0": "n0"}, duration=1), 0.0)
    cluster.advance(1.5)
    cluster.delete(["1.0"], 1.5)
    cluster.advance(9.0)
    kinds = [kind for kind, _, _ in report_rows(cluster.reports(0))]
    assert kinds == ["STARTED", "RELEASING", "SUCCEEDED"]


def test_reports_stay_until_they_are_acknowledged() -> None:
    cluster = LocalCluster()
    cluster.bind(asking({f"1.{i}": "n0" for i in range(5)}, duration=None), 0.0)
    cluster.advance(0.0)
    assert len(cluster.reports(0).tasks) == 5
    assert len(cluster.reports(0).tasks) == 5
    some = cluster.reports(2, limit=2)
    assert (some.last, some.tasks) == (4, ["1.2", "1.3"])
    assert cluster.reports(0).tasks == ["1.2", "1.3", "1.4"]  # what is acknowledged is forgotten
    assert cluster.reports(5).tasks == []
    assert cluster.reports(5).last == 5


def test_a_report_number_of_another_run_acknowledges_nothing() -> None:
    cluster = LocalCluster()
    cluster.bind(asking({"1.0": "n0"}, duration=None), 0.0)
    cluster.advance(0.0)
    assert report_rows(cluster.reports(999)) == [("STARTED", "1.0", "n0")]


def test_columns_of_different_length_change_nothing() -> None:
    cluster = LocalCluster()
    with pytest.raises(ValueError, match="differ in length"):
        cluster.bind(BindRequests(["1.0"], [], ["p"], ["n0"], [1.0]), 0.0)
    assert cluster.drain() == []
    assert not cluster.holds("1.0")


@pytest.mark.parametrize("settings", [{"speedup": 0.0}, {"speedup": float("nan")}, {"grace": -1.0}])
def test_wrong_settings_are_named(settings: dict[str, float]) -> None:
    (name,) = settings
    with pytest.raises(ValueError, match=name):
        LocalCluster(**settings)


def test_events_tell_what_was_received_and_done() -> None:
    cluster = LocalCluster(grace=0.0)
    cluster.bind(asking({"1.0": "n0", "1.1": "n1"}, duration=1), 5.0)
    cluster.bind(asking({"1.0": "n1"}), 5.0)
    cluster.delete(["1.1"], 5.5)
    cluster.advance(6.0)
    events = [(e.t, e.kind, e.tasks, e.nodes, e.uids, e.answers) for e in cluster.drain()]
    assert events == [
        (5.0, "bind", ["1.0", "1.1"], ["n0", "n1"], ["u1", "u1"], ["OK", "OK"]),
        (5.0, "start", ["1.0", "1.1"], ["n0", "n1"], ["u1", "u1"], []),
        (5.0, "bind", ["1.0"], ["n1"], ["u1"], ["ELSEWHERE"]),
        (5.5, "delete", ["1.1"], [], [], []),
        (5.5, "releasing", ["1.1"], ["n1"], ["u1"], []),
        (6.0, "releasing", ["1.0"], ["n0"], ["u1"], []),
        (6.0, "succeeded", ["1.0"], ["n0"], ["u1"], []),
        (6.0, "failed", ["1.1"], ["n1"], ["u1"], []),
    ]
    assert cluster.drain() == []


_steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("bind"),
            st.integers(0, 5),
            st.integers(0, 2),
            st.sampled_from([None, 0.0, 0.3, 1.0, 7.5]),
        ),
        st.tuples(st.just("delete"), st.integers(0, 5), st.just(0), st.none()),
        st.tuples(st.just("advance"), st.just(0), st.just(0), st.floats(0.0, 3.0)),
        st.tuples(st.just("reports"), st.integers(0, 3), st.just(0), st.none()),
    ),
    max_size=40,
)


@given(_steps, st.sampled_from([0.0, 0.5]))
def test_every_bound_task_starts_and_ends_once_on_its_node(
    steps: list[tuple[str, int, int, float | None]], grace: float
) -> None:
    """Idempotence and conservation: whatever is asked however often, nothing runs twice, nothing is
    lost, and no report is missing or out of order."""
    cluster = LocalCluster(grace=grace)
    now, after = 0.0, 0
    bound: dict[str, str] = {}
    story: dict[str, list[str]] = {}

    def read(limit: int) -> int:
        reports = cluster.reports(after, limit=limit)
        assert reports.last == after + len(reports.tasks)
        for kind, task, node in report_rows(reports):
            assert bound[task] == node
            story.setdefault(task, []).append(kind)
        return reports.last

    for what, number, node, seconds in steps:
        task, name = f"{number}.0", f"n{node}"
        match what:
            case "bind":
                request = asking({task: name}, duration=seconds)
                (answer,) = cluster.bind(request, now).answers
                if answer == BindAnswer.OK:
                    assert task not in bound
                    bound[task] = name
                elif answer == BindAnswer.ALREADY:
                    assert bound[task] == name
            case "delete":
                cluster.delete([task], now)
            case "advance":
                now += seconds or 0.0
                cluster.advance(now)
            case _:
                after = read(limit=number)
    while (due := cluster.next_due()) is not None:
        now = max(now, due)
        cluster.advance(now)
    cluster.delete(list(bound), now)  # those without duration
    cluster.advance(now + grace)
    after = read(limit=1000)
    assert cluster.reports(after).tasks == []
    assert story.keys() == bound.keys()
    for kinds in story.values():
        assert kinds in (["STARTED", "RELEASING", "SUCCEEDED"], ["STARTED", "RELEASING", "FAILED"])
    assert not any(cluster.holds(task) for task in bound)


def test_many_tasks() -> None:
    """Large enough to hang where a call costs something per task that is already there."""
    cluster = LocalCluster(speedup=1000, grace=0.01)
    after, ends, now = 0, 0, 0.0
    for first in range(0, 100_000, 250):
        tasks = {f"{i}.0": f"n{i % 100}" for i in range(first, first + 250)}
        cluster.bind(asking(tasks, duration=float(first % 97)), now)
        now += 0.001
        cluster.advance(now)
        cluster.drain()
        reports = cluster.reports(after)
        after, ends = reports.last, ends + reports.kinds.count(Report.SUCCEEDED)
    cluster.advance(now + 1.0)
    while (reports := cluster.reports(after)).tasks:
        after, ends = reports.last, ends + reports.kinds.count(Report.SUCCEEDED)
    assert ends == 100_000
