"""Migration of host ports: slots in schema 4, named things in schema 5.

In schema 4 each port that anybody ever requested was a slot ``port/PROTOCOL/NUMBER``, of which
every node implicitly had 1, and which queues counted like any resource. Pure: a record and the
ports among the slots in, the record of schema 5 and the new records of things out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.codec.packed import replace
from shared.ledger.entries.stored import QueueRecord, ThingAsk
from shared.ledger.records import (
    ALLOCATABLE,
    UNLIMITED,
    WIDTH,
    pack_class,
    pack_node,
    pack_queue,
    pack_thing,
    unpack_class,
    unpack_node,
    unpack_queue,
)
from shared.records.specs import decode_class, encode_class
from shared.units.slots import FREE
from shared.units.things import PORT, implied

Ports = Mapping[int, str]
"""Slot -> name, of the slots that are ports."""


def ports_among(names: Sequence[str]) -> Ports:
    return {slot: name for slot, name in enumerate(names) if name.startswith(PORT)}


def slots_without_ports(names: Sequence[str]) -> list[str]:
    """Slot names of schema 5: the numbers of ports become free, those at the end disappear, all
    others stay."""
    remaining = [FREE if name.startswith(PORT) else name for name in names]
    while remaining and remaining[-1] == FREE:
        remaining.pop()
    return remaining


def node_without_ports(
    record: bytes, ports: Ports, record_name: str
) -> tuple[bytes, list[tuple[str, bytes]]]:
    """(the record, name and record of each port in use). Errors: LedgerAltered."""
    version, spec_version, flat = unpack_node(record, record_name)
    things: list[tuple[str, bytes]] = []
    for slot, name in ports.items():
        first = WIDTH * slot
        amounts = flat[first : first + WIDTH]
        flat[first : first + WIDTH] = [0] * len(amounts)
        if amounts:
            amounts[ALLOCATABLE] = 0  # what its kind implies is not written down
        if any(amounts):
            things.append((name, pack_thing(version, amounts)))
    count = _needed(len(flat) // WIDTH, ports)
    return pack_node(version, spec_version, flat[: WIDTH * count]), things


def class_without_ports(record: bytes, ports: Ports, record_name: str) -> bytes:
    """The same task class with its ports as things, in its requests and in its specification.
    Errors: LedgerAltered, Malformed."""
    requests, spec, things = unpack_class(record, record_name)
    port_names = sorted(ports[slot] for slot, _, _ in requests if slot in ports)
    if not port_names:
        return record
    cls = decode_class(spec)
    amounts = tuple((slot, amount) for slot, amount in cls.requests if slot not in ports)
    cls = replace(cls, requests=amounts, things=tuple((name, (1,)) for name in port_names))
    things += [ThingAsk(name, (1,), implied(name, 1)) for name in port_names]
    triples = [triple for triple in requests if triple[0] not in ports]
    return pack_class(triples, encode_class(cls), things)


def queue_without_ports(record: bytes, ports: Ports, record_name: str) -> bytes:
    """The queue's record without ports: queues do not count them any more. Errors:
    LedgerAltered."""
    queue = unpack_queue(record, record_name)
    parts = (queue.used, queue.capability, queue.guarantee, queue.leaving)
    columns = [{slot: n for slot, n in part.items() if slot not in ports} for part in parts]
    return _packed_queue(QueueRecord(queue.parent, *columns))


def _packed_queue(queue: QueueRecord) -> bytes:
    parts = (queue.used, queue.capability, queue.guarantee, queue.leaving)
    slots = range(1 + max((slot for part in parts for slot in part), default=-1))
    used, guarantee, leaving = (
        [part.get(slot, 0) for slot in slots]
        for part in (queue.used, queue.guarantee, queue.leaving)
    )
    limits = [queue.capability.get(slot, UNLIMITED) for slot in slots]
    return pack_queue(queue.parent, used, limits, guarantee, leaving)


def _needed(count: int, ports: Ports) -> int:
    """How many slots a record needs, up to the last that is not a port."""
    while count and count - 1 in ports:
        count -= 1
    return count
