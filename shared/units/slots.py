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
"""The name of a number that no resource has any more."""
MOST_RESOURCES = 64
"""Names of resources that a cluster may have at once. A node's and a queue's record have numbers
for each of them, and every commit reads and writes whole records: a task costs the ledger's server
19 us with 3 names, 24 with 16, 43 with 64, 70 with 128 and 130 with 256, of 30 us that it may cost;
and a node has 2.6, 5.2 and 10.3 KB with the last three. Nodes of real clusters offer up to 20."""
MOST_ASKED = 32
"""Names that only pods ask for, and no node or queue has named: who may submit pods cannot use up
those that nodes need."""
LIMIT = 2**53
"""Amounts of one node stay below this: what a double (the script's number) holds exactly."""


class Slots:
    """The cluster's slot names by number; FREE stands for a number that no name has any more."""

    __slots__ = ("_index", "names")

    def __init__(self, names: Iterable[str] = BASE) -> None:
        self.names: list[str] = list(names)
        self._index = {name: i for i, name in enumerate(self.names) if name != FREE}

    def __len__(self) -> int:
        return len(self.names)

    def intern(self, name: str) -> int:
        """The slot of ``name``, given a number now if it had none."""
        slot = self._index.get(name)
        if slot is None:
            slot = (
                len(self.names) if len(self._index) == len(self.names) else self.names.index(FREE)
            )
            self.names[slot : slot + 1] = [name]
            self._index[name] = slot
        return slot

    def free(self, name: str) -> None:
        """Free the number of a name under which nothing is counted any more."""
        self.names[self._index.pop(name)] = FREE

    def assign(self, names: Iterable[str]) -> None:
        """Restore the names of another time."""
        self.names[:] = names
        self._index = {name: i for i, name in enumerate(self.names) if name != FREE}

    def find(self, name: str) -> int | None:
        return self._index.get(name)
