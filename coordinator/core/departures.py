"""Deleted jobs and members: what is due to stop, to fail and to purge of them."""

from __future__ import annotations

from coordinator.bind.evictions import Victims
from coordinator.dispatch.instructions import Fail, Instruction, Purge, Stop, failures
from coordinator.order.order import Order


def departures(order: Order, victims: Victims, now: float) -> list[Instruction]:
    """Instructions for deleted jobs and members."""
    order.departures.begin(now)
    due = order.departures.take()
    out: list[Instruction] = []
    if due.stop:
        out.append(Stop(due.stop, victims.uids(due.stop)))
    if due.fail:
        out.append(Fail(failures(due.fail, order.jobs)))
    if due.purge_jobs or due.purge_members:
        out.append(Purge(due.purge_jobs, due.purge_members))
    return out
