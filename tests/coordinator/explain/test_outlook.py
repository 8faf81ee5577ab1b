"""The gang by role, the figures of queues, and an estimate that says what it rests on."""

from __future__ import annotations

from typing import Any

from coordinator.cli.scheduling.explain_text import explanation
from coordinator.explain.estimate import estimate, gang, quota, victims
from coordinator.jobs.state import FailedEviction, JobState
from coordinator.jobs.wait_times import RecentWaits
from shard_worker.dialects.volcano.actions.run import run_actions
from shard_worker.harness import Cluster
from shared.messages.messages import TaskState
from tests.builders.objects import job, node, queue, task
from tests.coordinator.objects.world import World

NAMES = ("cpu", "memory", "pods")


def world_of(*items: dict[str, Any]) -> tuple[World, JobState]:
    world = World()
    world.put(*items)
    jid = max(world.core.order.jobs)
    return world, world.core.order.jobs[jid]


def test_each_role_is_counted() -> None:
    world, state = world_of(
        node("n0"), job("j", tasks=[task("ps", replicas=1), task("w", replicas=3)])
    )
    world.record(TaskState.RUNNING, state.job.jid, [1, 2])
    world.record(TaskState.RELEASING, state.job.jid, [2])
    rows = {row["role"]: row for row in gang(world.core.order.jobs[state.job.jid])}
    assert (rows["ps"]["tasks"], rows["ps"]["pending"]) == (1, 1)
    worker = rows["w"]
    assert (worker["tasks"], worker["running"], worker["leaving"], worker["pending"]) == (
        3,
        1,
        1,
        1,
    )


def test_figures_of_the_queue_and_its_parents_for_requested_resources() -> None:
    world, state = world_of(
        node("n0"),
        queue("top", capability={"cpu": "8", "example.com/chip": "3"}),
        queue("leaf", parent="top", guarantee={"resource": {"cpu": "1"}}),
        job("j", queue="leaf", tasks=[task("w", replicas=2)]),
    )
    leaf, top = quota(world.core, state, NAMES)
    assert (leaf["queue"], top["queue"]) == ("leaf", "top")
    assert "cpu" in leaf["asks"]
    assert leaf["guarantee"] == {"cpu": "1"}
    assert top["capability"] == {"cpu": "8"}  # the chip is not asked for
    assert "capability" not in leaf


def test_an_estimate_rests_on_jobs_that_had_waited_as_long() -> None:
    _, state = world_of(node("n0"), job("j", tasks=[task("w", replicas=4)]))
    likes, created = RecentWaits(), state.job.created
    assert estimate(likes, state, created) is None
    for waited in range(10, 110, 10):
        likes.placed(state, float(waited))
    report = estimate(likes, state, created + 45)
    assert report is not None
    assert (report["p50"], report["p90"]) == (35.0, 55.0)
    assert report["basis"].startswith("6 jobs like it in queue")
    assert estimate(likes, state, created + 75) is None  # too few waited longer


def test_only_the_last_waits_of_a_sort_count_and_sorts_are_bounded() -> None:
    _, narrow = world_of(node("n0"), job("j", tasks=[task("w", replicas=1)]))
    _, wide = world_of(node("n0"), job("j", tasks=[task("w", replicas=9)]))
    likes = RecentWaits()
    for waited in range(100):
        likes.placed(narrow, float(waited))
    likes.placed(wide, 1.0)
    assert len(likes.of(narrow)) == RecentWaits.REMEMBERED
    assert likes.of(wide) == [1.0]


def test_the_text_has_a_line_for_each() -> None:
    answer = {
        "of": {"kind": "Job", "namespace": "ns", "name": "j"},
        "queue": "leaf",
        "phase": "Pending",
        "ageSeconds": 3,
        "reason": "WaitingForQuota",
        "message": "m",
        "attempts": dict.fromkeys(
            ("placed", "nominated", "infeasible", "trueConflicts", "readConflicts", "shards"), 0
        ),
        "gang": [
            {"role": "w", "tasks": 8, "minimum": 4, "running": 2, "leaving": 1},
            {"role": "ps", "tasks": 1, "minimum": None, "running": 0, "leaving": 0},
        ],
        "quota": [
            {
                "queue": "leaf",
                "allocated": {"cpu": "4", "pods": "4"},
                "asks": {"cpu": "8"},
                "deserved": {"cpu": "6"},
            },
            {"queue": "top", "allocated": {"cpu": "4"}},
        ],
        "eta": {"p50": 60.0, "p90": 600.0, "basis": "12 jobs like it"},
        "next": "woken",
    }
    text = "\n".join(explanation(answer, columns=200, now=0.0)).replace("\N{NO-BREAK SPACE}", " ")
    assert "w 2 of 8 run (at least 4), 1 leaving, ps 0 of 1 run" in text
    assert "leaf: has 4 cpu, asks 8 cpu, deserves 6 cpu" in text
    assert "top:" not in text  # nothing is held against it
    assert "woken; estimate 60s to 10min (p50 to p90 of 12 jobs like it)" in text


def test_considered_victims_are_counted_by_the_rule_that_spared_them() -> None:
    _, state = world_of(node("n0"), job("j", tasks=[task("w", replicas=2)]))
    assert victims(state) is None
    state.failed_eviction = FailedEviction(
        "preempt", {"kept by priority": 2, "kept by gang": 3}, 1.0
    )
    assert victims(state) == {
        "action": "preempt",
        "considered": 5,
        "kept": [{"why": "kept by gang", "tasks": 3}, {"why": "kept by priority", "tasks": 2}],
    }
    for action in ("reclaim", "gangpreempt"):  # which had nobody to look at
        state.failed_eviction = state.failed_eviction.then(action, {}, 2.0)
        victim_list = victims(state)
        assert victim_list is not None
        assert (victim_list["action"], victim_list["considered"]) == ("preempt", 5)
    state.failed_eviction = state.failed_eviction.then("preempt", {}, 3.0)
    assert victims(state) == {"action": "preempt", "considered": 0, "kept": []}


def test_a_session_counts_whom_its_rules_keep() -> None:
    cluster = Cluster("priority", "gang", actions=("preempt",))
    cluster.node("a", cpu=2)
    cluster.job("whole", tasks=2, on=["a", "a"])
    cluster.job("urgent", priority=9, cpu=2)
    session = cluster.open()
    run_actions(session)
    assert session.committed == []
    assert session.spared[1] == {"kept by gang": 2}
