"""Volumes: where claims can be had, and that nothing is given twice."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.framework.extension_points import LIVE_PREDICATE
from shard_worker.framework.session import Session
from shard_worker.framework.statement import WorldStatement
from shard_worker.harness import Cluster
from shard_worker.kube_scheduler.filters import volumes
from shard_worker.kube_scheduler.filters.volume_limits import LIMIT, ZONE
from shard_worker.kube_scheduler.filters.volumes import (
    AFFINITY,
    IMMEDIATE,
    NO_VOLUME,
    NOTHING_FREE,
)
from shard_worker.placement.candidates import feasible
from shared.model.constraints import Constraints, Requirement, Terms
from shared.model.storage import CSINode, StorageClass, Volume, VolumeClaim
from tests.examples import examples
from tests.shard_worker.neighbourhood import (
    HOST,
    open_to,
    place_all,
    reasons,
    task_of,
    where,
    zones,
)

GI = 2**30
TOPOLOGY = "topology.kubernetes.io/zone"


def on(*nodes: str) -> Terms:
    return ((Requirement(HOST, "In", nodes),),)


def uses(*names: str) -> dict[str, object]:
    return {"constraints": Constraints(volumes=tuple(sorted(names)))}


def storage(
    cluster: Cluster,
    *objects: Volume | VolumeClaim | StorageClass | CSINode,
) -> Cluster:
    cluster_objects = cluster.world.objects
    for value in objects:
        match value:
            case Volume():
                cluster_objects.volumes[value.name] = value
            case VolumeClaim():
                cluster_objects.volume_claims[f"{value.namespace}/{value.name}"] = value
            case StorageClass():
                cluster_objects.storage_classes[value.name] = value
            case CSINode():
                cluster_objects.csi_nodes[value.name] = value
    return cluster


def claim(name: str, **fields: Any) -> VolumeClaim:
    options = {"request": GI, "storage_class": "slow", "access_modes": ("ReadWriteOnce",), **fields}
    return VolumeClaim("default", name, **options)


def volume(name: str, **fields: Any) -> Volume:
    options = {"capacity": 2 * GI, "storage_class": "slow", "access_modes": ("ReadWriteOnce",)}
    return Volume(name, **{**options, "phase": "Available", **fields})


STATIC = StorageClass("slow", "kubernetes.io/no-provisioner", waits=True)
MADE = StorageClass("slow", "disks.example.com", waits=True)


def three(*objects: Any, asks: tuple[str, ...] = ("data",), tasks: int = 1) -> Session:
    """Three nodes and a job whose tasks use these claims."""
    cluster = storage(zones("a", "b", "c"), *objects)
    cluster.job("new", tasks=tasks, rules=uses(*asks))
    return cluster.open()


class TestBeforeAnyNode:
    def test_a_missing_claim(self) -> None:
        session = three()
        why = session.pre_predicate(task_of(session, "new-0"))
        assert why == 'persistentvolumeclaim "data" not found'

    def test_an_unbound_claim_of_an_immediate_class(self) -> None:
        session = three(claim("data"), StorageClass("slow", "disks.example.com"))
        assert session.pre_predicate(task_of(session, "new-0")) == IMMEDIATE

    def test_a_claim_that_names_its_volume_is_waited_for(self) -> None:
        session = three(claim("data", volume="v"), volume("v"), MADE)
        assert session.pre_predicate(task_of(session, "new-0")) == IMMEDIATE

    def test_a_lost_claim(self) -> None:
        session = three(claim("data", volume="v", phase="Lost"))
        assert "non-existent" in str(session.pre_predicate(task_of(session, "new-0")))

    def test_without_a_class_the_default_one_counts(self) -> None:
        late = StorageClass("std", "disks.example.com", waits=True, default=True)
        assert open_to(three(claim("data", storage_class=None), late), "new-0") != []
        assert open_to(three(claim("data", storage_class=""), late), "new-0") == []


class TestBound:
    def test_the_task_stays_where_the_volume_is(self) -> None:
        session = three(
            claim("data", volume="v", bound=True),
            volume("v", claim="default/data", affinity=on("n1")),
        )
        assert open_to(session, "new-0") == ["n1"]
        assert reasons(session, "new-0") == {AFFINITY: 2}

    def test_a_volume_that_is_gone(self) -> None:
        session = three(claim("data", volume="v", bound=True))
        assert reasons(session, "new-0") == {NO_VOLUME: 3}

    def test_the_zone_of_a_volume(self) -> None:
        cluster = storage(
            Cluster("predicates"),
            claim("data", volume="v", bound=True),
            volume("v", labels=((TOPOLOGY, "a__b"),)),
        )
        for name, zone in (("n0", "a"), ("n1", "b"), ("n2", "c")):
            cluster.node(name, labels={TOPOLOGY: zone})
        cluster.node("n3")
        cluster.job("new", rules=uses("data"))
        session = cluster.open()
        assert open_to(session, "new-0") == ["n0", "n1", "n3"]
        assert reasons(session, "new-0") == {ZONE: 1}


class TestWaiting:
    def test_a_free_volume_within_reach(self) -> None:
        session = three(claim("data"), STATIC, volume("v", affinity=on("n0", "n2")))
        assert open_to(session, "new-0") == ["n0", "n2"]
        assert reasons(session, "new-0") == {NOTHING_FREE: 1}

    def test_a_volume_that_does_not_match_the_claim_is_not_used(self) -> None:
        for fields in (
            {"capacity": GI // 2},
            {"storage_class": "fast"},
            {"access_modes": ("ReadOnlyMany",)},
            {"mode": "Block"},
            {"phase": "Released"},
            {"claim": "default/other"},
        ):
            assert open_to(three(claim("data"), STATIC, volume("v", **fields)), "new-0") == []

    def test_a_volume_kept_for_the_claim_is_taken_whatever_its_class(self) -> None:
        bound_volume = volume("v", claim="default/data", storage_class="fast", affinity=on("n1"))
        assert open_to(three(claim("data"), STATIC, bound_volume), "new-0") == ["n1"]

    def test_labels_of_volumes_are_selected(self) -> None:
        wants = (Requirement("speed", "In", ("high",)),)
        slow, fast = volume("s"), volume("f", labels=(("speed", "high"),), affinity=on("n2"))
        assert open_to(three(claim("data", selector=wants), STATIC, slow, fast), "new-0") == ["n2"]

    def test_one_is_made_where_its_class_allows(self) -> None:
        places = ((Requirement("zone", "In", ("b", "c")),),)
        some = StorageClass("slow", "disks.example.com", waits=True, topologies=places)
        assert open_to(three(claim("data"), some), "new-0") == ["n1", "n2"]
        assert open_to(three(claim("data"), MADE), "new-0") == ["n0", "n1", "n2"]
        assert open_to(three(claim("data"), STATIC), "new-0") == []

    def test_a_node_that_was_chosen_before_is_kept(self) -> None:
        session = three(claim("data", node="n1"), MADE, volume("v"))
        assert open_to(session, "new-0") == ["n1"]

    def test_two_claims_need_two_volumes(self) -> None:
        shared, more = volume("v"), volume("w", affinity=on("n1"))
        session = three(claim("data"), claim("logs"), STATIC, shared, more, asks=("data", "logs"))
        assert open_to(session, "new-0") == ["n1"]

    def test_a_small_claim_takes_the_small_volume(self) -> None:
        session = three(
            claim("data", request=GI),
            claim("logs", request=5 * GI),
            STATIC,
            volume("small", capacity=2 * GI),
            volume("large", capacity=9 * GI),
            asks=("data", "logs"),
        )
        WorldStatement(session).allocate(task_of(session, "new-0"), 0)
        assert open_to(session, "new-0") == ["n0", "n1", "n2"]


class TestSessions:
    def objects(self) -> list[Any]:
        return [claim("c0"), claim("c1"), STATIC, volume("v", affinity=on("n0", "n1"))]

    def test_no_volume_is_given_twice_and_undoing_frees_it(self) -> None:
        cluster = storage(zones("a", "b"), *self.objects())
        cluster.job("one", rules=uses("c0"))
        cluster.job("two", rules=uses("c1"))
        session = cluster.open()
        statement = WorldStatement(session)
        statement.allocate(task_of(session, "one-0"), 0)
        assert open_to(session, "two-0") == []
        statement.rollback()
        assert open_to(session, "two-0") == ["n0", "n1"]

    def test_a_claim_that_two_share_is_where_the_first_put_it(self) -> None:
        local = StorageClass("slow", "disks.example.com", waits=True)
        cluster = storage(zones("a", "b"), claim("c0"), local)
        cluster.job("pair", tasks=3, rules=uses("c0"))
        session = cluster.open()
        statement = WorldStatement(session)
        statement.allocate(task_of(session, "pair-0"), 1)
        checkpoint = statement.checkpoint
        statement.allocate(task_of(session, "pair-1"), 1)
        statement.rollback(checkpoint)
        assert open_to(session, "pair-2") == ["n1"]
        statement.rollback()
        assert open_to(session, "pair-2") == ["n0", "n1"]

    def test_volumes_of_running_tasks_are_reserved_first(self) -> None:
        cluster = storage(zones("a", "b"), *self.objects())
        cluster.job("one", on=["n1"], rules=uses("c0"))
        cluster.job("two", rules=uses("c1"))
        assert open_to(cluster.open(), "two-0") == []

    def test_it_can_be_switched_off(self) -> None:
        cluster = zones("a", predicate_VolumeBindingEnable=False)
        cluster.job("new", rules=uses("none"))
        assert open_to(cluster.open(), "new-0") == ["n0"]


class TestLimits:
    def cluster(self, limit: int) -> Cluster:
        cluster = zones("a", "b")
        objects: list[Volume | VolumeClaim | CSINode] = [CSINode("n0", (("disks", limit),))]
        for i in range(3):
            objects += [
                claim(f"c{i}", volume=f"v{i}", bound=True),
                volume(f"v{i}", driver="disks", handle=f"h{i}"),
            ]
        storage(cluster, *objects)
        cluster.job("old", tasks=2, on=["n0", "n0"], rules=uses("c0"))
        cluster.job("same", rules=uses("c0"))
        cluster.job("new", rules=uses("c1", "c2"))
        return cluster

    def test_a_node_takes_so_many_of_a_driver(self) -> None:
        session = self.cluster(2).open()
        assert open_to(session, "new-0") == ["n1"]
        assert reasons(session, "new-0") == {LIMIT: 1}
        assert open_to(session, "same-0") == ["n0", "n1"]
        assert open_to(self.cluster(3).open(), "new-0") == ["n0", "n1"]

    def test_evictions_make_room(self) -> None:
        session = self.cluster(2).open()
        statement = WorldStatement(session)
        statement.evict(task_of(session, "old-0"), "test")
        assert open_to(session, "new-0") == ["n1"]
        statement.evict(task_of(session, "old-1"), "test")
        assert open_to(session, "new-0") == ["n0", "n1"]
        statement.rollback()
        assert open_to(session, "new-0") == ["n1"]
        statement.allocate(task_of(session, "same-0"), 1)
        assert open_to(session, "new-0") == ["n1"]


reach = st.sets(st.sampled_from(["n0", "n1", "n2"]), min_size=1)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(reach, st.integers(1, 3)), max_size=4),
    st.lists(st.integers(1, 3), max_size=4),
)
def test_every_placed_task_has_a_volume_of_its_own_within_reach(
    offered: list[tuple[set[str], int]], wanted: list[int]
) -> None:
    objects = [
        volume(f"v{i}", capacity=size * GI, affinity=on(*sorted(nodes)))
        for i, (nodes, size) in enumerate(offered)
    ]
    cluster = storage(zones("a", "b", "c"), STATIC, *objects)
    for i, size in enumerate(wanted):
        storage(cluster, claim(f"c{i}", request=size * GI))
        cluster.job(f"j{i}", rules=uses(f"c{i}"))
    session = cluster.open()
    place_all(session)
    binding = _binding(session)
    choices = [c for task in session.world.tasks() for c in binding.choices(task)]
    assert len({choice.volume for choice in choices}) == len(choices) == len(where(session))
    for choice in choices:
        nodes, size = offered[int(str(choice.volume)[1:])]
        assert f"n{choice.row}" in nodes
        assert wanted[int(choice.claim[-1])] <= size


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(reach, st.integers(1, 3)), max_size=5), st.data())
def test_several_claims_at_once_are_judged_as_one_node_at_a_time(
    offered: list[tuple[set[str], int]], data: st.DataObject
) -> None:
    objects = [
        volume(f"v{i}", capacity=size * GI, affinity=on(*sorted(nodes)))
        for i, (nodes, size) in enumerate(offered)
    ]
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    names = [f"c{i}" for i in range(len(sizes))]
    claims = [claim(n, request=size * GI) for n, size in zip(names, sizes, strict=True)]
    session = three(STATIC, *objects, *claims, asks=tuple(names))
    task = task_of(session, "new-0")
    mask = feasible(session, task).mask
    for row in range(3):
        assert bool(mask[row]) is by_hand(sizes, offered, f"n{row}")


def by_hand(sizes: list[int], offered: list[tuple[set[str], int]], node: str) -> bool:
    """The smallest claim takes the smallest volume that fits, and so on."""
    left = sorted(size for nodes, size in offered if node in nodes)
    for size in sorted(sizes):
        fitting = [one for one in left if one >= size]
        if not fitting:
            return False
        left.remove(fitting[0])
    return True


def _binding(session: Session) -> volumes.VolumeBinding:
    results = [
        plugin
        for hook in session.rules(LIVE_PREDICATE)
        if isinstance(plugin := getattr(hook.scalar, "__self__", None), volumes.VolumeBinding)
    ]
    binding: volumes.VolumeBinding = results[0]
    return binding
