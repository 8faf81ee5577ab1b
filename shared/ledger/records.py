"""The packed records of the ledger: little-endian, equal to what the scripts read and write.

A node is ``[version, spec_version, nslots]`` and five doubles per slot: allocatable, used (by us),
observed (used by others), releasing, nominated. Doubles hold every whole number below 2**53.
A slot beyond ``nslots`` has what its class says a node implies, and nothing used.
A named thing of a node is ``[version, ndimensions]`` and the same five doubles per dimension;
allocatable is what the node declares, and what its kind implies is not written down. One that
nobody uses and no node declares has no record.
Totals of a queue exceed that, so they are pairs of limbs to the base 2**30: used, the limit,
guaranteed, leaving.

A task that was evicted, now or before, or takes devices has behind its record how often it was
evicted and has ended before (2**32 - 1: it never was), for which job it has to leave now (-1: it
does not), why, behind a zero byte its devices, and a second seal of 8 digits.

Every record ends with a seal that its writer made of it: 8 digits of the SHA-1 of what stands
before, of a task one number of 4 bytes that depends on whose record it is. Readers raise
:class:`LedgerAltered` where it does not fit, or where the record is not of the form described.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from functools import cache
from operator import mul

import msgpack
import numpy as np
from numpy.typing import NDArray

from shared.ledger.entries.stored import JobRecord, QueueRecord, TaskRecord, ThingAsk
from shared.ledger.errors import LedgerAltered
from shared.messages.messages import Group, TaskState
from shared.units.things import Things

HEAD = 3
"""Doubles before the first slot of a node record."""
WIDTH = 5
"""Doubles per slot of a node record."""
ALLOCATABLE, USED, OBSERVED, RELEASING, NOMINATED = range(WIDTH)
THING_HEAD = 2
"""Doubles before the first dimension of a thing's record: version and how many dimensions."""
QUEUE_WIDTH = 8
"""Doubles per slot of a queue record."""
LIMB = 2**30
UNLIMITED = -1

SEAL = 8
"""Bytes of a seal, but a task's."""

_TASK = struct.Struct("<BIIIHI")
_EVICTED = struct.Struct("<Ii")
_NEVER_EVICTED = 2**32 - 1
"""How often what was never evicted was evicted, where more than that stands behind a record."""
_TASK_FACTORS = (65537, 65539, 65543, 65551, 65557)  # state, row, cid, version, group
_JID_FACTOR, _TIX_FACTOR = 65563, 65579
_MODULUS = 4294967291
_COUNTS = struct.Struct("<HH")
"""Slots and things that a class names. There were only slots once, counted in four bytes: there may
not be so many that the last two of them were ever used."""


@cache
def _doubles(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}d")


def sealed(body: bytes) -> bytes:
    return body + hashlib.sha1(body, usedforsecurity=False).hexdigest()[:SEAL].encode()


def fits(record: bytes) -> bool:
    """True where the seal is that of the record."""
    digest = hashlib.sha1(record[:-SEAL], usedforsecurity=False).hexdigest()
    return record[-SEAL:] == digest[:SEAL].encode()


def opened(record: bytes, record_name: str) -> bytes:
    """The record without its seal."""
    if not fits(record):
        raise LedgerAltered(record_name)
    return record[:-SEAL]


def check_seals(records: Iterable[tuple[object, bytes]], kind: str) -> None:
    """Check many records, each given with its number or name. Errors: LedgerAltered."""
    for name, record in records:
        if not fits(record):
            raise LedgerAltered(f"{kind} {name}")


def _whole(body: bytes, record_name: str) -> list[int]:
    """The doubles of a record, which all are whole numbers."""
    if len(body) % 8:
        raise LedgerAltered(record_name, f"{len(body)} bytes are no list of numbers")
    values = _doubles(len(body) // 8).unpack(body)
    try:
        integers = list(map(int, values))
    except (ValueError, OverflowError):
        integers = []
    if integers != list(values):
        raise LedgerAltered(record_name, "a number of it is not whole")
    return integers


def _fits(record_name: str, *, is_so: bool) -> None:
    if not is_so:
        raise LedgerAltered(record_name, "its length does not fit what it says of itself")


# --- nodes ------------------------------------------------------------------------------------


def pack_node(version: int, spec_version: int, slots: Sequence[int]) -> bytes:
    """``slots``: five whole numbers per slot, slot after slot."""
    numbers = (version, spec_version, len(slots) // WIDTH, *slots)
    return sealed(_doubles(HEAD + len(slots)).pack(*numbers))


def unpack_node(record: bytes, record_name: str = "node") -> tuple[int, int, list[int]]:
    """(version, spec_version, five numbers per slot)."""
    numbers = _whole(opened(record, record_name), record_name)
    _fits(record_name, is_so=len(numbers) >= HEAD and len(numbers) == HEAD + WIDTH * numbers[2])
    return numbers[0], numbers[1], numbers[HEAD:]


def unpack_nodes(records: Sequence[bytes]) -> NDArray[np.int64]:
    """One line per record: head and slots. Shorter records are padded with zeros.

    Column 2 holds how many slots a record really has; slot s starts at ``HEAD + WIDTH * s``. The
    seals are not checked here: the reader of these records has done so (see :func:`check_seals`),
    or has checked the seal of the reply they came with.
    """
    if not records:
        return np.zeros((0, HEAD), dtype=np.int64)
    sizes = np.fromiter(map(len, records), np.int64, len(records))
    longest = int(sizes.max())
    if longest != sizes.min():
        bodies = [record[:-SEAL].ljust(longest, b"\0") for record in records]
    else:
        bodies = list(records)
    if longest % 8 or longest < 8 * HEAD + SEAL:
        raise LedgerAltered("node", f"{longest} bytes are no list of numbers")
    flat = np.frombuffer(b"".join(bodies), dtype="<f8").reshape(len(bodies), longest // 8)
    table = flat[:, :-1].astype(np.int64)
    _fits("node", is_so=bool((sizes == 8 * HEAD + SEAL + 8 * WIDTH * table[:, 2]).all()))
    return table


# --- named things -----------------------------------------------------------------------------


def row_and_name(field: bytes) -> tuple[int, str]:
    """Read the field of a thing's record, ``12/gpu-0``. Errors: LedgerAltered."""
    row, _, name = field.partition(b"/")
    if not (row.isdigit() and name):
        record_name = f"thing {field.decode(errors='replace')}"
        raise LedgerAltered(record_name, "that is no name of a thing")
    return int(row), name.decode(errors="replace")


def pack_thing(version: int, amounts: Sequence[int]) -> bytes:
    """``version``: of the node when the thing moved last; ``amounts``: five for each dimension."""
    numbers = (version, len(amounts) // WIDTH, *amounts)
    return sealed(_doubles(len(numbers)).pack(*numbers))


def unpack_thing(record: bytes, record_name: str = "thing") -> tuple[int, list[int]]:
    """(version, five numbers for each dimension: as those of a slot)."""
    numbers = _whole(opened(record, record_name), record_name)
    _fits(record_name, is_so=len(numbers) > THING_HEAD)
    _fits(record_name, is_so=len(numbers) == THING_HEAD + WIDTH * numbers[1])
    return numbers[0], numbers[THING_HEAD:]


def pack_devices(devices: Things) -> bytes:
    """Devices as statements, records of tasks and entries of streams have them."""
    packed: bytes = msgpack.packb([[name, list(amounts)] for name, amounts in devices])
    return packed


def unpack_devices(packed: bytes, record_name: str) -> Things:
    """The inverse of :func:`pack_devices`. Errors: LedgerAltered."""
    try:
        devices: Things = tuple(
            [(str(name), tuple(map(int, amounts))) for name, amounts in msgpack.unpackb(packed)]
        )
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise LedgerAltered(record_name, f"its devices cannot be read: {error}") from error
    return devices


# --- tasks, jobs, queues, classes -------------------------------------------------------------


def pack_task(task: TaskRecord, jid: int, tix: int) -> bytes:
    fields = task.state, task.row, task.cid, task.version, task.group
    record = _TASK.pack(*fields, _task_seal(fields, jid, tix))
    evicted = task.incarnation > 0 or task.by >= 0
    if not evicted and not task.devices:
        return record
    record += (
        _EVICTED.pack(task.incarnation if evicted else _NEVER_EVICTED, task.by) + task.why.encode()
    )
    if task.devices:
        record += b"\0" + pack_devices(task.devices)
    return record + _eviction_seal(record, jid, tix)


def unpack_task(record: bytes, jid: int, tix: int) -> TaskRecord:
    if len(record) >= _TASK.size:
        state, row, cid, version, group, seal = _TASK.unpack_from(record)
        fields = (state, row, cid, version, group)
        if seal == _task_seal(fields, jid, tix) and state <= TaskState.LOST:
            if len(record) == _TASK.size and state > 0:
                return TaskRecord(*fields)
            if (eviction := _evicted(record, jid, tix)) is not None:
                return TaskRecord(*fields, *eviction)
    raise LedgerAltered(f"task {jid}.{tix}")


def _evicted(record: bytes, jid: int, tix: int) -> tuple[int, int, str, Things] | None:
    """(life, by, why, devices) behind the record of a task that was evicted or takes devices; None
    where its seal does not fit."""
    first = _TASK.size + _EVICTED.size
    if len(record) < first + SEAL or record[-SEAL:] != _eviction_seal(record[:-SEAL], jid, tix):
        return None
    incarnation, by = _EVICTED.unpack_from(record, _TASK.size)
    why, _, devices = record[first:-SEAL].partition(b"\0")
    return (
        0 if incarnation == _NEVER_EVICTED else incarnation,
        by,
        why.decode(errors="replace"),
        unpack_devices(devices, f"task {jid}.{tix}") if devices else (),
    )


def _eviction_seal(body: bytes, jid: int, tix: int) -> bytes:
    named = task_field(jid, tix) + body
    return hashlib.sha1(named, usedforsecurity=False).hexdigest()[:SEAL].encode()


def task_seals(
    jids: NDArray[np.int64], tixs: NDArray[np.int64], fields: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """The seals of many tasks that were never evicted; ``fields``: as in the record."""
    total = jids * _JID_FACTOR + tixs * _TIX_FACTOR
    for factor, column in zip(_TASK_FACTORS, fields, strict=True):
        total = total + column * factor
    return total % _MODULUS


def _task_seal(fields: Sequence[int], jid: int, tix: int) -> int:
    total = jid * _JID_FACTOR + tix * _TIX_FACTOR
    return int((total + sum(map(mul, fields, _TASK_FACTORS))) % _MODULUS)


def task_field(jid: int, tix: int) -> bytes:
    return b"%d.%d" % (jid, tix)


def pack_job(job: JobRecord) -> bytes:
    groups = [n for g in job.groups for n in (g.parent, g.minimum, g.held)]
    numbers = (job.spec_version, job.qid, int(job.gone), len(job.groups), *groups, job.top)
    return sealed(_doubles(len(numbers)).pack(*numbers))


def unpack_job(record: bytes, record_name: str = "job") -> JobRecord:
    numbers = _whole(opened(record, record_name), record_name)
    _fits(record_name, is_so=len(numbers) > 4 and len(numbers) == 5 + 3 * numbers[3])
    spec_version, qid, is_gone, _, *groups, top = numbers
    if is_gone not in (0, 1) or top < 0:
        raise LedgerAltered(record_name, "it is neither there nor gone")
    return JobRecord(
        spec_version=spec_version,
        qid=qid,
        gone=bool(is_gone),
        groups=[Group(*groups[i : i + 3]) for i in range(0, len(groups), 3)],
        top=top,
    )


def pack_queue(queue: QueueRecord) -> bytes:
    """Only as many slots as have an amount or a limit."""
    amounts = (*queue.used, *queue.capability, *queue.guarantee, *queue.leaving)
    slots = max(amounts, default=-1) + 1
    limbs: list[int] = []
    for slot in range(slots):
        limit = queue.capability.get(slot, UNLIMITED)
        limbs += divmod(queue.used.get(slot, 0), LIMB)
        limbs += (UNLIMITED, 0) if limit == UNLIMITED else divmod(limit, LIMB)
        limbs += divmod(queue.guarantee.get(slot, 0), LIMB)
        limbs += divmod(queue.leaving.get(slot, 0), LIMB)
    return sealed(_doubles(2 + len(limbs)).pack(queue.parent, slots, *limbs))


def unpack_queue(record: bytes, record_name: str = "queue") -> QueueRecord:
    """A queue's record; slots without any amount, and slots without a limit, are left out of the
    dicts."""
    numbers = _whole(opened(record, record_name), record_name)
    _fits(record_name, is_so=len(numbers) >= 2 and len(numbers) == 2 + QUEUE_WIDTH * numbers[1])
    queue = QueueRecord(numbers[0], {}, {})
    for slot in range(numbers[1]):
        first = 2 + QUEUE_WIDTH * slot
        high, low, limit_high, limit_low, *others = numbers[first : first + QUEUE_WIDTH]
        if amount := high * LIMB + low:
            queue.used[slot] = amount
        if limit_high != UNLIMITED:
            queue.capability[slot] = limit_high * LIMB + limit_low
        if guaranteed := others[0] * LIMB + others[1]:
            queue.guarantee[slot] = guaranteed
        if leaving := others[2] * LIMB + others[3]:
            queue.leaving[slot] = leaving
    return queue


def pack_class(
    requests: Iterable[tuple[int, int, int]], spec: bytes, things: Sequence[ThingAsk] = ()
) -> bytes:
    """``requests``: (slot, amount, implied capacity)."""
    flat = [n for triple in requests for n in triple]
    head = _COUNTS.pack(len(flat) // 3, len(things)) + _doubles(len(flat)).pack(*flat)
    for ask in things:
        head += ask.name.encode() + b"\0" + bytes([len(ask.amounts)])
        head += _doubles(2 * len(ask.amounts)).pack(*ask.amounts, *ask.offers)
    return sealed(head + spec)


def unpack_class(
    record: bytes, record_name: str = "class"
) -> tuple[list[tuple[int, int, int]], bytes, list[ThingAsk]]:
    """(requests, specification, named things)."""
    body = opened(record, record_name)
    _fits(record_name, is_so=len(body) >= _COUNTS.size)
    slots, count = _COUNTS.unpack_from(body)
    end = _COUNTS.size + 24 * slots
    _fits(record_name, is_so=len(body) >= end)
    flat = _whole(body[_COUNTS.size : end], record_name)
    things: list[ThingAsk] = []
    for _ in range(count):
        first = body.find(b"\0", end) + 1
        _fits(record_name, is_so=0 < first < len(body))
        dimensions = body[first]
        last = first + 1 + 16 * dimensions
        _fits(record_name, is_so=len(body) >= last)
        values = tuple(_whole(body[first + 1 : last], record_name))
        name = body[end : first - 1].decode(errors="replace")
        things.append(ThingAsk(name, values[:dimensions], values[dimensions:]))
        end = last
    requests = [(flat[i], flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3)]
    return requests, body[end:], things


def pack_count(count: int) -> bytes:
    return sealed(_doubles(1).pack(count))


def unpack_count(record: bytes, record_name: str = "counter") -> int:
    numbers = _whole(opened(record, record_name), record_name)
    _fits(record_name, is_so=len(numbers) == 1)
    return numbers[0]
