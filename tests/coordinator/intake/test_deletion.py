"""Deletion in two steps, names that stay taken meanwhile, and what may not go."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.intake.admission.pod_names import owner_of
from coordinator.intake.documents.document import Key
from shared.ledger.entries.intake_batch import DropJob, DropQueue, PurgeJob
from shared.records.specs import GONE_NODE_KEY
from tests.builders.objects import (
    EVERY_KIND,
    hyper_node,
    job,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
    stored_kind,
    task,
)
from tests.coordinator.intake.bench import Bench, put_jobs, same, state


def refusal(bench: Bench, kind: str, name: str) -> tuple[str, str]:
    before = state(bench.intake)
    (result,) = bench.remove(kind, name).refused
    assert same(state(bench.intake), before)
    return result.reason, result.message


# --- two steps --------------------------------------------------------------------------------


def test_a_group_goes_with_its_members_and_their_documents(bench: Bench) -> None:
    bench.take(pod_group("g"), pod("w-0", group="g"), pod("w-1", group="g"), pod("other"))
    gone = bench.remove("PodGroup", "g", now=5.0)
    assert (gone.jobs_gone, gone.tasks_gone, gone.documents_gone) == ([0], [], [])
    assert {(d.key.kind, d.key.name) for d in gone.documents} == {
        ("PodGroup", "g"),
        ("Pod", "w-0"),
        ("Pod", "w-1"),
    }
    assert {d.deleting for d in gone.documents} == {5.0}
    again = bench.remove("PodGroup", "g", now=6.0)
    assert (again.ops, again.unchanged, again.refused) == ([], 1, [])
    assert bench.remove("Pod", "w-0").ops == []
    purged = bench.purge(0)
    assert purged.jobs_purged == [0]
    assert {k.name for k in purged.documents_gone} == {"g", "w-0", "w-1"}
    assert bench.purge(0).ops == []


def test_a_member_that_was_deleted_before_its_group(bench: Bench) -> None:
    bench.take(pod_group("g"), pod("w-0", group="g"), pod("w-1", group="g"))
    bench.remove("Pod", "w-0", now=5.0)
    marks = {d.key.name: d.deleting for d in bench.remove("PodGroup", "g", now=6.0).documents}
    assert marks == {"w-0": 5.0, "g": 6.0, "w-1": 6.0}
    assert bench.purge(pods=[(0, 0)]).ops == []
    assert len(bench.purge(0).documents_gone) == 3
    assert not bench.intake.registry.deleting


def test_the_last_pod_of_a_group_that_was_never_created(bench: Bench) -> None:
    bench.take(pod("w-0", group="g"), pod("w-1", group="g"))
    assert refusal(bench, "PodGroup", "g")[0] == "NotFound"
    bench.remove("Pod", "w-0")
    bench.remove("Pod", "w-1")
    assert bench.purge(pods=[(0, 0)]).jobs_gone == []
    last = bench.purge(pods=[(0, 1)])
    assert last.ops[:2] == [DropJob(0), PurgeJob(0)]
    assert (last.jobs_gone, last.jobs_purged, last.jobs) == ([0], [0], [])
    assert not bench.intake.registry.groups
    assert bench.only(bench.take(pod_group("g"))).jid == 1


def test_objects_without_tasks_are_deleted_at_once(bench: Bench) -> None:
    bench.take(node("n"), hyper_node("h", "n"), priority_class("high"), queue("q"))
    for kind, name in (("Node", "n"), ("HyperNode", "h"), ("PriorityClass", "high")):
        gone = bench.remove(kind, name)
        assert gone.documents_gone == [Key(kind, "", name)]
        assert gone.documents == []
    gone = bench.remove("Queue", "q")
    assert (gone.ops[0], gone.queues_gone) == (DropQueue(1), [1])
    assert list(bench.intake.documents) == [Key("Queue", "", "default")]


@pytest.mark.parametrize("obj", EVERY_KIND, ids=lambda o: o["kind"])
def test_a_dry_run_of_a_deletion_keeps_everything(bench: Bench, obj: dict[str, Any]) -> None:
    bench.take(queue("q"), obj)
    before = state(bench.intake)
    meta = obj["metadata"]
    dry_run = bench.intake.remove(
        stored_kind(obj), meta.get("namespace", ""), meta["name"], 5.0, keep=False
    )
    assert dry_run.accepted == 1
    assert dry_run.documents or dry_run.documents_gone
    assert same(state(bench.intake), before)


# --- queues -----------------------------------------------------------------------------------


def test_a_queue_that_is_needed_stays(bench: Bench) -> None:
    bench.take(queue("a"), queue("b", parent="a"), pod_group("g", queue="b"))
    assert refusal(bench, "Queue", "default")[0] == "Conflict"
    assert "queue b is below it" in refusal(bench, "Queue", "a")[1]
    assert "PodGroup ns/g is in it" in refusal(bench, "Queue", "b")[1]
    bench.remove("PodGroup", "g")
    assert "wait until they are gone" in refusal(bench, "Queue", "b")[1]
    bench.purge(0)
    assert bench.remove("Queue", "b").accepted == 1
    assert bench.remove("Queue", "a").accepted == 1


def test_a_queue_comes_back_under_another_number(bench: Bench) -> None:
    bench.take(queue("a"))
    bench.remove("Queue", "a")
    bench.take(pod_group("g", queue="a"))
    assert put_jobs(bench.take(pod_group("h", queue="a")))[0].qid == -1
    again = bench.take(queue("a"))
    assert [q.qid for q in again.queues] == [2]
    assert {op.qid for op in put_jobs(again)} == {2}
    bench.remove("PodGroup", "g")
    bench.remove("PodGroup", "h")
    bench.purge(0, 1)
    bench.remove("Queue", "a")
    assert bench.restored().registry.next_qid == 3


# --- pods of Jobs -----------------------------------------------------------------------------


def test_the_pods_of_a_job_have_names_too(bench: Bench) -> None:
    bench.take(job("a", tasks=[task("b-c", replicas=2), task("d", replicas=1)]))
    registry = bench.intake.registry
    results = {
        name: owner[1]
        for name in ("a-b-c-0", "a-b-c-1", "a-b-c-2", "a-d-0", "a-d-00", "a-d", "a-d-x", "d-0")
        if (owner := owner_of(registry, "ns", name))
    }
    assert results == {"a-b-c-0": 0, "a-b-c-1": 1, "a-d-0": 2}
    (name_refusal,) = bench.admit(pod("a-b-c-1")).refused
    assert "a pod of Job ns/a has this name" in name_refusal.message
    assert bench.take(pod("a-b-c-2")).accepted == 1
    assert "belongs to Job ns/a" in refusal(bench, "Pod", "a-d-0")[1]
    bench.remove("Job", "a")
    assert bench.admit(pod("a-d-0")).refused
    bench.purge(0)
    assert bench.take(pod("a-d-0")).accepted == 1


def test_a_job_may_not_take_the_names_of_other_pods(bench: Bench) -> None:
    bench.take(pod("a-w-1"), pod("other"), job("x", tasks=[task("y-z")]))
    for wrong in (job("a"), job("a", tasks=[task(replicas=9)])):
        (refusal,) = bench.admit(wrong).refused
        assert "pod ns/a-w-1 exists" in refusal.message
    assert "Job ns/x" in bench.admit(job("x-y", tasks=[task("z")])).refused[0].message
    assert bench.take(job("a", tasks=[task(replicas=1)])).accepted == 1
    assert bench.take(job("b"), job("b-w")).accepted == 2
    together = bench.admit(pod("c-w-0"), job("c"))
    assert [r.kind for r in together.refused] == ["Pod"]


# --- recovery ---------------------------------------------------------------------------------


def test_pending_deletions_survive_a_restart(bench: Bench) -> None:
    bench.take(*EVERY_KIND, pod("w-0", group="g", role="w"), pod("lone"), queue("z"))
    bench.remove("Job", "j")
    bench.remove("Pod", "lone")
    bench.remove("Pod", "w-0")
    bench.remove("Queue", "z")
    registry = state(bench.intake)
    assert (len(registry.leaving), len(registry.deleting)) == (2, 1)
    again = bench.restored()
    assert same(state(again), registry)
    refused = again.admit([job("j"), pod("lone"), pod("w-0", group="g", role="w")], 9.0).refused
    assert [r.reason for r in refused] == ["AlreadyExists"] * 3
    purged = again.purge(sorted(registry.leaving), [(0, 1)])
    assert len(purged.documents_gone) == 3
    assert again.admit([job("j"), pod("lone")], 9.0).refused == []


def test_a_node_that_comes_back_has_its_row_again(bench: Bench) -> None:
    """Its pods may still run, and are counted by the row."""
    (first,) = bench.take(node("n")).nodes
    bench.take(node("other"))
    bench.remove("Node", "n")
    for intake in (bench.restored(), bench.intake):
        (back,) = intake.admit([node("n")], 9.0, keep=intake is bench.intake).nodes
        assert (back.name, back.row) == ("n", first.row)
        assert back.spec > first.spec + 1, "the ledger counts the deletion as one"
    bench.intake = bench.restored()
    bench.take(node("n"))
    assert not any(key.startswith(GONE_NODE_KEY) for key in bench.kept.snapshot.objects)
    assert bench.restored().registry.gone_nodes == {}
    bench.remove("Node", "n")
    (again,) = bench.take(node("n")).nodes
    assert (again.row, again.spec > back.spec + 1) == (first.row, True)
