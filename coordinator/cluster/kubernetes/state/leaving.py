"""Pods that are to leave their nodes, and which of them are late. No I/O and no clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coordinator.cluster.kubernetes.api.objects import PodMetadata
from coordinator.cluster.kubernetes.state.pods import PodRow
from coordinator.cluster.overdue import OverdueObstacle, OverduePod
from shared.units.amount_text import some

OVERDUE_SECONDS = 30.0
"""Beyond its grace. A kubelet that lives kills and reports within a few seconds, and a node that
does not answer is NotReady after 40 to 50."""


@dataclass(slots=True)
class _Deleted:
    row: PodRow
    since: float
    grace: float
    finalizers: tuple[str, ...]


@dataclass(slots=True)
class _RefusedEviction:
    row: PodRow
    since: float
    last: float
    why: str


class LeavingPods:
    """Few at any time, so that rows of pods have no fields for it."""

    def __init__(self) -> None:
        self._deleted: dict[str, _Deleted] = {}
        self._refused: dict[str, _RefusedEviction] = {}
        """Pod's uid -> its last refused eviction."""

    def take(self, row: PodRow, meta: PodMetadata, now: float) -> None:
        """A pod as the watch has it."""
        if not row.leaving or not row.on_node:
            self._deleted.pop(row.uid, None)
            if not row.on_node:
                self._refused.pop(row.uid, None)
            return
        self._refused.pop(row.uid, None)
        deleted_row = self._deleted.get(row.uid)
        since = now if deleted_row is None else deleted_row.since
        grace = float(meta.deletion_grace_period_seconds or 0)
        self._deleted[row.uid] = _Deleted(row, since, grace, tuple(meta.finalizers or ()))

    def refused(self, row: PodRow, why: str, now: float) -> bool:
        """The server does not let the pod be evicted. Returns whether that is new."""
        refusal = self._refused.get(row.uid)
        since = now if refusal is None else refusal.since
        self._refused[row.uid] = _RefusedEviction(row, since, now, why)
        return refusal is None

    def forget(self, row: PodRow) -> None:
        self._deleted.pop(row.uid, None)
        self._refused.pop(row.uid, None)

    def overdue(self, now: float) -> Iterator[OverduePod]:
        """Tasks of ours that should have left their nodes by now."""
        for late in self._deleted.values():
            if late.row.jid < 0 or now < late.since + late.grace + OVERDUE_SECONDS:
                continue
            finalizers = some(late.finalizers)
            yield _overdue(
                late.row,
                OverdueObstacle.FINALIZER if finalizers else OverdueObstacle.KUBELET,
                late.since,
                grace=late.grace,
                detail=finalizers,
            )
        for refused in self._refused.values():
            # One that nobody asks for any more is no victim.
            asked_lately = now < refused.last + OVERDUE_SECONDS
            if refused.row.jid >= 0 and asked_lately and now >= refused.since + OVERDUE_SECONDS:
                yield _overdue(
                    refused.row, OverdueObstacle.REFUSED, refused.since, detail=refused.why
                )


def _overdue(
    row: PodRow, obstacle: OverdueObstacle, since: float, *, grace: float = 0.0, detail: str
) -> OverduePod:
    task = row.jid, row.tix
    return OverduePod(task, row.namespace, row.name, row.node, obstacle, since, grace, detail)
