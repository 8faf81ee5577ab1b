"""Intake: numbers, jobs and groups from objects; refusals that change nothing; recovery."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.admission.members import UNREACHABLE
from coordinator.admission.registry import Registry
from coordinator.intake import Admission, Intake, Placed
from shared.ledger.protocol import (
    DropJob,
    DropNode,
    IntakeOp,
    JobRecord,
    PutClass,
    PutJob,
    PutNode,
    PutObject,
    PutQueue,
    Snapshot,
)
from shared.messages import Group, Rows
from shared.model import Job, TaskClass
from shared.specs import decode_class, decode_job, decode_node, decode_queue
from tests.intake.objects import (
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

BEST_EFFORT = {"containers": [{"name": "c"}]}


class Kept:
    """What a ledger keeps of intake's operations, as a snapshot gives it back."""

    def __init__(self) -> None:
        self.snapshot = Snapshot(log_id="0", nodes=Rows([], []), node_specs={})
        self.rows: set[int] = set()

    def store(self, ops: list[IntakeOp]) -> None:
        kept = self.snapshot
        for op in ops:
            match op:
                case PutClass():
                    kept.classes[op.cid] = op.spec
                case PutNode():
                    kept.node_specs[op.row] = op.spec
                    self.rows.add(op.row)
                case DropNode():
                    del kept.node_specs[op.row]
                case PutQueue():
                    kept.queue_specs[op.qid] = op.spec
                case PutJob():
                    record = JobRecord(op.spec_version, op.qid, False, op.groups)
                    kept.jobs[op.jid], kept.job_specs[op.jid] = record, op.spec
                case DropJob():
                    kept.jobs[op.jid] = JobRecord(0, 0, True, [])
                case PutObject(key, None):
                    del kept.objects[key]
                case PutObject(key, bytes() as spec):
                    kept.objects[key] = spec
                case _:
                    raise AssertionError(op)
        kept.nodes.rows[:] = sorted(self.rows)


class Bench:
    """An intake whose operations are kept, and checked against what it says it changed."""

    def __init__(self, *, observe: bool = False) -> None:
        self.intake = Intake(observe=observe)
        self.kept = Kept()

    def admit(self, *items: Any, now: float = 1.0, atomic: bool = False) -> Admission:
        return self._keep(self.intake.admit(items, now, atomic=atomic))

    def take(self, *items: Any, now: float = 1.0) -> Admission:
        admission = self.admit(*items, now=now)
        assert admission.refused == []
        return admission

    def remove(self, kind: str, name: str, namespace: str = "ns") -> Admission:
        return self._keep(self.intake.remove(kind, namespace, name))

    def _keep(self, admission: Admission) -> Admission:
        self.kept.store(admission.ops)
        put = [op for op in admission.ops if isinstance(op, PutJob)]
        assert [decode_job(op.spec) for op in put] == admission.jobs
        nodes = [decode_node(op.spec) for op in admission.ops if isinstance(op, PutNode)]
        assert nodes == admission.nodes
        return admission

    def restored(self) -> Intake:
        again = Intake()
        again.restore(self.kept.snapshot)
        return again

    def only(self, admission: Admission) -> Job:
        (found,) = admission.jobs
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


def put_jobs(admission: Admission) -> list[PutJob]:
    return [op for op in admission.ops if isinstance(op, PutJob)]


def state(intake: Intake) -> Registry:
    found = copy.deepcopy(intake.registry)
    found.templates.clear()  # only a shortcut to the classes
    return found


def same(a: Registry, b: Registry) -> bool:
    return a.slots.names == b.slots.names and all(
        getattr(a, name) == getattr(b, name) for name in Registry.__slots__ if name != "slots"
    )


# --- numbers ----------------------------------------------------------------------------------


def test_the_first_list_creates_the_default_queue(bench):
    first = bench.take()
    assert [q.name for q in first.queues] == ["default"]
    assert bench.take().ops == []


def test_a_lone_pod_is_a_job_of_one(bench):
    admission = bench.take(pod("p"), now=5.0)
    found = bench.only(admission)
    assert (found.kind, found.key, found.queue, found.created) == ("Pod", "ns/p", "default", 5.0)
    assert found.groups == (Group(-1, 1),)
    assert found.pod_name(0) == "p"
    (put,) = put_jobs(admission)
    assert (put.qid, put.groups) == (0, [Group(-1, 1, 0)])
    assert admission.classes == {0: TaskClass(requests=((0, 1000), (1, 1 << 30), (2, 1)))}


def test_equal_classes_are_one(bench):
    bench.take(pod("a", tolerations=[{"operator": "Exists"}, {"key": "k", "value": "v"}]))
    other = pod("b", tolerations=[{"key": "k", "value": "v"}, {"operator": "Exists"}])
    other["spec"]["containers"] = [container("500m", "512Mi"), container("0.5", "512Mi")]
    assert bench.take(other).classes == {}
    assert bench.take(pod("c")).classes.keys() == {1}


def test_slots_are_kept_before_what_needs_them(bench):
    obj = pod("p", containers=[{"ports": [{"hostPort": 80}]}])
    ops = bench.take(obj).ops
    assert isinstance(ops[0], PutObject)
    (put,) = [op for op in ops if isinstance(op, PutClass)]
    assert put.requests == [(2, 1, 0), (3, 1, 1)]


def test_a_class_refers_to_known_objects_first_whatever_the_order_of_the_list(bench):
    admission = bench.take(*reversed(EVERY_KIND))
    kinds = [type(op) for op in admission.ops]
    assert kinds.index(PutClass) < kinds.index(PutQueue) < kinds.index(PutNode)
    assert kinds.index(PutNode) < kinds.index(PutJob)
    assert not admission.notices


def test_numbers_are_never_given_again(bench):
    bench.take(node("a"), pod("p"))
    bench.remove("Node", "a")
    bench.remove("Pod", "p")
    again = bench.take(node("a"), pod("p"))
    assert [n.row for n in again.nodes] == [1]
    assert [j.jid for j in again.jobs] == [1]
    assert again.jobs[0].uid != "ns/p#0"


# --- PodGroups --------------------------------------------------------------------------------


def members(found: Job) -> list[str]:
    return [found.pod_name(tix) for tix in range(found.tasks)]


def test_pods_join_their_group_in_the_order_of_their_number(bench):
    pods = [pod(f"w-{i}", group="g", role="w") for i in (10, 9, 2)]
    found = bench.only(bench.take(*pods, pod_group("g", minMember=3)))
    assert members(found) == ["w-2", "w-9", "w-10"]
    assert found.groups == (Group(-1, 3),)
    assert len(found.roles) == 1


def test_members_that_come_later_raise_the_version(bench):
    first = bench.only(bench.take(pod_group("g", minMember=2), pod("w-0", group="g")))
    later = bench.only(bench.take(pod("w-1", group="g"), pod("m", group="g", role="m")))
    assert later.spec == first.spec + 1
    assert members(later) == ["w-0", "w-1", "m"]
    assert [(r.name, r.first, r.count) for r in later.roles] == [("", 0, 2), ("m", 2, 1)]


def test_role_minima_make_groups(bench):
    group = pod_group("g", minMember=3, minTaskMember={"m": 1, "w": 2})
    pods = [pod(f"{r}-{i}", group="g", role=r) for r, i in (("w", 0), ("m", 0), ("x", 0), ("w", 1))]
    found = bench.only(bench.take(group, *pods))
    assert found.groups == (Group(-1, 3), Group(0, 1), Group(0, 2))
    assert {r.name: r.group for r in found.roles} == {"w": 2, "m": 1, "x": 0}


def test_roles_do_not_count_where_the_minimum_is_below_their_sum(bench):
    group = pod_group("g", minMember=2, minTaskMember={"m": 1, "w": 2})
    found = bench.only(bench.take(group))
    assert found.groups == (Group(-1, 2), Group(0, 0), Group(0, 0))
    assert found.role_minima == (("m", 1), ("w", 2))
    found = bench.only(bench.take(pod_group("g", minMember=3, minTaskMember={"w": 2})))
    assert found.groups == (Group(-1, 3), Group(0, 0), Group(0, 2))


def test_pods_may_come_before_their_group(bench):
    early = bench.take(pod("w-0", group="g", role="w", **BEST_EFFORT))
    waiting = bench.only(early)
    assert waiting.dangling
    assert waiting.groups == (Group(-1, UNREACHABLE),)
    assert put_jobs(early)[0].groups[0].held == 1
    assert "PodGroup ns/g does not exist" in early.notices[0].message
    group = pod_group("g", minMember=2, minTaskMember={"w": 2}, queue="default")
    arrived = bench.take(group)
    found = bench.only(arrived)
    assert (found.jid, found.dangling, found.spec) == (waiting.jid, False, waiting.spec + 1)
    assert found.roles[0].group == 1
    assert [g.held for g in put_jobs(arrived)[0].groups] == [0, 1], "counted once in each group"


def test_best_effort_members_are_held_once(bench):
    group = pod_group("g", minMember=2, minTaskMember={"w": 1})
    put = put_jobs(bench.take(group, pod("w-0", group="g", role="w", **BEST_EFFORT)))
    assert [g.held for g in put[0].groups] == [1, 1]
    put = put_jobs(bench.take(pod("m-0", group="g", **BEST_EFFORT), pod("w-1", group="g")))
    assert [g.held for g in put[0].groups] == [1, 0]
    assert put_jobs(bench.take(group)) == []


def test_a_best_effort_member_goes_only_with_its_group(bench):
    bench.take(pod_group("g", minMember=1), pod("w-0", group="g", **BEST_EFFORT))
    before = state(bench.intake)
    (refusal,) = bench.remove("Pod", "w-0").refused
    assert "delete its PodGroup" in refusal.message
    assert same(state(bench.intake), before)
    assert bench.remove("PodGroup", "g").jobs_gone == [0]


def test_a_changed_group_is_a_new_version(bench):
    first = bench.only(bench.take(pod_group("g", minMember=2)))
    again = bench.take(pod_group("g", minMember=2))
    assert (again.unchanged, again.ops) == (1, [])
    bench.take(queue("q"), priority_class("high", value=9))
    admission = bench.take(
        pod_group("g", minMember=3, queue="q", priorityClassName="high"), now=99.0
    )
    found = bench.only(admission)
    assert (found.groups[0].minimum, found.queue, found.priority) == (3, "q", 9)
    assert (found.spec, found.created, found.uid) == (first.spec + 1, first.created, first.uid)
    assert put_jobs(admission)[0].qid == 1


# --- Jobs -------------------------------------------------------------------------------------


def test_a_job_is_one_compact_role_per_task(bench):
    obj = job("j", tasks=[task("m", replicas=1), task("w", replicas=100_000)], minAvailable=5)
    found = bench.only(bench.take(obj))
    assert [(r.name, r.first, r.count, r.names) for r in found.roles] == [
        ("m", 0, 1, ()),
        ("w", 1, 100_000, ()),
    ]
    assert found.groups == (Group(-1, 5),)
    assert found.pod_name(100_000) == "j-w-99999"
    assert len(put_jobs(bench.admit(obj))) == 0


def test_a_jobs_role_minima(bench):
    tasks = [task("m", replicas=1), task("w", replicas=4, minAvailable=2)]
    assert bench.only(bench.take(job("a", tasks=tasks))).groups == (
        Group(-1, 3),
        Group(0, 1),
        Group(0, 2),
    )
    assert bench.only(bench.take(job("b", tasks=tasks, minAvailable=5))).groups == (Group(-1, 5),)


# --- what jobs refer to -----------------------------------------------------------------------


def test_a_job_waits_for_its_queue(bench):
    early = bench.take(pod_group("g", queue="late"))
    assert put_jobs(early)[0].qid == -1
    admission = bench.take(queue("late"))
    assert put_jobs(admission)[0].qid == admission.queues[0].qid
    assert bench.only(admission).spec == early.jobs[0].spec + 1
    assert bench.take(queue("late", weight=3)).jobs == []


def test_an_unknown_priority_class_is_the_default_and_told(bench):
    bench.take(priority_class("usual", value=7, globalDefault=True))
    pods = [pod(f"p-{i}", priorityClassName="none") for i in range(3)]
    admission = bench.take(*pods)
    assert {j.priority for j in admission.jobs} == {7}
    (notice,) = admission.notices
    assert (notice.kind, notice.name, notice.count) == ("Pod", "ns/p-0", 6)
    assert "none does not exist" in notice.message


def test_priorities_of_pods(bench):
    bench.take(priority_class("high", value=100))
    obj = pod("a", priorityClassName="high")
    obj["metadata"]["annotations"]["volcano.sh/task-priority"] = "3"
    found = bench.only(bench.take(obj))
    assert (found.priority, found.roles[0].priority) == (100, 3)
    found = bench.only(bench.take(pod("b", priority=-5)))
    assert (found.priority, found.roles[0].priority) == (-5, -5)
    found = bench.only(bench.take(pod("c")))
    assert (found.priority, found.roles[0].priority) == (0, 1)


def test_queues_come_parents_first(bench):
    admission = bench.take(queue("c", parent="b"), queue("b", parent="a"), queue("a"))
    qids = {q.name: q.qid for q in admission.queues}
    assert {q.name: q.parent for q in admission.queues if q.name != "default"} == {
        "a": -1,
        "b": qids["a"],
        "c": qids["b"],
    }
    puts = [decode_queue(op.spec).name for op in admission.ops if isinstance(op, PutQueue)]
    assert puts.index("a") < puts.index("b") < puts.index("c")


def test_root_is_above_the_others_once_it_is_described(bench):
    bench.take(queue("a"), queue("b", parent="root"))
    admission = bench.take(queue("root", capability={"cpu": "8"}))
    parents = {q.name: q.parent for q in bench.intake.registry.queues.values()}
    root = bench.intake.registry.queues["root"].qid
    assert parents == {"root": -1, "default": root, "a": root, "b": root}
    puts = [op.qid for op in admission.ops if isinstance(op, PutQueue)]
    assert puts[0] == root
    assert bench.take(queue("a")).unchanged == 1


def test_a_changed_node_moves_its_version_only_where_schedulability_does(bench):
    bench.take(node("n"))
    more = node("n")
    more["status"]["allocatable"]["cpu"] = "16"
    assert [(n.row, n.spec) for n in bench.take(more).nodes] == [(0, 0)]
    more["spec"]["unschedulable"] = True
    assert [(n.row, n.spec) for n in bench.take(more).nodes] == [(0, 1)]
    assert bench.take(more).unchanged == 1


# --- the same and another ---------------------------------------------------------------------


@pytest.mark.parametrize("obj", EVERY_KIND, ids=lambda o: o["kind"])
def test_the_same_object_again_changes_nothing(bench, obj):
    bench.take(*EVERY_KIND)
    before = state(bench.intake)
    again = bench.take(obj, now=2.0)
    assert (again.unchanged, again.ops, again.jobs) == (1, [], [])
    assert same(state(bench.intake), before)
    assert bench.take(obj, obj).unchanged == 2


CHANGED = [
    (pod("p", containers=[container("2")]), "metadata.name", "delete it or use another name"),
    (pod("p", priority=5), "metadata.name", "delete it"),
    (pod("p", group="g"), "metadata.name", "delete it"),
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
    (pod("x", schedulingGates=[{"name": "g"}]), "spec.schedulingGates", "not in this version"),
    (pod("x", containers=[container("1e20")]), "spec.containers[0].resources.requests.cpu", "stay"),
    (hyper_node("Bad"), "metadata.name", "small letters"),
]


@pytest.mark.parametrize(
    ("obj", "field", "remedy"), CHANGED, ids=[f"{o['kind']}-{f}" for o, f, _ in CHANGED]
)
@pytest.mark.parametrize("atomic", [False, True])
def test_a_refusal_names_field_and_remedy_and_changes_nothing(bench, obj, field, remedy, atomic):
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


def test_another_pod_of_one_name_in_one_list(bench):
    admission = bench.admit(pod("p"), pod("p", priority=3), pod("p"))
    assert (admission.accepted, admission.unchanged, len(admission.refused)) == (2, 1, 1)
    admission = bench.admit(pod("m", group="g"), pod("m", group="h"), pod("m", group="g"))
    assert (admission.accepted, admission.unchanged, len(admission.refused)) == (2, 1, 1)
    assert members(bench.only(admission)) == ["m"]


def test_a_circle_of_queues_is_refused(bench):
    admission = bench.admit(queue("x", parent="y"), queue("y", parent="x"), queue("z"))
    assert {r.name for r in admission.refused} == {"x", "y"}
    assert {r.field for r in admission.refused} == {"spec.parent"}
    assert "z" in bench.intake.registry.queues


def test_one_wrong_object_refuses_an_atomic_list(bench):
    before = state(bench.intake)
    admission = bench.admit(*EVERY_KIND, pod("x", nope=1), atomic=True)
    assert len(admission.refused) == 1
    assert (admission.ops, admission.accepted) == ([], 0)
    assert same(state(bench.intake), before)
    assert bench.admit(*EVERY_KIND, atomic=True).accepted == len(EVERY_KIND)


# --- deletion ---------------------------------------------------------------------------------


def test_deleting_a_job_frees_its_names(bench):
    bench.take(pod_group("g"), pod("w-0", group="g"), pod("p"), job("j"))
    for kind, name in (("PodGroup", "g"), ("Pod", "p"), ("Job", "j")):
        gone = bench.remove(kind, name)
        assert gone.ops == [DropJob(jid) for jid in gone.jobs_gone]
    left = bench.intake.registry
    assert not (left.jobs or left.groups or left.pods or left.batch_jobs)
    assert len(bench.take(pod("w-0"), pod_group("g"), job("j")).jobs) == 3


def test_deleting_a_member_leaves_its_index_empty(bench):
    bench.take(pod_group("g"), *[pod(f"w-{i}", group="g") for i in range(3)])
    gone = bench.remove("Pod", "w-1")
    assert gone.tasks_gone == [(0, 1)]
    assert members(bench.only(gone)) == ["w-0", "", "w-2"]
    back = bench.only(bench.take(pod("w-1", group="g")))
    assert members(back) == ["w-0", "", "w-2", "w-1"]
    assert back.spec > gone.jobs[0].spec


@pytest.mark.parametrize("kind", ["Pod", "Job", "PodGroup", "Node", "HyperNode", "Queue", "Nope"])
def test_deleting_what_is_not_there(bench, kind):
    before = state(bench.intake)
    (refusal,) = bench.remove(kind, "nothing").refused
    assert refusal.kind == kind
    assert same(state(bench.intake), before)


def test_deleting_other_objects(bench):
    bench.take(node("n"), hyper_node("h", "n"), priority_class("high"))
    assert bench.remove("Node", "n").nodes_gone == [0]
    assert bench.remove("HyperNode", "h").hyper_nodes_gone == ["h"]
    assert bench.remove("PriorityClass", "high").accepted == 1
    assert bench.kept.snapshot.objects == {}


# --- observing --------------------------------------------------------------------------------


def test_an_observer_takes_pods_with_their_nodes_and_times():
    bench = Bench(observe=True)
    running = pod("r", group="g", nodeName="n") | {"status": {"phase": "Running"}}
    running["metadata"]["creationTimestamp"] = "1970-01-01T00:01:00Z"
    admission = bench.take(pod_group("g"), running, pod("w", group="g"), node("n"))
    tix = members(bench.only(admission)).index("r")
    assert admission.placed == [Placed(admission.jobs[0].jid, tix, "n", "Running", False)]
    lone = pod("p") | {"status": {"phase": "Succeeded"}}
    lone["metadata"]["creationTimestamp"] = "1970-01-01T00:01:00Z"
    assert bench.only(bench.take(lone)).created == 60.0


# --- recovery ---------------------------------------------------------------------------------


def test_recovery_knows_everything(bench):
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
    assert restored.admit([node("m")], 3.0).nodes[0].row == 2


def test_recovered_hyper_nodes_are_given_to_order(bench):
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
    found = [at]
    if isinstance(value, dict):
        found += [p for key in value for p in paths(value[key], (*at, key))]
    elif isinstance(value, list):
        found += [p for i, item in enumerate(value) for p in paths(item, (*at, i))]
    return found


PLACES = [(i, path) for i, obj in enumerate(EVERY_KIND) for path in paths(obj) if path]


@given(st.sampled_from(PLACES), values)
def test_a_random_value_anywhere_is_taken_or_refused(place, value):
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
