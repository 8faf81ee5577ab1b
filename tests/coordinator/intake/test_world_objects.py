"""Volumes, devices, quotas and the like: read, kept, taken up again, deleted; and hyper nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.intake.admission.restore import forget_objects
from coordinator.intake.admission.step import kind_of
from coordinator.intake.intake import Intake
from shared.errors import Refusal
from shared.manifests.kubernetes.inert import INERT
from shared.manifests.parse import KINDS, parse
from shared.manifests.volcano.objects import PodGroupManifest, QueueManifest
from shared.model.constraints import Requirement
from shared.model.devices import Attribute, ResourceSlice
from shared.model.model import NodeGroupAffinity
from shared.model.topology import HyperNode, Member, SubGroupPolicy, Topology
from shared.records.specs import OBJECT_KEYS, decode_object, encode_object, object_key
from tests.builders.objects import EVERY_KIND, hyper_node, node, pod, pod_group, queue
from tests.coordinator.intake.bench import Bench, same, state
from tests.coordinator.intake.world_objects import WORLD, world_object

WRITTEN = [written for written, _ in WORLD.values()]


@pytest.mark.parametrize("name", WORLD)
def test_each_is_read_and_survives_the_way_to_bytes(name: str) -> None:
    written, expected = WORLD[name]
    assert parse(written) == expected
    back = decode_object(object_key(expected), encode_object(expected))
    assert back == expected
    assert hash(back) == hash(expected)


def test_a_device_has_an_attribute_once_by_its_name_with_the_domain() -> None:
    """A name without a domain means the driver's; the API server takes both of one device."""
    both = {"gpu.example.com/model": {"string": "b"}, "model": {"string": "a"}}
    sizes = {"gpu.example.com/memory": {"value": "40Gi"}, "memory": {"value": "80Gi"}}
    device = {"name": "g0", "attributes": both, "capacity": sizes}
    spec = {"driver": "gpu.example.com", "pool": {"name": "p"}, "allNodes": True}
    item = world_object("resource.k8s.io/v1", "ResourceSlice", spec=spec | {"devices": [device]})
    read = parse(item)
    assert isinstance(read, ResourceSlice)
    assert read.devices[0].attributes == (Attribute("gpu.example.com/model", "string", "b"),)
    assert read.devices[0].capacity == (("gpu.example.com/memory", 40 * 2**30 * 1000),)


def test_every_kind_is_among_them() -> None:
    assert {type(expected) for _, expected in WORLD.values()} == set(OBJECT_KEYS)
    kinds = {(item["apiVersion"], item["kind"]) for item in [*WRITTEN, *EVERY_KIND]}
    others = {("scheduling.k8s.io/v1beta1", kind) for kind in ("Workload", "CompositePodGroup")}
    others |= {("scheduling.k8s.io/v1alpha3", "CompositePodGroup")}
    assert kinds | {("v1", kind) for kind in INERT} | others == set(KINDS)


def test_they_are_kept_taken_up_again_and_deleted(bench: Bench) -> None:
    admission = bench.take(*WRITTEN)
    assert {object_key(o) for o in admission.objects} == set(bench.intake.registry.objects)
    assert len(admission.objects) == len(WORLD)
    assert not bench.take(*WRITTEN).objects, "the same again"
    again = bench.restored()
    assert same(state(again), state(bench.intake))
    for _, expected in WORLD.values():
        admission = bench.remove(kind_of(expected), "x")
        assert admission.accepted == 1
        assert len(admission.objects_gone) == 1
    assert not bench.intake.registry.objects
    assert not bench.restored().registry.objects
    (refusal,) = bench.remove("StorageClass", "x").refused
    assert refusal.reason == "NotFound"


def test_a_change_of_one_is_told(bench: Bench) -> None:
    bench.take(*WRITTEN)
    written, _ = WORLD["volume"]
    changed = {**written, "status": {"phase": "Released"}}
    (report,) = bench.take(changed).objects
    assert report == parse(changed)


def test_a_follower_forgets_deleted_objects(bench: Bench) -> None:
    bench.take(*WRITTEN, hyper_node("h", "n"))
    other = Intake()
    other.restore(bench.kept.snapshot)
    (hyper,) = forget_objects(other.registry, list(bench.kept.snapshot.objects))
    assert hyper.name == "h"
    assert not other.registry.objects


MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    (world_object("v1", "ResourceQuota", spec={"hard": {"cpu": "x"}}), "spec.hard.cpu", "quantity"),
    (
        world_object("v1", "PersistentVolume", spec={"accessModes": ["All"]}),
        "spec.accessModes",
        "some of",
    ),
    (world_object("v1", "PersistentVolumeClaim", spec={"size": 1}), "spec.size", "spelling"),
    (world_object("storage.k8s.io/v1", "StorageClass"), "provisioner", "missing"),
    (
        world_object(
            "storage.k8s.io/v1", "StorageClass", provisioner="p", volumeBindingMode="Later"
        ),
        "volumeBindingMode",
        "WaitForFirstConsumer",
    ),
    (
        world_object(
            "resource.k8s.io/v1", "ResourceClaim", spec={"devices": {"requests": [{"name": "a"}]}}
        ),
        "spec.devices.requests[0]",
        "exactly and firstAvailable",
    ),
    (
        world_object("resource.k8s.io/v1", "ResourceSlice", spec={"driver": "d", "pool": {}}),
        "spec",
        "exactly one of nodeName",
    ),
    (
        world_object("resource.k8s.io/v1", "DeviceClass", spec={"config": [[1]]}),
        "spec.config[0]",
        "object",
    ),
    (
        world_object("resource.k8s.io/v1", "DeviceClass", spec={"selectors": [{"cel": {}}]}),
        "spec.selectors[0].cel.expression",
        "missing",
    ),
    (
        world_object(
            "nodeinfo.volcano.sh/v1alpha1", "Numatopology", spec={"cpuDetail": {"a": {"numa": 1}}}
        ),
        "spec.cpuDetail.a",
        "number of a CPU",
    ),
    (
        world_object(
            "nodeinfo.volcano.sh/v1alpha1",
            "Numatopology",
            spec={"numares": {"cpu": {"allocatable": "1-"}}},
        ),
        "spec.numares.cpu.allocatable",
        "set of numbers",
    ),
    (pod_group(networkTopology={"mode": "firm"}), "spec.networkTopology.mode", "hard, soft"),
    (
        pod_group(networkTopology={"highestTierAllowed": 1, "highestTierName": "a"}),
        "spec.networkTopology.highestTierName",
        "leave one",
    ),
    (pod_group(subGroupPolicy=[{}]), "spec.subGroupPolicy[0].name", "missing"),
    (pod_group(subGroupPolicy=[{"name": "a"}] * 2), "spec.subGroupPolicy", "same name"),
    (queue(affinity={"nodeGroupAffinity": {"needed": []}}), "spec.affinity.nodeGroupAffinity", ""),
    (queue(dequeueStrategy="lifo"), "spec.dequeueStrategy", "traverse"),
]


@pytest.mark.parametrize(("obj", "field", "remedy"), MISTAKES, ids=[m[1] for m in MISTAKES])
def test_mistakes_are_named(obj: dict[str, Any], field: str, remedy: str) -> None:
    refusal = parse(obj)
    assert isinstance(refusal, Refusal), refusal
    assert refusal.field.startswith(field)
    assert remedy in refusal.message


# --- hyper nodes, gangs and queues ------------------------------------------------------------


def of_members(*members: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    listed = [{"type": kind, "selector": selector} for kind, selector in members]
    spec = {"tier": 2, "tierName": "rack", "members": listed}
    return {**hyper_node("h"), "spec": spec}


def test_members_by_name_pattern_and_labels() -> None:
    parsed = parse(
        of_members(
            ("Node", {"exactMatch": {"name": "n"}}),
            ("HyperNode", {"regexMatch": {"pattern": "^leaf-[0-9]+$"}}),
            ("Node", {"labelMatch": {"matchLabels": {"rack": "1"}}}),
            ("HyperNode", {"exactMatch": {"name": "c"}}),
        )
    )
    assert parsed == HyperNode(
        "h",
        2,
        (
            Member(False, "exact", "n"),
            Member(True, "regex", "^leaf-[0-9]+$"),
            Member(False, "label", "", (Requirement("rack", "In", ("1",)),)),
            Member(True, "exact", "c"),
        ),
        "rack",
    )
    assert (parsed.nodes, parsed.children) == (("n",), ("c",))


@pytest.mark.parametrize(
    "pattern", ["^rack-(a|b)-[0-9]+$", r"node\(+\)+", "[)*+(]+", "(ab)+", "a{2,3}(b|c)", "(a|b)?c*"]
)
def test_patterns_as_people_write_them(pattern: str) -> None:
    parsed = parse(of_members(("Node", {"regexMatch": {"pattern": pattern}})))
    assert isinstance(parsed, HyperNode), parsed
    assert parsed.members == (Member(False, "regex", pattern),)


@pytest.mark.parametrize(
    ("selector", "remedy"),
    [
        ({"regexMatch": {"pattern": "(a+)+$"}}, "too mighty"),
        ({"regexMatch": {"pattern": "((a+))+$"}}, "too mighty"),
        ({"regexMatch": {"pattern": "(a|a)*$"}}, "too mighty"),
        ({"regexMatch": {"pattern": "(a{2,}b){9}$"}}, "too mighty"),
        ({"regexMatch": {"pattern": ".*.*.*.*.*x"}}, "too mighty"),
        ({"regexMatch": {"pattern": "(?=a)"}}, "too mighty"),
        ({"regexMatch": {"pattern": "["}}, "not a regular expression"),
        ({"regexMatch": {"pattern": ""}}, "missing"),
        ({"labelMatch": {}}, "name hyper nodes in exactMatch"),
        ({"labelMatch": {}, "exactMatch": {"name": "a"}}, "exactly one of"),
    ],
)
def test_mistakes_in_members(selector: dict[str, Any], remedy: str) -> None:
    refusal = parse(of_members(("HyperNode", selector)))
    assert isinstance(refusal, Refusal)
    assert remedy in refusal.message


def test_a_pod_groups_topology_and_sub_groups_are_parsed() -> None:
    parsed = parse(
        pod_group(
            networkTopology={"mode": "soft"},
            subGroupPolicy=[
                {"name": "a", "networkTopology": {"highestTierName": "rack"}},
                {
                    "name": "b",
                    "subGroupSize": 4,
                    "minSubGroups": 2,
                    "labelSelector": {"matchLabels": {"x": "y"}},
                    "matchLabelKeys": ["k"],
                    "networkTopology": {"mode": "hard", "highestTierAllowed": 0},
                },
            ],
        )
    )
    assert isinstance(parsed, PodGroupManifest)
    assert parsed.topology == Topology(hard=False)
    selector = (Requirement("x", "In", ("y",)),)
    assert parsed.sub_groups == (
        SubGroupPolicy("a", topology=Topology(True, None, "rack")),
        SubGroupPolicy("b", 4, 2, Topology(True, 0), selector, ("k",)),
    )


def test_a_queues_optional_fields_are_parsed() -> None:
    obj = queue(
        deserved={"cpu": "0", "memory": "1Gi"},
        dequeueStrategy="traverse",
        type="batch",
        extendClusters=[{"name": "east", "weight": 1, "capacity": {"cpu": "1"}}],
        affinity={
            "nodeGroupAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": ["a"],
                "preferredDuringSchedulingIgnoredDuringExecution": ["b"],
            },
            "nodeGroupAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["c"]},
        },
    )
    obj["metadata"]["annotations"] = {"volcano.sh/hierarchy": "root/a", "other": "x"}
    parsed = parse(obj)
    assert isinstance(parsed, QueueManifest)
    assert parsed.affinity == NodeGroupAffinity(("a",), ("b",), ("c",))
    assert parsed.annotations == (("volcano.sh/hierarchy", "root/a"),)
    assert (parsed.deserved, parsed.deserved_set) == ((("cpu", 0), ("memory", 1 << 30)), True)
    bare = parse(queue())
    assert isinstance(bare, QueueManifest)
    assert (bare.deserved, bare.deserved_set) == ((), False)


# --- what a watched cluster tells -------------------------------------------------------------


def test_a_watched_cluster_tells_of_its_pods() -> None:
    """Where they are, since when, where they are to go; times of creation and uids."""
    runs = pod("a-0", group="g", nodeName="n")
    runs["metadata"] |= {
        "uid": "u-0",
        "creationTimestamp": "1970-01-01T00:00:05Z",
        "deletionTimestamp": "1970-01-01T00:01:00Z",
    }
    condition = {"type": "PodScheduled", "status": "True"}
    runs["status"] = {
        "phase": "Running",
        "startTime": "1970-01-01T00:00:20Z",
        "conditions": [{**condition, "lastTransitionTime": "1970-01-01T00:00:10Z"}],
    }
    waits = pod("a-1", group="g")
    waits["status"] = {"phase": "Pending", "nominatedNodeName": "n"}
    group = pod_group("g")
    group["status"] = {"phase": "Inqueue"}
    bench = Bench(observe=True)
    admission = bench.take(node("n"), group, runs, waits)
    first, second = admission.placed
    assert (first.node, first.phase, first.deleting, first.deleted) == ("n", "Running", True, 60.0)
    assert (first.status.started, first.status.scheduled) == (20.0, 10.0)
    assert (second.node, second.status.nominated) == ("", "n")
    admitted_job = bench.job("g")
    assert admitted_job.phase == "Inqueue"
    (role,) = admitted_job.roles
    assert (role.names, role.uids, role.created) == (("a-1", "a-0")[::-1], ("u-0", ""), (5.0, 1.0))
    served = Bench()
    served.take(group)
    assert served.job("g").phase == "", "a service keeps the phase itself"


# --- the oracle -------------------------------------------------------------------------------

NAMES = {
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "podGroups": ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    "queues": ("scheduling.volcano.sh/v1beta1", "Queue"),
    "hyperNodes": ("topology.volcano.sh/v1alpha1", "HyperNode"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "resourceQuotas": ("v1", "ResourceQuota"),
    "pvs": ("v1", "PersistentVolume"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "resourceClaims": ("resource.k8s.io/v1", "ResourceClaim"),
    "resourceSlices": ("resource.k8s.io/v1", "ResourceSlice"),
    "deviceClasses": ("resource.k8s.io/v1", "DeviceClass"),
}


def test_everything_in_the_oracle_is_taken(shared_reference: Path) -> None:
    """Every object of every scenario is admitted by an intake that watches."""
    scenarios = 0
    for path in sorted((shared_reference / "conformance" / "volcano").glob("*.json")):
        for scenario in json.loads(path.read_text()):
            items = [
                {"apiVersion": NAMES[kind][0], "kind": NAMES[kind][1], **obj}
                for kind, objects in scenario["cluster"].items()
                for obj in objects
            ]
            admission = Intake(observe=True).admit(items, 0.0)
            assert [str(refusal) for refusal in admission.refused] == [], scenario["id"]
            scenarios += 1
    assert scenarios >= 118
