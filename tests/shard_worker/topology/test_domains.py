"""Jobs placed domain by domain: tiers, preference, sub jobs, what binds later tasks, why not."""

from __future__ import annotations

from typing import Any

import pytest

from shard_worker.dialects.volcano.actions.allocate import AllocateResult, allocate_job, execute
from shard_worker.harness import Cluster
from shard_worker.placement.task_loop import Filling, FillResult
from shard_worker.placement.worksheet import sheet_of
from shard_worker.session_model.status import Status
from shard_worker.topology.allocated_domains import recover
from shard_worker.topology.domain_reasons import why_not
from shard_worker.topology.domain_search import DomainSearch
from shard_worker.view.hyper_tree import build_tree
from shared.model.constraints import Requirement
from shared.model.model import Pairs, Role, TaskClass
from shared.model.topology import HyperNode, SubGroupPolicy, Topology
from tests.shard_worker.racks import NTA, SOFT, TIER_1, TIER_2, job_of, racks, racks_of, tree_of


def test_a_job_stays_within_one_domain_of_its_tier() -> None:
    cluster = racks(2, 3, 2)
    cluster.job("a", tasks=3, topology=TIER_1)
    assert racks_of(cluster.run().binds, "a") == ["r1"] * 3


def test_a_wider_domain_only_where_no_closer_one_has_room() -> None:
    cluster = racks(2, 2, 2, 2)
    cluster.job("a", tasks=4, topology=TIER_2)
    cluster.job("b", tasks=2, topology=TIER_2)
    binds = cluster.run().binds
    assert racks_of(binds, "a") in (["r0", "r0", "r1", "r1"], ["r2", "r2", "r3", "r3"])
    assert len(set(racks_of(binds, "b"))) == 1


def test_soft_topology_takes_the_closest_room() -> None:
    cluster = racks(2, 2, 2, 2)
    cluster.job("close", tasks=2, topology=SOFT)
    cluster.job("wide", tasks=6, topology=SOFT)
    binds = cluster.run().binds
    assert len(set(racks_of(binds, "close"))) == 1
    assert len(racks_of(binds, "wide")) == 6


def test_the_surplus_of_a_soft_gang_stays_in_its_domain() -> None:
    cluster = racks(2, 2, 2, 2, cpu=4)
    cluster.job("a", tasks=7, minimum=3, topology=SOFT)
    assert len(set(racks_of(cluster.run().binds, "a"))) == 1


def test_a_soft_gang_grows_into_the_closest_domain_where_its_own_is_full() -> None:
    cluster = racks(2, 2, 2, 2, cpu=4)
    cluster.job("a", tasks=8, minimum=3, on=["r2-0", "r2-0", "r2-1"], topology=SOFT)
    cluster.job("other", tasks=4, on=["r2-0", "r2-0", "r2-1", "r2-1"])
    cluster.job("another", tasks=1, on=["r0-0"])
    assert racks_of(cluster.run().binds, "a") == ["r2", "r3", "r3", "r3", "r3"]


@pytest.mark.parametrize(("topology", "placed"), [(SOFT, 4), (TIER_2, 0)])
def test_only_a_hard_topology_waits_until_all_min_resources_are_free(
    topology: Topology, placed: int
) -> None:
    cluster = racks(2, 2)
    least = cluster.requests(cpu=5)
    cluster.job("a", tasks=5, minimum=2, topology=topology, min_resources=least)
    assert len(cluster.run().binds) == placed


def test_the_fullest_domain_is_taken_and_its_best_nodes() -> None:
    cluster = racks(2, 2, cpu=2, plugins=("binpack",))
    cluster.job("runs", tasks=1, on=["r1-1"])
    cluster.job("a", tasks=1, topology=TIER_1)
    assert cluster.run().binds == {"default/a-0": "r1-1"}


@pytest.mark.parametrize("topology", [TIER_1, TIER_2, SOFT])
def test_a_minimum_that_fits_starts_although_not_all_members_fit(topology: Topology) -> None:
    cluster = racks(2)
    cluster.job("a", tasks=3, minimum=2, topology=topology)
    assert sorted(cluster.run().binds) == ["default/a-0", "default/a-1"]


ROOM = "4 cpu are free, no tier-1 domain has more than 2"
WIDE = Topology(hard=True, highest_tier=0)


@pytest.mark.parametrize(
    ("job", "word", "reason"),
    [
        pytest.param({"tasks": 3}, "TopologyPlacementFailed", ROOM, id="in pieces"),
        pytest.param(
            {"tasks": 5, "topology": SOFT},
            "NotEnoughResources",
            "4 cpu are free, 5 are needed",
            id="too little anywhere",
        ),
        pytest.param(
            {"tasks": 2, "cpu": 1.5},
            "NotEnoughResources",
            "the nodes have room for 0 of 2 tasks that are needed",
            id="larger than a node",
        ),
        pytest.param(
            {"topology": WIDE},
            "TopologyPlacementFailed",
            "no hyper node has tier 0, or a lower one",
            id="no such tier",
        ),
        pytest.param(
            {"tasks": 3, "minimum": 2, "on": ["r0-0", "r1-0"]},
            "TopologyPlacementFailed",
            "its tasks are spread over row0, which is wider than tier 1",
            id="spread already",
        ),
        pytest.param(
            {"tasks": 2, "rules": {"selector": (("disk", "ssd"),)}},
            "NotEnoughResources",
            "the nodes have room for 0 of 2 tasks that are needed",
            id="no node matches",
        ),
    ],
)
def test_why_no_domain_takes_a_job(job: dict[str, Any], word: str, reason: str) -> None:
    cluster = racks(2, 2)
    cluster.job("a", **{"topology": TIER_1, **job})
    ssn = cluster.open()
    execute(ssn)
    assert cluster.result(ssn).binds == {}
    assert ssn.skipped[0] == (word, reason)
    assert bool(job_of(ssn, "a").unschedulable) == ("0 of 2" in reason)


def searched(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> tuple[DomainSearch, int]:
    """The search for job "a", and how many dry runs of its tasks it took."""
    tried: list[Filling] = []
    run = Filling.run

    def counted(filling: Filling) -> FillResult:
        tried.append(filling)
        return run(filling)

    monkeypatch.setattr(Filling, "run", counted)
    ssn = cluster.open()
    search = DomainSearch(ssn, sheet_of(ssn, job_of(ssn, "a")), tree_of(ssn))
    search.run(tree_of(ssn).root)
    return search, len(tried)


def test_domains_without_room_are_not_even_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = racks(*[1] * 20, 2)
    cluster.job("a", tasks=2, topology=TIER_1)
    search, tried = searched(cluster, monkeypatch)
    assert search.best is not None
    assert (search.best.domain.name, search.counted_out, tried) == ("r20", 20, 1)


def test_room_is_counted_in_tasks_not_in_amounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rack has 6 CPUs free, and takes two tasks that ask for 2, not three."""
    cluster = racks(*[2] * 5, cpu=3)
    cluster.job("a", tasks=3, cpu=2, topology=TIER_1)
    search, tried = searched(cluster, monkeypatch)
    assert (search.best, search.counted_out, tried) == (None, 5, 0)
    assert why_not(search) == (
        "TopologyPlacementFailed",
        "no tier-1 domain has room for more than 2 of 3 tasks",
    )


def test_one_dry_run_where_any_domain_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = racks(*[4] * 6)
    cluster.job("runs", tasks=1, on=["r3-0"])
    cluster.job("a", tasks=2, topology=TIER_2)
    search, tried = searched(cluster, monkeypatch)
    assert search.best is not None
    assert (search.best.domain.name, tried) == ("r3", 1)


def test_later_tasks_stay_with_the_first_ones() -> None:
    """Two run in rack 0; the third may go anywhere in its row, and not beyond."""
    for topology, node in ((TIER_1, None), (TIER_2, "r1-0")):
        cluster = racks(2, 1, 2, 2)
        cluster.job("a", tasks=3, minimum=2, on=["r0-0", "r0-1"], topology=topology)
        expected = {} if node is None else {"default/a-2": node}
        assert cluster.run().binds == expected


def test_a_job_whose_tasks_are_spread_wider_than_allowed_gets_no_more() -> None:
    cluster = racks(2, 2)
    cluster.job("a", tasks=3, minimum=2, on=["r0-0", "r1-0"], topology=TIER_1)
    assert cluster.run().binds == {}


def test_tasks_on_nodes_that_are_gone_are_in_no_domain() -> None:
    """They count for the job until they are lost, and bind the others to no domain."""
    for gone, domain in (({"r1-0"}, "r0"), ({"r0-0", "r1-0"}, ""), (set[str](), "row0")):
        cluster = racks(2, 2)
        cluster.job("a", tasks=3, minimum=2, on=["r0-0", "r1-0"], topology=TIER_1)
        ssn = cluster.open()
        nodes = [n if n is not None and n.name not in gone else None for n in ssn.world.view.nodes]
        hypers = [HyperNode.of(name, 1, (f"{name}-0", f"{name}-1")) for name in ("r0", "r1")]
        job = job_of(ssn, "a")
        recover(job, build_tree([*hypers, HyperNode.of("row0", 2, (), ("r0", "r1"))], nodes))
        assert job.allocated_hyper_node == domain


def test_the_annotation_binds_too_while_anything_is_placed() -> None:
    marks: Pairs = (("volcano.sh/job-allocated-hypernode", "r1"),)
    for on, free in ((["r1-0"], 1), ([], 2)):
        cluster = racks(2, 2)
        cluster.job("other", tasks=1, on=["r1-1"])
        cluster.job("a", tasks=2, minimum=1, on=on, topology=TIER_1, annotations=marks)
        binds = racks_of(cluster.run().binds, "a")
        assert binds == ([] if free == 1 else ["r0", "r0"])


def test_elastic_tasks_one_a_turn_in_the_domain_of_the_first() -> None:
    cluster = racks(8, 8)
    cluster.job("a", tasks=4, minimum=2, topology=TIER_2)
    ssn = cluster.open()
    job = job_of(ssn, "a")
    for ready in (2, 3, 4):
        assert allocate_job(ssn, job) is AllocateResult.COMMITTED
        assert (job.census.ready, job.allocated_hyper_node) == (ready, "r0")


def test_an_elastic_job_goes_to_the_closest_domain_that_takes_its_minimum() -> None:
    """As in Volcano, although no rack has room for all four."""
    cluster = racks(3, 3)
    cluster.job("a", tasks=4, minimum=2, topology=TIER_2)
    ssn = cluster.open()
    allocate_job(ssn, job_of(ssn, "a"))
    assert job_of(ssn, "a").allocated_hyper_node in ("r0", "r1")
    only = racks(3, 3)
    only.job("a", tasks=4, minimum=2, topology=TIER_1)
    assert len(only.run().binds) == 3


def test_a_broken_tree_holds_up_only_its_own_requests() -> None:
    cluster = racks(2)
    cluster.hyper_node(HyperNode.of("again", 2, (), ("r0",)))
    cluster.job("a", topology=TIER_1)
    cluster.job("b")
    ssn = cluster.open()
    execute(ssn)
    assert list(cluster.result(ssn).binds) == ["default/b-0"]
    assert ssn.skipped[0][1].startswith("hyper node r0 is a member of both")


def test_a_tier_name_that_no_hyper_node_has_binds_nothing() -> None:
    cluster = racks(1, 1)
    cluster.job("a", tasks=2, topology=Topology(hard=True, highest_tier_name="moon"))
    assert len(cluster.run().binds) == 2


def test_without_the_plugin_topologies_are_not_looked_at() -> None:
    cluster = Cluster("gang", "predicates")
    cluster.node("a", cpu=1)
    cluster.node("b", cpu=1)
    cluster.hyper_node(HyperNode.of("r0", 1, ("a",)))
    cluster.hyper_node(HyperNode.of("r1", 1, ("b",)))
    cluster.job("x", tasks=2, topology=TIER_1)
    assert len(cluster.run().binds) == 2


# --- sub jobs -------------------------------------------------------------------------------------

PART = "volcano.sh/partition"


def parts(
    cluster: Cluster, *sizes: int, minimum: int = 0, of: int = 1, topology: Topology | None = TIER_1
) -> tuple[list[Role], tuple[SubGroupPolicy, ...]]:
    """A role for each partition, and the policy that makes a sub job of each."""
    cid = cluster.class_of(TaskClass(requests=cluster.requests(cpu=1, pods=1)))
    roles, first = [], 0
    for i, size in enumerate(sizes):
        names = tuple(f"x-{i}{k}" for k in range(size))
        roles.append(Role("w", cid, first, size, labels=((PART, str(i)),), names=names))
        first += size
    policy = SubGroupPolicy("p", of, minimum, topology, match_label_keys=(PART,))
    return roles, (policy,)


def test_each_sub_job_has_a_domain_of_its_own_within_that_of_the_job() -> None:
    cluster = racks(2, 3, 2, 2)
    roles, policies = parts(cluster, 2, 2, of=2)
    cluster.job("x", roles=roles, sub_groups=policies, topology=TIER_2)
    binds = cluster.run().binds
    by_part = [{binds[f"default/x-{i}{k}"].split("-")[0] for k in range(2)} for i in range(2)]
    assert [len(racks) for racks in by_part] == [1, 1]
    assert by_part[0] != by_part[1]
    rows = {int(rack[1:]) // 2 for racks in by_part for rack in racks}
    assert len(rows) == 1


def test_a_sub_job_that_has_no_domain_fails_the_job() -> None:
    cluster = racks(2, 1)
    roles, policies = parts(cluster, 2, 2, of=2)
    cluster.job("x", roles=roles, sub_groups=policies, topology=TIER_2, minimum=4)
    ssn = cluster.open()
    execute(ssn)
    assert cluster.result(ssn).binds == {}
    assert ssn.skipped[0] == ("NotEnoughResources", "3 cpu are free, 4 are needed")


def test_it_is_told_which_sub_job() -> None:
    cluster = racks(1, 1, 1, 1)
    roles, policies = parts(cluster, 2, 1, of=2)
    cluster.job("x", roles=roles, sub_groups=policies, topology=SOFT, minimum=3)
    ssn = cluster.open()
    execute(ssn)
    assert ssn.skipped[0] == (
        "TopologyPlacementFailed",
        "sub job p-0: 4 cpu are free, no tier-1 domain has more than 1",
    )


def test_as_many_sub_jobs_as_are_needed_come_first() -> None:
    """Two of three partitions suffice, and there is room for two."""
    cluster = racks(2, 2)
    roles, policies = parts(cluster, 2, 2, 2, of=2, minimum=2)
    cluster.job("x", roles=roles, sub_groups=policies, topology=TIER_2, minimum=4)
    binds = cluster.run().binds
    assert sorted(binds) == [f"default/x-{i}{k}" for i in (0, 1) for k in (0, 1)]


def test_a_job_needs_as_many_sub_jobs_as_it_says() -> None:
    cluster = racks(2, 1)
    roles, policies = parts(cluster, 2, 2, of=2, minimum=2)
    cluster.job("x", roles=roles, sub_groups=policies, minimum=2)
    assert cluster.run().binds == {}


def test_tasks_of_no_policy_are_placed_beside() -> None:
    cluster = racks(3, 1)
    roles, policies = parts(cluster, 2, of=2)
    extra = Role("e", roles[0].cid, 2, 1, names=("x-e",))
    cluster.job("x", roles=[*roles, extra], sub_groups=policies, minimum=3)
    assert len(cluster.run().binds) == 3


def test_a_policy_takes_tasks_that_have_its_labels_and_match_its_selector() -> None:
    cluster = racks(2)
    roles, _ = parts(cluster, 1, 1)
    one = (Requirement(PART, "In", ("1",)),)
    policies = (
        SubGroupPolicy("none", match_label_keys=(PART, "volcano.sh/other")),
        SubGroupPolicy("ones", selector=one),
        SubGroupPolicy("rest", match_label_keys=(PART,)),
    )
    cluster.job("x", roles=roles, sub_groups=policies)
    job = job_of(cluster.open(), "x")
    assert sorted(job.subs) == ["ones", "rest-0"]


# --- what an eviction promised --------------------------------------------------------------------


def nominated(*rows: int) -> tuple[Cluster, dict[str, str], str]:
    cluster = racks(2, 2)
    cluster.job("a", tasks=2, topology=TIER_1)
    ssn = cluster.open()
    job = job_of(ssn, "a")
    sub = job.subs[""]
    sub.nominated_hyper_node = "r1"
    for task, row in zip(job.tasks, rows, strict=False):
        task.nominated = row
    allocate_job(ssn, job)
    return cluster, cluster.result(ssn).binds, sub.nominated_hyper_node


def test_a_promised_domain_is_taken_as_a_whole() -> None:
    _, binds, left = nominated(3, 2)
    assert binds == {"default/a-0": "r1-1", "default/a-1": "r1-0"}
    assert left == ""


@pytest.mark.parametrize("rows", [(3,), (3, 0), (3, 3)])
def test_or_not_at_all(rows: tuple[int, ...]) -> None:
    """A task without a promise, one outside the domain, and two on a node that has room for one."""
    _, binds, left = nominated(*rows)
    assert len(binds) == 2
    assert len(set(racks_of(binds, "a"))) == 1
    assert left == ""


def test_only_pipelined_in_a_domain() -> None:
    """Both racks are full, of one the tasks leave."""
    cluster = racks(2, 2)
    cluster.job("runs", tasks=2, on=["r0-0", "r0-1"])
    cluster.job("leaves", tasks=2, on=["r1-0", "r1-1"], status=Status.RELEASING)
    cluster.job("a", tasks=2, topology=TIER_1)
    ssn = cluster.open()
    assert allocate_job(ssn, job_of(ssn, "a")) is AllocateResult.PIPELINED
    assert set(cluster.result(ssn).pipelined.values()) == {"r1-0", "r1-1"}
    assert job_of(ssn, "a").allocated_hyper_node == ""


def test_the_plugin_is_known_by_its_name() -> None:
    assert NTA in {option.name for tier in racks(1).policy.tiers for option in tier}
