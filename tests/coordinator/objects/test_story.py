"""Stories of jobs and their events: once, on the right objects, counted, bounded."""

from __future__ import annotations

import pytest

from coordinator.core.observer import EventReason
from coordinator.objects import recorder, timeline
from shared.codec.packed import replace
from shared.messages.messages import Outcome, TaskState, Turn
from tests.builders.objects import job, node, pod, pod_group, queue, task
from tests.coordinator.objects.world import KIND, World, infeasible, nominated, placed


def placed_in_part(turn: Turn) -> Outcome:
    """The first task has a place, the others have none."""
    outcome = placed(turn, 0)
    (whole,) = outcome.placements
    first = replace(whole, tasks=whole.tasks[:1], rows=whole.rows[:1], levels=whole.levels[:1])
    return replace(outcome, placements=[first], reasons={"Insufficient cpu": 1})


def reasons(world: World, kind: str, name: str) -> list[str]:
    return [reason for reason, _ in world.events(kind, name)]


def all_events(world: World) -> list[tuple[str, str, str]]:
    """(object, reason, message) of every event of the namespace."""
    listed = world.objects.list(KIND["Event"], namespace="ns", limit=None).items
    events = [entry.object() for entry in listed]
    return [(e["involvedObject"]["name"], e["reason"], e["message"]) for e in events]


def test_a_placed_pod_is_told_where_and_by_whom() -> None:
    world = World()
    world.put(node("n0"), job("j", tasks=[task("w", replicas=1)]))
    world.place()
    assert world.events("Pod", "j-w-0") == [("Scheduled", "Successfully assigned ns/j-w-0 to n0")]
    assert reasons(world, "Job", "j") == []


def test_a_large_gang_gets_one_event_per_kind() -> None:
    world = World()
    large = node("n0") | {"status": {"allocatable": {"cpu": "200", "pods": "200"}}}
    world.put(large, job("j", tasks=[task("w", replicas=100)]))
    (turn,) = world.answer(lambda turn: infeasible(turn, Insufficient=3))
    assert [event[:2] for event in all_events(world)] == [("j", "Unschedulable")]
    world.core.order.accounts.capacity.freed()
    world.now += 10
    world.place()
    placed_text = "100 tasks placed by shard-0 (100 L1) on n0"
    assert all_events(world)[1:] == [("j", "Scheduled", placed_text)]
    world.objects.evicted(turn.jid, list(range(100)), turn.jid, "shuffle (tdm)")
    name, reason, message = all_events(world)[-1]
    assert (name, reason) == ("j", "Evict")
    assert message.startswith("evicted by shuffle (tdm) (j-w-0, j-w-1, ")


def test_events_of_one_pod_exclude_those_of_other_members() -> None:
    world = World()
    large = node("n0") | {"status": {"allocatable": {"cpu": "200", "pods": "200"}}}
    world.put(large, job("j", tasks=[task("w", replicas=100)]))

    def events_of(name: str) -> list[tuple[str, str, str]] | None:
        report = world.objects.events_of_pod("ns", name)
        if report is None:
            return None
        events = [entry.object() for entry in report]
        return [(e["involvedObject"]["uid"], e["reason"], e["message"]) for e in events]

    world.answer(lambda turn: infeasible(turn, Insufficient=3))
    world.core.order.accounts.capacity.freed()
    world.now += 10
    world.place()
    (jid,) = world.core.order.jobs
    world.objects.evicted(jid, [7, 8], jid, "shuffle (tdm)")
    few, many = events_of("j-w-7"), events_of("j-w-9")
    assert few is not None
    assert many is not None
    assert [reason for _, reason, _ in few] == ["FailedScheduling", "Scheduled", "Evict"]
    assert [reason for _, reason, _ in many] == ["FailedScheduling", "Scheduled"]
    assert few[1][2] == "Successfully assigned ns/j-w-7 to n0"
    assert {uid for uid, _, _ in few} == {world.get("Pod", "j-w-7")["metadata"]["uid"]}
    # None of them is listed, and one that is asked for by name is the same.
    assert {name for name, _, _ in all_events(world)} == {"j"}
    (first, *_) = world.objects.events_of_pod("ns", "j-w-7") or ()
    assert world.objects.get(KIND["Event"], "ns", first.key.name) == first.object()
    world.put(pod("alone"))
    world.place()
    assert reasons(world, "Pod", "alone") == ["Scheduled"]
    assert events_of("alone") is None
    assert events_of("nobody") is None


def test_a_wait_after_its_pod_was_placed_does_not_concern_that_pod() -> None:
    world = World()
    world.put(node("n0"), job("j", tasks=[task("w", replicas=2)], minAvailable=1))
    world.answer(placed_in_part)
    reasons_of = {
        name: [entry.object()["reason"] for entry in world.objects.events_of_pod("ns", name) or ()]
        for name in ("j-w-0", "j-w-1")
    }
    assert reasons_of == {"j-w-0": ["Scheduled"], "j-w-1": ["FailedScheduling"]}


def test_a_gangs_reason_is_reported_once_for_all_attempts() -> None:
    world = World()
    world.put(node("n0"), job("j", tasks=[task("w", replicas=2)]))
    for _ in range(3):
        world.now += 10
        world.answer(lambda turn: infeasible(turn, Insufficient=3))
        world.core.order.accounts.capacity.freed()
    (report,) = world.events("Job", "j")
    assert report[0] == "Unschedulable"
    (event,) = (
        e.object() for e in world.objects.list(KIND["Event"], namespace="ns", limit=None).items
    )
    assert (event["count"], event["type"]) == (3, "Warning")
    assert event["lastTimestamp"] > event["firstTimestamp"]
    condition = world.get("Job", "j")["status"]["conditions"][0]
    assert report[1] == condition["message"]
    assert condition["reason"] == "NotEnoughResources"


def test_a_job_that_never_had_a_turn_is_told_why_too() -> None:
    world = World()
    world.put(
        node("n0"), pod("p", containers=[{"name": "c", "resources": {"requests": {"cpu": "9"}}}])
    )
    assert world.turns() == []
    assert reasons(world, "Pod", "p") == []
    observed = world.objects.version
    world.objects.report_waiting()
    ((reason, message),) = world.events("Pod", "p")
    assert (reason, message.split(":")[0]) == ("FailedScheduling", "ExceedsNodeCapacity")
    assert world.changes(observed, "Pod") == [("MODIFIED", "p")]
    again = world.objects.version
    world.objects.report_waiting()
    assert world.objects.version == again


def test_resources_are_told_by_name() -> None:
    world = World()
    gpu = {"name": "c", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "2"}}}
    world.put(node("n0"), pod("p", containers=[gpu]))
    world.objects.report_waiting()
    ((_, message),) = world.events("Pod", "p")
    assert "nvidia.com/gpu" in message


def test_conflicts_are_counted_and_a_promise_is_told() -> None:
    world = World()
    world.put(node("n0"), pod_group("g", minMember=1), pod("p", group="g"), pod("q", group="g"))
    world.place(conflicts=3)
    world.place(conflicts=2)
    counts = {
        e.object()["reason"]: e.object()["count"]
        for e in world.objects.list(KIND["Event"], namespace=None, limit=None).items
    }
    assert counts["CommitConflict"] == 5
    world.put(pod_group("h", minMember=1), pod("r", group="h"))
    world.answer(nominated)
    assert reasons(world, "PodGroup", "h") == ["Nominated"]


def test_a_displaced_pods_event_names_its_preemptor() -> None:
    world = World()
    world.put(node("n0"), pod("low"))
    world.answer(nominated)
    jid = world.jid("Pod", "low")
    world.put(pod("high", priority=10))
    high = world.jid("Pod", "high")
    world.answer(lambda t: replace(placed(t, 0), displaced=[jid] if t.jid == high else []))
    ((_, message),) = (e for e in world.events("Pod", "low") if e[0] == "Preempted")
    assert message.startswith("Pod ns/high of priority 10 ")


def test_a_refused_bind_and_an_eviction_are_told() -> None:
    world = World()
    world.put(node("n0"), job("j", tasks=[task("w", replicas=2)]))
    (turn,) = world.place()
    world.record(TaskState.PENDING, turn.jid, [1])
    assert ("BindFailed", "node n0 did not take it; it is placed again") in world.events(
        "Pod", "j-w-1"
    )
    assert reasons(world, "Pod", "j-w-0") == []
    world.record(TaskState.RUNNING, turn.jid, [0])
    world.core.order.evict(world.core.order.jobs[turn.jid], [0], [0])
    world.record(TaskState.RELEASING, turn.jid, [0])
    assert reasons(world, "Job", "j") == ["Scheduled", "Evict"]


def test_a_pod_that_somebody_deletes_is_not_said_to_be_evicted() -> None:
    world = World()
    world.put(node("n0"), job("j", tasks=[task("w", replicas=2)]))
    (turn,) = world.place()
    world.record(TaskState.RUNNING, turn.jid, [0, 1])
    world.record(TaskState.RELEASING, turn.jid, [0])
    assert reasons(world, "Job", "j") == ["Scheduled"]


def test_shards_and_queues_have_events() -> None:
    world = World(shards=2)
    world.put(node("n0"), node("n1"), queue("q"))
    world.core.worker_lost(0)
    assert reasons(world, "Shard", "shard-0")[0] == "ShardLost"
    world.put(queue("q", state="Closed"))
    assert reasons(world, "Queue", "q") == ["QueueClosed"]
    names = world.names("Event", "default", limit=1)
    assert len(names) == len(set(names)) >= 2


def test_an_event_is_found_by_its_name_and_watched() -> None:
    world = World()
    world.put(node("n0"), job("j", tasks=[task("w", replicas=3)]), pod("p"))
    start = world.objects.version
    world.answer(infeasible)
    world.place()
    events = {
        e.key.name: e.object()
        for e in world.objects.list(KIND["Event"], namespace="ns", limit=None).items
    }
    assert len(events) == len(world.names("Event", limit=1)) == 2
    for name, value in events.items():
        assert world.get("Event", name) == value
        assert value["metadata"]["name"] == name
    changed = {name: event for event, name in world.changes(start, "Event")}
    assert changed.keys() >= events.keys()
    assert set(changed.values()) == {"ADDED"}
    assert world.objects.get(KIND["Event"], "ns", "nothing.x.1") is None
    assert world.objects.get(KIND["Event"], "other", next(iter(events))) is None


def test_a_story_is_bounded() -> None:
    world = World()
    world.put(node("n0"), job("j", tasks=[task("w", replicas=2)]))
    (_, turn), *_ = world.turns()
    start = world.objects.version
    for _ in range(timeline.HAPPENINGS + 100):
        world.objects.outcome(0, placed(turn, 0))
    report = world.objects.stories.jobs[turn.jid]
    assert len(report.happenings) == timeline.HAPPENINGS == world.objects.stories.happenings
    assert len(report.parts) == timeline.PARTS
    assert report.floor > start
    last = report.parts[-1][0]
    assert report.changed(start) == {0: last, 1: last}
    report.parts = [(last, [1])]
    assert report.changed(report.floor) == {1: last}
    assert report.changed(report.floor - 1) == {0: report.floor, 1: last}


def test_all_stories_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(window=100)
    world.put(node("n0"), *(pod(f"p{i}") for i in range(60)))
    stories = world.objects.stories
    monkeypatch.setattr(timeline, "ALL_HAPPENINGS", 40)
    for jid in range(60):
        if (state := world.core.order.jobs.get(jid)) is not None:
            turn = Turn(
                jid=state.job.jid, job_version=0, qid=0, priority=0, groups=[], runs=[], total=1
            )
            world.objects.outcome(0, infeasible(turn))
            assert stories.happenings <= 40
    assert stories.happenings == sum(len(s.happenings) for s in stories.jobs.values()) > 0


def test_the_cluster_tells_no_more_than_so_much() -> None:
    world = World()
    for i in range(recorder.CLUSTER_HAPPENINGS + 10):
        world.objects.shard_changed(i, EventReason.SHARD_LOST)
    assert len(world.objects.cluster_events) == recorder.CLUSTER_HAPPENINGS
