"""The cluster's side of a history, from a watch of pods: each thing once, whatever is told."""

from __future__ import annotations

import orjson
import pytest

from coordinator.cluster.events import ClusterEvent
from coordinator.cluster.kubernetes.api.objects import pod_of
from laboratory.chaos.kubernetes.pod_history import NamedTask, PodHistory, TaskNames
from shared.ledger.entries.intake_batch import PutJob
from shared.ledger.entries.log import IntakeEntry
from shared.messages.messages import Epoch, Rows
from shared.model.model import Job, Role
from shared.records.specs_jobs import encode_job
from shared.units.things import Things
from tests.coordinator.cluster.kubernetes.events import pod

TASK = NamedTask("1.0", "uid-job")


def job_entry(kind: str, uids: tuple[str, ...]) -> IntakeEntry:
    role = Role("", 0, 0, max(1, len(uids)), uids=uids)
    job = Job(7, "default", "group", kind, "uid-group", "default", 0.0, roles=(role,))
    op = PutJob(7, 0, 0, [], encode_job(job))
    return IntakeEntry("1-0", "intake", Epoch(1, "x"), 1, [op], Rows([], []))


def event_kinds(history: PodHistory, *states: tuple[str, bool]) -> list[str]:
    """Kinds of events, for a pod on a node in these (phase, being deleted)."""
    events: list[ClusterEvent] = []
    for phase, leaving in states:
        observed = pod_of(pod("a", node="n", phase=phase, leaving=leaving))
        events += history.take(observed, TASK, 1.0)
    assert all((e.tasks, e.nodes, e.uids) == (["1.0"], ["n"], ["uid-job"]) for e in events)
    return [event.kind for event in events]


def test_a_life_is_told_once_however_often_it_is_seen() -> None:
    observed = [("Pending", False), ("Running", False), ("Running", False), ("Succeeded", False)]
    assert event_kinds(PodHistory(), *observed, *observed[-1:]) == ["bind", "start", "succeeded"]


def test_a_bind_carries_the_device_annotations_of_the_pod() -> None:
    written = {"quadrant.dev/assigned-devices": '{"vgpu/1": [1, 600, 0], "card/0": 5}'}
    with_some, without = pod("a", node="n", annotations=written), pod("b", node="n")
    binds = [PodHistory().take(pod_of(p), TASK, 1.0)[0] for p in (with_some, without)]
    assert [e.devices for e in binds] == [[(("card/0", (5,)), ("vgpu/1", (1, 600, 0)))], [()]]


@pytest.mark.parametrize(
    ("notes", "labels", "gpus"),
    [
        (
            {"received-resource-type": "Fraction", "gpu-fraction": "0.6"},
            {"runai-gpu-group": "x"},
            (("x", (600,)),),
        ),
        (
            {"received-resource-type": "Fraction", "gpu-fraction": "0.3"},
            {"runai-gpu-group/y": "y", "runai-gpu-group/x": "x", "runai-gpu-groups": "z"},
            (("x", (300,)), ("y", (300,))),
        ),
        ({"received-resource-type": "Regular"}, {"runai-gpu-group": "x"}, (("", (2000,)),)),
        ({"gpu-fraction": "0.6"}, {"runai-gpu-group": "x"}, ()),
    ],
)
def test_a_bind_carries_kais_gpu_marks_of_the_pod(
    notes: dict[str, str], labels: dict[str, str], gpus: Things
) -> None:
    observed = orjson.loads(bytes(pod("a", node="n", annotations=notes, scheduler="kai-scheduler")))
    observed["metadata"]["labels"] = labels
    observed["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "2"
    [bind, *_] = PodHistory().take(pod_of(orjson.dumps(observed)), TASK, 1.0)
    assert bind.gpus == [gpus]


def test_a_pod_first_observed_late_has_all_events_since_its_bind() -> None:
    assert event_kinds(PodHistory(), ("Failed", False)) == ["bind", "failed"]
    assert event_kinds(PodHistory(), ("Running", True)) == ["bind", "start", "delete", "releasing"]


def test_an_end_is_erased_with_the_object() -> None:
    history = PodHistory()
    event_kinds(history, ("Succeeded", False))
    assert [event.kind for event in history.gone("uid-a", 2.0)] == ["erased"]


def test_a_deleted_pod_fails_as_was_meant_and_one_that_vanishes_is_lost() -> None:
    history = PodHistory()
    event_kinds(history, ("Running", True))
    assert [event.kind for event in history.gone("uid-a", 2.0)] == ["failed"]
    assert list(history.gone("uid-a", 3.0)) == []
    event_kinds(history, ("Running", False))
    assert [event.kind for event in history.gone("uid-a", 2.0)] == ["lost"]


def test_a_pod_missing_from_a_new_list_is_lost() -> None:
    history = PodHistory()
    event_kinds(history, ("Running", False))
    history.begin_list()
    assert [event.kind for event in history.end_list(2.0)] == ["lost"]
    event_kinds(history, ("Running", False))
    history.begin_list()
    event_kinds(history, ("Running", False))
    assert list(history.end_list(3.0)) == []


def test_a_new_list_reports_removals_before_their_replacements() -> None:
    history = PodHistory()
    event_kinds(history, ("Running", False))
    history.begin_list()
    after = pod_of(pod("b", node="n", phase="Running"))
    assert history.take(after, NamedTask("2.0", "uid-b"), 2.0) == []
    history.begin_list()  # the first broke off
    assert history.take(after, NamedTask("2.0", "uid-b"), 2.0) == []
    events = history.end_list(3.0)
    assert [(e.kind, e.tasks[0]) for e in events] == [
        ("lost", "1.0"),
        ("bind", "2.0"),
        ("start", "2.0"),
    ]
    assert history.take(after, NamedTask("2.0", "uid-b"), 4.0) == []


def test_a_pod_in_an_aborted_list_only_is_bound_started_and_lost() -> None:
    history = PodHistory()
    history.begin_list()
    event_kinds(history, ("Running", False))
    history.begin_list()
    assert [event.kind for event in history.end_list(3.0)] == ["bind", "start", "lost"]


async def test_tasks_are_known_by_the_uids_in_the_log() -> None:
    names = TaskNames()
    await names.learn([job_entry(kind="PodGroup", uids=("uid-a", "uid-b"))])
    assert await names.of("uid-b") == NamedTask("7.1", "uid-group")
    await names.learn([job_entry(kind="Pod", uids=())])
    assert await names.of("uid-group") == NamedTask("7.0", "uid-group")
