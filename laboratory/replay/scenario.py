"""Scenarios: a policy and a cluster in one value, in the form of Volcano's own test tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from laboratory.replay.dump import latest
from laboratory.replay.outcome import ReplayResult, result_of
from laboratory.replay.recorded import Recorded, RecordError, read_recorded
from laboratory.replay.session import run_session
from shard_worker.view.mode import Mode
from shared.policy.dialect import parse_policy
from shared.policy.model import Policy

KINDS = {
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "podGroups": ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    "queues": ("scheduling.volcano.sh/v1beta1", "Queue"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "hyperNodes": ("topology.volcano.sh/v1alpha1", "HyperNode"),
    "resourceQuotas": ("v1", "ResourceQuota"),
    "pvs": ("v1", "PersistentVolume"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "resourceClaims": ("resource.k8s.io/v1", "ResourceClaim"),
    "resourceSlices": ("resource.k8s.io/v1", "ResourceSlice"),
    "deviceClasses": ("resource.k8s.io/v1", "DeviceClass"),
}
"""The lists of a scenario's cluster, with the kind that their objects omit."""


LATER = 1_767_225_600.0
"""Time of a session unless its scenario contains a later one: objects without a creation time are
older than any waiting time."""


class ScenarioError(ValueError):
    """The scenario cannot be replayed; the message has the part and remedy."""


@dataclass(frozen=True, slots=True)
class RecordedScenario:
    """A parsed scenario."""

    id: str
    policy: Policy
    recorded: Recorded
    mode: Mode = Mode.NONE
    own_rows: list[int] | None = None
    """Rows of the session's own shard; None = all."""
    now: float = 0.0
    """Seconds since 1970."""


def read_scenario(scenario: Mapping[str, Any]) -> RecordedScenario:
    """Raises ScenarioError, PolicyError."""
    name = str(scenario.get("id", ""))
    for part in ("policy", "cluster"):
        if not isinstance(scenario.get(part), Mapping):
            raise ScenarioError(f"scenario {name!r}: {part}: missing; give a mapping")
    policy = parse_policy(scenario["policy"])
    items = list(items_of(name, scenario["cluster"], KINDS))
    try:
        recorded = read_recorded(items)
    except RecordError as error:
        raise ScenarioError(f"scenario {name!r}: {error}") from None
    mode, own_rows = _sharding(name, scenario.get("sharding"), recorded)
    return RecordedScenario(
        name, policy, recorded, mode, own_rows, max([LATER, *map(latest, items)])
    )


def replay(scenario: Mapping[str, Any]) -> ReplayResult:
    """Run the scenario's actions once. Raises ScenarioError, PolicyError, LedgerRefused."""
    read = read_scenario(scenario)
    session = run_session(
        read.policy, read.recorded, mode=read.mode, own_rows=read.own_rows, now=read.now
    )
    return result_of(read.id, session, read.recorded.placed_jobs)


def items_of(
    name: str, cluster: Mapping[str, Any], kinds: Mapping[str, tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    """The objects of scenario ``name``. ``kinds``: list of the cluster -> kind of its objects."""
    for field, objects in cluster.items():
        if field not in kinds:
            raise ScenarioError(
                f"scenario {name!r}: cluster.{field}: unknown; remove it "
                f"(known: {', '.join(kinds)})"
            )
        version, kind = kinds[field]
        if not isinstance(objects, list | None) or any(type(o) is not dict for o in objects or ()):
            raise ScenarioError(f"scenario {name!r}: cluster.{field}: not a list of objects")
        for obj in objects or ():
            yield {"apiVersion": version, "kind": kind, **obj}


def _sharding(
    name: str, sharding: Mapping[str, Any] | None, recorded: Recorded
) -> tuple[Mode, list[int] | None]:
    if not sharding:
        return Mode.NONE, None
    try:
        mode = Mode(sharding.get("mode", "none"))
    except ValueError:
        raise ScenarioError(
            f"scenario {name!r}: sharding.mode: {sharding['mode']!r} is none of none, soft, hard"
        ) from None
    if "nodesInShard" not in sharding:
        return mode, None
    rows = recorded.rows
    return mode, [rows[node] for node in sharding["nodesInShard"] if node in rows]
