"""A seeded run in which jobs ask for everything that the checker looks at, and its history.

Eight nodes in two zones: n7 is tainted, n6 has two GPUs to share, n5 has devices for claims, n1
reaches a volume and takes one of its driver. The policy has one tier that names victims, so that
nobody is evicted against it.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from laboratory.scenarios.workload import node
from shared.model.node_devices import REGISTER
from shared.policy.dialect import parse_policy
from tests.builders.objects import Item, priority_class, queue
from tests.laboratory.simulation.contending import HOSTNAME, Run, job

VGPU_NUMBER, VGPU_MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"
ZONE = "topology.kubernetes.io/zone"
NODES = 8
SECONDS = 3.0
RICH = parse_policy(
    {
        "actions": "enqueue, allocate, backfill, preempt, reclaim",
        "tiers": [
            {
                "plugins": [
                    {"name": n} for n in ("priority", "gang", "conformance", "pdb", "capacity")
                ]
            },
            {
                "plugins": [
                    *({"name": n} for n in ("predicates", "nodeorder")),
                    {"name": "deviceshare", "arguments": {"deviceshare.VGPUEnable": True}},
                ]
            },
        ],
    }
)


def placed(name: str, replicas: int = 1, **spec: Any) -> Item:
    """A job whose pods ask for more than amounts; one second after the first wave."""
    labels = spec.pop("labels", None)
    job_item = job(name, replicas, seconds=SECONDS, labels=labels, minimum=1)
    job_item["spec"]["tasks"][0]["template"]["spec"].update(spec)
    return job_item


def nodes() -> list[Item]:
    items = []
    for number in range(NODES):
        item: Item = node(number)
        zone = f"z{number % 2}"
        item["metadata"]["labels"] = {HOSTNAME: f"n{number}", ZONE: zone, "odd": str(number % 2)}
        items.append(item)
    taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
    items[7]["spec"] = {"taints": [taint]}
    items[6]["metadata"]["annotations"] = {REGISTER: "g0,10,1000,V100,true:g1,10,1000,V100,true:"}
    items[6]["status"]["allocatable"] |= {VGPU_NUMBER: "20", VGPU_MEMORY: "2000"}
    return items


def volumes() -> list[Item]:
    meta: Item = {"namespace": "ns"}
    here = {"key": HOSTNAME, "operator": "In", "values": ["n1"]}
    size = {"storage": "1Gi"}
    return (
        [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"v{i}"},
                "spec": {
                    "capacity": size,
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "local",
                    "csi": {"driver": "disk.example.com", "volumeHandle": f"h{i}"},
                    "claimRef": {"namespace": "ns", "name": f"data{i}"},
                    "nodeAffinity": {
                        "required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
                    },
                },
                "status": {"phase": "Bound"},
            }
            for i in range(2)
        ]
        + [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    **meta,
                    "name": f"data{i}",
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": size},
                    "storageClassName": "local",
                    "volumeName": f"v{i}",
                },
                "status": {"phase": "Bound"},
            }
            for i in range(2)
        ]
        + [
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": "n1"},
                "spec": {
                    "drivers": [
                        {"name": "disk.example.com", "nodeID": "n1", "allocatable": {"count": 1}}
                    ]
                },
            }
        ]
    )


def devices() -> list[Item]:
    api = {"apiVersion": "resource.k8s.io/v1"}
    ask = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}
    return [
        {**api, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        {
            **api,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one", "namespace": "ns"},
            "spec": {"spec": {"devices": {"requests": [ask]}}},
        },
        {
            **api,
            "kind": "ResourceSlice",
            "metadata": {"name": "s5"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "n5",
                "pool": {"name": "n5", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "g0"}],
            },
        },
    ]


def budget(app: str, minimum: int) -> Item:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "ns"},
        "spec": {"minAvailable": minimum, "selector": {"matchLabels": {"app": app}}},
    }


def first_wave() -> list[Item]:
    apart = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}
    near = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    even = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "even"}},
    }
    tolerate = {"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}
    claim = {"name": "gpu", "resourceClaimTemplateName": "one"}
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "data0"}}
    ports = [{"containerPort": 80, "hostPort": 8080}]
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}, "ports": ports}
    return [
        placed("tolerant", tolerations=[tolerate], nodeSelector={HOSTNAME: "n7"}),
        placed("odd", 2, nodeSelector={"odd": "1"}),
        placed("web", 2, labels={"app": "web"}, affinity={"podAntiAffinity": {required: [apart]}}),
        placed("even", 4, labels={"app": "even"}, topologySpreadConstraints=[even]),
        placed("disk", volumes=[data]),
        placed("gpu", resourceClaims=[claim]),
        placed("door", 2, containers=[container]),
        placed("beside", affinity={"podAffinity": {required: [near]}}),
    ]


def sharing() -> Item:
    """Two pods that each have more than half of a GPU, of the node with two."""
    part = {VGPU_NUMBER: "1", VGPU_MEMORY: "600"}
    return placed("share", 2, containers=[{"name": "c", "resources": {"limits": part}}])


def second_wave() -> list[Item]:
    """Jobs that fill the rest, to be evicted: gangs that can spare members, and one that cannot."""
    return [
        job("steady", 4, seconds=SECONDS, priority="low", minimum=2, labels={"app": "steady"}),
        job("spare", 4, seconds=SECONDS, priority="low", minimum=2),
        job("firm", 3, seconds=SECONDS, priority="low", minimum=3),
        job("other", 4, seconds=SECONDS, priority="low", minimum=1, queue="blue"),
    ]


def rich_run(*, seed: int = 1) -> Run:
    ranks = [priority_class("low", 1), priority_class("mid", 5), priority_class("high", 10)]
    queues = [queue("red", deserved={"cpu": "16"}), queue("blue", deserved={"cpu": "8"})]
    setup = [
        *nodes(),
        *ranks,
        *queues,
        *volumes(),
        *devices(),
        budget("steady", 2),
        budget("kept", 1),
    ]
    run = Run(nodes=0, policy=RICH, setup=setup, seed=seed, evicts=True)
    run.submit(*first_wave(), at=0.1)
    run.submit(*second_wave(), at=0.5)
    run.submit(job("urgent", 6, seconds=SECONDS, priority="high"), at=1.0)
    run.submit(job("next", 8, seconds=SECONDS, priority="mid"), at=1.1)
    run.submit(job("red", 2, seconds=SECONDS, queue="red"), at=1.2)
    run.submit(sharing(), at=1.3)
    drain(run, at=8.0)
    policy = {"event": "TaskCompleted", "action": "RestartTask"}
    run.submit(job("again", 2, seconds=0.5, policies=[policy], maxRetry=2), at=13.0)
    return run


def drain(run: Run, *, at: float) -> None:
    """When all others have ended: a gang and two pods under a budget are on a node, which is
    drained and given back."""
    here: Item = {"nodeSelector": {HOSTNAME: "n0"}}
    whole = placed("whole", 2, **here)
    whole["spec"]["minAvailable"] = 2
    run.submit(whole, placed("kept", 2, labels={"app": "kept"}, **here), at=at)
    node_before = nodes()[0]
    run.submit(node_before | {"spec": {"unschedulable": True}}, at=at + 0.5)
    run.sim.drain("n0", at=at + 0.5)
    run.submit(node_before, at=at + 1.0)


@cache
def _lines() -> tuple[bytes, ...]:
    run = rich_run()
    run.end()
    run.notes.end(run.sim.timeline.now)
    return tuple(run.notes.lines)


def rich_history() -> list[dict[str, Any]]:
    """Fresh events of the run; it is made once."""
    return [json.loads(line) for line in _lines()]
