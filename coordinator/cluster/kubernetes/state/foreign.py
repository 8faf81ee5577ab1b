"""Usage of nodes by pods of others, kept as sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from coordinator.cluster.kubernetes.state.pods import PodRow
from coordinator.cluster.protocol import Foreign
from shared.manifests.kubernetes.pods import template

_ONE_POD = ("pods", 1)

Amounts = tuple[tuple[str, int], ...]


class ForeignPods:
    """Sums per node; a pod counts from its binding until it ends."""

    def __init__(self) -> None:
        self.unread = 0
        """Pods whose requests nobody could read: they count as one pod and nothing else."""
        self.changed = False
        """Whether anything moved since this was last set to False."""
        self._used: dict[str, Counter[str]] = {}
        self._counted: dict[str, tuple[str, Amounts]] = {}
        """uid -> (node, amounts)"""

    def take(self, row: PodRow, spec: Mapping[str, object]) -> None:
        counted = self._counted.get(row.uid)
        if not row.on_node:
            self.forget(row)
        elif counted is None or counted[0] != row.node:
            self.forget(row)
            self._count(row, self._amounts(spec))

    def forget(self, row: PodRow) -> None:
        node, amounts = self._counted.pop(row.uid, ("", ()))
        if node:
            used = self._used[node]
            used.subtract(dict(amounts))
            if not any(used.values()):
                del self._used[node]
            self.changed = True

    def sums(self) -> Foreign:
        return {
            node: {name: n for name, n in used.items() if n} for node, used in self._used.items()
        }

    def _count(self, row: PodRow, amounts: Amounts) -> None:
        self._counted[row.uid] = row.node, amounts
        self._used.setdefault(row.node, Counter()).update(dict(amounts))
        self.changed = True

    def _amounts(self, spec: Mapping[str, object]) -> Amounts:
        try:
            form = template(spec)
        except Exception:
            # Somebody else's mistake, or a field that we do not know: it takes a place anyhow.
            self.unread += 1
            return (_ONE_POD,)
        things = tuple((name, vector[0]) for name, vector in form.things)
        requests = tuple((name, n) for name, n in form.requests if name != _ONE_POD[0])
        return (*requests, *things, _ONE_POD)
