"""Past usage of queues from a Prometheus server (``usageDBConfig`` of a KAI policy).

KAI's queries, with two differences (docs/decisions/0095): a tumbling window and one by cron are
asked for as a range up to now, because KAI's own query for them is none; and series of one queue
are added up, because a queue has another series after each restart of who measures it.

Without an answer the figures before stay, and it is said that they are old. Nothing here is
durable: the next leader asks again, before its first turn.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import aiohttp
import structlog

from coordinator.core.coordinator import Coordinator
from coordinator.order.usage_over_time import UsageByQueue
from coordinator.service.metrics.probes import Probes
from coordinator.service.metrics.prometheus import ask_prometheus, read_samples
from shard_worker.dialects.kai.rules.amounts import RESOURCES, Amounts
from shared.policy.kai_usage import USAGE_ONE, UsageClient, UsageSettings, UsageWindow
from shared.secrets.credentials import hide_credentials

QUEUE_LABEL = "queue_name"
MOST = 2**53
"""Billionths: what is counted of a queue at most, whatever a server says."""
IDLE_SECONDS = 1.0
"""Between looks whether the policy names a server."""

_log = structlog.get_logger(__name__)


class QueueUsageSource:
    """:meth:`follow_forever` runs until it is cancelled."""

    def __init__(
        self,
        settings: Callable[[], UsageSettings | None],
        measured: Callable[[UsageByQueue], None],
        probes: Probes,
        *,
        clock: Callable[[], float] = time.time,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """``settings``: what the policy in force says. ``measured`` takes the figures."""
        self._settings = settings
        self._measured = measured
        self._probes = probes
        self._clock = clock
        self._environment = environment
        self._asked: UsageSettings | None = None
        """By which settings the last answer came."""
        self._at = 0.0
        self._failing = ""

    def missing(self) -> str:
        """Warn that queues share without a current answer of the server; "" where it answers or
        none is asked."""
        settings = self._named()
        if settings is None or not self._failing:
            return ""
        silent = f"{self._where(settings)}: no answer ({hide_credentials(self._failing)})"
        if self._asked != settings:
            return f"{silent}; queues share as if none had used anything"
        age = self._clock() - self._at
        old = " old" if age > settings.staleness else ""
        return f"{silent}; queues share by{old} figures of {age:.0f} s ago"

    async def follow_forever(self) -> None:
        """Ask again and again. The first time is the caller's."""
        while True:
            await self._pause()
            await self.look()

    async def _pause(self) -> None:
        """Until the next question, or the policy says something else."""
        settings = self._named()
        left = IDLE_SECONDS if settings is None else settings.fetch_interval
        while left > 0 and self._named() == settings:
            await asyncio.sleep(min(left, IDLE_SECONDS))
            left -= IDLE_SECONDS

    async def look(self) -> None:
        """Ask once, if the policy names a server. A failure is logged once, and its end."""
        settings = self._named()
        if settings is None:
            self._asked, self._failing = None, ""
            return
        started = time.monotonic()
        try:
            usage = await self._ask(settings)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            why = str(error) or type(error).__name__  # a time-out says nothing of itself
            self._probes.usage_queries["failed"] += 1
            if why != self._failing:
                where, hidden = self._where(settings), hide_credentials(why)
                _log.warning("Usage over time is not answered", of=where, why=hidden)
            self._failing = why
            return
        self._probes.usage_queries["answered"] += 1
        self._probes.usage_query_seconds.observe(time.monotonic() - started)
        if self._failing:
            _log.info("Usage over time is answered again", of=self._where(settings))
        self._failing, self._at, self._asked = "", self._clock(), settings
        if self._named() == settings:
            self._measured(usage)

    async def _ask(self, settings: UsageSettings) -> UsageByQueue:
        """All questions, within the time-out together. Raises what :func:`ask_prometheus` does."""
        address = settings.address or self._environment.get(settings.variable, "").rstrip("/")
        if not address:
            raise ValueError(f"the environment has no {settings.variable}")
        queries = queries_of(settings, self._clock())
        if queries is None:
            return {}
        used: dict[str, list[float]] = {}
        capacity: list[float] = []
        async with (
            asyncio.timeout(settings.query_timeout),
            aiohttp.ClientSession() as session,
        ):
            for at, resource in enumerate(RESOURCES):
                answer = await ask_prometheus(session, address, queries[resource].capacity)
                capacity.append(sum(value for _, value in read_samples(answer)))
                answer = await ask_prometheus(session, address, queries[resource].allocated)
                for labels, value in read_samples(answer):
                    used.setdefault(labels.get(QUEUE_LABEL, ""), [0.0, 0.0, 0.0])[at] += value
        if not any(capacity):
            raise ValueError("it knows no capacity of cpu, memory or GPUs")
        return {name: _parts(amounts, capacity) for name, amounts in used.items() if name}

    def _named(self) -> UsageSettings | None:
        settings = self._settings()
        return settings if settings and settings.client is UsageClient.PROMETHEUS else None

    def _where(self, settings: UsageSettings) -> str:
        address = settings.address or f"${settings.variable}"
        return f"usage over time from {hide_credentials(address)}"


@dataclass(frozen=True, slots=True)
class ResourceQueries:
    """PromQL for one resource: what queues had, and what there was."""

    allocated: str
    capacity: str


def queries_of(settings: UsageSettings, now: float) -> dict[str, ResourceQueries] | None:
    """The questions for each resource; None where the window has just begun."""
    span = now - settings.window.since(now)
    if span <= 0:
        return None
    return {
        resource: ResourceQueries(
            _over(settings.metrics[f"{resource}AllocationMetric"], settings, span, now),
            _over(settings.metrics[f"{resource}CapacityMetric"], settings, span, now),
        )
        for resource in RESOURCES
    }


def _over(metric: str, settings: UsageSettings, span: float, now: float) -> str:
    length = f"{max(1, round(span))}s:{max(1, round(settings.resolution))}s"
    return f"sum_over_time(({_decayed(metric, settings.window, now)})[{length}])"


def _decayed(metric: str, window: UsageWindow, now: float) -> str:
    if not window.half_life:
        return metric
    return f"({metric}) * (0.5^(({int(now)} - time()) / {window.half_life:f}))"


def _parts(used: list[float], capacity: list[float]) -> Amounts:
    """Billionths of what there was; of what there was none of, nothing."""
    parts = (
        min(MOST, max(0, round(USAGE_ONE * n / of))) if of > 0 else 0
        for n, of in zip(used, capacity, strict=True)
    )
    return Amounts(*parts)


def queue_usage_of(core: Coordinator, probes: Probes) -> QueueUsageSource:
    """The source of a coordinator's policy; its figures are part of fair shares."""
    usage = core.order.picking.usage
    source = QueueUsageSource(lambda: usage.settings, usage.measured, probes)
    usage.missing = source.missing
    return source
