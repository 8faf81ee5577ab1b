"""Holding a replay's result against what a scenario expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from laboratory.replay.outcome import ReplayResult

KNOWN = {
    "bindsNum",
    "bindMap",
    "bindNumsInHyperNode",
    "evicted",
    "pipelined",
    "podGroupPhase",
    "taskStatusNums",
}
GROUP_NAME = "scheduling.k8s.io/group-name"


def differences(result: ReplayResult, scenario: Mapping[str, Any]) -> list[str]:
    """One line for each thing that is not as expected."""
    expect: Mapping[str, Any] = scenario["expect"]
    results = [f"expects {key}: this test does not know it" for key in set(expect) - KNOWN]
    body = result.as_json()

    def same(what: str, actual: object, want: object) -> None:
        if actual != want:
            results.append(f"{what}: expected {want}, got {actual}")

    if "bindsNum" in expect:
        same("bindsNum", len(result.binds), expect["bindsNum"])
    if "bindMap" in expect:
        same("bindMap", result.binds, expect["bindMap"])
    if "bindNumsInHyperNode" in expect:
        numbers = sorted(lowest(scenario["cluster"], result.binds).values())
        same("bindNumsInHyperNode", numbers, sorted(expect["bindNumsInHyperNode"]))
    if "evicted" in expect:
        same("evicted", sorted(body["evicted"]), sorted(expect["evicted"]))
    for group, nodes in expect.get("pipelined", {}).items():
        placed = [result.pipelined[p] for p in pods_of(scenario, group) if p in result.pipelined]
        if not placed or not set(placed) <= set(nodes):
            results.append(f"pipelined {group}: expected on {nodes}, got {placed}")
    for group, phase in expect.get("podGroupPhase", {}).items():
        same(f"phase of {group}", result.pod_groups.get(group, {}).get("phase"), phase)
    for group, counts in expect.get("taskStatusNums", {}).items():
        same(f"tasks of {group}", result.tasks.get(group), counts)
    return results


def pods_of(scenario: Mapping[str, Any], group: str) -> list[str]:
    """The pods of a PodGroup, ``namespace/name``."""
    namespace, _, name = group.partition("/")
    return [
        f"{namespace}/{pod['metadata']['name']}"
        for pod in scenario["cluster"].get("pods", [])
        if pod["metadata"].get("namespace", "default") == namespace
        and pod["metadata"].get("annotations", {}).get(GROUP_NAME) == name
    ]


def lowest(cluster: Mapping[str, Any], binds: Mapping[str, str]) -> Counter[str]:
    """How many binds each hyper node has that names nodes itself."""
    home = {
        member["selector"]["exactMatch"]["name"]: hyper["metadata"]["name"]
        for hyper in cluster.get("hyperNodes", [])
        for member in hyper["spec"].get("members", [])
        if member["type"] == "Node" and "exactMatch" in member["selector"]
    }
    return Counter(home.get(node, node) for node in binds.values())
