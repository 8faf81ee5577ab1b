"""The bound on waiting jobs: which objects are beyond it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coordinator.intake.intake import Intake
from coordinator.intake.pending_limit import COUNT_SECONDS, MOST_TASKS, TOO_MANY, PendingBound
from coordinator.intake.queue_of import OTHERS, lane_of, queue_of
from tests.builders.objects import node, queue
from tests.coordinator.api.auth.objects import group, job, pod


@dataclass
class Book:
    """Numbers of jobs, as a coordinator has them."""

    all: dict[str, int] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    passes: int = 0
    all_tasks: int = 0

    def unfinished(self, queue: str) -> int:
        return self.all.get(queue, 0)

    def most_unfinished(self) -> int:
        return max(self.all.values(), default=0)

    def tasks(self) -> int:
        return self.all_tasks

    def waiting(self, queue: str) -> int:
        self.passes += 1
        return self.all.get(queue, 0) - self.running.get(queue, 0)


class PendingBench:
    def __init__(self, limit: int, **jobs: int) -> None:
        self.book = Book(dict(jobs))
        self.intake = Intake()
        self.now = 100.0
        self.intake.admit([queue("a"), queue("b")], 0.0)
        self.bound = PendingBound(
            self.book, lambda: self.intake.registry, limit=limit, clock=lambda: self.now
        )

    def refused(self, *items: Any) -> list[str]:
        admitted, refused = self.bound.split(list(items))
        assert len(admitted) + len(refused) == len(items)
        assert all(r.reason == TOO_MANY for r in refused)
        return [r.name for r in refused]


def test_jobs_beyond_the_bound_are_refused_by_queue() -> None:
    bench = PendingBench(3, a=2, b=0)
    items = [job("j1", "a"), pod("p1", queue="a"), job("j2", "b"), group("g", "a"), node("n")]
    assert bench.refused(*items) == ["default/j1", "default/p1"], "groups come first in a list"
    assert bench.refused(job("j3", "a")) == ["default/j3"], "the first is not known yet, but counts"
    assert bench.refused(job("j4", "b"), job("j5", "b")) == []
    assert bench.refused(job("j6", "b")) == ["default/j6"]
    bench.book.all = {"a": 2, "b": 3}
    bench.bound.published()
    bench.now += COUNT_SECONDS
    assert bench.refused(job("j7", "b"), job("j8", "a")) == ["default/j7"]


def test_members_share_the_verdict_on_their_group() -> None:
    bench = PendingBench(1, a=0)
    items = [pod("p1", group="g"), group("g", "a"), pod("p2", group="g"), pod("p3", group="h")]
    later = [pod("q1", group="h2", queue="a"), pod("q2", group="h2", queue="a"), group("g2", "a")]
    assert bench.refused(*items, *later) == ["default/q1", "default/q2", "default/g2"]


def test_known_objects_and_members_do_not_count_as_new_jobs() -> None:
    bench = PendingBench(1, a=1)
    bench.intake.admit([group("g", "a"), pod("p", queue="a"), job("j", "a")], 0.0)
    existing = [group("g", "a"), pod("p", queue="a"), job("j", "a"), pod("m", group="g")]
    assert bench.refused(*existing) == []
    assert bench.refused(group("g2", "a")) == ["default/g2"]


def test_jobs_that_run_take_no_room_and_are_not_counted_each_time() -> None:
    bench = PendingBench(10, a=100)
    bench.book.running["a"] = 95
    assert bench.refused(*(job(f"j{i}", "a") for i in range(7))) == ["default/j5", "default/j6"]
    for i in range(20):
        assert bench.refused(job(f"k{i}", "a")) != []
    assert bench.book.passes == 1
    bench.book.all["a"], bench.book.running["a"] = 105, 98
    bench.bound.published()
    bench.now += COUNT_SECONDS
    assert bench.refused(*(job(f"l{i}", "a") for i in range(4))) == ["default/l3"]


def test_far_from_the_bound_only_kinds_are_looked_at() -> None:
    class Blind(dict[str, Any]):
        def get(self, name: str, *_: Any) -> Any:
            assert name == "kind", "looked at"
            return "Pod"

    bench = PendingBench(100, a=50)
    assert bench.refused(*(Blind() for _ in range(50))) == []
    bench.bound.published()


# --- whose request it is ----------------------------------------------------------------------


def test_a_request_is_of_the_queue_of_its_first_job() -> None:
    names = PendingBench(1).intake.registry
    assert lane_of([node("n"), job("j", "a"), job("k", "b")], names) == "a"
    assert lane_of([node("n")], names) == OTHERS
    assert lane_of([], names) == OTHERS
    assert lane_of([pod("p")], names) == "default"
    odds: list[list[Any]] = [
        [None, 7, []],
        [{"kind": []}],
        [{"kind": "Job", "spec": {"queue": {}}}],
    ]
    for odd in odds:
        assert lane_of(odd, names) in (OTHERS, "default")


def test_invented_queues_share_one_line() -> None:
    names = PendingBench(1).intake.registry
    assert {lane_of([job("j", f"q{i}")], names) for i in range(5)} == {OTHERS}


def test_a_member_goes_where_its_group_is() -> None:
    bench = PendingBench(1)
    bench.intake.admit([group("g", "b")], 0.0)
    names = bench.intake.registry
    assert queue_of(pod("p", group="g", queue="a"), names) == "b"
    assert queue_of(pod("p", group="other", queue="a"), names) == "a"
    assert queue_of(pod("p", group="other"), names) == "default"


def test_jobs_have_so_many_tasks_together() -> None:
    bench = PendingBench(100, a=0)
    bench.book.all_tasks = MOST_TASKS - 1_500_000

    def large(name: str, replicas: int) -> Any:
        job_item = job(name, "a")
        job_item["spec"]["tasks"][0]["replicas"] = replicas
        return job_item

    items = [large("j1", 1_000_000), pod("p1", queue="a"), large("j2", 1_000_000), job("j3", "a")]
    assert bench.refused(*items) == ["default/j2"]
    assert bench.refused(large("j4", 600_000)) == ["default/j4"], (
        "the first is not known, but counts"
    )
    bench.intake.admit([large("j1", 1_000_000)], 0.0)
    bench.book.all_tasks = MOST_TASKS
    bench.bound.published()
    assert bench.refused(large("j1", 1_000_000)) == [], "it is there already"
    assert bench.refused(job("j5", "a")) == ["default/j5"]
