"""Everything a coordinator knows that follows from the ledger, as plain values to compare."""

from __future__ import annotations

from collections import Counter
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.intake.admission.registry import Registry
from coordinator.intake.intake import Intake


def books(intake: Intake, core: Coordinator) -> dict[str, Any]:
    """Two of them are equal where the same would be decided from them."""
    order = core.order
    return {
        "registry": _registry(intake.registry),
        "jobs": {jid: _job(state) for jid, state in sorted(order.jobs.items())},
        "leaving": {jid: _job(state) for jid, state in sorted(order.departures.jobs.items())},
        "going": (
            order.departures.members,
            sorted(order.departures.stop),
            sorted(order.departures.fail),
            sorted(order.departures.purge_jobs),
            sorted(order.departures.purge_members),
        ),
        "expired": sorted(order.expired),
        "totals": _totals(core),
        "queues": {
            qid: (
                info.queue,
                _amounts(info.allocated),
                _amounts(info.requested),
                _amounts(info.releasing),
                info.jobs,
            )
            for qid, info in order.accounts.cluster.queues.items()
        },
        "queue_ids": order.queue_ids,
        "lines": _lines(core),
        "reasons": order.pending_reasons(),
        "leaving_rows": +order.nominations._leaving,
        "nodes": core.nodes,
        "names": core.names,
        "rows": core.rows,
        "hyper_nodes": core.hyper_nodes,
        "revision": core.revision,
        "shard_of": core.dispatcher.shard_of,
        "in_use": core.partition.handover.in_use.tolist(),
        "moving": (core.partition.handover.moving, core.partition.handover.strangers),
        "aside": core.quarantines.now,
        "idle": {s: _amounts(state.idle) for s, state in core.dispatcher.shards.items()},
        "node_idle": {row: _amounts(core.dispatcher.idle_of(row)) for row in core.names},
    }


def _amounts(amounts: Any) -> dict[int, int]:
    return {slot: amount for slot, amount in amounts.items() if amount}


_PASSING = ("_journal", "templates")
"""Fields of a registry only for speed, or for the request that it works on."""


def _registry(registry: Registry) -> dict[str, Any]:
    results = {name: getattr(registry, name) for name in Registry.__slots__ if name not in _PASSING}
    return results | {"slots": registry.slots.names}


def _job(state: Any) -> tuple[Any, ...]:
    info = state.info
    counts = (info.held, info.waiting, info.best_effort, info.pending, info.failed)
    used = (_amounts(info.allocated), _amounts(info.requested))
    where = (bytes(state.states), list(state.rows), state.status, state.reason)
    return (state.job, info.qid, *counts, *used, *where, state.releasing_nominations, state.counted)


def _totals(core: Coordinator) -> tuple[Any, ...]:
    accounts = core.order.accounts
    capacity = accounts.capacity
    amounts = (capacity.offered, capacity.idle, capacity.releasing, capacity.promised)
    lists = (sorted(accounts.cluster.jobs), sorted(accounts.queueless))
    return (*map(_amounts, amounts), +accounts.tasks, accounts.started, *lists)


def _lines(core: Coordinator) -> Counter[tuple[int, Any, int]]:
    """Jobs in each line of each queue, each once."""
    return Counter(
        (qid, need, jid)
        for qid, queue in core.order.lines.queues.items()
        for need, line in queue.lines.items()
        for _, _, jid, stamp in line.heap
        if core.order.jobs[jid].line is line and core.order.jobs[jid].stamp == stamp
    )
