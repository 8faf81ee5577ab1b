"""Measured usage of nodes, read from a Prometheus server every half minute: for the plugin
``usage``.

The figures are means over five minutes of node exporter metrics. If the server stops answering,
they are kept for a while, then dropped: a node without figures is neither busy nor idle. Nothing
here is durable; the next leader reads again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import structlog

from coordinator.cluster.events import ReportedUsage
from coordinator.cluster.protocol import ClusterDriver, ClusterTimeout
from coordinator.core.coordinator import Coordinator
from coordinator.service.metrics.prometheus import ask_prometheus, read_samples
from shared.policy.metrics_source import MetricsSource
from shared.secrets.credentials import hide_credentials

CPU_QUERY = (
    "avg_over_time((1 - (avg by (instance, node) "
    '(irate(node_cpu_seconds_total{mode="idle"}[30s]))))[5m:30s])'
)
MEMORY_QUERY = (
    "avg_over_time((1 - (node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes))[5m:30s])"
)
PERCENT = 100.0
FORGET_AFTER = 300.0
"""Seconds without an answer until the figures are dropped: the window they average over."""
IDLE = 1.0
"""Seconds between checks whether the policy names a source."""
TIMEOUT = aiohttp.ClientTimeout(total=10.0)

Usage = dict[str, dict[str, float]]
"""Node name -> ``cpu`` and ``memory``, percent of its capacity."""

_log = structlog.get_logger(__name__)


class UsageSource:
    """Keeps the newest figures. :meth:`follow_forever` runs until it is cancelled."""

    def __init__(
        self,
        source: Callable[[], MetricsSource | None],
        *,
        report: Callable[[Usage], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``source`` returns the one that the policy names now. ``report``: for whoever else wants
        to know each answer."""
        self._source = source
        self._report = report
        self._clock = clock
        self._asked: MetricsSource | None = None
        self._usage: Usage = {}
        self._at = clock()
        self._failing = ""

    def usage(self) -> Usage:
        """The valid figures: none where the policy names another source, or none."""
        fresh = self._clock() - self._at <= FORGET_AFTER
        return self._usage if fresh and self._asked == self._source() else {}

    def missing(self) -> str:
        """Warn that decisions lack a current answer of the metrics source; "" where it answers or
        none is named."""
        source = self._source()
        if source is None or not self._failing:
            return ""
        silent = f"metrics source {hide_credentials(source.address)}: no answer "
        silent += f"({hide_credentials(self._failing)})"
        if self.usage():
            return f"{silent}; figures of {self._clock() - self._at:.0f} s ago count"
        return f"{silent}; no node counts as busy, and none as idler than others"

    async def follow_forever(self) -> None:
        """Read repeatedly; a failure is logged once, and again when it is over."""
        async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
            while True:
                source = self._source()
                if source is not None:
                    await self.look(session, source)
                await asyncio.sleep(IDLE if source is None else source.interval)

    async def look(self, session: aiohttp.ClientSession, source: MetricsSource) -> None:
        """Ask once."""
        try:
            cpu = await _ask(session, source, CPU_QUERY)
            memory = await _ask(session, source, MEMORY_QUERY)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            why = str(error) or type(error).__name__  # a time-out says nothing of itself
            if why != self._failing:
                _log.warning(
                    "metrics source failed",
                    address=hide_credentials(source.address),
                    why=hide_credentials(why),
                )
            self._failing = why
            return
        if self._failing:
            _log.info("metrics source answers again", address=hide_credentials(source.address))
        self._failing = ""
        self._at, self._asked = self._clock(), source
        nodes = cpu.keys() | memory.keys()
        self._usage = {
            node: {
                name: share[node] * PERCENT
                for name, share in (("cpu", cpu), ("memory", memory))
                if node in share
            }
            for node in nodes
        }
        if self._report is not None:
            await self._report(self._usage)


async def _ask(
    session: aiohttp.ClientSession, source: MetricsSource, query: str
) -> dict[str, float]:
    """Usage as a fraction by node name. Raises ValueError for an invalid response."""
    return read_vector(
        await ask_prometheus(session, source.address, query, verify=not source.insecure)
    )


def read_vector(answer: Any) -> dict[str, float]:
    """The instant vector of an answer by node: label ``node``, else the host of ``instance``."""
    share_of = {_node(labels): value for labels, value in read_samples(answer)}
    return {node: share for node, share in share_of.items() if node}


def _node(labels: Mapping[str, str]) -> str:
    host: str = labels.get("node") or labels.get("instance", "").rpartition(":")[0]
    return host or labels.get("instance", "")


def usage_of(core: Coordinator, cluster: ClusterDriver) -> UsageSource:
    """The usage source of a coordinator's policy; its figures are part of turn contexts, and
    evidence in the cluster's history."""

    async def report(usage: Usage) -> None:
        now = time.time()
        try:
            await cluster.measured(ReportedUsage(usage, begins=now, ends=now + FORGET_AFTER))
        except ClusterTimeout:
            _log.debug("history lacks an answer of the metrics source")

    source = UsageSource(lambda: core.order.session.policy.metrics, report=report)
    core.order.contexts.usage = source.usage
    core.order.contexts.usage_missing = source.missing
    return source
