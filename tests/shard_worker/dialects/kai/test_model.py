"""The tree of queues, and jobs as trees of sub groups."""

from __future__ import annotations

import pytest

from shard_worker.dialects.kai.model import ROOT, amounts_of, group_tree, queue_tree
from shard_worker.dialects.kai.rules.amounts import NOTHING, Amounts
from shard_worker.dialects.kai.rules.groups import PodSet, SubGroupSet
from shard_worker.harness import Cluster
from shard_worker.session_model.job import TaskInfo
from shared.model.kai import KaiPodGroup, KaiQueue, KaiShare, KaiSubGroup
from shared.model.model import Role, TaskClass

SHARE = KaiShare(quota=1000, weight=1000, limit=-1)


def queue(name: str, parent: str = "") -> KaiQueue:
    return KaiQueue(name, SHARE, SHARE, SHARE, parent=parent)


def test_a_queue_stands_below_its_ancestors() -> None:
    states = queue_tree([queue("leaf", "mid"), queue("mid", "top"), queue("top")])
    assert [above.uid for above in states["leaf"].chain] == ["leaf", "mid", "top"]
    assert [below.uid for below in states["top"].children] == ["mid"]


def test_orphaned_and_circular_queues_are_left_out_of_the_tree() -> None:
    orphans = [queue("orphan", "gone"), queue("below", "orphan")]
    circle = [queue("a", "b"), queue("b", "a"), queue("c", "a"), queue("self", "self")]
    states = queue_tree([queue("top"), *orphans, *circle])
    assert set(states) == {"top"}


def test_a_flat_tree_has_leaves_below_one_parent_without_bounds() -> None:
    states = queue_tree([queue("leaf", "top"), queue("top"), queue("alone")], flat=True)
    assert set(states) == {"leaf", "alone", ROOT}
    assert states["leaf"].chain == (states["leaf"], states[ROOT])
    assert states[ROOT].limit == states[ROOT].quota == Amounts(-1, -1, -1)


def test_a_leaf_queue_is_charged_to_its_parent_too() -> None:
    states = queue_tree([queue("leaf", "top"), queue("other", "top"), queue("top")])
    states["leaf"].charge(Amounts(1, 2, 3), preemptible=True)
    states["other"].charge(Amounts(gpu=5), preemptible=False)
    assert states["top"].allocated == Amounts(1, 2, 8)
    assert states["top"].non_preemptible == Amounts(gpu=5)
    states["leaf"].discharge(Amounts(1, 2, 3), preemptible=True)
    assert states["leaf"].allocated == NOTHING
    assert states["top"].allocated == Amounts(gpu=5)


def test_every_resource_that_ends_in_gpu_is_one() -> None:
    names = ["cpu", "memory", "pods", "nvidia.com/gpu", "example.com/gpu", "fpga"]
    requests = ((0, 500), (1, 7), (2, 1), (3, 2000), (4, 1000), (5, 9))
    assert amounts_of(requests, names) == Amounts(500, 7, 3000)


# --- jobs -----------------------------------------------------------------------------------------


def tasks_of(*pod_sets: str) -> list[TaskInfo]:
    """One task in each of these pod sets; "" names none."""
    cluster = Cluster()
    cid = cluster.class_of(TaskClass(requests=((2, 1),)))
    roles = [
        Role(
            "task",
            cid,
            at,
            1,
            names=(f"job-{at}",),
            labels=(("kai.scheduler/subgroup-name", name),) if name else (),
        )
        for at, name in enumerate(pod_sets)
    ]
    cluster.job("job", tasks=len(roles), roles=roles)
    return next(iter(cluster.open().world.session_jobs())).tasks


def group(
    *sub_groups: KaiSubGroup, min_member: int = 1, min_sub_group: int | None = None
) -> KaiPodGroup:
    return KaiPodGroup(
        "default",
        "job",
        "q",
        sub_groups=sub_groups,
        min_member=min_member,
        min_sub_group=min_sub_group,
    )


def shape(member: PodSet[TaskInfo] | SubGroupSet[TaskInfo]) -> object:
    """(name, minimum, tasks) of a pod set, (name, needed, members) of a set."""
    if isinstance(member, PodSet):
        return member.name, member.minimum, [task.name for task in member.tasks]
    return member.name, member.needed, [shape(below) for below in member.members]


def by_name(task: TaskInfo) -> tuple[str]:
    return (task.name,)


def test_without_sub_groups_all_tasks_are_one_pod_set() -> None:
    tree = group_tree(group(min_member=2), tasks_of("", ""), by_name)
    assert shape(tree) == ("", None, [("default", 2, ["job-0", "job-1"])])


def test_tasks_stand_in_the_pod_set_of_their_label() -> None:
    subs = [
        KaiSubGroup("zone", min_sub_group=1),
        KaiSubGroup("a", "zone", min_member=2),
        KaiSubGroup("b", "zone"),
        KaiSubGroup("c", min_member=1),
    ]
    tree = group_tree(group(*subs, min_sub_group=1), tasks_of("b", "c", "gone", "c"), by_name)
    assert shape(tree) == (
        "",
        1,
        [
            ("zone", 1, [("a", 2, []), ("b", 0, ["job-0"])]),
            ("c", 1, ["job-1", "job-3"]),
        ],
    )


@pytest.mark.parametrize("backwards", [False, True])
def test_tasks_are_in_the_order_of_the_key(backwards: bool) -> None:
    tasks = tasks_of("", "", "")
    tree = group_tree(group(), tasks[::-1], lambda t: (-t.tix if backwards else t.tix,))
    names = [task.name for task in tree.tasks()]
    assert names == sorted(names, reverse=backwards)
