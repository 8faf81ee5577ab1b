"""Random PodGroups and their pods: what runs keeps to its node's amounts, and asks for no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from tests.coordinator.verification.replay.build import Json, pod

HOST = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_APPS = ("web", "db")


def group_of(draw: Random, name: str, queues: list[str], room: dict[str, int]) -> list[Json]:
    """Some of its pods run, as far as there is room; others wait, or are in other states."""
    size = draw.randint(1, 5)
    runs = draw.random() < 0.5
    spec: Json = {"queue": draw.choice(queues), "minMember": draw.randint(0, size)}
    if draw.random() < 0.3:
        spec["priorityClassName"] = draw.choice(["mid", "top"])
    if draw.random() < 0.2:
        spec["minTaskMember"] = {"a": 1, "b": draw.randint(0, 2)}
    if draw.random() < 0.2 and not runs:
        mode = draw.choice(["hard", "hard", "soft"])
        spec["networkTopology"] = {"mode": mode, "highestTierAllowed": draw.randint(1, 2)}
    if draw.random() < 0.3:
        spec["minResources"] = {"cpu": str(draw.randint(1, size))}
    marks = _job_marks(draw)
    made = [_group_object(draw, name, spec, marks, runs=runs)]
    made += [_pod(draw, f"{name}-{i}", name, room if runs else {}) for i in range(size)]
    return made


def _job_marks(draw: Random) -> Json:
    marks: Json = {}
    if draw.random() < 0.1:
        marks["volcano.sh/task-topology-affinity"] = "a,b"
    if draw.random() < 0.1:
        marks["volcano.sh/sla-waiting-time"] = draw.choice(["1s", "10m"])
    if draw.random() < 0.1:
        marks["volcano.sh/cooldown-time"] = "600s"
    return marks


def _group_object(draw: Random, name: str, spec: Json, marks: Json, *, runs: bool) -> Json:
    phase = "Running" if runs else draw.choice(["Inqueue", "Inqueue", "Pending"])
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns", "annotations": marks},
        "spec": spec,
        "status": {"phase": phase},
    }


def _pod(draw: Random, name: str, group: str, room: dict[str, int]) -> Json:
    cpu = draw.choice([0, 1, 1, 1, 2])
    free = [on for on, left in room.items() if left >= cpu]
    on = draw.choice(free) if free and draw.random() < 0.8 else ""
    if on:
        room[on] -= cpu
    # Not Unknown: a service knows no such pods, and one session does not count them as neighbours.
    phases = ["Running"] * 8 + ["Pending", "Succeeded"]
    made = pod(name, group=group, cpu=cpu, on=on, phase=draw.choice(phases) if on else "")
    if not cpu:
        made["spec"]["containers"][0]["resources"] = {}
    marks: Json = made["metadata"]["annotations"]
    marks["volcano.sh/task-spec"] = draw.choice("ab")
    made["metadata"]["labels"] = {"app": draw.choice(_APPS)}
    if draw.random() < 0.2:
        marks["volcano.sh/preemptable"] = draw.choice(["true", "false"])
    if draw.random() < 0.2:
        made["spec"]["tolerations"] = [{"key": "batch", "operator": "Exists"}]
    if on and draw.random() < 0.05:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    # A record is not judged for what stands there already: only pods that wait ask for more.
    if not on:
        for demand, chance in _DEMANDS.items():
            if draw.random() < chance:
                demand(draw, made)
    return made


# --- demands ------------------------------------------------------------------------------------


def _selector(draw: Random, made: Json) -> None:
    made["spec"]["nodeSelector"] = {"zone": draw.choice("ab")}


def _node_affinity(draw: Random, made: Json) -> None:
    rule = {"key": "zone", "operator": draw.choice(["In", "NotIn"]), "values": [draw.choice("ab")]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    made["spec"].setdefault("affinity", {})["nodeAffinity"] = {_REQUIRED: terms}


def _pod_rule(draw: Random, made: Json) -> None:
    side = draw.choice(["podAffinity", "podAntiAffinity", "podAntiAffinity"])
    selector = {"matchLabels": {"app": draw.choice(_APPS)}}
    term = {"labelSelector": selector, "topologyKey": draw.choice([HOST, "zone"])}
    made["spec"].setdefault("affinity", {})[side] = {_REQUIRED: [term]}


def _spread(draw: Random, made: Json) -> None:
    selector = {"matchLabels": {"app": made["metadata"]["labels"]["app"]}}
    made["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": draw.randint(1, 2),
            "topologyKey": draw.choice([HOST, "zone"]),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }
    ]


def _port(draw: Random, made: Json) -> None:
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]


def _volume(draw: Random, made: Json) -> None:
    source = {"claimName": f"p{draw.randint(0, 4)}"}
    made["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": source}]


def _claim(draw: Random, made: Json) -> None:
    one = {"resourceClaimTemplateName": "one"}
    shared = {"resourceClaimName": f"d{draw.randint(0, 1)}"}
    made["spec"]["resourceClaims"] = [{"name": "gpu", **draw.choice([one, one, shared])}]


def _gpu_share(draw: Random, made: Json) -> None:
    amounts: Json = draw.choice(
        [
            {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "600"},
            {"volcano.sh/gpu-memory": "600"},
            {"volcano.sh/gpu-number": "1"},
        ]
    )
    resources = made["spec"]["containers"][0].setdefault("resources", {})
    resources["limits"] = amounts


def _numa(draw: Random, made: Json) -> None:
    policy = draw.choice(["best-effort", "restricted", "single-numa-node"])
    made["metadata"]["annotations"]["volcano.sh/numa-topology-policy"] = policy


def _zone(draw: Random, made: Json) -> None:
    made["metadata"]["annotations"]["volcano.sh/revocable-zone"] = "*"


def _gate(draw: Random, made: Json) -> None:
    made["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]


_DEMANDS: Mapping[Callable[[Random, Json], None], float] = {
    _selector: 0.12,
    _node_affinity: 0.08,
    _pod_rule: 0.15,
    _spread: 0.1,
    _port: 0.1,
    _volume: 0.1,
    _claim: 0.1,
    _gpu_share: 0.12,
    _numa: 0.06,
    _zone: 0.1,
    _gate: 0.03,
}
"""Demand -> the share of the waiting pods that have it."""
