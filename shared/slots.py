"""Slots: the named quantities a node offers and a task asks for.

Everything the scheduler adds and compares is a whole number in the unit of its slot, below 2**53
on one node, so that Python, NumPy and the ledger's script agree to the last digit.

========================  ==========================================
slot                      unit
========================  ==========================================
``cpu``                   thousandths of a core
``memory``, ``ephemeral-storage``, ``hugepages-*``   bytes
``pods``                  pods
``port/PROTOCOL/NUMBER``  1 per node, by nature (host ports)
every other resource      thousandths (``nvidia.com/gpu: 1`` = 1000)
========================  ==========================================
"""

from __future__ import annotations

from collections.abc import Iterable

CPU = 0
MEMORY = 1
PODS = 2
BASE = ("cpu", "memory", "pods")
LIMIT = 2**53
"""Amounts of one node stay below this: what a double (the script's number) holds exactly."""


class Slots:
    """The cluster's slot names in order of first use; only ever grows."""

    __slots__ = ("_index", "names")

    def __init__(self, names: Iterable[str] = BASE) -> None:
        self.names: list[str] = list(names)
        self._index = {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def intern(self, name: str) -> int:
        """The slot of ``name``, given a number now if it had none."""
        slot = self._index.get(name)
        if slot is None:
            slot = self._index[name] = len(self.names)
            self.names.append(name)
        return slot

    def find(self, name: str) -> int | None:
        return self._index.get(name)

    def implied(self, slot: int) -> int:
        """What every node offers of a slot without saying so: 1 of each host port, else nothing."""
        return 1 if self.names[slot].startswith("port/") else 0


def port_slot(protocol: str, port: int) -> str:
    return f"port/{protocol}/{port}"
