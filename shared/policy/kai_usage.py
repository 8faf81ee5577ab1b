"""Usage of the past in a KAI policy: where it comes from, and how much of it counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from shared.policy.cron import CronSchedule

USAGE_ONE = 10**9
"""Usage is in billionths of what there was."""
WEEK = 7 * 86_400.0
METRICS = {
    "cpuAllocationMetric": "kai_queue_allocated_cpu_cores",
    "memoryAllocationMetric": "kai_queue_allocated_memory_bytes",
    "gpuAllocationMetric": "kai_queue_allocated_gpus",
    "cpuCapacityMetric": 'sum(kube_node_status_capacity{resource="cpu"})',
    "memoryCapacityMetric": 'sum(kube_node_status_capacity{resource="memory"})',
    "gpuCapacityMetric": 'sum(kube_node_status_capacity{resource="nvidia_com_gpu"})',
}
"""Prometheus queries by the names of KAI's extra parameters; KAI's defaults."""


class UsageClient(Enum):
    """Source of the queues' past usage."""

    LEDGER = "ledger"
    """This scheduler, by samples of its own; KAI has no such client."""
    PROMETHEUS = "prometheus"
    FAKE = "fake"
    """KAI's own for tests: nothing is known."""
    FAKE_WITH_HISTORY = "fake-with-history"


class WindowKind(Enum):
    SLIDING = "sliding"
    TUMBLING = "tumbling"
    CRON = "cron"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageWindow:
    """Which of the past counts. Times in seconds, moments in seconds since 1970."""

    kind: WindowKind = WindowKind.SLIDING
    size: float = WEEK
    half_life: float = 0.0
    """After so long a sample counts half; 0: all count the same."""
    start: float = 0.0
    """When a tumbling window began for the first time."""
    cron: CronSchedule | None = None
    """When a window of kind cron begins."""

    def since(self, now: float) -> float:
        """The first moment that counts; ``now`` where nothing does yet."""
        match self.kind:
            case WindowKind.SLIDING:
                return now - self.size
            case WindowKind.TUMBLING:
                return self.start + max(0.0, (now - self.start) // self.size) * self.size
            case WindowKind.CRON:
                assert self.cron is not None
                return self.cron.last(now)

    def horizon(self, now: float) -> float:
        """How long a whole window is, in seconds."""
        if self.cron is None:
            return self.size
        begin = self.cron.last(now)
        return begin - self.cron.last(begin - 60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSettings:
    """A policy's settings for usage over time. Times in seconds."""

    client: UsageClient = UsageClient.LEDGER
    address: str = ""
    """Address of a Prometheus server; may carry credentials."""
    variable: str = ""
    """The environment variable that has the address instead."""
    window: UsageWindow = UsageWindow()
    resolution: float = 60.0
    """Between two samples."""
    fetch_interval: float = 60.0
    staleness: float = 300.0
    """Without a newer answer for so long what is known is said to be old."""
    query_timeout: float = 10.0
    metrics: Mapping[str, str] = field(default_factory=lambda: dict(METRICS))
    written: Mapping[str, object] = field(default_factory=dict)
    """The part of the file, to be shown."""
