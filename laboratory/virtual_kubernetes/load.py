"""What users do in a seeded run on a Kubernetes cluster: gangs and pods come, some go before their
end, PodGroups are made again under their pods, nodes are taken away.

In some seeds three quarters of the nodes are full of pods without an end, which go for those that
come, as far as their budget allows. Nobody makes them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from laboratory.chaos.policies import draw_policy
from laboratory.local_kubernetes.kubelets import DURATION, EXIT_CODE
from laboratory.virtual_kubernetes.followed import SCHEDULER
from laboratory.workloads.manifests import manifest
from shared.manifests.fields.metadata import GROUP_NAME

PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
RANKS = {"low": 10, "high": 1000}
LASTING = 3
"""Pods without an end for each node, of one core each: a node has four."""
_LASTS = {"lasts": "yes"}
"""Labels of pods without an end."""

FIRST_SECONDS, LAST_SECONDS = 1.5, 14.0
"""Between them things are created, seconds after the start."""
LONGEST_RUN = 4.0
"""Seconds that a pod runs."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, which is made until it is answered."""

    at: float
    method: str
    path: str
    body: Json | None = None


@dataclass(frozen=True, slots=True)
class TakeAway:
    """A node is deleted, and comes back after so many seconds."""

    at: float
    node: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Load:
    asks: list[Ask]
    nodes: list[str]
    taken_away: list[TakeAway]
    pods: list[str]
    """Those that end by themselves."""
    groups: list[str]
    policy: str
    """Volcano's configuration as YAML; "" for the default policy."""
    lasting: list[str]
    """Pods without an end."""
    budget: bool
    """Whether a budget keeps some of them."""


def draw_load(draw: Random) -> Load:
    nodes = [f"n{number}" for number in range(draw.randint(3, 5))]
    asks = [Ask(0.0, "POST", QUEUES, manifest("Queue", "default", {"weight": 1}))]
    ranks = [manifest("PriorityClass", name, value=value) for name, value in RANKS.items()]
    asks += [Ask(0.0, "POST", CLASSES, rank) for rank in ranks]
    evicting, budget = draw.random() < 0.5, draw.random() < 0.5
    policy = draw_policy(draw, evicting=True) if evicting else ""
    lasting = [f"lasting-{i}" for i in range(len(nodes) * LASTING)] if evicting else []
    asks += [Ask(0.5, "POST", PODS, _lasting(name)) for name in lasting]
    if evicting and budget:
        asks.append(Ask(0.4, "POST", BUDGETS, _budget(draw.randint(1, 3))))
    for name in draw.sample(lasting, min(len(lasting), 2)):
        asks.append(_eviction(name, draw.uniform(FIRST_SECONDS, LAST_SECONDS)))
    pods: list[str] = []
    groups: list[str] = []
    for number in range(draw.randint(2, 6)):
        group, size = f"g{number}", draw.randint(2, 4)
        at = draw.uniform(FIRST_SECONDS, LAST_SECONDS)
        members = [f"{group}-{i}" for i in range(size)]
        asks += _gang(draw, group, members, at)
        groups.append(group)
        pods += members
    for number in range(draw.randint(1, 8)):
        name = f"p{number}"
        at = draw.uniform(FIRST_SECONDS, LAST_SECONDS)
        asks.append(Ask(at, "POST", PODS, _pod(draw, name)))
        if draw.random() < 0.2:
            asks.append(Ask(at + draw.uniform(0.1, 5.0), "DELETE", f"{PODS}/{name}"))
        pods.append(name)
    taken = [
        TakeAway(draw.uniform(FIRST_SECONDS, LAST_SECONDS), node, draw.uniform(1.0, 6.0))
        for node in draw.sample(nodes, draw.choice([0, 0, 1]))
    ]
    return Load(
        sorted(asks, key=lambda ask: ask.at),
        nodes,
        taken,
        pods,
        groups,
        policy=policy,
        lasting=lasting,
        budget=evicting and budget,
    )


def _gang(draw: Random, group: str, members: list[str], at: float) -> Iterator[Ask]:
    """Its PodGroup comes before or after its pods."""
    spec = {"minMember": len(members), "queue": "default", "priorityClassName": "high"}
    written = manifest("PodGroup", group, spec)
    yield Ask(at + draw.choice([0.0, 0.0, draw.uniform(0.0, 1.0)]), "POST", GROUPS, written)
    for name in members:
        late = at + draw.choice([0.0, draw.uniform(0.0, 1.0)])
        yield Ask(late, "POST", PODS, _pod(draw, name, group))
    kind = draw.random()
    if kind < 0.25:  # deleted and made again while its pods live
        gone = at + draw.uniform(1.1, 3.0)
        yield Ask(gone, "DELETE", f"{GROUPS}/{group}")
        yield Ask(gone + draw.uniform(0.05, 2.0), "POST", GROUPS, written)
    elif kind < 0.4:  # given up as a whole
        gone = at + draw.uniform(1.1, 5.0)
        for name in members:
            yield Ask(gone, "DELETE", f"{PODS}/{name}")
        yield Ask(gone, "DELETE", f"{GROUPS}/{group}")


def ending(load: Load) -> Iterator[tuple[str, str]]:
    """(method, path) of what takes away whatever is left."""
    for name in load.pods:
        yield "DELETE", f"{PODS}/{name}"
    for group in load.groups:
        yield "DELETE", f"{GROUPS}/{group}"


def _budget(minimum: int) -> Json:
    spec = {"minAvailable": minimum, "selector": {"matchLabels": _LASTS}}
    return manifest("PodDisruptionBudget", "lasting", spec)


def _eviction(name: str, at: float) -> Ask:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return Ask(at, "POST", f"{PODS}/{name}/eviction", body)


def _lasting(name: str) -> Json:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "schedulerName": SCHEDULER,
        "priorityClassName": "low",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    return manifest("Pod", name, spec, metadata={"labels": _LASTS})


def _pod(draw: Random, name: str, group: str = "") -> Json:
    notes = {DURATION: f"{draw.uniform(0.3, LONGEST_RUN):.2f}"}
    if group:
        notes[GROUP_NAME] = group
    if draw.random() < 0.1:
        notes[EXIT_CODE] = "1"
    requests = {"cpu": str(draw.choice([1, 1, 2]))}
    container = {"name": "c", "image": "none", "resources": {"requests": requests}}
    spec = {
        "schedulerName": SCHEDULER,
        "restartPolicy": "Never",
        "priorityClassName": "high",
        "terminationGracePeriodSeconds": draw.choice([0, 1, 2]),
        "containers": [container],
    }
    return manifest("Pod", name, spec, metadata={"annotations": notes})
