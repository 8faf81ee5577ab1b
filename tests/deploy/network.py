"""Evaluation of Kubernetes' network policies, for the fields that ours use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.deploy.rendered import Object


@dataclass(frozen=True)
class Peer:
    labels: dict[str, str]
    namespace: str


def allowed(policies: list[Object], source: Peer, target: Peer, port: int) -> bool:
    """Whether a TCP connection gets through: both sides must agree, where a policy selects them."""
    return _side(policies, source, target, port, "Egress") and _side(
        policies, target, source, port, "Ingress"
    )


def _side(policies: list[Object], pod: Peer, other: Peer, port: int, way: str) -> bool:
    mine = [
        p["spec"]
        for p in policies
        if way in p["spec"]["policyTypes"]
        and p["metadata"]["namespace"] == pod.namespace
        and selects(p["spec"]["podSelector"], pod.labels)
    ]
    if not mine:
        return True
    rules = [rule for spec in mine for rule in spec.get(way.lower(), [])]
    peers = "to" if way == "Egress" else "from"
    return any(_rule(rule, rule.get(peers), pod, other, port) for rule in rules)


def _rule(rule: Object, peers: list[Object] | None, pod: Peer, other: Peer, port: int) -> bool:
    """``peers`` None: anybody."""
    reaches = peers is None or any(_peer(p, pod, other) for p in peers)
    return reaches and any(_port(p, port) for p in rule["ports"])


def _peer(peer: Object, pod: Peer, other: Peer) -> bool:
    assert not peer.keys() - {"podSelector", "namespaceSelector"}, peer
    if "namespaceSelector" in peer:
        place = {"kubernetes.io/metadata.name": other.namespace}
        if not selects(peer["namespaceSelector"], place):
            return False
    elif other.namespace != pod.namespace:
        return False
    return selects(peer.get("podSelector", {}), other.labels)


def _port(rule: Object, port: int) -> bool:
    if rule["protocol"] != "TCP":
        return False
    first: int = rule["port"]
    return first <= port <= int(rule.get("endPort", first))


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    assert not selector.keys() - {"matchLabels", "matchExpressions"}, selector
    for expression in selector.get("matchExpressions", []):
        assert expression["operator"] == "In", expression
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    expected: dict[str, str] = selector.get("matchLabels", {})
    return expected.items() <= labels.items()
