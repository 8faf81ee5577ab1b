"""Slots: the named quantities a node offers and a task asks for.

Everything the scheduler adds and compares is a whole number in the unit of its slot, below 2**53
on one node, so that Python, NumPy and the ledger's script agree to the last digit.

========================  ==========================================
slot                      unit
========================  ==========================================
``cpu``                   thousandths of a core
``memory``, ``ephemeral-storage``, ``hugepages-*``   bytes
``pods``                  pods
every other resource      thousandths (``nvidia.com/gpu: 1`` = 1000)
========================  ==========================================
"""

from __future__ import annotations

from collections.abc import Iterable

CPU = 0
MEMORY = 1
PODS = 2
BASE = ("cpu", "memory", "pods")
FREE = ""
"""The name of a slot number that is not in use."""
MOST_RESOURCES = 64
"""Maximum number of resource names in the cluster at a time.

Node and queue records hold numbers for each name, and every commit reads and writes whole records.
The ledger server's time per task is 19 us with 3 names, 24 with 16, 43 with 64, 70 with 128 and 130
with 256, of a budget of 30 us; a node record has 2.6, 5.2 and 10.3 KB with the last three. Nodes of
real clusters offer up to 20 resources.
"""
MOST_ASKED = 32
"""Maximum number of names that only pods request, and no node or queue names: so whoever may submit
pods cannot exhaust the names that nodes need."""
LIMIT = 2**53
"""Amounts per node stay below this, so that a double (the script's number type) holds them
exactly."""
MOST_IN_TOTAL = 2**63 - 1
"""Totals over many nodes (of queues, gangs and quotas) are Kubernetes' int64; the ledger has them
in two limbs."""


class Slots:
    """The cluster's slot names by number; FREE marks a number that is not in use."""

    __slots__ = ("_index", "names")

    def __init__(self, names: Iterable[str] = BASE) -> None:
        self.names: list[str] = list(names)
        self._index = {name: i for i, name in enumerate(self.names) if name != FREE}

    def __len__(self) -> int:
        return len(self.names)

    def intern(self, name: str) -> int:
        """The slot of ``name``; assigns a number to a new name."""
        slot = self._index.get(name)
        if slot is None:
            slot = (
                len(self.names) if len(self._index) == len(self.names) else self.names.index(FREE)
            )
            self.names[slot : slot + 1] = [name]
            self._index[name] = slot
        return slot

    def free(self, name: str) -> None:
        """Free the number of a name; nothing may be counted under it any more."""
        self.names[self._index.pop(name)] = FREE

    def assign(self, names: Iterable[str]) -> None:
        """Restore an earlier list of names."""
        self.names[:] = names
        self._index = {name: i for i, name in enumerate(self.names) if name != FREE}

    def find(self, name: str) -> int | None:
        return self._index.get(name)
