"""Usage of nodes by foreign pods: slots, and named things such as host ports.

It is kept in the ledger, so that every placement takes it into account.
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.ledger.entries.intake_batch import Observe
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.records import OBSERVED, WIDTH, unpack_node, unpack_thing
from shared.model.model import TaskClass
from shared.units.slots import Slots
from shared.units.things import Vector, is_port

Use = int | Vector
"""An amount in the slot's unit; for a named thing one amount per dimension."""


def observed_of(snapshot: Snapshot) -> dict[int, dict[int | str, Use]]:
    """The foreign usage in the ledger: row -> slot or thing -> amount."""
    use_of: dict[int, dict[int | str, Use]] = {}
    for row, record in zip(snapshot.nodes.rows, snapshot.nodes.records, strict=True):
        _, _, flat = unpack_node(record)
        used: dict[int | str, Use] = {at: n for at, n in enumerate(flat[OBSERVED::WIDTH]) if n}
        if used:
            use_of[row] = used
    for row, name, record in snapshot.nodes.things:
        vector = tuple(unpack_thing(record)[1][OBSERVED::WIDTH])
        if any(vector):
            use_of.setdefault(row, {})[name] = vector
    return use_of


def counted(used: Mapping[str, int], slots: Slots) -> dict[int | str, Use]:
    """Foreign usage of a node, by slot, and by name for host ports. Resources that none of our
    objects names are left out."""
    by_slot: dict[int | str, Use] = {}
    for name, amount in used.items():
        if amount and is_port(name):
            by_slot[name] = (amount,)
        elif amount and (slot := slots.find(name)) is not None:
            by_slot[slot] = amount
    return by_slot


def add_use(used: dict[int | str, Use], cls: TaskClass) -> None:
    """Add the amounts and named things of one pod of this class."""
    for slot, amount in cls.requests:
        before = used.get(slot, 0)
        used[slot] = amount + before if isinstance(before, int) else amount
    for name, vector in cls.things:
        had = used.get(name)
        used[name] = (
            vector if not isinstance(had, tuple) else tuple(map(sum, zip(had, vector, strict=True)))
        )


def observation(
    row: int, used: Mapping[int | str, Use], before: Mapping[int | str, Use]
) -> Observe:
    """The operation that stores the usage of a node. It names the things of ``before`` too, because
    a version moves only for named things."""
    slots = [(at, use) for at, use in used.items() if isinstance(at, int) and isinstance(use, int)]
    # What is no longer used is named with zeros, or its last amount would stay.
    things = {at: (0,) * len(use) for at, use in before.items() if isinstance(use, tuple)}
    things |= {at: use for at, use in used.items() if isinstance(use, tuple)}
    return Observe(row, sorted(slots), sorted((str(name), use) for name, use in things.items()))


def differences(
    before: Mapping[int, Mapping[int | str, Use]], now: Mapping[int, Mapping[int | str, Use]]
) -> dict[int, dict[int | str, Use]]:
    """The rows whose foreign usage changed: row -> slot or thing -> amount; an empty dict where
    there is none any more."""
    changed = {row: dict(used) for row, used in now.items() if before.get(row, {}) != used}
    changed.update((row, {}) for row, used in before.items() if used and row not in now)
    return changed
