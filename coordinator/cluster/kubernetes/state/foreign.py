"""Sums of the amounts that pods of others use of their nodes.

A pod of ours that was resized where it runs counts in the books as it was admitted; the difference
counts here. What a smaller one gives back lowers the sum of its node, down to nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from coordinator.cluster.kubernetes.state.pods import PodRow
from coordinator.cluster.protocol import Foreign
from shared.manifests.kubernetes.requests import usage
from shared.model.storage import Amounts

_ONE_POD = ("pods", 1)


class ForeignPods:
    """Sums per node; a pod counts from its binding until it ends."""

    def __init__(self) -> None:
        self.changed = False
        """Whether anything moved since this was last set to False."""
        self._used: dict[str, Counter[str]] = {}
        self._counted: dict[str, tuple[str, Amounts]] = {}
        """uid -> (node, amounts)"""
        self._read: dict[str, int] = {}
        """uid -> fingerprint of what was read of the pod."""
        self._unread: dict[str, tuple[str, ...]] = {}
        """uid -> paths of amounts that could not be read, which nobody was told of yet."""
        self.unread: set[str] = set()
        """Pods (uid) with such amounts: they count as a full node."""

    def take(self, row: PodRow, spec: object, status: object, fingerprint: int) -> None:
        """Count a pod of others. ``fingerprint`` changes with what is read of it."""
        if not row.on_node:
            self.forget(row)
            return
        counted = self._counted.get(row.uid)
        if counted is None or counted[0] != row.node or self._read.get(row.uid) != fingerprint:
            self.forget(row)
            self._read[row.uid] = fingerprint
            used = usage(spec, status)
            if used.unread:
                self._unread[row.uid] = used.unread
                self.unread.add(row.uid)
            self._count(row, (*used.amounts, *((port, 1) for port in used.ports), _ONE_POD))

    def differs(self, row: PodRow, spec: object, status: object, booked: Amounts) -> None:
        """Count what a pod of ours uses beside what the books have of it."""
        self.forget(row)
        if row.on_node:
            difference = Counter(dict(usage(spec, status).amounts))
            difference.subtract(dict(booked))
            self._count(row, tuple((name, n) for name, n in sorted(difference.items()) if n))

    def forget(self, row: PodRow) -> None:
        self._read.pop(row.uid, None)
        self._unread.pop(row.uid, None)
        self.unread.discard(row.uid)
        node, amounts = self._counted.pop(row.uid, ("", ()))
        if node:
            used = self._used[node]
            used.subtract(dict(amounts))
            if not any(used.values()):
                del self._used[node]
            self.changed = True

    def nodes_came(self, names: Iterable[str]) -> None:
        """Note that nodes were admitted: what pods use there can be stored from now on."""
        self.changed |= any(name in self._used for name in names)

    def take_unread(self, row: PodRow) -> tuple[str, ...]:
        """Paths of amounts of the pod that could not be read; each once."""
        return self._unread.pop(row.uid, ())

    def sums(self) -> Foreign:
        return {
            node: {name: n for name, n in used.items() if n > 0}
            for node, used in self._used.items()
        }

    def _count(self, row: PodRow, amounts: Amounts) -> None:
        self._counted[row.uid] = row.node, amounts
        self._used.setdefault(row.node, Counter()).update(dict(amounts))
        self.changed = True
