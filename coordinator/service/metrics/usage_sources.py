"""The servers that know what nodes and queues used."""

from __future__ import annotations

import asyncio

from coordinator.cluster.protocol import ClusterDriver
from coordinator.core.coordinator import Coordinator
from coordinator.service.metrics.probes import Probes
from coordinator.service.metrics.queue_usage import queue_usage_of
from coordinator.service.metrics.usage import usage_of


async def follow_usage(
    group: asyncio.TaskGroup, core: Coordinator, probes: Probes, cluster: ClusterDriver
) -> None:
    """Ask them from now on, in tasks of ``group``. Returns after the first answer of how much
    queues used, or without one after its time-out: a turn before it could evict by shares that the
    next turn takes back."""
    queues = queue_usage_of(core, probes)
    await queues.look()
    group.create_task(queues.follow_forever())
    group.create_task(usage_of(core, cluster).follow_forever())
