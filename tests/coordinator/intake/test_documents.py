"""Documents: what comes back is what was sent, and what a change of it counts as."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from coordinator.intake.documents.document import Document, Key
from shared.ledger.entries.intake_batch import PutObject
from shared.model.constraints import Requirement
from shared.model.storage import Budget
from tests.builders.objects import (
    EVERY_KIND,
    container,
    job,
    kube_object,
    node,
    pod,
    pod_group,
    queue,
    stored_kind,
)
from tests.coordinator.intake.bench import Bench, same, state

POD = Key("Pod", "ns", "p")
NAMESPACED = ("Pod", "PodGroup", "NativePodGroup", "Job")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def key_of(obj: dict[str, Any]) -> Key:
    meta = obj["metadata"]
    return Key(stored_kind(obj), meta.get("namespace", ""), meta["name"])


def printed(document: Document, **status: Any) -> dict[str, Any]:
    """An object as ``kubectl get -o yaml`` prints it: with all that a server adds."""
    obj = document.object()
    obj["metadata"] |= {
        "uid": document.uid,
        "resourceVersion": "1099511627776",
        "generation": document.generation,
        "creationTimestamp": "2026-01-31T12:00:00Z",
        "annotations": obj["metadata"].get("annotations") or {},
    }
    if obj["kind"] != "PriorityClass":
        obj["status"] = (obj.get("status") or {}) | status
    return obj


# --- new and the same -------------------------------------------------------------------------


@pytest.mark.parametrize("obj", EVERY_KIND, ids=lambda o: o["kind"])
def test_every_object_has_a_document_of_what_was_sent(bench: Bench, obj: dict[str, Any]) -> None:
    bench.take(*EVERY_KIND, now=5.0)
    document = bench.intake.documents[key_of(obj)]
    assert document.object() == obj
    assert (document.created, document.generation, document.deleting) == (5.0, 1, None)
    assert (document.jid >= 0) == (stored_kind(obj) in NAMESPACED)


def test_members_know_their_job(bench: Bench) -> None:
    bench.take(pod("alone"), pod_group("g"), pod("w-0", group="g"), job("j"))
    registry, documents = bench.intake.registry, bench.intake.documents
    group = registry.groups["ns/g"]
    assert documents[Key("PodGroup", "ns", "g")].jid == group
    assert documents[Key("Pod", "ns", "w-0")].jid == group
    assert documents[Key("Job", "ns", "j")].jid == registry.batch_jobs["ns/j"]
    assert documents[Key("Pod", "ns", "alone")].jid not in (group, -1)


def test_the_default_queue_has_one_without_being_written(bench: Bench) -> None:
    (document,) = bench.take().documents
    assert document.key == Key("Queue", "", "default")
    assert bench.take().documents == []
    again = bench.take(printed(document))
    assert (again.unchanged, again.documents) == (1, [])


@pytest.mark.parametrize("obj", EVERY_KIND, ids=lambda o: o["kind"])
def test_applying_a_printed_object_changes_nothing(bench: Bench, obj: dict[str, Any]) -> None:
    bench.take(*EVERY_KIND)
    before = state(bench.intake)
    document = bench.intake.documents[key_of(obj)]
    live = printed(document, phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    if obj["kind"] == "Queue":
        live["status"]["state"] = "Open"
    if obj["kind"] == "Job":
        live["status"]["phase"] = {"state": "Running"}
    if obj["kind"] == "Pod":
        live["spec"]["nodeName"] = "n"
        bench.intake.node_of = lambda namespace, name: "n" if name == "p" else ""
    admission = bench.take(live, now=7.0)
    assert (admission.unchanged, admission.documents, admission.ops) == (1, [], [])
    assert same(state(bench.intake), before)


@pytest.mark.parametrize("obj", EVERY_KIND, ids=lambda o: o["kind"])
def test_a_printed_object_can_be_created_in_another_cluster(
    bench: Bench, obj: dict[str, Any]
) -> None:
    """All but the node of a bound pod, which would be another's decision."""
    other = Bench()
    other.take(*EVERY_KIND)
    live = printed(other.intake.documents[key_of(obj)], phase="Running")
    bench.take(queue("q"), live)
    if stored_kind(obj) == "NativePodGroup":
        del live["status"]  # nobody's to send
    assert bench.intake.documents[key_of(obj)].object() == live


# --- changed ----------------------------------------------------------------------------------


@pytest.mark.parametrize("obj", EVERY_KIND, ids=lambda o: o["kind"])
def test_labels_and_annotations_change_the_document_alone(
    bench: Bench, obj: dict[str, Any]
) -> None:
    bench.take(*EVERY_KIND)
    changed = copy.deepcopy(obj)
    changed["metadata"].setdefault("annotations", {})[LAST_APPLIED] = "{}"
    changed["metadata"]["managedFields"] = [{"manager": "kubectl", "operation": "Apply"}]
    admission = bench.take(changed, now=7.0)
    (document,) = admission.documents
    assert (admission.ops, admission.jobs, admission.unchanged) == ([], [], 0)
    assert (document.generation, document.created) == (1, 1.0)
    assert document.object() == changed
    assert bench.take(changed).unchanged == 1
    del changed["metadata"]["managedFields"]
    assert bench.take(changed).unchanged == 1, "who manages what was not said"


def test_a_changed_specification_is_another_generation(bench: Bench) -> None:
    bench.take(pod_group("g", minMember=1), pod("p"), node("n"), queue("q"))
    more = pod_group("g", minMember=2)
    image = pod("p", containers=[container(image="other")])
    big = node("n")
    big["status"]["allocatable"]["cpu"] = "16"
    closed = queue("q", state="Closed")
    admission = bench.take(more, image, big, closed, now=7.0)
    assert [d.generation for d in admission.documents] == [2, 2, 2, 2]
    assert len(admission.jobs) == 1, "the image decides nothing"
    closed["status"]["reservation"] = {"nodes": []}
    assert bench.take(closed).unchanged == 1


def test_a_refused_object_has_none(bench: Bench) -> None:
    bench.take(pod("p"))
    before = bench.intake.documents[POD]
    admission = bench.admit(pod("p", priority=5), pod("x", nope=1), queue("z", parent="none"))
    assert len(admission.refused) == 3
    assert admission.documents == []
    assert bench.intake.documents[POD] is before


def test_the_last_of_equal_objects_in_a_list_counts(bench: Bench) -> None:
    labelled = pod("p")
    labelled["metadata"]["labels"] = {"a": "b"}
    admission = bench.take(pod("p"), labelled, labelled)
    assert [d.key for d in admission.documents] == [POD, Key("Queue", "", "default")]
    assert bench.intake.documents[POD].object() == labelled
    assert admission.unchanged == 1


@pytest.mark.parametrize("wrong", [{1: "a"}, {"n": 2**70}, {"t": "\ud800"}])
def test_values_that_are_not_json_are_refused(bench: Bench, wrong: Any) -> None:
    obj = node("n")
    obj["status"]["conditions"] = wrong
    (refusal,) = bench.admit(obj).refused
    assert "not plain JSON" in refusal.message
    assert not bench.intake.registry.nodes


# --- only asked -------------------------------------------------------------------------------


def test_a_dry_run_answers_and_keeps_nothing(bench: Bench) -> None:
    bench.take(pod("other"))
    before = state(bench.intake)
    dry_run = bench.intake.admit(EVERY_KIND, 3.0, keep=False)
    assert (dry_run.accepted, len(dry_run.documents)) == (len(EVERY_KIND), len(EVERY_KIND))
    assert dry_run.refused == []
    assert same(state(bench.intake), before)


def test_a_uid_of_another_incarnation_is_another_object(bench: Bench) -> None:
    bench.take(pod_group("g"), pod("p"))
    for obj in (pod_group("g"), pod("p")):
        obj["metadata"]["uid"] = "6f5b5a52-0000-0000-0000-000000000000"
        (refusal,) = bench.admit(obj).refused
        assert "delete it" in refusal.message


# --- disruption budgets -----------------------------------------------------------------------


def budget(**spec: Any) -> dict[str, Any]:
    return kube_object("policy/v1", "PodDisruptionBudget", "b", namespace="ns", spec=spec)


def test_a_budget_is_kept_for_who_evicts(bench: Bench) -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    admission = bench.take(budget(minAvailable="50%", selector=selector))
    (stored,) = admission.objects
    assert stored == Budget("ns", "b", (Requirement("a", "Exists", ()),), min_available="50%")
    assert not bench.take(budget(minAvailable="50%", selector=selector)).objects
    gone = bench.intake.remove("PodDisruptionBudget", "ns", "b", 3.0)
    assert gone.objects_gone == [stored]
    assert gone.ops == [PutObject("budget/ns/b", None)]
    assert not bench.intake.registry.objects


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minAvailable": "101%"}, "spec.minAvailable"),
        ({"maxUnavailable": -1}, "spec.maxUnavailable"),
        ({"minAvailable": 1, "maxUnavailable": 1}, "spec.maxUnavailable"),
        ({"minAvailabel": 1}, "spec.minAvailabel"),
        ({"selector": {"matchExpressions": [{"key": "a"}]}}, "matchExpressions[0].operator"),
    ],
)
def test_a_wrong_budget_is_refused_by_field(bench: Bench, spec: Any, field: str) -> None:
    (refusal,) = bench.admit(budget(**spec)).refused
    assert refusal.field.endswith(field)
