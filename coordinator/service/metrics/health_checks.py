"""Health checks of a leader."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.api.http.health import HealthCheck
from coordinator.core.coordinator import Coordinator
from coordinator.service.metrics.probes import Probes
from coordinator.service.metrics.sliced_counts import WaitingCounts

SHOWN = 4
"""Shards whose refused worker is told of: on the same Ray node it is the same for all."""


def leader_checks(
    core: Coordinator,
    probes: Probes,
    counts: WaitingCounts,
    sure: Callable[[], bool],
) -> list[HealthCheck]:
    """``sure``: whether this coordinator is certain to lead."""

    def leading() -> str:
        return "" if sure() else "its lease ran out, and the ledger does not renew it"

    def audited() -> str:
        return core.tally.ledger_audit.message()

    def plugins() -> str:
        if not (core.order.session.guarded or probes.plugin_errors.counts):
            return ""
        return probes.plugin_errors.message(counts.reasons())

    def versions() -> str:
        refused = [s for s in core.dispatcher.shards.values() if s.refused]
        return "; ".join(f"shard {state.shard}: {state.refused}" for state in refused[:SHOWN])

    def usage() -> str:
        return core.order.picking.usage.missing()

    return [
        HealthCheck("leading", leading),
        HealthCheck("ledger_audit", audited, needed=False),
        HealthCheck("plugins", plugins, needed=False),
        HealthCheck("worker_versions", versions, needed=False),
        HealthCheck("usage_over_time", usage, needed=False),
    ]
