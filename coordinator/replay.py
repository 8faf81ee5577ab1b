"""Replay: one session over a recorded cluster state, in one process.

The same rules as in the service, over a world of everything: what the policy's actions do is what
Volcano's session does, so that its own test tables can be replayed. What the session keeps is put
to the ledger's double as well, which judges it as it judges the statements of shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coordinator.what_if.books import Books, LedgerRefused
from coordinator.what_if.outcome import Result, result_of
from coordinator.what_if.recorded import Recorded, RecordError, read_recorded
from shard_worker.actions import run_action
from shard_worker.session import Session, open_session
from shard_worker.task_class import Mode
from shard_worker.world_building import build_world
from shard_worker.world_statement import Operation
from shared.policy import Policy, parse_policy

__all__ = ["LedgerRefused", "Result", "ScenarioError", "replay"]

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
"""The lists of a scenario's cluster and the kind their objects leave out."""


class ScenarioError(ValueError):
    """The scenario cannot be replayed: which part, and what to do."""


def replay(scenario: Mapping[str, Any]) -> Result:
    """Run the scenario's actions once. Raises ScenarioError, PolicyError, LedgerRefused."""
    name = str(scenario.get("id", ""))
    for part in ("policy", "cluster"):
        if not isinstance(scenario.get(part), Mapping):
            raise ScenarioError(f"scenario {name!r}: {part}: missing; give a mapping")
    policy = parse_policy(scenario["policy"])
    try:
        recorded = read_recorded(list(_items(name, scenario["cluster"])))
    except RecordError as error:
        raise ScenarioError(f"scenario {name!r}: {error}") from None
    mode, own = _sharding(name, scenario.get("sharding"), recorded)
    return result_of(name, run_session(policy, recorded, mode=mode, own=own))


def run_session(
    policy: Policy,
    recorded: Recorded,
    *,
    mode: Mode = Mode.NONE,
    own: Sequence[int] | None = None,
    now: float = 0.0,
) -> Session:
    """One session: the policy's actions in order, each statement judged by the ledger.

    ``own``: rows of the shard whose session it is, None = all. Raises LedgerRefused."""
    ssn = open_session(policy)
    books = Books(recorded, gangs=bool(ssn.hooks["JobReady"]), own=own)
    world = build_world(
        books.view(),
        classes=recorded.classes,
        queues=recorded.queues,
        standings=recorded.standings,
        hyper_nodes=recorded.hyper_nodes,
        objects=recorded.objects,
        priority_classes=recorded.priority_classes,
        mode=mode,
        now=now,
    )
    ssn.enter(world)
    for action in policy.actions:

        def judged(operations: Sequence[Operation], action: str = action) -> None:
            books.commit(ssn, action, operations)

        ssn.on_commit = judged
        run_action(ssn, action)
    return ssn


def _items(name: str, cluster: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for field, objects in cluster.items():
        if field not in KINDS:
            raise ScenarioError(
                f"scenario {name!r}: cluster.{field}: unknown; remove it "
                f"(known: {', '.join(KINDS)})"
            )
        version, kind = KINDS[field]
        for obj in objects:
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
