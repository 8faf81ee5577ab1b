"""Equal, allowed and refused changes of objects; deletion and recovery."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.intake.admission.pods import CHANGED_IN_PLACE
from coordinator.intake.admission.step import PlacedPod
from coordinator.intake.documents.document import Key
from coordinator.intake.intake import Intake
from shared.ledger.entries.intake_batch import DropJob, PurgeJob
from shared.records.specs import GONE_NODE_KEY, decode_class
from tests.builders.objects import (
    EVERY_KIND,
    container,
    hyper_node,
    job,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
    task,
)
from tests.coordinator.intake.bench import Bench, members, same, state

# --- the same and another ---------------------------------------------------------------------


@pytest.mark.parametrize("obj", EVERY_KIND, ids=lambda o: o["kind"])
def test_the_same_object_again_changes_nothing(bench: Bench, obj: dict[str, Any]) -> None:
    bench.take(*EVERY_KIND)
    before = state(bench.intake)
    again = bench.take(obj, now=2.0)
    assert (again.unchanged, again.ops, again.jobs) == (1, [], [])
    assert same(state(bench.intake), before)
    assert bench.take(obj, obj).unchanged == 2


CHANGED = [
    (pod("p", containers=[container("2")]), "metadata.name", "delete it or use another name"),
    (pod("p", priority=5), "metadata.name", "delete it"),
    (pod("m", group="g", role="other"), "metadata.name", "delete it"),
    (pod("m", group="other", role="w"), "metadata.name", "delete it"),
    (job("j", tasks=[task(replicas=3)]), "metadata.name", "delete it first"),
    (job("j", tasks=[{**task(), "template": pod()}]), "spec.tasks[0].template.apiVersion", "leave"),
    (pod_group("g", uid="other"), "metadata.uid", "delete it first"),
    (pod_group("g", minTaskMember={"w": 1}), "spec.minTaskMember.w", "before the role's first pod"),
    (priority_class("high", value=5), "value", "use another name"),
    (priority_class("x", globalDefault=True), "globalDefault", "write false"),
    (queue("a", parent="b"), "spec.parent", "outside of it"),
    (queue("z", parent="none", capability={"new.example/slot": 1}), "spec.parent", "create it"),
    (pod("x", nodeName="n"), "spec.nodeName", "leave it out"),
    (
        pod("m", group="g", role="w", schedulingGates=[{"name": "g"}]),
        "spec.schedulingGates",
        "none",
    ),
    (pod("x", containers=[container("1e20")]), "spec.containers[0].resources.requests.cpu", "stay"),
    (hyper_node("Bad"), "metadata.name", "small letters"),
]


@pytest.mark.parametrize(
    ("obj", "field", "remedy"), CHANGED, ids=[f"{o['kind']}-{f}" for o, f, _ in CHANGED]
)
@pytest.mark.parametrize("atomic", [False, True])
def test_a_refusal_names_field_and_remedy_and_changes_nothing(
    bench: Bench, obj: dict[str, Any], field: str, remedy: str, atomic: bool
) -> None:
    bench.take(
        priority_class("high", value=100, globalDefault=True),
        queue("a"),
        queue("b", parent="a"),
        pod_group("g"),
        pod("m", group="g", role="w"),
        pod("p"),
        job("j"),
        node("n"),
    )
    before = state(bench.intake)
    admission = bench.admit(obj, atomic=atomic)
    (refusal,) = admission.refused
    assert refusal.field == field
    assert remedy in refusal.message
    assert (admission.ops, admission.jobs, admission.accepted) == ([], [], 0)
    assert same(state(bench.intake), before)


def test_another_pod_of_one_name_in_one_list(bench: Bench) -> None:
    admission = bench.admit(pod("p"), pod("p", priority=3), pod("p"))
    assert (admission.accepted, admission.unchanged, len(admission.refused)) == (2, 1, 1)
    admission = bench.admit(pod("m", group="g"), pod("m", group="h"), pod("m", group="g"))
    assert (admission.accepted, admission.unchanged, len(admission.refused)) == (2, 1, 1)
    assert members(bench.only(admission)) == ["m"]


def test_a_circle_of_queues_is_refused(bench: Bench) -> None:
    admission = bench.admit(queue("x", parent="y"), queue("y", parent="x"), queue("z"))
    assert {r.name for r in admission.refused} == {"x", "y"}
    assert {r.field for r in admission.refused} == {"spec.parent"}
    assert "z" in bench.intake.registry.queues


def test_one_wrong_object_refuses_an_atomic_list(bench: Bench) -> None:
    before = state(bench.intake)
    admission = bench.admit(*EVERY_KIND, pod("x", nope=1), atomic=True)
    assert len(admission.refused) == 1
    assert (admission.ops, admission.accepted) == ([], 0)
    assert same(state(bench.intake), before)
    assert bench.admit(*EVERY_KIND, atomic=True).accepted == len(EVERY_KIND)


# --- deletion ---------------------------------------------------------------------------------


def test_deleting_a_job_frees_its_names(bench: Bench) -> None:
    bench.take(pod_group("g"), pod("w-0", group="g"), pod("p"), job("j"))
    for kind, name in (("PodGroup", "g"), ("Pod", "p"), ("Job", "j")):
        gone = bench.remove(kind, name)
        assert gone.ops == [DropJob(jid) for jid in gone.jobs_gone]
        assert {d.key.name for d in gone.documents if d.deleting == 9.0} >= {name}
    again = bench.admit(pod("w-0"), pod_group("g"), job("j"), pod("new", group="g"))
    assert [r.reason for r in again.refused] == [*["AlreadyExists"] * 3, "Conflict"]
    assert all("being deleted" in r.message for r in again.refused)
    left = bench.intake.registry
    gone = bench.purge(*left.leaving)
    assert gone.ops[:-1] == [PurgeJob(jid) for jid in gone.jobs_purged]
    assert len(gone.documents_gone) == 4
    assert not (left.jobs or left.groups or left.pods or left.batch_jobs or left.leaving)
    assert list(left.documents) == [Key("Queue", "", "default")]
    assert len(bench.take(pod("w-0"), pod_group("g"), job("j")).jobs) == 3


def test_deleting_a_member_leaves_its_index_empty(bench: Bench) -> None:
    bench.take(pod_group("g"), *[pod(f"w-{i}", group="g") for i in range(3)])
    gone = bench.remove("Pod", "w-1")
    assert gone.tasks_gone == [(0, 1)]
    assert members(bench.only(gone)) == ["w-0", "w-1", "w-2"]
    assert bench.remove("Pod", "w-1").unchanged == 1
    assert [r.reason for r in bench.admit(pod("w-1", group="g")).refused] == ["AlreadyExists"]
    assert bench.purge(pods=[(0, 2)]).ops == []
    assert members(bench.only(bench.purge(pods=[(0, 1)]))) == ["w-0", "", "w-2"]
    back = bench.only(bench.take(pod("w-1", group="g")))
    assert members(back) == ["w-0", "", "w-2", "w-1"]
    assert back.spec > gone.jobs[0].spec


@pytest.mark.parametrize("kind", ["Pod", "Job", "PodGroup", "Node", "HyperNode", "Queue", "Nope"])
def test_deleting_an_absent_object(bench: Bench, kind: str) -> None:
    before = state(bench.intake)
    (refusal,) = bench.remove(kind, "nothing").refused
    assert refusal.kind == kind
    assert same(state(bench.intake), before)


def test_deleting_other_objects(bench: Bench) -> None:
    bench.take(node("n"), hyper_node("h", "n"), priority_class("high"))
    assert bench.remove("Node", "n").nodes_gone == [0]
    assert bench.remove("HyperNode", "h").hyper_nodes_gone == ["h"]
    assert bench.remove("PriorityClass", "high").accepted == 1
    assert list(bench.kept.snapshot.objects) == [f"{GONE_NODE_KEY}n"]


# --- observing --------------------------------------------------------------------------------


def test_an_observer_takes_pods_with_their_nodes_and_times() -> None:
    bench = Bench(observe=True)
    running = pod("r", group="g", nodeName="n") | {"status": {"phase": "Running"}}
    running["metadata"]["creationTimestamp"] = "1970-01-01T00:01:00Z"
    admission = bench.take(pod_group("g"), running, pod("w", group="g"), node("n"))
    tix = members(bench.only(admission)).index("r")
    assert admission.placed == [PlacedPod(admission.jobs[0].jid, tix, "n", "Running", False)]
    lone = pod("p") | {"status": {"phase": "Succeeded"}}
    lone["metadata"]["creationTimestamp"] = "1970-01-01T00:01:00Z"
    assert bench.only(bench.take(lone)).created == 60.0


def test_a_pod_that_a_watched_cluster_changed_is_the_same_by_its_uid() -> None:
    """Refused, it would be told of to nobody, and the next leader would take it for gone."""

    def resized(cores: str, uid: str) -> dict[str, Any]:
        pod_item = pod("p", containers=[container(cores)])
        pod_item["metadata"] |= {"uid": uid, "annotations": {"quadrant.dev/duration": cores}}
        return pod_item

    watching = Intake(dated=True)
    first = watching.admit([resized("1", "a")], 1.0)
    (before,) = first.jobs
    changed = watching.admit([resized("2", "a")], 2.0)
    assert (changed.refused, changed.jobs, changed.classes) == ([], [], {})
    assert [(each.name, each.message) for each in changed.notices] == [("ns/p", CHANGED_IN_PLACE)]
    assert watching.registry.jobs == {before.jid: before}
    (refusal,) = watching.admit([resized("2", "b")], 3.0).refused
    assert "another pod has this name" in refusal.message
    ours = Intake()
    ours.admit([resized("1", "a")], 1.0)
    assert ours.admit([resized("2", "a")], 2.0).refused, "who submits here may not change it"


# --- recovery ---------------------------------------------------------------------------------


def test_recovery_knows_everything(bench: Bench) -> None:
    bench.take(*EVERY_KIND, pod("e", group="later"), pod_group("q2", queue="none"), node("m"))
    bench.take(pod("gone"), pod("w-1", group="g", role="w", containers=[container("3")]))
    bench.remove("Pod", "gone")
    bench.remove("Node", "m")
    bench.remove("Pod", "p")
    restored = bench.restored()
    assert same(state(restored), state(bench.intake))
    everything = [o for o in EVERY_KIND if o["kind"] != "Pod"]
    again = restored.admit(everything, 3.0)
    assert (again.unchanged, again.ops, again.refused) == (len(everything), [], [])
    assert [n.row for n in restored.admit([node("m"), node("new")], 3.0).nodes] == [1, 2]


def test_recovered_hyper_nodes_are_given_to_order(bench: Bench) -> None:
    bench.take(hyper_node("h", "n"))
    again = Intake()
    assert [h.name for h in again.restore(bench.kept.snapshot)] == ["h"]


# --- anything at all --------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    results = [at]
    if isinstance(value, dict):
        results += [p for key in value for p in paths(value[key], (*at, key))]
    elif isinstance(value, list):
        results += [p for i, item in enumerate(value) for p in paths(item, (*at, i))]
    return results


PLACES = [(i, path) for i, obj in enumerate(EVERY_KIND) for path in paths(obj) if path]


@given(st.sampled_from(PLACES), values)
def test_a_random_value_anywhere_is_taken_or_refused(
    place: tuple[int, tuple[str | int, ...]], value: object
) -> None:
    """Never an exception; a refused object leaves no trace; what was taken can be decoded."""
    i, path = place
    obj = copy.deepcopy(EVERY_KIND[i])
    inner: Any = obj
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    bench = Bench()
    bench.take(queue("q"))
    before = state(bench.intake)
    admission = bench.admit(obj)
    if admission.refused:
        assert same(state(bench.intake), before)
        assert admission.refused[0].message
    else:
        assert admission.accepted == 1
    for spec in bench.kept.snapshot.classes.values():
        decode_class(spec)
