"""Garbage collection of resource names: the slots of unused names are freed.

In three steps, because jobs, nodes and records may be very many, and intake goes on meanwhile::

    doubt -----> look (in portions) -----> free
    all names    removes the used ones     what is left, serialized with
                                           all other intake work

``doubt`` and ``free`` are serialized with the other work of intake. Using a name in between removes
it from the candidates (see :class:`Draft`), so that ``free`` needs no second search. A task class
that names a freed resource is removed with it: no task has this class.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.intake.admission.deletion import numbers_of
from coordinator.intake.admission.registry import Registry
from coordinator.intake.admission.result import Admission
from shared.ledger.entries.intake_batch import DropClass, IntakeOp, PutObject
from shared.model.model import Requests
from shared.records.specs import SLOTS_KEY, encode_slots
from shared.units.slots import BASE, FREE

PORTION = 2000
"""Jobs, nodes or classes per step of the search: about a millisecond."""


def doubt(registry: Registry) -> None:
    """Make every name a candidate."""
    registry.doubtful = set(registry.slots.names) - {*BASE, FREE}


def look(registry: Registry) -> Iterator[None]:
    """Remove the candidates that jobs (the deleted ones that are not purged included), nodes and
    queues use. Yields after each portion; objects that arrive meanwhile remove theirs
    themselves. Ends as soon as no candidate is left."""
    used = _Used(registry)
    requests = {cid: cls.charged for cls, cid in registry.classes.items()}
    for count, job in enumerate([*registry.jobs.values(), *registry.leaving.values()]):
        if not registry.doubtful:
            return
        if count % PORTION == PORTION - 1:
            yield
        used.see(job.min_resources or ())
        for role in job.roles:
            used.see(requests[role.cid])
    for count, node in enumerate([*registry.nodes.values()]):
        if count % PORTION == PORTION - 1:
            yield
        used.see(node.allocatable)
    for queue in registry.queues.values():
        used.see((*(queue.capability or ()), *queue.deserved, *queue.guarantee))


class _Used:
    """Removes candidates by their slot numbers."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._seen: set[int] = set()

    def see(self, amounts: Requests) -> None:
        for slot, _ in amounts:
            if slot not in self._seen:
                self._seen.add(slot)
                self._registry.doubtful.discard(self._registry.slots.names[slot])


def doubtful_slots(registry: Registry) -> list[int]:
    slots = (registry.slots.find(name) for name in sorted(registry.doubtful))
    return [slot for slot in slots if slot is not None]


def keep_slots(registry: Registry, slots: list[int]) -> None:
    """Remove the candidates that these slots belong to, because amounts are counted under them."""
    registry.doubtful.difference_update(registry.slots.names[slot] for slot in slots)


def free(registry: Registry) -> Admission:
    """Free the slots of the remaining candidates: nothing uses them."""
    slots = set(doubtful_slots(registry))
    if not slots:
        return Admission()
    freed = [
        (cls, cid)
        for cls, cid in registry.classes.items()
        if any(slot in slots for slot, _ in cls.charged)
    ]
    for cls, _ in freed:
        del registry.classes[cls]
    cids = {cid for _, cid in freed}
    for template in [t for t, cid in registry.templates.items() if cid in cids]:
        del registry.templates[template]
    registry.free_slots(sorted(registry.doubtful))
    registry.doubtful = set()
    ops: list[IntakeOp] = [DropClass(cid) for _, cid in freed]
    ops += (numbers_of(registry), PutObject(SLOTS_KEY, encode_slots(registry.slots)))
    return Admission(ops=ops)
