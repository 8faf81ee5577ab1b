"""Which workers may be used: those with the coordinator's schema and wire, whatever their version.

A Ray node with another package installed would start workers that misread what they are sent, or
commit by other rules. None of them gets a shard; its node is left alone for a while, and tried
again, because its image may be replaced at any time (docs/decisions/0113).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from shard_worker.worker.worker_version import WorkerVersion

FIRST_PAUSE = 1.0
"""Seconds until a node is tried again whose worker was refused once; twice as long each time."""

LONGEST_PAUSE = 15.0
"""A try costs the node a process that lives for two seconds, and a person who has replaced the
image waits for it."""


_NOT_LOADED = "failed to import on the worker"
_ADDRESS = re.compile(r"\bip=([^,) ]+)")
"""Address in Ray's error about an actor whose class cannot be loaded."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """A worker's reported version at its start, and its location."""

    said: bytes
    """An encoded :class:`WorkerVersion`; b"" from a version that does not say what it is."""
    node: str
    """Id of its Ray node."""
    address: str

    @property
    def worker(self) -> WorkerVersion | None:
        return WorkerVersion.decode(self.said)

    @property
    def version(self) -> str:
        """Version of its package; "" where it reports none."""
        return "" if self.worker is None else self.worker.version


def refusal(own: WorkerVersion, introduction: Introduction) -> str:
    """Why the worker is not used, in one sentence; "" where it may be."""
    other = introduction.worker
    if other is not None and own.serves_with(other):
        return ""
    theirs = "a version that cannot tell which it is" if other is None else _shown(other)
    return (
        f"the worker on Ray node {introduction.address} is {theirs}, and this coordinator is "
        f"{_shown(own)}: replace that Ray node by one of the coordinator's image "
        f"(Ray's id of it: {introduction.node})"
    )


def _shown(version: WorkerVersion) -> str:
    return f"version {version.version} (schema {version.schema}, wire {version.wire})"


@dataclass(frozen=True, slots=True)
class _RefusedWorker:
    why: str
    times: int
    until: float


@dataclass(slots=True)
class RefusedNodes:
    """Ray nodes whose workers were refused, by id. Times are in seconds of any steady clock."""

    _nodes: dict[str, _RefusedWorker] = field(default_factory=dict)

    def refuse(self, node: str, why: str, *, now: float) -> None:
        before = self._nodes.get(node)
        times = 1 if before is None else before.times + 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (times - 1))
        self._nodes[node] = _RefusedWorker(why, times, now + pause)

    def accept(self, node: str) -> None:
        """A worker there is of our version."""
        self._nodes.pop(node, None)

    def avoided(self, now: float) -> set[str]:
        return {node for node, refused in self._nodes.items() if now < refused.until}

    def nowhere(self, nodes: Collection[str], *, now: float) -> tuple[str, float] | None:
        """Where no worker may be started now on any of ``nodes``, which are all there are: why, and
        for how many seconds. Forgets the nodes that are gone."""
        self._nodes = {node: self._nodes[node] for node in self._nodes if node in nodes}
        avoided = self.avoided(now)
        if not nodes or not avoided.issuperset(nodes):
            return None
        first = min((self._nodes[node] for node in nodes), key=lambda refused: refused.until)
        return first.why, first.until - now


def address_of_unloadable(error: str) -> str:
    """The address of the Ray node whose package has no such worker (it is missing, cannot be
    imported, or its actor has other methods), from what Ray says of the actor's death; "" where it
    died of something else."""
    if _NOT_LOADED not in error:
        return ""
    address = _ADDRESS.search(error)
    return "" if address is None else address[1]


def usable_nodes(nodes: Collection[Mapping[str, object]], *, cpus: float) -> set[str]:
    """Ids of the living Ray nodes that offer so many CPUs, from Ray's list of nodes."""
    return {str(node["NodeID"]) for node in nodes if node["Alive"] and _cpus_of(node) >= cpus}


def _cpus_of(node: Mapping[str, object]) -> float:
    resources = node["Resources"]
    return float(resources.get("CPU", 0.0)) if isinstance(resources, Mapping) else 0.0
