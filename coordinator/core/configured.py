"""The state machine as the settings want it: its shards, windows, bounds and times."""

from __future__ import annotations

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import PACE_SECONDS, Dispatcher
from coordinator.order.order import Order
from shard_worker.framework.session import Session
from shared.settings.settings import Settings


def configured_core(settings: Settings, session: Session) -> Coordinator:
    """A state machine without any job or node, which orders by the policy of ``session``."""
    core = Coordinator(
        Order(session, window=settings.window, walls=settings.mode == "hard"),
        Dispatcher(
            settings.shards,
            calls_in_flight=settings.calls_in_flight,
            turns_per_call=settings.turns_per_call,
            tasks_per_call=settings.tasks_per_call,
            pace=PACE_SECONDS,
        ),
        mode=settings.mode,
        moves_per_minute=settings.rebalance_moves_per_minute,
    )
    core.order.parking.attempts = settings.attempts
    core.order.aging.bound = settings.aging_bound_seconds
    core.order.gangs.seconds = settings.gang_repair_seconds
    core.quarantines.refusals = settings.node_refusals
    core.quarantines.seconds = settings.node_quarantine_seconds
    return core
