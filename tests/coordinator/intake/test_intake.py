"""Intake: numbers, jobs and groups from objects; refusals that change nothing; recovery."""

from __future__ import annotations

from coordinator.intake.admission.membership import UNREACHABLE
from shared.ledger.entries.intake_batch import PutClass, PutJob, PutNode, PutObject, PutQueue
from shared.ledger.entries.stored import ThingAsk
from shared.messages.messages import Group
from shared.model.model import TaskClass
from shared.records.specs import decode_queue
from tests.builders.objects import (
    EVERY_KIND,
    container,
    job,
    node,
    pod,
    pod_group,
    priority_class,
    queue,
    task,
)
from tests.coordinator.intake.bench import BEST_EFFORT, Bench, members, put_jobs

# --- numbers ----------------------------------------------------------------------------------


def test_the_first_list_creates_the_default_queue(bench: Bench) -> None:
    first = bench.take()
    assert [q.name for q in first.queues] == ["default"]
    assert bench.take().ops == []


def test_a_lone_pod_is_a_job_of_one(bench: Bench) -> None:
    admission = bench.take(pod("p"), now=5.0)
    only_job = bench.only(admission)
    assert (only_job.kind, only_job.key, only_job.queue, only_job.created) == (
        "Pod",
        "ns/p",
        "default",
        5.0,
    )
    assert only_job.groups == (Group(-1, 1),)
    assert only_job.pod_name(0) == "p"
    (put,) = put_jobs(admission)
    assert (put.qid, put.groups) == (0, [Group(-1, 1, 0)])
    assert admission.classes == {0: TaskClass(requests=((0, 1000), (1, 1 << 30), (2, 1)))}


def test_equal_classes_are_one(bench: Bench) -> None:
    bench.take(pod("a", tolerations=[{"operator": "Exists"}, {"key": "k", "value": "v"}]))
    other = pod("b", tolerations=[{"key": "k", "value": "v"}, {"operator": "Exists"}])
    other["spec"]["containers"] = [container("500m", "512Mi"), container("0.5", "512Mi")]
    assert bench.take(other).classes == {}
    assert bench.take(pod("c")).classes.keys() == {1}


def test_slots_are_kept_before_what_needs_them(bench: Bench) -> None:
    obj = pod("p", containers=[{"resources": {"limits": {"example.com/foo": 1}}}])
    ops = bench.take(obj).ops
    assert isinstance(ops[0], PutObject)
    (put,) = [op for op in ops if isinstance(op, PutClass)]
    assert put.requests == [(2, 1, 0), (3, 1000, 0)]


def test_a_host_port_is_no_slot(bench: Bench) -> None:
    ops = bench.take(pod("p", containers=[{"ports": [{"hostPort": 80}]}])).ops
    (put,) = [op for op in ops if isinstance(op, PutClass)]
    assert put.requests == [(2, 1, 0)]
    assert put.things == [ThingAsk("port/TCP/80", (1,), (1,))]
    assert not [op for op in ops if isinstance(op, PutObject)]
    assert not bench.intake.registry.best_effort, "it asks for something"


def test_operations_put_referenced_objects_first_in_any_list_order(bench: Bench) -> None:
    admission = bench.take(*reversed(EVERY_KIND))
    kinds = [type(op) for op in admission.ops]
    assert kinds.index(PutClass) < kinds.index(PutQueue) < kinds.index(PutNode)
    assert kinds.index(PutNode) < kinds.index(PutJob)
    assert not admission.notices


def test_numbers_are_never_given_again(bench: Bench) -> None:
    """Only a node has its row again: what ran there may still run, and is counted by the row."""
    bench.take(node("a"), pod("p"))
    bench.remove("Node", "a")
    bench.remove("Pod", "p")
    bench.purge(0)
    assert bench.restored().registry.next_jid == 1
    again = bench.take(node("b"), node("a"), pod("p"))
    assert {n.name: n.row for n in again.nodes} == {"b": 1, "a": 0}
    assert [j.jid for j in again.jobs] == [1]
    assert again.jobs[0].uid != "ns/p#0"


# --- PodGroups --------------------------------------------------------------------------------


def test_pods_join_their_group_in_the_order_of_their_number(bench: Bench) -> None:
    pods = [pod(f"w-{i}", group="g", role="w") for i in (10, 9, 2)]
    only_job = bench.only(bench.take(*pods, pod_group("g", minMember=3)))
    assert members(only_job) == ["w-2", "w-9", "w-10"]
    assert only_job.groups == (Group(-1, 3),)
    assert len(only_job.roles) == 1


def test_members_that_come_later_raise_the_version(bench: Bench) -> None:
    first = bench.only(bench.take(pod_group("g", minMember=2), pod("w-0", group="g")))
    later = bench.only(bench.take(pod("w-1", group="g"), pod("m", group="g", role="m")))
    assert later.spec == first.spec + 1
    assert members(later) == ["w-0", "w-1", "m"]
    assert [(r.name, r.first, r.count) for r in later.roles] == [("", 0, 2), ("m", 2, 1)]


def test_role_minima_make_groups(bench: Bench) -> None:
    group = pod_group("g", minMember=3, minTaskMember={"m": 1, "w": 2})
    pods = [pod(f"{r}-{i}", group="g", role=r) for r, i in (("w", 0), ("m", 0), ("x", 0), ("w", 1))]
    only_job = bench.only(bench.take(group, *pods))
    assert only_job.groups == (Group(-1, 3), Group(0, 1), Group(0, 2))
    assert {r.name: r.group for r in only_job.roles} == {"w": 2, "m": 1, "x": 0}


def test_roles_do_not_count_where_the_minimum_is_below_their_sum(bench: Bench) -> None:
    group = pod_group("g", minMember=2, minTaskMember={"m": 1, "w": 2})
    only_job = bench.only(bench.take(group))
    assert only_job.groups == (Group(-1, 2), Group(0, 0), Group(0, 0))
    assert only_job.role_minima == (("m", 1), ("w", 2))
    only_job = bench.only(bench.take(pod_group("g", minMember=3, minTaskMember={"w": 2})))
    assert only_job.groups == (Group(-1, 3), Group(0, 0), Group(0, 2))


def test_pods_may_come_before_their_group(bench: Bench) -> None:
    early = bench.take(pod("w-0", group="g", role="w", **BEST_EFFORT))
    waiting = bench.only(early)
    assert waiting.dangling
    assert waiting.groups == (Group(-1, UNREACHABLE),)
    assert put_jobs(early)[0].groups[0].held == 1
    assert "PodGroup ns/g does not exist" in early.notices[0].message
    group = pod_group("g", minMember=2, minTaskMember={"w": 2}, queue="default")
    arrived = bench.take(group)
    only_job = bench.only(arrived)
    assert (only_job.jid, only_job.dangling, only_job.spec) == (
        waiting.jid,
        False,
        waiting.spec + 1,
    )
    assert only_job.roles[0].group == 1
    assert [g.held for g in put_jobs(arrived)[0].groups] == [0, 1], "counted once in each group"


def test_best_effort_members_are_held_once(bench: Bench) -> None:
    group = pod_group("g", minMember=2, minTaskMember={"w": 1})
    put = put_jobs(bench.take(group, pod("w-0", group="g", role="w", **BEST_EFFORT)))
    assert [g.held for g in put[0].groups] == [1, 1]
    put = put_jobs(bench.take(pod("m-0", group="g", **BEST_EFFORT), pod("w-1", group="g")))
    assert [g.held for g in put[0].groups] == [1, 0]
    assert put_jobs(bench.take(group)) == []


def test_a_best_effort_member_that_goes_is_held_until_it_has_ended(bench: Bench) -> None:
    """Then the ledger takes it away, whether it was placed meanwhile or not."""
    group = pod_group("g", minMember=1, minTaskMember={"w": 1})
    bench.take(group, pod("w-0", group="g", role="w", **BEST_EFFORT))
    (put,) = put_jobs(bench.remove("Pod", "w-0"))
    assert [g.held for g in put.groups] == [0, 0]
    assert put_jobs(bench.remove("Pod", "w-0")) == []


def test_a_deleted_member_is_not_held_when_its_group_arrives(bench: Bench) -> None:
    bench.take(*[pod(f"w-{i}", group="g", role="w", **BEST_EFFORT) for i in range(2)])
    bench.remove("Pod", "w-0")
    (put,) = put_jobs(bench.take(pod_group("g", minMember=1, minTaskMember={"w": 1})))
    assert [g.held for g in put.groups] == [0, 1]


def test_a_changed_group_is_a_new_version(bench: Bench) -> None:
    first = bench.only(bench.take(pod_group("g", minMember=2)))
    again = bench.take(pod_group("g", minMember=2))
    assert (again.unchanged, again.ops) == (1, [])
    bench.take(queue("q"), priority_class("high", value=9))
    admission = bench.take(
        pod_group("g", minMember=3, queue="q", priorityClassName="high"), now=99.0
    )
    only_job = bench.only(admission)
    assert (only_job.groups[0].minimum, only_job.queue, only_job.priority) == (3, "q", 9)
    assert (only_job.spec, only_job.created, only_job.uid) == (
        first.spec + 1,
        first.created,
        first.uid,
    )
    assert put_jobs(admission)[0].qid == 1


# --- Jobs -------------------------------------------------------------------------------------


def test_a_job_is_one_compact_role_per_task(bench: Bench) -> None:
    obj = job("j", tasks=[task("m", replicas=1), task("w", replicas=100_000)], minAvailable=5)
    only_job = bench.only(bench.take(obj))
    assert [(r.name, r.first, r.count, r.names) for r in only_job.roles] == [
        ("m", 0, 1, ()),
        ("w", 1, 100_000, ()),
    ]
    assert only_job.groups == (Group(-1, 5),)
    assert only_job.pod_name(100_000) == "j-w-99999"
    assert len(put_jobs(bench.admit(obj))) == 0


def test_a_jobs_role_minima(bench: Bench) -> None:
    tasks = [task("m", replicas=1), task("w", replicas=4, minAvailable=2)]
    assert bench.only(bench.take(job("a", tasks=tasks))).groups == (
        Group(-1, 3),
        Group(0, 1),
        Group(0, 2),
    )
    assert bench.only(bench.take(job("b", tasks=tasks, minAvailable=5))).groups == (Group(-1, 5),)


# --- what jobs refer to -----------------------------------------------------------------------


def test_a_job_waits_for_its_queue(bench: Bench) -> None:
    early = bench.take(pod_group("g", queue="late"))
    assert put_jobs(early)[0].qid == -1
    admission = bench.take(queue("late"))
    assert put_jobs(admission)[0].qid == admission.queues[0].qid
    assert bench.only(admission).spec == early.jobs[0].spec + 1
    assert bench.take(queue("late", weight=3)).jobs == []


def test_an_unknown_priority_class_is_the_default_and_told(bench: Bench) -> None:
    bench.take(priority_class("usual", value=7, globalDefault=True))
    pods = [pod(f"p-{i}", priorityClassName="none") for i in range(3)]
    admission = bench.take(*pods)
    assert {j.priority for j in admission.jobs} == {7}
    (notice,) = admission.notices
    assert (notice.kind, notice.name, notice.count) == ("Pod", "ns/p-0", 6)
    assert "none does not exist" in notice.message


def test_priorities_of_pods(bench: Bench) -> None:
    bench.take(priority_class("high", value=100))
    obj = pod("a", priorityClassName="high")
    obj["metadata"]["annotations"]["volcano.sh/task-priority"] = "3"
    only_job = bench.only(bench.take(obj))
    assert (only_job.priority, only_job.roles[0].priority) == (100, 3)
    only_job = bench.only(bench.take(pod("b", priority=-5)))
    assert (only_job.priority, only_job.roles[0].priority) == (-5, -5)
    only_job = bench.only(bench.take(pod("c")))
    assert (only_job.priority, only_job.roles[0].priority) == (0, 1)


def test_queues_come_parents_first(bench: Bench) -> None:
    admission = bench.take(queue("c", parent="b"), queue("b", parent="a"), queue("a"))
    qids = {q.name: q.qid for q in admission.queues}
    assert {q.name: q.parent for q in admission.queues if q.name != "default"} == {
        "a": -1,
        "b": qids["a"],
        "c": qids["b"],
    }
    puts = [decode_queue(op.spec).name for op in admission.ops if isinstance(op, PutQueue)]
    assert puts.index("a") < puts.index("b") < puts.index("c")


def test_no_queue_below_one_that_holds_jobs(bench: Bench) -> None:
    bench.take(queue("a"), queue("b"), pod_group("g", queue="a"), pod("lone"))
    for parent, holder in (("a", "PodGroup ns/g"), ("default", "Pod ns/lone")):
        for below in ("new", "b"):  # one that comes, and one that is moved
            admission = bench.admit(queue(below, parent=parent))
            (refusal,) = admission.refused
            assert (refusal.field, refusal.value) == ("spec.parent", repr(parent))
            assert f"{holder} is in it" in refusal.message
            assert "choose another parent" in refusal.message
            assert admission.queues == []
    assert bench.take(queue("a", weight=3)).queues, "what is not below it may change"
    bench.remove("PodGroup", "g")
    assert bench.admit(queue("new", parent="a")).refused, "it is not gone yet"
    bench.purge(0)
    assert bench.take(queue("new", parent="a")).queues
    bench.take(pod_group("h", queue="new"), queue("new", parent="a"))
    assert bench.take(queue("new", parent="a", weight=2)).queues, "it stays where it is"
    bench.take(pod_group("r", queue="root"), queue("root"), queue("top", parent="root"))


def test_root_is_above_the_others_once_it_is_described(bench: Bench) -> None:
    bench.take(queue("a"), queue("b", parent="root"))
    admission = bench.take(queue("root", capability={"cpu": "8"}))
    parents = {q.name: q.parent for q in bench.intake.registry.queues.values()}
    root = bench.intake.registry.queues["root"].qid
    assert parents == {"root": -1, "default": root, "a": root, "b": root}
    puts = [op.qid for op in admission.ops if isinstance(op, PutQueue)]
    assert puts[0] == root
    assert bench.take(queue("a")).unchanged == 1


def test_a_changed_node_moves_its_version_only_where_schedulability_does(bench: Bench) -> None:
    bench.take(node("n"))
    more = node("n")
    more["status"]["allocatable"]["cpu"] = "16"
    assert [(n.row, n.spec) for n in bench.take(more).nodes] == [(0, 0)]
    more["spec"]["unschedulable"] = True
    assert [(n.row, n.spec) for n in bench.take(more).nodes] == [(0, 1)]
    assert bench.take(more).unchanged == 1
