"""Dump of the coordinator's state for an administrator: nodes, queues, jobs, shards, versions."""

from __future__ import annotations

from collections import Counter
from typing import Any

from coordinator.core.coordinator import Coordinator

NODES = 1000
JOBS = 1000
"""Jobs that wait, those with the lowest numbers, and nodes that are listed; all are counted."""


def dump_of_core(core: Coordinator, *, names: list[str]) -> dict[str, Any]:
    """``names``: the resource of each slot."""
    order, dispatcher = core.order, core.dispatcher
    waiting = [state for state in order.jobs.values() if state.info.pending]
    return {
        "counts": {
            "nodes": len(core.nodes),
            "queues": len(order.lines.queues),
            "jobs": len(order.jobs),
            "waitingJobs": len(waiting),
            "leavingJobs": len(core.leaving),
            "openTurns": order.open,
            "tracedJobs": len(order.traced),
            "partition": core.revision,
        },
        "queues": [
            {
                "name": queue.info.queue.name,
                "lines": len(queue.lines),
                "waitingJobs": queue.waiting,
                "allocated": _by_name(queue.info.allocated, names),
            }
            for queue in order.lines.queues.values()
        ],
        "shards": [
            {
                "name": f"shard-{state.shard}",
                "epoch": str(state.epoch or ""),
                "logPosition": state.position,
                "nodes": state.in_use,
                "calls": len(state.calls),
                "openTurns": state.open_turns,
                "turnLimit": state.concurrency.limit,
                "waitingTurns": len(state.waiting),
                "outstandingTasks": state.outstanding,
            }
            for state in dispatcher.shards.values()
        ],
        "states": dict(Counter(state.status.value for state in order.jobs.values())),
        "jobs": [
            {
                "key": state.job.key,
                "state": state.status.value,
                "reason": str(state.reason),
                "pendingTasks": state.info.pending,
                "attempts": state.attempts,
                "version": state.job.spec,
            }
            for state in waiting[:JOBS]
        ],
        "nodes": [
            {
                "name": node.name,
                "row": row,
                "shard": dispatcher.shard_of.get(row, -1),
                "idle": _by_name(dispatcher.idle_of(row), names),
            }
            for row, node in [*core.nodes.items()][:NODES]
        ],
    }


def _by_name(amounts: Any, names: list[str]) -> dict[str, float]:
    return {
        names[slot] if slot < len(names) else f"slot {slot}": amount
        for slot, amount in amounts.items()
        if amount
    }
