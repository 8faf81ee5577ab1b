"""Queues whose figures cover all queues below them: totals, and the versions of their changes."""

from __future__ import annotations

from coordinator.core.coordinator import Coordinator
from coordinator.intake.documents.document import Document
from coordinator.intake.documents.index import Record
from coordinator.intake.documents.kinds import KAI_QUEUE
from shard_worker.session_model.workload import Amounts, ClusterInfo, add


def requested_below(cluster: ClusterInfo) -> dict[str, Amounts]:
    """Amounts that each queue, with all queues below it, holds or requests."""
    totals: dict[str, Amounts] = {}
    for info in cluster.queues.values():
        for queue in (info, *info.above):
            add(totals.setdefault(queue.queue.name, {}), info.requested.items(), 1)
    return totals


class QueueVersions:
    """At which version the status of each queue changed.

    A job changes the figures of its queue, and those of every queue above as well; which queues are
    below another of KAI's is a part of its status too. That is computed at most once for
    each version, and only if a client reads or watches such queues: the scheduler's reports, which
    come with every turn, stay short.
    """

    def __init__(self, core: Coordinator) -> None:
        self.moved: dict[int, int] = {}
        """qid -> version at which one of its own jobs last changed."""
        self._core = core
        self._parents: dict[str, int] = {}
        """Queue -> version at which another queue became, or ceased to be, its child."""
        self._cached: tuple[int, dict[str, int]] = (-1, {})

    def published(self, version: int, document: Document, before: Record | None = None) -> None:
        """Note that a queue came, went, or has another parent; other kinds are skipped."""
        if document.key.kind == KAI_QUEUE.kind:
            parents = {_parent(document), "" if before is None else _parent(before.document)}
            self._parents |= dict.fromkeys(parents, version)

    def at(self, kind: str, name: str, *, now: int) -> int:
        """The version of a queue's last change; 0 where it is unknown. ``now``: the present one."""
        if kind != KAI_QUEUE.kind:
            qid = self._core.order.queue_ids.get(name, -1)
            queue = self._core.order.accounts.cluster.queues.get(qid)
            if queue is None or queue.below is None:
                return self.moved.get(qid, 0)
        if self._cached[0] != now:
            self._cached = now, self._of_trees()
        return self._cached[1].get(name, 0)

    def _of_trees(self) -> dict[str, int]:
        versions = dict(self._parents)
        for qid, info in self._core.order.accounts.cluster.queues.items():
            own = self.moved.get(qid, 0)
            for queue in (info, *info.above):
                name = queue.queue.name
                versions[name] = max(versions.get(name, 0), own)
        return versions


def _parent(document: Document) -> str:
    """The name of a queue's parent as written; "" for none."""
    spec = document.object().get("spec") or {}
    return str(spec.get("parentQueue") or "")
