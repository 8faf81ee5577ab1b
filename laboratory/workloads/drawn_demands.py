"""Demands of random pods: one for every check that a plugin makes of nodes, pods and objects.

Each changes a pod, or the template of a role's pods, in place; it has annotations, and a label
``app``. What they ask for, :mod:`laboratory.workloads.drawn_objects` has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from laboratory.workloads.demands import HOSTNAME

Json = dict[str, Any]

APPS = ("web", "db")
"""Values of the label ``app``."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def ask_for_more(draw: Random, pod: Json) -> None:
    """Add some of all demands, mostly none."""
    for demand, chance in _DEMANDS.items():
        if draw.random() < chance:
            demand(draw, pod)


# --- demands ------------------------------------------------------------------------------------


def _selector(draw: Random, pod: Json) -> None:
    pod["spec"]["nodeSelector"] = {"zone": draw.choice("ab")}


def _node_affinity(draw: Random, pod: Json) -> None:
    rule = {"key": "zone", "operator": draw.choice(["In", "NotIn"]), "values": [draw.choice("ab")]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    pod["spec"].setdefault("affinity", {})["nodeAffinity"] = {_REQUIRED: terms}


def _pod_rule(draw: Random, pod: Json) -> None:
    side = draw.choice(["podAffinity", "podAntiAffinity", "podAntiAffinity"])
    selector = {"matchLabels": {"app": draw.choice(APPS)}}
    term = {"labelSelector": selector, "topologyKey": draw.choice([HOSTNAME, "zone"])}
    pod["spec"].setdefault("affinity", {})[side] = {_REQUIRED: [term]}


def _spread(draw: Random, pod: Json) -> None:
    selector = {"matchLabels": {"app": pod["metadata"]["labels"]["app"]}}
    pod["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": draw.randint(1, 2),
            "topologyKey": draw.choice([HOSTNAME, "zone"]),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }
    ]


def _port(draw: Random, pod: Json) -> None:
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]


def _volume(draw: Random, pod: Json) -> None:
    source = {"claimName": f"p{draw.randint(0, 4)}"}
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": source}]


def _claim(draw: Random, pod: Json) -> None:
    claim = {"resourceClaimTemplateName": "one"}
    shared = {"resourceClaimName": f"d{draw.randint(0, 1)}"}
    pod["spec"]["resourceClaims"] = [{"name": "gpu", **draw.choice([claim, claim, shared])}]


def _gpu_share(draw: Random, pod: Json) -> None:
    amounts: Json = draw.choice(
        [
            {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "600"},
            {"volcano.sh/gpu-memory": "600"},
            {"volcano.sh/gpu-number": "1"},
        ]
    )
    resources = pod["spec"]["containers"][0].setdefault("resources", {})
    resources["limits"] = amounts


def _numa(draw: Random, pod: Json) -> None:
    policy = draw.choice(["best-effort", "restricted", "single-numa-node"])
    pod["metadata"]["annotations"]["volcano.sh/numa-topology-policy"] = policy


def _zone(draw: Random, pod: Json) -> None:
    pod["metadata"]["annotations"]["volcano.sh/revocable-zone"] = "*"


def _gate(draw: Random, pod: Json) -> None:
    pod["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]


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
