"""The coordinator's state in counts, for progress displays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.jobs.counters import CoordinatorTally
from coordinator.jobs.state import SchedulingStatus
from coordinator.order.order import Order
from shared.messages.messages import ENDED, Level, TaskState


def status(
    order: Order, dispatcher: Dispatcher, tally: CoordinatorTally, *, reasons: Mapping[str, int]
) -> dict[str, Any]:
    """Jobs, tasks, shards, conflicts and pending reasons."""
    total = tally.total()
    states, deleted = order.accounts.tasks, order.accounts.deleted
    finished, running = order.lines.status_counts[SchedulingStatus.DONE], order.accounts.started
    unbound = (TaskState.PENDING, TaskState.BINDING)
    bound = sum(states[s] for s in TaskState if s not in unbound) - deleted
    return {
        "jobs": {
            "submitted": len(order.jobs),
            "finished": finished,
            "running": running,
            "pending": len(order.jobs) - finished - running,
            "deleted": order.departures.jobs_gone,
        },
        "tasks": {
            "submitted": states.total() - deleted,
            "pending": states[TaskState.PENDING],
            "bound": bound,
            "running": states[TaskState.RUNNING],
            "finished": sum(states[end] for end in ENDED) - deleted,
            "deleted": order.departures.tasks_gone + deleted,
        },
        "statements": {
            name: total.statements[name]
            for name in ("committed", "rechecked", "conflicts_true", "conflicts_read")
        },
        "levels": {f"L{level.value}": total.levels[level] for level in Level},
        "outcomes": {code.name.lower(): count for code, count in total.outcomes.items()},
        "workers_lost": tally.workers_lost,
        "open_turns": order.open,
        "pending_reasons": dict(reasons),
        "shards": [
            {
                "shard": s.shard,
                "nodes": s.in_use,
                "desired": s.nodes,
                "up": s.epoch is not None,
                "epoch": str(s.epoch) if s.epoch else None,
                "pid": s.pid,
                "refused": s.refused or None,
                "outstanding": s.outstanding,
                "turns": s.open_turns,
                "turn_limit": s.concurrency.limit,
            }
            for s in dispatcher.shards.values()
        ],
    }


def resources_of(order: Order, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Capacity and usage of the cluster, by resource name, in the slot's unit."""
    total, idle = order.accounts.cluster.total, order.accounts.capacity.idle
    return {
        names[slot]: {"total": amount, "used": amount - idle.get(slot, 0)}
        for slot, amount in sorted(total.items())
        if amount
    }
