"""The cluster's side of a history, from a watch of pods: each thing once, whatever is told."""

from __future__ import annotations

from coordinator.cluster.events import ClusterEvent
from coordinator.cluster.kubernetes.api.objects import pod_of
from coordinator.verification.chaos.kubernetes.pod_history import NamedTask, PodHistory, TaskNames
from shared.ledger.entries.intake_batch import PutJob
from shared.ledger.entries.log import IntakeEntry
from shared.messages.messages import Epoch, Rows
from shared.model.model import Job, Role
from shared.records.specs_jobs import encode_job
from tests.coordinator.cluster.kubernetes.events import pod

TASK = NamedTask("1.0", "uid-job")


def job_entry(kind: str, uids: tuple[str, ...]) -> IntakeEntry:
    role = Role("", 0, 0, max(1, len(uids)), uids=uids)
    job = Job(7, "default", "group", kind, "uid-group", "default", 0.0, roles=(role,))
    op = PutJob(7, 0, 0, [], encode_job(job))
    return IntakeEntry("1-0", "intake", Epoch(1, "x"), 1, [op], Rows([], []))


def told(history: PodHistory, *states: tuple[str, bool]) -> list[str]:
    """Kinds of events, for a pod on a node in these (phase, being deleted)."""
    events: list[ClusterEvent] = []
    for phase, leaving in states:
        seen = pod_of(pod("a", node="n", phase=phase, leaving=leaving))
        events += history.take(seen, TASK, 1.0)
    assert all((e.tasks, e.nodes, e.uids) == (["1.0"], ["n"], ["uid-job"]) for e in events)
    return [event.kind for event in events]


def test_a_life_is_told_once_however_often_it_is_seen() -> None:
    seen = [("Pending", False), ("Running", False), ("Running", False), ("Succeeded", False)]
    assert told(PodHistory(), *seen, *seen[-1:]) == ["bind", "start", "succeeded"]


def test_what_is_first_seen_late_is_told_from_its_bind_on() -> None:
    assert told(PodHistory(), ("Failed", False)) == ["bind", "failed"]
    assert told(PodHistory(), ("Running", True)) == ["bind", "start", "delete", "releasing"]


def test_an_end_is_erased_with_the_object() -> None:
    history = PodHistory()
    told(history, ("Succeeded", False))
    assert [event.kind for event in history.gone("uid-a", 2.0)] == ["erased"]


def test_a_deleted_pod_fails_as_was_meant_and_one_that_vanishes_is_lost() -> None:
    history = PodHistory()
    told(history, ("Running", True))
    assert [event.kind for event in history.gone("uid-a", 2.0)] == ["failed"]
    assert list(history.gone("uid-a", 3.0)) == []
    told(history, ("Running", False))
    assert [event.kind for event in history.gone("uid-a", 2.0)] == ["lost"]


def test_what_a_new_list_does_not_have_is_gone() -> None:
    history = PodHistory()
    told(history, ("Running", False))
    history.begin_list()
    assert [event.kind for event in history.end_list(2.0)] == ["lost"]
    told(history, ("Running", False))
    history.begin_list()
    told(history, ("Running", False))
    assert list(history.end_list(3.0)) == []


async def test_tasks_are_known_by_the_uids_in_the_log() -> None:
    names = TaskNames()
    await names.learn([job_entry(kind="PodGroup", uids=("uid-a", "uid-b"))])
    assert await names.of("uid-b") == NamedTask("7.1", "uid-group")
    await names.learn([job_entry(kind="Pod", uids=())])
    assert await names.of("uid-group") == NamedTask("7.0", "uid-group")
