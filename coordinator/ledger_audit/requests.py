"""The requests of task classes as columns: from a list of tasks to their amounts by slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from coordinator.ledger_audit.picture import AuditedClass
from coordinator.ledger_audit.task_columns import Ints


class RequestedAmounts(NamedTuple):
    """One line per amount. ``task``: index of the task in the list."""

    task: Ints
    slot: Ints
    amount: Ints


class RequestColumns:
    """The requests of all classes in a row, found by class number."""

    def __init__(self, classes: Mapping[int, AuditedClass]) -> None:
        self.cids = np.array(sorted(classes), np.int64)
        flat = [classes[cid].requests for cid in self.cids.tolist()]
        self._counts = np.array([len(requests) for requests in flat] or [0], np.int64)
        self._first = np.cumsum(self._counts) - self._counts
        self._slot = np.array([slot for requests in flat for slot, _ in requests], np.int64)
        self._amount = np.array([n for requests in flat for _, n in requests], np.int64)
        self.best_effort = np.array(
            [classes[cid].best_effort for cid in self.cids.tolist()] or [False], np.bool_
        )
        self.names_things = np.array(
            [bool(classes[cid].things) for cid in self.cids.tolist()] or [False], np.bool_
        )
        self.slots = int(self._slot.max()) + 1 if len(self._slot) else 0
        """One more than the highest slot that any class requests."""

    def places(self, cids: Ints) -> Ints:
        """The index of each class; -1 if it has no record."""
        if not len(self.cids):
            return np.full(len(cids), -1, np.int64)
        at = np.minimum(np.searchsorted(self.cids, cids), len(self.cids) - 1)
        return np.where(self.cids[at] == cids, at, -1)

    def expand(self, places: Ints) -> RequestedAmounts:
        """The amounts that tasks of these classes request. ``places``: from :meth:`places`, without
        -1."""
        counts = self._counts[places]
        task = np.repeat(np.arange(len(places)), counts)
        within = np.arange(len(task)) - np.repeat(np.cumsum(counts) - counts, counts)
        at = self._first[places][task] + within
        return RequestedAmounts(task, self._slot[at], self._amount[at])
