"""A KAI scenario: a policy, a cluster as Kubernetes objects, and how many rounds are run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from laboratory.replay.scenario import ScenarioError, items_of
from shared.errors import shown
from shared.policy.dialect import parse_policy
from shared.policy.model import Policy
from shared.units.times import moment

Json = dict[str, Any]

KINDS = {
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "queues": ("scheduling.run.ai/v2", "Queue"),
    "podGroups": ("scheduling.run.ai/v2alpha2", "PodGroup"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "topologies": ("kai.scheduler/v1alpha1", "Topology"),
}
"""The lists of a scenario's cluster, with the kind of their objects."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often the actions run, each time on what the round before left."""

    until_match: int
    after_match: int
    stay_releasing: frozenset[str] = frozenset()
    """PodGroups whose evicted pods are still leaving in the next round."""


@dataclass(frozen=True, slots=True)
class KaiScenario:
    """A parsed scenario."""

    id: str
    policy: Policy
    items: tuple[Json, ...]
    """Every object of the cluster."""
    now: float = 0.0
    """Seconds since 1970; the clock stands still."""
    rounds: Rounds | None = None
    """None: the actions run once."""
    expected: Mapping[str, Any] = field(default_factory=dict)


def read_kai_scenario(value: Mapping[str, Any], *, policy: Policy | None = None) -> KaiScenario:
    """``policy``: instead of the scenario's own. Raises ScenarioError, PolicyError."""
    name = str(value.get("id", ""))
    cluster = value.get("cluster")
    if not isinstance(cluster, Mapping):
        raise ScenarioError(f"scenario {name!r}: cluster: missing; give a mapping")
    items = tuple(items_of(name, cluster, KINDS))
    return KaiScenario(
        id=name,
        policy=policy or parse_policy(value["policy"]),
        items=items,
        now=_now(name, value.get("now")),
        rounds=_rounds(name, value.get("rounds")),
        expected=value.get("expect") or {},
    )


def _now(name: str, written: object) -> float:
    try:
        return moment(str(written))
    except ValueError:
        raise ScenarioError(
            f"scenario {name!r}: now: {shown(written)} is not a time; write it as "
            "2026-01-31T12:00:00Z"
        ) from None


def _rounds(name: str, written: object) -> Rounds | None:
    if written is None:
        return None
    if isinstance(written, Mapping):
        until, after = written.get("untilMatch", 0), written.get("afterMatch", 0)
        if type(until) is int and type(after) is int and until >= 0 and after >= 0:
            return Rounds(until, after, frozenset(map(str, written.get("stayReleasing") or ())))
    raise ScenarioError(
        f"scenario {name!r}: rounds: {shown(written)}; give untilMatch and afterMatch as numbers"
    )
