"""Scores and gradients of network-topology-aware, by the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from shard_worker.framework.extension_points import BATCH_NODE_ORDER
from shard_worker.framework.rules import Purpose
from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.session_model.job import SubJob
from shard_worker.view.hyper_tree import TOP, HyperDomain
from shared.model.topology import HyperNode
from shared.policy.model import PluginOption, PolicyError
from tests.shard_worker.racks import NTA, SOFT, TIER_1, TIER_2, job_of, racks, tree_of


def scores(ssn: Session, sub: SubJob, *names: str) -> list[float]:
    rows = {name: tree_of(ssn).domains[name].rows.tolist() for name in names}
    result = ssn.hyper_node_scores(sub, rows)
    return [round(result[name], 6) for name in names]


def with_arguments(**arguments: object) -> Cluster:
    """Two racks of two nodes with 2 CPUs and 32 GiB each."""
    option = PluginOption(NTA, {k.replace("_", "."): v for k, v in arguments.items()})
    cluster = Cluster("gang", "predicates", option)
    for name in ("a0", "a1", "b0", "b1"):
        cluster.node(name, cpu=2)
    cluster.hyper_node(HyperNode.of("a", 1, ("a0", "a1")))
    cluster.hyper_node(HyperNode.of("b", 1, ("b0", "b1")))
    return cluster


# --- domains --------------------------------------------------------------------------------------


def test_a_domain_scores_how_full_the_job_would_make_it() -> None:
    """1 of 4 CPUs in use, 2 asked for: 3/4. Memory counts only where it is asked for."""
    cluster = with_arguments(weight=2)
    cluster.job("runs", on=["a0"])
    cluster.job("x", tasks=2, topology=TIER_1)
    cluster.job("y", tasks=2, memory=16, topology=TIER_1)
    ssn = cluster.open()
    assert scores(ssn, job_of(ssn, "x").subs[""], "a", "b") == [150.0, 100.0]
    assert scores(ssn, job_of(ssn, "y").subs[""], "a", "b") == [125.0, 100.0]


def test_one_that_would_overflow_scores_nothing() -> None:
    cluster = with_arguments()
    cluster.job("runs", on=["a0"])
    cluster.job("x", tasks=4, topology=TIER_1)
    ssn = cluster.open()
    assert scores(ssn, job_of(ssn, "x").subs[""], "a", "b") == [0.0, 100.0]


def test_among_equal_domains_the_one_with_more_of_the_jobs_tasks_wins() -> None:
    """Both would overflow, and one of the four tasks runs in b."""
    cluster = with_arguments()
    cluster.job("other", tasks=2, on=["a0", "a1"])
    cluster.job("x", tasks=4, on=["b0"], topology=TIER_2)
    ssn = cluster.open()
    assert scores(ssn, job_of(ssn, "x").subs[""], "a", "b") == [0.0, 25.0]


def test_use_follows_the_session() -> None:
    """Promised counts as used, evicted does not."""
    cluster = with_arguments()
    cluster.job("runs", on=["a0"])
    cluster.job("x", topology=TIER_1)
    cluster.job("y", tasks=1)
    ssn = cluster.open()
    sub = job_of(ssn, "x").subs[""]
    statement = WorldStatement(ssn)
    statement.pipeline(job_of(ssn, "y").tasks[0], 2)
    assert scores(ssn, sub, "a", "b") == [50.0, 50.0]
    statement.evict(job_of(ssn, "runs").tasks[0], "test")
    assert scores(ssn, sub, "a", "b") == [25.0, 50.0]
    statement.rollback()
    assert scores(ssn, sub, "a", "b") == [50.0, 25.0]


def test_resources_have_to_be_listed() -> None:
    gpu = "nvidia.com/gpu"
    for listed, score in (("", 0.0), (gpu, 100 * 3 * 0.5 / 3)):
        option = PluginOption(
            NTA,
            {
                "hypernode.binpack.cpu": 0,
                "hypernode.binpack.resources": listed,
                f"hypernode.binpack.resources.{gpu}": 3,
            },
        )
        cluster = Cluster("gang", option)
        cluster.node("n", resources={gpu: 4})
        cluster.hyper_node(HyperNode.of("a", 1, ("n",)))
        cluster.job("x", resources={gpu: 2}, topology=TIER_1)
        ssn = cluster.open()
        assert scores(ssn, job_of(ssn, "x").subs[""], "a") == [score]
        assert bool(ssn.warnings) == (not listed)


# --- nodes ----------------------------------------------------------------------------------------


def test_tasks_with_a_topology_follow_those_before_them() -> None:
    """Tiers 1 to 3: the same rack 1, the same row 1/2, else 0; nodes outside any rack 0."""
    cluster = racks(1, 1, 1, 1)
    cluster.node("lone")
    cluster.job("x", tasks=2, topology=SOFT)
    ssn = cluster.open()
    task = job_of(ssn, "x").tasks[0]
    rows = np.arange(5)
    (score,) = [hook.scalar for hook in ssn.rules(BATCH_NODE_ORDER) if hook.plugin == NTA]
    assert score(task, rows, ssn.world).tolist() == [0, 0, 0, 0, 0]
    task.sub.reached_hyper_node = "r0"
    assert score(task, rows, ssn.world).tolist() == [100, 50, 0, 0, 0]
    task.sub.reached_hyper_node = "row0"
    WorldStatement(ssn).allocate(job_of(ssn, "x").tasks[1], 1)
    assert score(task, rows, ssn.world).tolist() == [50, 100, 0, 0, 0]


def normal(cluster: Cluster) -> list[float]:
    cluster.job("plain")
    ssn = cluster.open()
    (hook,) = [hook for hook in ssn.rules(BATCH_NODE_ORDER) if hook.plugin == NTA]
    task = job_of(ssn, "plain").tasks[0]
    result = hook.scalar(task, np.arange(ssn.world.size), ssn.world)
    return [round(score, 4) for score in result.tolist()]


def test_other_tasks_keep_out_of_empty_domains() -> None:
    """Weights 1 and 0.8 of tiers 1 and 2 (the root): a would be 2/4 full, b 1/4, all 2/10."""
    cluster = with_arguments()
    cluster.node("lone", cpu=2)
    cluster.job("runs", on=["a0"])
    a, b, lone = (100 * (tier1 + 0.8 * 0.2) / 1.8 for tier1 in (0.5, 0.25, 1.0))
    assert normal(cluster) == [round(x, 4) for x in (a, a, b, b, lone)]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"hypernode.binpack.normal-pod.enable": False}, 0.0),
        ({"hypernode.binpack.normal-pod.fading": 0.0}, 25.0),
        ({"hypernode.binpack.normal-pod.fading": -1.0}, 100 * (0.25 + 0.8 * 0.125) / 1.8),
        ({"hypernode.binpack.normal-pod.fading": 1.0}, 100 * (0.25 + 0.125) / 2),
        ({"weight": 3, "hypernode.binpack.normal-pod.fading": 0.0}, 75.0),
    ],
)
def test_how_far_tiers_count_is_an_argument(arguments: dict[str, object], expected: float) -> None:
    option = PluginOption(NTA, arguments)
    cluster = Cluster("gang", option)
    for name in ("a", "b"):
        cluster.node(name, cpu=4)
        cluster.hyper_node(HyperNode.of(f"rack-{name}", 1, (name,)))
    assert normal(cluster) == [round(expected, 4)] * 2


def test_a_tier_without_hyper_nodes_counts_as_full_for_all() -> None:
    """Racks are of tier 1, rows of tier 3: tier 2 adds its weight to every node."""
    cluster = Cluster("gang", PluginOption(NTA, {"hypernode.binpack.normal-pod.fading": 0.5}))
    cluster.node("a", cpu=4)
    cluster.hyper_node(HyperNode.of("rack", 1, ("a",)))
    cluster.hyper_node(HyperNode.of("row", 3, (), ("rack",)))
    weights = (1, 0.5, 0.25, 0.125)
    expected = 100 * sum(w * s for w, s in zip(weights, (0.25, 1, 0.25, 0.25), strict=True))
    assert normal(cluster) == [round(expected / sum(weights), 4)]


# --- gradients ------------------------------------------------------------------------------------


def names(groups: list[list[HyperDomain]]) -> list[list[str]]:
    return [sorted(domain.name for domain in group) for group in groups]


def test_the_lowest_tier_first_and_only_where_the_minimum_fits() -> None:
    cluster = racks(2, 1, 2, 2)
    cluster.job("x", tasks=2, topology=SOFT, min_resources=cluster.requests(cpu=2))
    ssn = cluster.open()
    job, root = job_of(ssn, "x"), tree_of(ssn).root
    gradients = ssn.job_gradients(job, root, Purpose.ALLOCATE)
    assert names(gradients) == [["r0", "r2", "r3"], ["row0", "row1"], [TOP]]
    inside = ssn.sub_job_gradients(job.subs[""], tree_of(ssn).domains["row0"], Purpose.ALLOCATE)
    assert names(inside) == [["row0"]]  # a job without sub groups is looked at once


def test_evictions_try_the_widest_domain_first_without_counting_residents() -> None:
    cluster = racks(2, 2, 1)
    cluster.job("runs", tasks=4, on=["r0-0", "r0-1", "r1-0", "r1-1"])
    cluster.job("x", tasks=2, topology=TIER_2, min_resources=cluster.requests(cpu=2))
    ssn = cluster.open()
    job, root = job_of(ssn, "x"), tree_of(ssn).root
    assert names(ssn.job_gradients(job, root, Purpose.ALLOCATE)) == []
    for purpose in (Purpose.PREEMPT, Purpose.RECLAIM):
        assert names(ssn.job_gradients(job, root, purpose)) == [["row0"], ["r0", "r1"]]


def test_no_more_than_the_argument_says_for_evictions() -> None:
    cluster = Cluster("gang", PluginOption(NTA, {"gradient.evict.max-hypernodes": 2}))
    for name in ("a", "b", "c"):
        cluster.node(name)
        cluster.hyper_node(HyperNode.of(f"r{name}", 1, (name,)))
    cluster.job("x", topology=SOFT)
    ssn = cluster.open()
    job, root = job_of(ssn, "x"), tree_of(ssn).root
    assert names(ssn.job_gradients(job, root, Purpose.PREEMPT)) == [[TOP], ["ra"]]
    assert len(ssn.job_gradients(job, root, Purpose.ALLOCATE)[0]) == 3


def test_placed_tasks_bind_the_search_and_amounts_do_not() -> None:
    cluster = racks(1, 1, 1)
    cluster.job("x", tasks=3, on=["r0-0"], topology=TIER_2)
    ssn = cluster.open()
    job, tree = job_of(ssn, "x"), tree_of(ssn)
    job.allocated_hyper_node = "r0"
    gradients = ssn.job_gradients(job, tree.root, Purpose.ALLOCATE)
    assert names(gradients) == [["r0", "r1"], ["row0"]]
    assert names(ssn.job_gradients(job, tree.domains["r1"], Purpose.ALLOCATE)) == [["r1"]]
    assert ssn.job_gradients(job, tree.domains["row1"], Purpose.ALLOCATE) == []


def test_an_argument_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(PolicyError, match="weight"):
        Cluster("gang", PluginOption(NTA, {"weight": "heavy"})).open()
