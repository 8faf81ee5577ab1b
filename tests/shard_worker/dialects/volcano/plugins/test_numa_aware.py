"""numa-aware: whole cores from as few NUMA domains as the policy asks for."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.volcano.plugins.node.numa_aware import (
    POLICY,
    domains_needed,
    parse_cpus,
    take,
)
from shard_worker.harness import Cluster
from shared.model.storage import Numatopology
from shared.policy.model import PluginOption


def numa_topology(
    name: str, policy: str, free: str, *, domains: int = 2, each: int = 4
) -> Numatopology:
    cpus = tuple((d * each + i, d, d, d * each + i) for d in range(domains) for i in range(each))
    return Numatopology(
        name=name,
        policies=(("CPUManagerPolicy", "static"), ("TopologyManagerPolicy", policy)),
        resources=(("cpu", free, domains * each),),
        cpus=cpus,
    )


def cluster(policy: str, *nodes: Numatopology, tasks: int = 1, cpu: float = 3) -> Cluster:
    session_cluster = Cluster("gang", PluginOption("numa-aware", {"weight": 10}))
    for node in nodes:
        session_cluster.node(node.name, cpu=8)
        session_cluster.world.objects.numa[node.name] = node
    marks = ((POLICY, policy),)
    session_cluster.job("job", tasks=tasks, minimum=1, cpu=cpu, members={"annotations": marks})
    return session_cluster


def placed(cluster: Cluster) -> list[str]:
    return [node for _, node in sorted(cluster.run().binds.items())]


def test_a_single_domain_must_have_the_cores() -> None:
    policy = "single-numa-node"
    split, whole = numa_topology("split", policy, "0-1,4-5"), numa_topology("whole", policy, "0-2")
    assert placed(cluster(policy, split, whole)) == ["whole"]
    assert placed(cluster(policy, split)) == []


def test_restricted_needs_no_more_domains_than_an_empty_node() -> None:
    policy = "restricted"
    split = numa_topology("split", policy, "0-1,4-5")
    assert placed(cluster(policy, split, cpu=3)) == []
    wide = numa_topology("wide", policy, "0-7")
    assert placed(cluster(policy, split, wide, cpu=6)) == ["wide"]


def test_best_effort_prefers_fewer_domains() -> None:
    policy = "best-effort"
    split, whole = numa_topology("a", policy, "0-1,4-5"), numa_topology("b", policy, "0-3")
    assert placed(cluster(policy, split, whole)) == ["b"]
    assert placed(cluster(policy, split)) == ["a"]


def test_only_nodes_that_enforce_the_policy_count() -> None:
    assert placed(cluster("single-numa-node", numa_topology("a", "restricted", "0-7"))) == []
    assert placed(cluster("none", numa_topology("a", "restricted", "0-7"))) == ["a"]


def test_cores_given_in_a_session_are_gone() -> None:
    policy = "single-numa-node"
    assert placed(cluster(policy, numa_topology("a", policy, "0-7"), tasks=3)) == ["a", "a"]


def test_parts_of_cores_are_not_pinned() -> None:
    assert placed(cluster("single-numa-node", numa_topology("a", "none", ""), cpu=1.5)) == ["a"]


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3,8", {0, 1, 2, 3, 8}), ("", set()), ("x,2", {2}), (" 1 ", {1})]
)
def test_cpu_lists(text: str, cpus: set[int]) -> None:
    assert parse_cpus(text) == cpus


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=6),
    st.integers(0, 20),
)
def test_taking_cores_stops_at_the_free_ones(sizes: list[int], cores: int) -> None:
    left = Counter(dict(enumerate(sizes)))
    take(left, cores)
    assert sum(left.values()) == max(sum(sizes) - cores, 0)
    needed = domains_needed(Counter(dict(enumerate(sizes))), cores)
    assert (needed is None) == (sum(sizes) < cores)
    assert needed is None or sum(sorted(sizes, reverse=True)[:needed]) >= cores
