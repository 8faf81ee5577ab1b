"""Devices and volumes over several shards: none is given twice, and what comes later is noticed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from shared.policy.dialect import parse_policy
from tests.builders.objects import Item
from tests.laboratory.simulation.contending import HOSTNAME, Run, job

POLICY = parse_policy(
    {
        "actions": "allocate",
        "tiers": [
            {"plugins": [{"name": "gang"}, {"name": "predicates"}, {"name": "nodeorder"}]},
        ],
    }
)
DRIVER = "gpu.example.com"


def with_pod(name: str, **spec: Any) -> Item:
    job_item = job(name, 1, seconds=3)
    job_item["spec"]["tasks"][0]["template"]["spec"].update(spec)
    return job_item


def devices(nodes: int, each: int) -> list[Item]:
    api = {"apiVersion": "resource.k8s.io/v1"}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}
    spec = {"devices": {"requests": [request]}}
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return [
        {
            **api,
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [selector]},
        },
        {
            **api,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one", "namespace": "ns"},
            "spec": {"spec": spec},
        },
        *(
            {
                **api,
                "kind": "ResourceSlice",
                "metadata": {"name": f"slice{i}"},
                "spec": {
                    "driver": DRIVER,
                    "nodeName": f"n{i}",
                    "pool": {"name": f"n{i}", "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": f"g{j}"} for j in range(each)],
                },
            }
            for i in range(nodes)
        ),
    ]


@pytest.mark.parametrize("seed", range(2))
def test_no_device_is_given_twice_across_shards(seed: int) -> None:
    run = Run(nodes=3, shards=3, seed=seed, policy=POLICY, setup=devices(2, 2))
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    names = [f"j{i}" for i in range(6)]
    run.submit(*(with_pod(name, resourceClaims=claims) for name in names), at=0.2)
    run.until(2.0)
    assert Counter(row for name in names for row in run.rows(name)) == {0: 2, 1: 2}
    run.end()


def volume(name: str, node: str) -> Item:
    here = {"key": HOSTNAME, "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
        "status": {"phase": "Available"},
    }


def claim(name: str) -> Item:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "local",
        },
    }


def test_a_job_waits_for_a_volume_and_starts_when_one_comes() -> None:
    local = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    run = Run(nodes=3, shards=2, policy=POLICY, setup=[local, volume("v0", "n0"), claim("a")])
    run.submit(claim("b"), at=0.1)
    for name in "ab":
        uses = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        run.submit(with_pod(name, volumes=uses), at=0.2)
    run.submit(volume("v1", "n2"), at=1.6)
    run.until(1.5)
    assert sorted(run.rows("a") + run.rows("b")) == [0]
    run.until(2.5)
    assert sorted(run.rows("a") + run.rows("b")) == [0, 2]
    run.end()
