"""A job waits for what its own pods lack, and not for what an equal one in one field lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders import objects
from tests.builders.objects import hyper_node, kube_object
from tests.laboratory.replay.build import FORMS, decided, gang, node

Json = dict[str, Any]
Change = Callable[[list[Json]], object]
NUMA = "volcano.sh/numa-topology-policy"
HOST = "kubernetes.io/hostname"
ZONE = "volcano.sh/revocable-zone"
POLICY: Json = {
    "actions": "allocate",
    "tiers": [
        {
            "plugins": [
                {"name": "gang"},
                {"name": "predicates"},
                {"name": "network-topology-aware"},
                {"name": "numa-aware", "arguments": {"weight": 10}},
                {"name": "tdm", "arguments": {"tdm.revocable-zone.z": "00:00-23:59"}},
            ]
        }
    ],
}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"app": "loud"}},
                "topologyKey": HOST,
                "namespaces": ["ns"],
            }
        ]
    }
}


def marked(key: str, value: str) -> Change:
    """An annotation of all pods."""
    return lambda items: [
        item["metadata"].setdefault("annotations", {}).update({key: value}) for item in items[1:]
    ]


def labelled(key: str, value: str) -> Change:
    return lambda items: [
        item["metadata"].setdefault("labels", {}).update({key: value}) for item in items[1:]
    ]


def confined(tier: int) -> Change:
    topology = {"mode": "hard", "highestTierAllowed": tier}
    return lambda items: items[0]["spec"].update(networkTopology=topology)


def in_namespace(name: str) -> Change:
    return lambda items: [item["metadata"].update(namespace=name) for item in items]


def unchanged(items: list[Json]) -> None:
    del items


def with_claim(items: list[Json]) -> list[Json]:
    for item in items[1:]:
        claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        item["spec"]["volumes"] = [claim]
    return items


NUMA_NODE = kube_object(
    "nodeinfo.volcano.sh/v1alpha1",
    "Numatopology",
    "n1",
    spec={
        "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"},
        "numares": {"cpu": {"allocatable": "0-3", "capacity": 4}},
        "cpuDetail": {str(i): {"numa": i // 2, "socket": 0, "core": i} for i in range(4)},
    },
)
VOLUME = [
    kube_object(
        "v1",
        "PersistentVolume",
        "pv",
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "ns", "name": "data"},
            "hostPath": {"path": "/data"},
        },
    )
    | {"status": {"phase": "Bound"}},
    kube_object(
        "v1",
        "PersistentVolumeClaim",
        "data",
        namespace="ns",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "volumeName": "pv",
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    )
    | {"status": {"phase": "Bound"}},
]
RACKS = [
    hyper_node("h1", "n1"),
    hyper_node("h2", "n2"),
    hyper_node("top", "h1", "h2", tier=2, kind="HyperNode"),
]
QUIET = gang("quiet", pods=1, on="n1")
QUIET[1]["spec"]["affinity"] = APART

FIELDS: dict[str, tuple[list[Json], Change, Change]] = {
    "NUMA policy": (
        [node("n1"), NUMA_NODE],
        marked(NUMA, "single-numa-node"),
        unchanged,
    ),
    "revocable zone": ([objects.node("n1", labels={ZONE: "z"})], unchanged, marked(ZONE, "*")),
    "labels that others keep away from": (
        [objects.node("n1", labels={HOST: "n1"}), *QUIET],
        labelled("app", "loud"),
        labelled("app", "soft"),
    ),
    "topology": ([node("n1"), node("n2"), *RACKS], confined(1), confined(2)),
    "namespace of a claim": ([node("n1"), *VOLUME], in_namespace("other"), unchanged),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("field", FIELDS)
def test_a_job_is_not_held_back_by_one_that_differs_from_it(field: str, form: str) -> None:
    cluster, hopeless, fitting = FIELDS[field]
    pods = 2 if field == "topology" else 1
    jobs = []
    for name, change in (("a", hopeless), ("b", fitting)):
        items = gang(name, pods=pods, cpu=3)
        if field == "namespace of a claim":
            items = with_claim(items)
        change(items)
        jobs += items
    result = decided(form, *cluster, *jobs, under=POLICY)
    assert {name.rpartition("/")[2][0] for name in result.binds} == {"b"}, result
