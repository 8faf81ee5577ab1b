"""The queues of the page: the figures of ``quadrant queue list``, by the policy's dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.explain.queues.queue_amounts import amounts_by_kind
from coordinator.explain.queues.queue_tree import tree_json, tree_of
from coordinator.intake.documents.kinds import QUEUE
from coordinator.objects.store import Objects
from shard_worker.session_model.workload import QueueInfo
from shared.policy.model import Dialect
from shared.slices import Steps
from shared.units.resources import dominant_share

Json = dict[str, Any]
WaitingJobs = Mapping[tuple[int, str], int]
"""Jobs without any place, by the queue's number and the reason."""


def queues_json(core: Coordinator, objects: Objects, waiting: WaitingJobs) -> Steps[Json]:
    """The queues in the order of their tree. Under KAI's policies: its tree of shares, as
    ``/apis/quadrant.dev/v1alpha1/queuetree`` has it."""
    dialect = core.order.session.policy.dialect
    if dialect is Dialect.KAI:
        yield
        return {"dialect": dialect.value, "tree": tree_json(tree_of(core))}
    by_queue: dict[int, dict[str, int]] = {}
    for (qid, reason), count in waiting.items():
        by_queue.setdefault(qid, {})[str(reason)] = count
    rows: list[Json] = []
    for info, depth in _in_order(core):
        rows.append(_queue(core, objects, info, depth, by_queue.get(info.queue.qid, {})))
        yield
    return {"dialect": dialect.value, "rows": rows}


def _in_order(core: Coordinator) -> Iterator[tuple[QueueInfo, int]]:
    """(queue, depth), each queue before those below it, by name."""
    queues = dict(core.order.accounts.cluster.queues)
    children: dict[int, list[QueueInfo]] = {}
    for info in queues.values():
        parent = info.queue.parent if info.queue.parent in queues else -1
        children.setdefault(parent, []).append(info)

    def walk(parent: int, depth: int) -> Iterator[tuple[QueueInfo, int]]:
        for info in sorted(children.get(parent, ()), key=lambda each: each.queue.name):
            yield info, depth
            yield from walk(info.queue.qid, depth + 1)

    return walk(-1, 0)


def _queue(
    core: Coordinator, objects: Objects, info: QueueInfo, depth: int, waiting: Mapping[str, int]
) -> Json:
    order, queue = core.order, info.queue
    cluster, state = order.accounts.cluster, order.lines.queues.get(queue.qid)
    deserved = order.session.deserved(info, cluster)
    head = None if state is None else order.lines.head(state)
    kinds = amounts_by_kind(info, deserved, {} if head is None else head.amounts)
    return {
        "name": queue.name,
        "depth": depth,
        "state": "Open" if queue.open else _closed(objects, queue.name),
        "weight": queue.weight,
        "share": dominant_share(info.allocated, deserved),
        "overused": order.session.overused(info, cluster),
        "amounts": {
            kind: {
                cluster.names[slot]: amount
                for slot, amount in amounts.items()
                if amount > 0 and cluster.total.get(slot)
            }
            for kind, amounts in kinds.items()
        },
        "waiting": dict(sorted(waiting.items())),
    }


def _closed(objects: Objects, name: str) -> str:
    """Closing or Closed, as the queue's object says. Not asked of open queues: to render one counts
    its jobs."""
    shown = objects.get(QUEUE, "", name)
    return "Closed" if shown is None else str(shown["status"]["state"])
