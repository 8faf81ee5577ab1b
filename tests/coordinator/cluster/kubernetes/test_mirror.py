"""Events of the watches, in any order: what intake hears, and what is reported of tasks."""

from __future__ import annotations

import msgspec
import pytest

from coordinator.cluster.kubernetes.cluster import without_end
from coordinator.cluster.kubernetes.state.mirror import Mirror, ObjectKey
from coordinator.cluster.kubernetes.state.pods import STATEMENT
from coordinator.cluster.protocol import Report
from tests.coordinator.cluster.kubernetes.events import (
    KINDS,
    admit,
    group,
    listed,
    pod,
    raw,
    relist,
    reports,
)
from tests.shared.manifests.pod_fields import pods as pods_of_every_field

PODS = pods_of_every_field()
A = ObjectKey("Pod", "default", "a")
GANG = ObjectKey("PodGroup", "default", "gang")


def test_pods_wait_for_the_first_lists_of_all_other_kinds() -> None:
    mirror = Mirror(("Node", "Pod"), ours=lambda name: True)
    relist(mirror, "Pod", pod("a"))
    assert not mirror.take_delta(10)
    mirror.absent("Node")  # the server does not have it: as good as listed
    assert mirror.take_delta(10).keys == [A]


def test_a_burst_of_events_reaches_intake_once_in_its_newest_form() -> None:
    mirror = listed(pod("a"))
    mirror.take("Pod", pod("a", annotations={"x": "1"}, version=2))
    mirror.take("Pod", pod("a", annotations={"x": "2"}, version=3))
    delta = mirror.take_delta(10)
    assert delta.keys == [A]
    assert delta.items[0]["metadata"]["annotations"] == {"x": "2"}
    assert not mirror.take_delta(10)


def gang(version: int) -> msgspec.Raw:
    metadata = {"name": "gang", "namespace": "default", "uid": "g"}
    return raw({"metadata": {**metadata, "resourceVersion": str(version)}, "spec": {}})


def told_versions(mirror: Mirror) -> list[str]:
    return [item["metadata"]["resourceVersion"] for item in mirror.take_delta(10).items]


def test_watch_events_older_than_our_write_are_dropped() -> None:
    """In the books: an earlier form of a claim would give its devices away again."""
    mirror = listed()
    mirror.take("PodGroup", gang(5))
    before = mirror.take_delta(10)
    assert before.keys == [GANG]
    mirror.take("PodGroup", gang(6))  # on its way to intake while we write
    mirror.wrote(GANG, "8")
    mirror.take("PodGroup", gang(7))
    mirror.put_back(before, [0])
    assert told_versions(mirror) == []
    mirror.take("PodGroup", gang(8))
    assert told_versions(mirror) == ["8"]
    mirror.take("PodGroup", gang(9))
    mirror.wrote(GANG, "8")  # the answer came after the watch
    assert told_versions(mirror) == ["9"]
    mirror.wrote(GANG, "10")
    mirror.remove("PodGroup", gang(10))
    mirror.take_delta(10)
    mirror.take("PodGroup", gang(2))  # of another server: its numbers begin anew
    assert told_versions(mirror) == ["2"]


def test_a_binding_is_reported_and_does_not_change_what_the_pod_asks_for() -> None:
    mirror = listed(pod("a"))
    admit(mirror, "a")
    mirror.take("Pod", pod("a", node="n", version=2, annotations={STATEMENT: "c/1/2"}))
    assert not mirror.take_delta(10), "the node and our own annotation are nothing for intake"
    assert reports(mirror) == [(Report.BOUND, "1.0", "n")]


def test_a_life_is_reported_once_in_order_however_often_it_is_seen() -> None:
    mirror = listed(pod("a"))
    admit(mirror, "a")
    for phase in ("Pending", "Running", "Running", "Succeeded", "Succeeded"):
        mirror.take("Pod", pod("a", node="n", phase=phase))
    mirror.remove("Pod", pod("a", node="n", phase="Succeeded"))
    kinds = [kind for kind, _, _ in reports(mirror)]
    assert kinds == [Report.BOUND, Report.STARTED, Report.SUCCEEDED]


def test_a_victim_that_succeeded_is_not_ended_before_its_report_is_read() -> None:
    """The answer to its eviction may come between its success and the reading of the report."""
    mirror = listed(pod("a"), pod("b"))
    admit(mirror, "a", "b")
    mirror.take("Pod", pod("a", node="n", phase="Running"))
    mirror.take("Pod", pod("a", node="n", phase="Succeeded", leaving=True))
    mirror.remove("Pod", pod("a", node="n", phase="Succeeded", leaving=True))
    mirror.remove("Pod", pod("b"))
    names, rows = ["1.0", "1.1", "7.7"], mirror.pods.rows([(1, 0), (1, 1), (7, 7)])
    assert without_end(names, rows, mirror.reports) == ["1.1", "7.7"]
    mirror.reports.after(mirror.reports.last)
    assert without_end(names, rows, mirror.reports) == names, "the report was recorded"


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_pod_that_vanishes_from_its_node_has_failed(phase: str) -> None:
    mirror = listed(pod("a", node="n", phase=phase))
    admit(mirror, "a")
    mirror.remove("Pod", pod("a", node="n", phase=phase))
    assert reports(mirror)[-1] == (Report.FAILED, "1.0", "n")
    assert mirror.take_delta(10).gone == [A]


def test_our_own_binding_is_not_reported_again_by_the_watch() -> None:
    mirror = listed(pod("a"))
    admit(mirror, "a")
    mirror.bound(mirror.pods.by_key["default", "a"], "n")
    mirror.take("Pod", pod("a", node="n"))
    assert reports(mirror) == []
    mirror.take("Pod", pod("a", node="n", phase="Running"))
    assert reports(mirror) == [(Report.STARTED, "1.0", "n")]


def test_a_pod_that_somebody_else_moved_is_adopted_where_it_is() -> None:
    mirror = listed(pod("a"))
    admit(mirror, "a")
    mirror.bound(mirror.pods.by_key["default", "a"], "n")
    mirror.take("Pod", pod("a", node="m", phase="Running"))
    assert reports(mirror) == [(Report.BOUND, "1.0", "m"), (Report.STARTED, "1.0", "m")]


def test_a_pod_made_again_under_its_name_is_another_incarnation() -> None:
    mirror = listed(pod("a", "one", node="n"))
    admit(mirror, "a")
    mirror.take("Pod", pod("a", "two", version=9))  # its deletion was missed
    delta = mirror.take_delta(10)
    assert (delta.gone, delta.keys) == ([A], [A])
    assert delta.items[0]["metadata"]["uid"] == "two"
    assert reports(mirror)[-1] == (Report.FAILED, "1.0", "n")


def test_a_deletion_of_an_earlier_pod_of_the_name_does_not_touch_the_new_one() -> None:
    mirror = listed(pod("a", "two"))
    admit(mirror, "a")
    mirror.remove("Pod", pod("a", "one"))
    assert not mirror.take_delta(10)
    assert ("default", "a") in mirror.pods.by_key


def test_a_pod_missing_from_a_new_list_is_gone() -> None:
    mirror = listed(pod("a", node="n"), pod("b"))
    admit(mirror, "a", "b")
    relist(mirror, "Pod", pod("b"))
    assert mirror.take_delta(10).gone == [A]
    assert reports(mirror)[-1] == (Report.FAILED, "1.0", "n")


def test_objects_of_intake_missing_from_every_list_are_gone() -> None:
    mirror = Mirror(("Node", "Pod"), ours=lambda name: True)
    mirror.expect([(A, "uid-a"), (ObjectKey("Node", "", "n"), "x")])
    relist(mirror, "Node")
    relist(mirror, "Pod", pod("b"))
    delta = mirror.take_delta(10)
    assert delta.gone == [ObjectKey("Node", "", "n"), A]


def test_a_group_deleted_before_its_pods_stays_until_they_are_gone() -> None:
    mirror = listed(pod("a", node="n", group="gang"), groups=(group("gang"),))
    admit(mirror, "a")
    mirror.remove("PodGroup", group("gang"))
    assert not mirror.take_delta(10)
    mirror.remove("Pod", pod("a", node="n", group="gang"))
    assert set(mirror.take_delta(10).gone) == {A, GANG}


def test_a_group_deleted_before_we_began_stays_until_its_pods_are_gone() -> None:
    """Taken from intake at once it took its pods with it, whose names were never free again: the
    leader waited for them for ever."""
    mirror = Mirror(KINDS, ours=lambda name: True)
    mirror.expect([(GANG, "uid-gang"), (A, "uid-a")])
    for kind in (kind for kind in KINDS if kind != "Pod"):
        relist(mirror, kind)
    assert not mirror.take_delta(10)
    relist(mirror, "Pod", pod("a", node="n", group="gang"))
    assert not mirror.take_delta(10).gone
    admit(mirror, "a")
    assert mirror.accounts_for_all
    mirror.remove("Pod", pod("a", node="n", group="gang"))
    assert set(mirror.take_delta(10).gone) == {A, GANG}


def test_a_group_deleted_with_its_pods_before_we_began_is_gone() -> None:
    mirror = Mirror(KINDS, ours=lambda name: True)
    mirror.expect([(GANG, "uid-gang"), (A, "uid-a")])
    for kind in KINDS:
        relist(mirror, kind)
    assert set(mirror.take_delta(10).gone) == {A, GANG}


def test_a_group_made_again_while_its_pods_live_is_the_same_job() -> None:
    mirror = listed(pod("a", group="gang"), groups=(group("gang", "one"),))
    admit(mirror, "a")
    mirror.remove("PodGroup", group("gang", "one"))
    mirror.take("PodGroup", group("gang", "two"))
    delta = mirror.take_delta(10)
    assert delta.gone == []
    assert delta.items[0]["metadata"]["uid"] == "one"
    assert mirror.take_recreated() == [GANG]
    mirror.take("PodGroup", group("gang", "two"))
    assert mirror.take_recreated() == []


def test_phases_of_groups_are_those_of_the_first_list_whatever_their_status_is() -> None:
    statuses = {"one": {"phase": "Running"}, "two": None, "three": "odd", "four": {"phase": 1}}
    groups = []
    for uid, status in statuses.items():
        item = msgspec.json.decode(group(f"gang-{uid}", uid))
        groups.append(raw(item | {"status": status}))
    mirror = listed(groups=tuple(groups))
    mirror.take("PodGroup", group("late", "late"))
    phases = mirror.take_first_phases()
    assert phases == {"one": "Running", "two": "", "three": "", "four": ""}
    assert mirror.take_first_phases() == {}
    assert not mirror.quarantine


def test_pods_of_others_use_their_nodes_from_binding_to_end() -> None:
    mirror = listed(pod("a", scheduler="default-scheduler"))
    assert not mirror.take_delta(10)
    assert mirror.foreign.sums() == {}
    mirror.take("Pod", pod("a", node="n", scheduler="default-scheduler", cpu="2"))
    assert mirror.foreign.sums() == {"n": {"cpu": 2000, "pods": 1}}
    mirror.take("Pod", pod("a", node="n", scheduler="default-scheduler", phase="Failed"))
    assert mirror.foreign.sums() == {}


@pytest.mark.parametrize("field", PODS)
def test_a_foreign_pod_with_any_fields_uses_its_node(field: str) -> None:
    mirror = listed(raw(PODS[field]))
    [used] = mirror.foreign.sums().values()
    assert (used["cpu"], used["pods"]) == (6000, 1)


def resized_pod(name: str, *, requested: str, has: str, scheduler: str = "quadrant") -> msgspec.Raw:
    """A running pod whose container asks for one amount and has another."""
    item = msgspec.json.decode(
        pod(name, node="n", phase="Running", cpu=requested, scheduler=scheduler)
    )
    status = {"allocatedResources": {"cpu": has}, "resources": {"requests": {"cpu": has}}}
    item["status"]["containerStatuses"] = [{"name": "c", "ready": True, **status}]
    return raw(item)


def test_a_resize_of_others_counts_while_it_lasts() -> None:
    mirror = listed(resized_pod("a", requested="2", has="6", scheduler="theirs"))
    assert mirror.foreign.sums() == {"n": {"cpu": 6000, "pods": 1}}
    mirror.take("Pod", resized_pod("a", requested="2", has="2", scheduler="theirs"))
    assert mirror.foreign.sums() == {"n": {"cpu": 2000, "pods": 1}}


def test_intake_gets_only_resizes_that_differ_from_the_spec() -> None:
    mirror = listed(
        resized_pod("a", requested="2", has="6"), resized_pod("b", requested="2", has="2")
    )
    first, second = mirror.take_delta(10).items
    [status] = first["status"]["containerStatuses"]
    assert status == {
        "name": "c",
        "allocatedResources": {"cpu": "6"},
        "resources": {"requests": {"cpu": "6"}},
    }
    assert "status" not in second
    admit(mirror, "a", "b")
    mirror.take("Pod", resized_pod("a", requested="2", has="2"))
    [again] = mirror.take_delta(10).items
    assert "status" not in again


def test_a_resized_pod_of_ours_counts_its_addition() -> None:
    mirror = listed(resized_pod("a", requested="2", has="2"))
    [item] = mirror.take_delta(10).items
    admit(mirror, "a")
    mirror.take("Pod", resized_pod("a", requested="5", has="2"))
    [item] = mirror.take_delta(10).items
    mirror.resized(item, (("cpu", 2000),))
    assert mirror.foreign.sums() == {"n": {"cpu": 3000}}
    mirror.take("Pod", resized_pod("b", requested="4", has="4", scheduler="theirs"))
    mirror.resized(item | {"spec": {"containers": []}}, (("cpu", 2000),))
    assert mirror.foreign.sums() == {"n": {"cpu": 2000, "pods": 1}}  # of theirs; it has given back
    mirror.take("Pod", pod("a", node="n", phase="Succeeded"))
    assert mirror.foreign.sums() == {"n": {"cpu": 4000, "pods": 1}}


def test_an_amount_that_cannot_be_read_fills_the_node_and_is_reported_once() -> None:
    odd = pod("a", node="n", scheduler="theirs", cpu="odd")
    mirror = listed(odd)
    assert mirror.foreign.sums()["n"]["cpu"] > 2**45
    [(key, unread)] = mirror.take_delta(10).unread
    assert (key, unread.uid) == (A, "uid-a")
    assert "spec.containers[0].resources.requests.cpu" in str(unread.error)
    mirror.take("Pod", odd)
    assert mirror.take_delta(10).unread == []


def test_a_pod_that_intake_refused_counts_as_somebody_elses() -> None:
    mirror = listed(pod("a", node="n", cpu="2"))
    delta = mirror.take_delta(10)
    mirror.refused(delta.items[0], "not understood")
    assert mirror.foreign.sums() == {"n": {"cpu": 2000, "pods": 1}}
    mirror.remove("Pod", pod("a", node="n"))
    assert mirror.foreign.sums() == {}


def test_pods_ended_before_the_first_list_are_not_placed() -> None:
    ended = pod("a", node="n", phase="Failed"), pod("b", node="n", phase="Succeeded")
    assert not listed(*ended).take_delta(10)
    member = pod("c", node="n", phase="Succeeded", group="gang")
    assert listed(member).take_delta(10).keys, "it counts towards its gang"


def test_an_object_put_back_is_offered_again_unless_deleted() -> None:
    mirror = listed(pod("a"), pod("b"))
    delta = mirror.take_delta(10)
    mirror.remove("Pod", pod("b"))
    mirror.take_delta(10)
    mirror.put_back(delta, [0, 1])
    assert mirror.take_delta(10).keys == [A]


def test_the_node_that_another_chose_is_held_until_we_decided_or_time_passed() -> None:
    mirror = listed(pod("a"), pod("b"), hold=2.0)
    admit(mirror, "a", "b")
    mirror.tick(10.0)
    for name in ("a", "b"):
        mirror.take("Pod", pod(name, node="n"))
    assert reports(mirror) == []
    mirror.decided(mirror.pods.by_key["default", "a"], "m")
    assert reports(mirror) == [(Report.BOUND, "1.0", "n")], "the books follow the cluster"
    mirror.tick(12.0)
    assert reports(mirror)[1:] == [(Report.BOUND, "1.1", "n")]


def test_an_object_of_another_kind_comes_without_its_managers() -> None:
    mirror = listed()
    node = {"metadata": {"name": "n", "uid": "u", "managedFields": [{}]}, "status": {}}
    mirror.take("Node", raw(node))
    assert mirror.take_delta(10).items == [{"metadata": {"name": "n", "uid": "u"}, "status": {}}]


def taken_over(*pods: str) -> Mirror:
    """A mirror whose intake has these pods from before, before any list."""
    mirror = Mirror(KINDS, ours=lambda name: name == "quadrant")
    mirror.expect([(ObjectKey("Pod", "default", name), f"uid-{name}") for name in pods])
    relist(mirror, "Node")
    relist(mirror, "PodGroup")
    return mirror


def test_a_new_leader_accounts_for_all_pods_once_each_is_a_task_or_gone() -> None:
    mirror = taken_over("a", "b", "replaced", "theirs")
    assert not mirror.accounts_for_all, "pods are not listed yet"
    theirs = pod("theirs", scheduler="other")
    relist(mirror, "Pod", pod("a", node="n"), pod("replaced", uid="new"), theirs)
    assert not mirror.accounts_for_all, "which task `a` is nobody said yet"
    admit(mirror, "a")
    assert mirror.accounts_for_all, "`b` and the old `replaced` are gone, `theirs` is not ours"


def test_a_pod_of_before_that_intake_has_as_no_task_holds_nothing_up() -> None:
    mirror = taken_over("a", "b")
    relist(mirror, "Pod", pod("a"), pod("b"))
    delta = mirror.take_delta(10)
    mirror.admitted(("default", "a"), "uid-a", None)
    mirror.refused(delta.items[1], "spec: not understood")
    assert mirror.accounts_for_all


@pytest.mark.parametrize(
    ("phase", "expected"), [("Succeeded", Report.SUCCEEDED), ("Failed", Report.FAILED)]
)
def test_a_pod_that_ended_while_nobody_looked_is_told_of(phase: str, expected: Report) -> None:
    mirror = taken_over("a")
    relist(mirror, "Pod", pod("a", node="n", phase=phase))
    admit(mirror, "a")
    assert [kind for kind, *_ in reports(mirror)] == [Report.BOUND, expected]
