"""nodegroup: queues keep to groups of nodes."""

from __future__ import annotations

import numpy as np
import pytest

from shard_worker.dialects.volcano.plugins.node.nodegroup import LABEL
from shard_worker.harness import Cluster
from shared.model.model import NodeGroupAffinity
from shared.policy.model import PluginOption

GROUPS = ("g1", "g2", "g3", "")


def cluster_of(*, hierarchy: bool = False, **arguments: object) -> Cluster:
    option = PluginOption("nodegroup", arguments=arguments, flags={"enableHierarchy": hierarchy})
    cluster = Cluster(option, "predicates")
    for group in GROUPS:
        cluster.node(group or "none", labels={LABEL: group} if group else {})
    return cluster


def admitted(cluster: Cluster) -> set[str]:
    """Groups of the nodes on which the first task may run."""
    session = cluster.open()
    task = session.world.session_job(0).tasks[0]
    passes = np.ones(len(GROUPS), np.bool_)
    for check in session.checks(task):
        passes &= check.mask
    return {group for group, good in zip(GROUPS, passes, strict=True) if good}


@pytest.mark.parametrize(
    ("affinity", "strict", "groups"),
    [
        (None, True, {"g1", "g2", "g3"}),
        (None, False, set(GROUPS)),
        (NodeGroupAffinity(required=("g1", "g2")), True, {"g1", "g2"}),
        (NodeGroupAffinity(required=("g1", "g2")), False, {"g1", "g2"}),
        (NodeGroupAffinity(anti_required=("g1",)), True, {"g2", "g3"}),
        (NodeGroupAffinity(anti_required=("g1",)), False, {"g2", "g3", ""}),
        (NodeGroupAffinity(required=("g1", "g2"), anti_required=("g1",)), True, {"g2"}),
        (NodeGroupAffinity(preferred=("g1",)), True, {"g1", "g2", "g3"}),
    ],
)
def test_tasks_go_where_their_queue_lets_them(
    affinity: NodeGroupAffinity | None, strict: bool, groups: set[str]
) -> None:
    cluster = cluster_of(strict=strict)
    cluster.queue("q", affinity=affinity)
    cluster.job("j", queue="q")
    assert admitted(cluster) == groups


@pytest.mark.parametrize(
    ("ordered", "scores"), [(False, [150, 50, -1, 0]), (True, [150, 25, -1, 0])]
)
def test_groups_that_are_wanted_score_more(ordered: bool, scores: list[float]) -> None:
    cluster = cluster_of(strict=False, enablePreferredOrder=ordered)
    affinity = NodeGroupAffinity(required=("g1",), preferred=("g1", "g2"), anti_preferred=("g3",))
    cluster.queue("q", affinity=affinity)
    cluster.queue("silent")
    for queue in ("q", "silent"):
        cluster.job(queue, queue=queue)
    session = cluster.open()
    tasks = [job.tasks[0] for job in session.world.session_jobs()]
    rows = np.arange(len(GROUPS))
    assert session.node_scores(tasks[0], rows).tolist() == scores
    assert session.node_scores(tasks[1], rows).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("hierarchy", "groups"), [(True, {"g1"}), (False, {"g1", "g2", "g3"})])
def test_in_a_tree_a_queue_takes_over_the_nearest_affinity(
    hierarchy: bool, groups: set[str]
) -> None:
    cluster = cluster_of(hierarchy=hierarchy)
    cluster.queue("root", affinity=NodeGroupAffinity(required=("g3",)))
    cluster.queue("top", parent="root", affinity=NodeGroupAffinity(required=("g1",)))
    cluster.queue("mid", parent="top")
    cluster.queue("low", parent="mid")
    cluster.job("j", queue="low")
    assert admitted(cluster) == groups


def test_without_a_parent_it_is_a_child_of_root() -> None:
    cluster = cluster_of(hierarchy=True)
    cluster.queue("root", affinity=NodeGroupAffinity(required=("g3",)))
    cluster.queue("q")
    cluster.job("j", queue="q")
    assert admitted(cluster) == {"g3"}


def test_it_needs_a_world_for_every_class() -> None:
    cluster = cluster_of()
    cluster.queue("q")
    cluster.job("j", queue="q")
    session = cluster.open()
    assert not session.fast(session.world.session_job(0).tasks[0].cls)
