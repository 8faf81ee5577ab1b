"""Hands the limits that an operator may set to the parts that enforce them."""

from __future__ import annotations

from coordinator.core.coordinator import Coordinator
from shared.settings.settings import Settings


def set_limits(core: Coordinator, settings: Settings) -> None:
    core.order.parking.attempts = settings.attempts
    core.order.aging.bound = settings.aging_bound_seconds
    core.order.gangs.seconds = settings.gang_repair_seconds
    core.quarantines.refusals = settings.node_refusals
    core.quarantines.seconds = settings.node_aside_seconds
