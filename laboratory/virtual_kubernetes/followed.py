"""What coordinators of a seeded run follow their cluster by, and the cluster's side of the
history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import orjson

from coordinator.cluster.events import ClusterEvent
from coordinator.cluster.kubernetes.api.client import ApiReader
from coordinator.cluster.kubernetes.api.credentials import ApiServer, FixedToken
from coordinator.cluster.kubernetes.api.objects import pod_of
from coordinator.cluster.kubernetes.cluster import KubernetesCluster
from coordinator.cluster.kubernetes.state.mirror import Mirror
from coordinator.cluster.kubernetes.writes.writes import ApiWrites
from coordinator.service.observed.kubernetes import followed_kinds
from coordinator.service.observed.observed import ObservedCluster
from laboratory.api_server.store import Change
from laboratory.chaos.kubernetes.pod_history import PodHistory, TaskNames
from laboratory.simulation.process import Process
from laboratory.virtual_kubernetes.api_process import URL, ApiProcess
from laboratory.virtual_kubernetes.loop import ConnectingLoop, connecting_loop
from shared.ledger.entries.log import LogEntry
from shared.ledger.memory.synchronous import at_once
from shared.policy.model import Dialect

SCHEDULER = "quadrant"


class FollowedKubernetes:
    """Implements :class:`laboratory.simulation.leader.FollowedCluster`."""

    def __init__(self, api: ApiProcess, *, seed: int) -> None:
        self._api, self._seed = api, seed
        self._names, self._pods = TaskNames(), PodHistory()
        self._read = api.server.store.version
        self._followers = 0

    def loop(self, process: Process, *, seed: int) -> ConnectingLoop:
        return connecting_loop(process, self._api.network, seed=seed)

    def follow(self, process: Process) -> ObservedCluster:
        def clock() -> float:
            return process.now

        self._followers += 1
        reader = ApiReader(ApiServer(URL, "seeded", None, FixedToken()))
        kinds = followed_kinds(Dialect.VOLCANO)
        names = tuple(kind.name for kind in kinds)
        mirror = Mirror(names, ours=lambda name: name == SCHEDULER)
        writes = ApiWrites(reader, mirror, schedulers={SCHEDULER}, clock=clock, wall_clock=clock)
        draw = Random(f"reflectors {self._seed} {self._followers}")
        cluster = KubernetesCluster(
            reader, kinds, mirror=mirror, writes=writes, clock=clock, draw=draw
        )
        return ObservedCluster(cluster, names, address=URL, writes=writes, clock=clock)

    def dropped(self, process: Process) -> None:
        self._api.network.drop(process)

    # --- the history ----------------------------------------------------------------------------

    def learn(self, entries: Sequence[LogEntry]) -> None:
        at_once(self._names.learn(entries))

    def drain(self) -> list[ClusterEvent]:
        store = self._api.server.store
        changes, self._read = list(store.since("pods", self._read)), store.version
        return [event for change in changes for event in self._told(change)]

    def _told(self, change: Change) -> Iterator[ClusterEvent]:
        item: dict[str, Any] = change.after or change.before or {}
        if not item["spec"].get("nodeName") or item["spec"]["schedulerName"] != SCHEDULER:
            return
        uid, now = item["metadata"]["uid"], self._api.timeline.now
        if change.after is not None:
            pod = pod_of(orjson.dumps(item))
            yield from self._pods.take(pod, self._names.named(uid), now)
        else:
            yield from self._pods.gone(uid, now)
