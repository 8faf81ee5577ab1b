"""The same cluster with several shards: coordinator, workers and ledger on virtual time."""

from __future__ import annotations

import pytest

from coordinator.order import turn_contexts
from laboratory.replay.outcome import ReplayResult
from laboratory.replay.sharded import ShardedRun, deal, run_sharded
from shard_worker.view.mode import Mode
from shared.model.node_devices import ASSIGNED, REGISTER
from tests.builders.objects import hyper_node, priority_class, queue
from tests.laboratory.replay.build import (
    Json,
    case,
    foreign,
    gang,
    group,
    node,
    pod,
    policy,
    sessions,
)

UNDER = policy("allocate", "priority", "gang", "predicates", "proportion", "nodeorder")
FOUR = [node(f"n{i}") for i in range(4)]


def sharded(*items: Json, mode: Mode = Mode.NONE, seed: int = 0, shards: int = 2) -> ReplayResult:
    replay_case = case(*items, under=UNDER)
    expected = ShardedRun(shards=shards, mode=mode, seed=seed)
    return run_sharded(replay_case.policy, replay_case.recorded, expected, name=replay_case.id)


def test_shards_start_as_much_as_one_session() -> None:
    items = [*FOUR, *(o for k in range(6) for o in gang(f"g{k}", pods=3))]
    [alone] = sessions(case(*items, under=policy("allocate", "gang", "predicates")))
    together = sharded(*items)
    assert len(together.binds) == len(alone.binds) == 15
    reports = [group["phase"] for group in together.pod_groups.values()]
    assert sorted(reports) == ["Inqueue", *["Running"] * 5]


def test_the_seed_decides_and_nothing_else() -> None:
    items = [*FOUR, *(o for k in range(5) for o in gang(f"g{k}", pods=3))]
    results = [sharded(*items, seed=seed, mode=Mode.SOFT) for seed in (1, 1, 2, 3)]
    assert results[0] == results[1]
    assert len({tuple(sorted(result.binds.items())) for result in results}) > 1


def test_running_and_foreign_pods_keep_their_nodes() -> None:
    runs = gang("runs", pods=3, on="n0")
    for obj in runs[1:]:
        obj["metadata"]["annotations"]["quadrant.dev/duration"] = "0.01"
    others = foreign("proxy", on="n1", cpu=3)
    result = sharded(*FOUR[:2], *runs, others, *gang("wide", pods=3), *gang("fits", pods=2))
    assert result.tasks["ns/runs"] == {"Running": 3}
    assert set(result.binds) == {"ns/fits-0", "ns/fits-1"}
    assert set(result.binds.values()) == {"n0", "n1"}


@pytest.mark.parametrize(("mode", "bound"), [(Mode.SOFT, 12), (Mode.HARD, 0)])
def test_a_gang_wider_than_a_shard_starts_unless_borders_are_walls(mode: Mode, bound: int) -> None:
    assert len(sharded(*FOUR, *gang("wide", pods=12), mode=mode).binds) == bound


@pytest.mark.parametrize(("shards", "mode"), [(1, Mode.NONE), (2, Mode.NONE), (3, Mode.SOFT)])
def test_the_surplus_of_a_soft_gang_stays_in_its_rack(shards: int, mode: Mode) -> None:
    items = [hyper_node(f"r{k}", f"r{k}-0", f"r{k}-1") for k in range(4)]
    items += [node(f"r{k}-{i}") for k in range(4) for i in range(2)]
    items += gang("a", pods=7, minMember=3, networkTopology={"mode": "soft"})
    under = policy("allocate", "gang", "predicates", "nodeorder", "network-topology-aware")
    read = case(*items, under=under)
    run = ShardedRun(shards=shards, mode=mode, seed=0)
    result = run_sharded(read.policy, read.recorded, run, name=read.id)
    assert len(result.binds) == 7
    assert len({node_name.partition("-")[0] for node_name in result.binds.values()}) == 1


@pytest.mark.parametrize("shards", [1, 2])
def test_victims_are_no_fewer_than_there_are(shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gang from a queue without its share gets it from jobs of one pod each, of whatever number:
    what a turn may bring along says nothing about who may be evicted."""
    monkeypatch.setattr(turn_contexts, "TASKS", 20)
    items = [queue("rich"), queue("poor"), *(node(f"n{i}") for i in range(10))]
    for i in range(40):
        items += gang(f"small{i}", pods=1, on=f"n{i % 10}", queue="rich", minMember=0)
    items += gang("whole", pods=5, cpu=4, queue="poor")
    under = policy("allocate, reclaim", "priority", "gang", "predicates", "proportion")
    replay_case = case(*items, under=under)
    expected = ShardedRun(shards=shards, mode=Mode.SOFT, seed=0)
    result = run_sharded(replay_case.policy, replay_case.recorded, expected, name=replay_case.id)
    assert len(result.evicted) == 20
    assert len(result.binds) == 5


@pytest.mark.parametrize("shards", [1, 3])
def test_devices_that_are_claimed_count_against_their_queue(shards: int) -> None:
    device = {"name": "one", "exactly": {"deviceClassName": "gpu", "count": 1}}
    items = [*FOUR, queue("few", capability={"deviceclass/gpu": "2"})]
    for i in range(5):
        items.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": f"claim{i}", "namespace": "ns"},
                "spec": {"devices": {"requests": [device]}},
            }
        )
        members = gang(f"g{i}", pods=1, queue="few")
        members[1]["spec"]["resourceClaims"] = [
            {"name": "gpu", "resourceClaimName": f"claim{i}"},
        ]
        items += members
    counts = {"capacity.DynamicResourceAllocationEnable": True}
    plugins = [{"name": "gang"}, {"name": "capacity", "arguments": counts}]
    replay_case = case(*items, under={"actions": "allocate", "tiers": [{"plugins": plugins}]})
    expected = ShardedRun(shards=shards, mode=Mode.SOFT, seed=0)
    result = run_sharded(replay_case.policy, replay_case.recorded, expected, name=replay_case.id)
    assert len(result.binds) == 2


def test_without_allocate_nobody_gets_idle_room() -> None:
    replay_case = case(
        *FOUR, *gang("waits", pods=1), under=policy("backfill", "gang", "predicates")
    )
    expected = ShardedRun(shards=2, mode=Mode.NONE, seed=0)
    result = run_sharded(replay_case.policy, replay_case.recorded, expected, name=replay_case.id)
    assert result.binds == {}
    assert result.pod_groups["ns/waits"]["phase"] == "Inqueue"


def test_without_gang_members_start_one_by_one() -> None:
    """Under a policy that keeps no gangs the ledger keeps none either."""
    replay_case = case(*FOUR[:1], *gang("wide", pods=6), under=policy("allocate", "predicates"))
    expected = ShardedRun(shards=2, mode=Mode.NONE, seed=0)
    result = run_sharded(replay_case.policy, replay_case.recorded, expected, name=replay_case.id)
    assert len(result.binds) == 4
    assert sharded(*FOUR[:1], *gang("wide", pods=6)).binds == {}


def test_a_member_that_fits_nowhere_keeps_no_other_of_its_role_waiting() -> None:
    """A role of several classes has to reach its minimum once, not once a class."""
    least: Json = {"minTaskMember": {"driver": 1, "worker": 1}}
    items = [*FOUR[:1], group("mixed", minimum=2, **least)]
    for name, role, cpu in (("d", "driver", 1), ("small", "worker", 1), ("large", "worker", 9)):
        member = pod(name, group="mixed", cpu=cpu)
        member["metadata"]["labels"] = {"volcano.sh/task-spec": role}
        items.append(member)
    assert set(sharded(*items).binds) == {"ns/d", "ns/small"}


def test_room_is_made_and_taken() -> None:
    """Promises of one session are kept: the victim leaves, and its place is bound."""
    items = [
        *FOUR[:2],
        priority_class("top", 100),
        *gang("low", pods=4, on="n0", minMember=1),
        *gang("more", pods=4, on="n1", minMember=1),
        *gang("top", pods=1, cpu=2, priorityClassName="top"),
    ]
    under = policy("allocate, preempt", "priority", "gang", "conformance", "predicates")
    replay_case = case(*items, under=under)
    expected = ShardedRun(shards=2, mode=Mode.SOFT, seed=0)
    result = run_sharded(replay_case.policy, replay_case.recorded, expected, name=replay_case.id)
    assert set(result.binds) == {"ns/top-0"}
    assert len(result.evicted) == 2
    assert result.pod_groups["ns/top"] == {"phase": "Running", "reasons": []}
    assert all(reason.startswith("preempt") for _, reason in result.victims.values())


def test_pods_on_nodes_that_are_not_recorded_run_on() -> None:
    items = [*FOUR[:2], *gang("there", pods=7, on="elsewhere"), *gang("new", pods=2)]
    result = sharded(*items)
    assert set(result.binds) == {"ns/new-0", "ns/new-1"}
    assert result.tasks["ns/there"] == {"Running": 7}
    assert result.pod_groups["ns/there"]["phase"] == "Running"


def test_a_podgroup_without_pods_is_admitted_and_counts() -> None:
    """Its pods are made after its admission; until then nobody gets what it needs at least."""
    least: Json = {"minResources": {"cpu": "3"}}
    groups = [group(name, phase="Pending", queue="small", **least) for name in ("first", "second")]
    groups += [group("part", minimum=2, phase="Pending"), pod("part-0", group="part")]
    under = policy("enqueue, allocate", "gang", "predicates", "capacity")
    small = queue("small", capability={"cpu": "4"})
    replay_case = case(*FOUR, small, *groups, under=under)
    expected = ShardedRun(shards=2, mode=Mode.NONE, seed=0)
    result = run_sharded(replay_case.policy, replay_case.recorded, expected, name=replay_case.id)
    phases = {name: report["phase"] for name, report in result.pod_groups.items()}
    assert phases.pop("ns/part") == "Inqueue"
    assert sorted(phases.values()) == ["Inqueue", "Pending"]


def test_dealing_moves_nodes_with_all_that_is_on_them() -> None:
    replay_case = case(*FOUR, pod("a", on="n1"), pod("b", on="n3"), under=UNDER).recorded
    dealt = deal(replay_case, 7)
    assert [node.row for node in dealt.nodes] == [0, 1, 2, 3]
    assert [node.name for node in dealt.nodes] != [node.name for node in replay_case.nodes]
    names = {node.row: node.name for node in dealt.nodes}
    assert [names[placed_job.rows[0]] for placed_job in dealt.placed_jobs] == ["n1", "n3"]


def sharing(name: str, *, on: str = "", has: str = "") -> list[Json]:
    """A gang of one pod that has more than half of a GPU, or asks for it. ``has``: which one."""
    gang_items = gang(name, pods=1, on=on)
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "600"}
    gang_items[1]["spec"]["containers"][0]["resources"] = {"requests": limits, "limits": limits}
    if has:
        gang_items[1]["metadata"]["annotations"][ASSIGNED] = f"{has},V100,600,0:;"
    return gang_items


@pytest.mark.parametrize("shards", [1, 3])
def test_a_device_belongs_to_its_holder(shards: int) -> None:
    """Two GPUs, of which one is taken: one more pod fits, though the node's sums have room for two;
    in one session as with any number of shards."""
    machine = node("n0")
    machine["metadata"]["annotations"] = {REGISTER: "a,10,1000,V100,true:b,10,1000,V100,true:"}
    machine["status"]["allocatable"] |= {
        "volcano.sh/vgpu-number": "20",
        "volcano.sh/vgpu-memory": "2000",
    }
    under = policy("allocate", "gang", "predicates", "deviceshare")
    under["tiers"][0]["plugins"][-1]["arguments"] = {"deviceshare.VGPUEnable": True}
    items = [machine, *sharing("has", on="n0", has="b"), *sharing("one"), *sharing("two")]
    replay_case = case(*items, under=under)
    [alone] = sessions(replay_case)
    expected = ShardedRun(shards=shards, mode=Mode.NONE, seed=1)
    together = run_sharded(replay_case.policy, replay_case.recorded, expected, name=replay_case.id)
    assert len(alone.binds) == len(together.binds) == 1
