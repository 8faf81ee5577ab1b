"""What pods that are not ours use of a node: slots, and named things such as host ports.

It is kept in the ledger, so that it counts against every placement.
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.ledger.entries.intake_batch import Observe
from shared.ledger.entries.snapshot import Snapshot
from shared.ledger.records import OBSERVED, WIDTH, unpack_node, unpack_thing
from shared.units.slots import Slots
from shared.units.things import Vector, is_port

Use = int | Vector
"""Of a slot in its unit, of a named thing by dimension."""


def observed_of(snapshot: Snapshot) -> dict[int, dict[int | str, Use]]:
    """What the ledger has of others' use: row -> slot or thing -> amount."""
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
    """What others use of a node, by slot or, of its host ports, by name. Resources that nothing
    of ours names count for nobody."""
    by_slot: dict[int | str, Use] = {}
    for name, amount in used.items():
        if amount and is_port(name):
            by_slot[name] = (amount,)
        elif amount and (slot := slots.find(name)) is not None:
            by_slot[slot] = amount
    return by_slot


def observation(
    row: int, used: Mapping[int | str, Use], before: Mapping[int | str, Use]
) -> Observe:
    """The operation names what things others had before, too: of those not named nothing moves."""
    slots = [(at, use) for at, use in used.items() if isinstance(at, int) and isinstance(use, int)]
    things = {at: (0,) * len(use) for at, use in before.items() if isinstance(use, tuple)}
    things |= {at: use for at, use in used.items() if isinstance(use, tuple)}
    return Observe(row, sorted(slots), sorted((str(name), use) for name, use in things.items()))


def differences(
    before: Mapping[int, Mapping[int | str, Use]], now: Mapping[int, Mapping[int | str, Use]]
) -> dict[int, dict[int | str, Use]]:
    """What others use (row -> slot or thing -> amount) where it is another than is known; an empty
    dict where they use nothing any more."""
    changed = {row: dict(used) for row, used in now.items() if before.get(row, {}) != used}
    changed.update((row, {}) for row, used in before.items() if used and row not in now)
    return changed
