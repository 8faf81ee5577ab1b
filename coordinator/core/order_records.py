"""Decisions of Order that have to be stored."""

from __future__ import annotations

from coordinator.dispatch.instructions import (
    Instruction,
    RemoveGates,
    StoreReservations,
    StoreUsage,
)
from coordinator.order.order import Order


def order_records(order: Order) -> list[Instruction]:
    """Instructions for what has changed since they were last given out."""
    out: list[Instruction] = []
    if reservations := order.aging.changes():
        out.append(StoreReservations(reservations))
    if usage := order.picking.usage.changes():
        out.append(StoreUsage(usage))
    if gates := order.accounts.gates.take():
        out.append(RemoveGates(gates))
    return out
