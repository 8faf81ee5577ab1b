"""Objects as they are read: whole, in lists, and what changed of them."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.objects.store import PAGE_BYTES
from coordinator.objects.watchers import WatchExpired
from shared.messages.messages import TaskState
from shared.slices import at_once
from tests.builders.objects import job, node, pod, pod_group, queue, task
from tests.coordinator.objects.world import BASE, KIND, World

ENQUEUE = {
    "actions": "enqueue, allocate",
    "tiers": [{"plugins": [{"name": "gang"}, {"name": "overcommit"}, {"name": "proportion"}]}],
}


def test_a_pod_from_its_coming_to_its_end() -> None:
    world = World()
    world.put(node("n0"))
    world.put(pod("p") | {"metadata": {"name": "p", "namespace": "ns", "labels": {"app": "x"}}})
    first = world.get("Pod", "p")
    assert first["status"]["phase"] == "Pending"
    (scheduled,) = first["status"]["conditions"]
    assert (scheduled["type"], scheduled["status"], scheduled["reason"]) == (
        "PodScheduled",
        "False",
        "Unschedulable",
    )
    assert scheduled["message"].startswith("PendingEvaluation: ")
    assert first["metadata"]["labels"] == {"app": "x"}
    assert first["metadata"]["creationTimestamp"] == "1970-01-12T13:46:40Z"
    (turn,) = world.place()
    bound = world.get("Pod", "p")
    assert bound["spec"]["nodeName"] == "n0"
    assert bound["status"]["conditions"][0]["status"] == "True"
    assert int(bound["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    assert bound["metadata"]["uid"] == first["metadata"]["uid"]
    words = ["Binding"]
    for state in (TaskState.BOUND, TaskState.RUNNING, TaskState.SUCCEEDED):
        world.now += 5
        world.turns()
        world.record(state, turn.jid, [0])
        live = world.get("Pod", "p")
        cells = world.objects.table(KIND["Pod"], [live])["rows"][0]["cells"]
        words.append(cells[2])
    assert words == ["Binding", "ContainerCreating", "Running", "Completed"]
    assert live["status"]["phase"] == "Succeeded"
    assert live["status"]["startTime"] == "1970-01-12T13:46:50Z"


def test_lists_go_page_by_page_through_one_namespace_or_all() -> None:
    world = World()
    items = [pod(f"p{i}") for i in range(7)]
    for i, item in enumerate(items):
        item["metadata"]["namespace"] = f"ns{i % 2}"
    world.put(*items)
    assert world.names("Pod") == ["p0", "p2", "p4", "p6", "p1", "p3", "p5"]
    assert world.names("Pod", "ns1") == ["p1", "p3", "p5"]
    assert world.names("Pod", "ns") == []
    page = world.objects.list(KIND["Pod"], namespace=None, limit=3)
    assert (page.remaining, bool(page.next)) == (4, True)
    assert world.names("Namespace") == ["default", "ns0", "ns1"]


def test_a_page_of_large_objects_is_short_and_the_next_one_goes_on_behind_it() -> None:
    world = World()
    large = {"k": "x" * (PAGE_BYTES // 2)}
    items = [pod(f"p{i}") for i in range(7)]
    for item in items[:4]:
        item["metadata"]["annotations"] = large
    world.put(*items)
    lengths, names, after = [], [], ""
    while True:
        page = world.objects.list(KIND["Pod"], namespace="ns", after=after, limit=5)
        some = [entry.key.name for entry in page.items]
        names += some
        lengths.append(len(some))
        assert page.remaining == 7 - len(names)
        if not (after := page.next):
            break
    assert names == [f"p{i}" for i in range(7)]
    assert lengths == [2, 2, 3]


def test_the_version_of_an_object_is_told_without_rendering_it() -> None:
    world = World()
    world.put(node("n0"), job("a", tasks=[task("w", replicas=1)], queue="default"), pod("p"))
    for kind in ("Job", "Pod", "PodGroup"):
        for name in world.names(kind, "ns"):
            version = world.get(kind, name)["metadata"]["resourceVersion"]
            assert world.objects.version_of(KIND[kind], "ns", name) == version
    assert world.objects.version_of(KIND["Pod"], "ns", "other") is None


def test_a_page_is_rendered_after_the_purge_of_its_job() -> None:
    """A list and a watch let others run between a page and what is written of it."""
    world = World()
    world.put(node("n0"), job("a", tasks=[task("w", replicas=2), task("x", replicas=1)]), pod("p"))
    pages = [
        [*world.objects.list(KIND[kind], namespace="ns", limit=10).items]
        for kind in ("Pod", "PodGroup", "Job")
    ]
    world.remove("Job", "a")
    world.purge(0)
    assert world.names("Pod", "ns") == ["p"]
    names = [entry.object()["metadata"]["name"] for page in pages for entry in page]
    assert names == [entry.key.name for page in pages for entry in page]
    assert names[:4] == ["a-w-0", "a-w-1", "a-x-0", "p"]
    assert [entry.labels["volcano.sh/task-spec"] for entry in pages[0][:3]] == ["w", "w", "x"]


def test_the_pods_and_the_pod_group_of_a_job_are_shown_without_documents() -> None:
    world = World()
    world.put(node("n0"), job("a", tasks=[task("w", replicas=3)], queue="default"))
    world.put(job("b", tasks=[task("m", replicas=1), task("w-x", replicas=2)]), pod("aa"))
    assert world.names("Pod") == ["a-w-0", "a-w-1", "a-w-2", "aa", "b-m-0", "b-w-x-0", "b-w-x-1"]
    assert world.names("Pod", "ns", limit=1) == world.names("Pod", "ns", limit=100)
    owner = world.get("Job", "b")
    live = world.get("Pod", "b-w-x-1")
    assert live["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    assert live["metadata"]["labels"]["volcano.sh/task-index"] == "1"
    assert live["spec"]["containers"][0]["name"] == "c"
    group = f"b-{owner['metadata']['uid']}"
    assert group in world.names("PodGroup")
    assert world.get("PodGroup", group)["spec"]["minMember"] == 3
    assert world.objects.get(KIND["Pod"], "ns", "b-w-x-2") is None
    assert world.objects.get(KIND["PodGroup"], "ns", "b-nonsense") is None
    world.place()
    assert world.get("Pod", "b-w-x-1")["spec"]["nodeName"] == "n0"
    assert world.get("PodGroup", group)["status"]["phase"] == "Running"


def test_changes_are_told_once_for_each_object_in_order() -> None:
    world = World()
    start = world.objects.version
    world.put(node("n0"))
    world.put(pod("p"), pod("q"))
    assert world.changes(start, "Node") == [("ADDED", "n0")]
    assert world.changes(start, "Pod") == [("ADDED", "p"), ("ADDED", "q")]
    observed = world.objects.version
    assert world.changes(observed, "Pod") == []
    turns = world.place()
    assert sorted(world.changes(observed, "Pod")) == [("MODIFIED", "p"), ("MODIFIED", "q")]
    assert sorted(world.changes(start, "Pod")) == [("ADDED", "p"), ("ADDED", "q")]
    observed = world.objects.version
    world.record(TaskState.RUNNING, turns[1].jid, [0])
    assert world.changes(observed, "Pod") == [("MODIFIED", "q")]


def test_only_the_tasks_that_moved_are_changes() -> None:
    world = World()
    world.put(node("n0"), job("j", tasks=[task("w", replicas=4)]))
    (turn,) = world.place()
    observed = world.objects.version
    world.record(TaskState.RUNNING, turn.jid, [1, 3])
    assert sorted(world.changes(observed, "Pod")) == [("MODIFIED", "j-w-1"), ("MODIFIED", "j-w-3")]
    assert world.changes(observed, "Job") == [("MODIFIED", "j")]
    assert [event for event, _ in world.changes(observed, "PodGroup")] == ["MODIFIED"]


def test_a_deleted_job_takes_its_pods_along_as_they_last_were() -> None:
    world = World()
    world.put(node("n0"), job("j", tasks=[task("w", replicas=2)]))
    (turn,) = world.place()
    observed = world.objects.version
    world.remove("Job", "j")
    assert world.get("Pod", "j-w-0")["metadata"]["deletionTimestamp"]
    assert world.get("Job", "j")["status"]["state"]["phase"] == "Terminating"
    assert ("MODIFIED", "j-w-1") in world.changes(observed, "Pod")
    world.record(TaskState.FAILED, turn.jid, [0, 1])
    observed = world.objects.version
    world.purge(turn.jid)
    gone = at_once(world.objects.changes(observed, KIND["Pod"]))
    assert [(c.type, c.key.name) for c in gone] == [("DELETED", "j-w-0"), ("DELETED", "j-w-1")]
    assert gone[0].last is not None and gone[0].last()["status"]["phase"] == "Failed"
    assert world.changes(observed, "Job") == [("DELETED", "j")]
    assert [event for event, _ in world.changes(observed, "PodGroup")] == ["DELETED"]
    assert world.names("Pod") == world.names("PodGroup") == world.names("Job") == []


def test_versions_of_earlier_coordinators_are_expired() -> None:
    world = World()
    world.put(pod("p"))
    with pytest.raises(WatchExpired):
        at_once(world.objects.changes(BASE - 1, KIND["Pod"]))
    assert world.changes(BASE, "Pod") == [("ADDED", "p")]


def test_a_gang_that_waits_says_so_in_volcanos_words() -> None:
    world = World()
    world.put(node("n0"), pod_group("g", minMember=3), *(pod(f"p{i}", group="g") for i in range(2)))
    few = world.get("PodGroup", "g")["status"]
    assert few["phase"] == "Inqueue"  # it asks for no minResources: admitted, whatever it waits for
    assert (few["conditions"][0]["type"], few["conditions"][0]["reason"]) == (
        "Unschedulable",
        "NotEnoughTasks",
    )
    world.put(*(pod(f"p{i}", group="g") for i in range(2, 20)))
    world.put(pod_group("g", minMember=20))
    short = world.get("PodGroup", "g")["status"]
    assert short["conditions"][0]["reason"] == "NotEnoughResources"
    assert short["explanations"][0]["reason"] == "NotEnoughResources"
    assert "short by" in short["conditions"][0]["message"]
    waiting = world.get("Pod", "p7")["status"]["conditions"][0]
    assert waiting["message"] == short["conditions"][0]["message"]


def test_queues_count_their_gangs_and_nodes_their_tasks() -> None:
    world = World()
    world.put(node("n0"), queue("q", weight=2), job("j", tasks=[task(replicas=2)], queue="q"))
    assert world.get("Queue", "q", "")["status"]["inqueue"] == 1
    world.place()
    status = world.get("Queue", "q", "")["status"]
    assert (status["running"], status["allocated"]["cpu"], status["allocated"]["memory"]) == (
        1,
        "2",
        "2Gi",
    )
    world.put(queue("q", weight=2, state="Closed"), queue("r", state="Closed"))
    assert world.get("Queue", "q", "")["status"]["state"] == "Closing"
    assert world.get("Queue", "r", "")["status"]["state"] == "Closed"
    assert world.get("Node", "n0", "")["status"]["allocated"]["cpu"] == "2"
    assert world.get("Node", "n0", "")["metadata"]["annotations"] == {
        "quadrant.dev/shard": "shard-0"
    }
    assert world.get("Shard", "shard-0", "")["status"]["nodes"] == 1


def test_a_gang_without_pods_is_admitted_and_its_watchers_hear_of_it() -> None:
    """Its controller makes the pods after that, and waits for this change alone."""
    world = World(policy=ENQUEUE)
    least: dict[str, Any] = {"minMember": 2, "minResources": {"cpu": "12"}}
    world.put(node("n0"), pod_group("g", **least))
    world.turns()
    assert world.get("PodGroup", "g")["status"]["phase"] == "Pending"
    world.objects.report_waiting()
    [condition] = world.get("PodGroup", "g")["status"]["conditions"]
    assert "not admitted by enqueue: plugin overcommit" in condition["message"]
    observed = world.objects.version
    world.put(node("n1"))
    world.now += 2.0
    world.turns()
    assert world.get("PodGroup", "g")["status"]["phase"] == "Inqueue"
    assert ("MODIFIED", "g") in world.changes(observed, "PodGroup")


def test_a_gang_without_minima_is_admitted_and_one_without_queue_is_not() -> None:
    world = World(policy=ENQUEUE)
    world.put(pod_group("g", minMember=2), pod_group("lost", minMember=2, queue="nowhere"))
    phases = [world.get("PodGroup", name)["status"]["phase"] for name in ("g", "lost")]
    assert phases == ["Inqueue", "Pending"]
