"""The packed records of the ledger: little-endian, equal to what the scripts read and write.

A node is ``[version, spec_version, nslots]`` and five doubles per slot: allocatable, used (by us),
observed (used by others), releasing, nominated. Doubles hold every whole number below 2**53.
A slot beyond ``nslots`` has what its class says a node implies, and nothing used.
Totals of a queue exceed that, so they are pairs of limbs to the base 2**30: used, the limit,
guaranteed, leaving.

A task that was evicted, now or before, has behind its record how often it was evicted and has ended
before, for which job it has to leave now (-1: it does not), why, and a second seal of 8 digits.

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

import numpy as np
from numpy.typing import NDArray

from shared.ledger.errors import LedgerAltered
from shared.ledger.protocol import JobRecord, QueueRecord, TaskRecord
from shared.messages import Group, TaskState

HEAD = 3
"""Doubles before the first slot of a node record."""
WIDTH = 5
"""Doubles per slot of a node record."""
ALLOCATABLE, USED, OBSERVED, RELEASING, NOMINATED = range(WIDTH)
QUEUE_WIDTH = 8
"""Doubles per slot of a queue record."""
LIMB = 2**30
UNLIMITED = -1

SEAL = 8
"""Bytes of a seal, but a task's."""

_TASK = struct.Struct("<BIIIHI")
_EVICTED = struct.Struct("<Ii")
_TASK_FACTORS = (65537, 65539, 65543, 65551, 65557)  # state, row, cid, version, group
_JID_FACTOR, _TIX_FACTOR = 65563, 65579
_MODULUS = 4294967291
_COUNT = struct.Struct("<I")


@cache
def _doubles(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}d")


def sealed(body: bytes) -> bytes:
    return body + hashlib.sha1(body, usedforsecurity=False).hexdigest()[:SEAL].encode()


def fits(record: bytes) -> bool:
    """Whether the seal is that of the record."""
    digest = hashlib.sha1(record[:-SEAL], usedforsecurity=False).hexdigest()
    return record[-SEAL:] == digest[:SEAL].encode()


def opened(record: bytes, what: str) -> bytes:
    """The record without its seal."""
    if not fits(record):
        raise LedgerAltered(what)
    return record[:-SEAL]


def check_seals(records: Iterable[tuple[object, bytes]], what: str) -> None:
    """Of many records, each with its number or name."""
    for name, record in records:
        if not fits(record):
            raise LedgerAltered(f"{what} {name}")


def _whole(body: bytes, what: str) -> list[int]:
    """The doubles of a record, which all are whole numbers."""
    if len(body) % 8:
        raise LedgerAltered(what, f"{len(body)} bytes are no list of numbers")
    values = _doubles(len(body) // 8).unpack(body)
    try:
        found = list(map(int, values))
    except (ValueError, OverflowError):
        found = []
    if found != list(values):
        raise LedgerAltered(what, "a number of it is not whole")
    return found


def _fits(what: str, *, is_so: bool) -> None:
    if not is_so:
        raise LedgerAltered(what, "its length does not fit what it says of itself")


# --- nodes ------------------------------------------------------------------------------------


def pack_node(version: int, spec_version: int, slots: Sequence[int]) -> bytes:
    """``slots``: five whole numbers per slot, slot after slot."""
    numbers = (version, spec_version, len(slots) // WIDTH, *slots)
    return sealed(_doubles(HEAD + len(slots)).pack(*numbers))


def unpack_node(record: bytes, what: str = "node") -> tuple[int, int, list[int]]:
    """(version, spec_version, five numbers per slot)."""
    numbers = _whole(opened(record, what), what)
    _fits(what, is_so=len(numbers) >= HEAD and len(numbers) == HEAD + WIDTH * numbers[2])
    return numbers[0], numbers[1], numbers[HEAD:]


def unpack_nodes(records: Sequence[bytes]) -> NDArray[np.int64]:
    """One line per record: head and slots. Shorter records are filled up with zeros.

    Column 2 tells how many slots a record really has; slot s starts at ``HEAD + WIDTH * s``. The
    seals are not looked at: whoever read these records has (see :func:`check_seals`), or has
    checked the seal of all they came with.
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
    found = flat[:, :-1].astype(np.int64)
    _fits("node", is_so=bool((sizes == 8 * HEAD + SEAL + 8 * WIDTH * found[:, 2]).all()))
    return found


# --- tasks, jobs, queues, classes -------------------------------------------------------------


def pack_task(task: TaskRecord, jid: int, tix: int) -> bytes:
    fields = task.state, task.row, task.cid, task.version, task.group
    record = _TASK.pack(*fields, _task_seal(fields, jid, tix))
    if task.life == 0 and task.by < 0:
        return record
    record += _EVICTED.pack(task.life, task.by) + task.why.encode()
    return record + _eviction_seal(record, jid, tix)


def unpack_task(record: bytes, jid: int, tix: int) -> TaskRecord:
    if len(record) >= _TASK.size:
        state, row, cid, version, group, seal = _TASK.unpack_from(record)
        fields = (state, row, cid, version, group)
        if seal == _task_seal(fields, jid, tix) and state <= TaskState.FAILED:
            if len(record) == _TASK.size and state > 0:
                return TaskRecord(*fields)
            if (found := _evicted(record, jid, tix)) is not None:
                return TaskRecord(*fields, *found)
    raise LedgerAltered(f"task {jid}.{tix}")


def _evicted(record: bytes, jid: int, tix: int) -> tuple[int, int, str] | None:
    """(life, by, why) of a task that was evicted; None where its seal does not fit."""
    first = _TASK.size + _EVICTED.size
    if len(record) < first + SEAL or record[-SEAL:] != _eviction_seal(record[:-SEAL], jid, tix):
        return None
    life, by = _EVICTED.unpack_from(record, _TASK.size)
    return life, by, record[first:-SEAL].decode(errors="replace")


def _eviction_seal(body: bytes, jid: int, tix: int) -> bytes:
    named = task_field(jid, tix) + body
    return hashlib.sha1(named, usedforsecurity=False).hexdigest()[:SEAL].encode()


def _task_seal(fields: Sequence[int], jid: int, tix: int) -> int:
    total = jid * _JID_FACTOR + tix * _TIX_FACTOR
    return int((total + sum(map(mul, fields, _TASK_FACTORS))) % _MODULUS)


def task_field(jid: int, tix: int) -> bytes:
    return b"%d.%d" % (jid, tix)


def pack_job(job: JobRecord) -> bytes:
    groups = [n for g in job.groups for n in (g.parent, g.minimum, g.held)]
    numbers = (job.spec_version, job.qid, int(job.gone), len(job.groups), *groups, job.top)
    return sealed(_doubles(len(numbers)).pack(*numbers))


def unpack_job(record: bytes, what: str = "job") -> JobRecord:
    numbers = _whole(opened(record, what), what)
    _fits(what, is_so=len(numbers) > 4 and len(numbers) == 5 + 3 * numbers[3])
    spec_version, qid, gone, _, *groups, top = numbers
    if gone not in (0, 1) or top < 0:
        raise LedgerAltered(what, "it is neither there nor gone")
    return JobRecord(
        spec_version=spec_version,
        qid=qid,
        gone=bool(gone),
        groups=[Group(*groups[i : i + 3]) for i in range(0, len(groups), 3)],
        top=top,
    )


def pack_queue(
    parent: int,
    used: Sequence[int],
    capability: Sequence[int],
    guarantee: Sequence[int] = (),
    leaving: Sequence[int] = (),
) -> bytes:
    """All by slot; ``used`` and ``capability`` of equal length; capability -1 is unlimited."""
    nothing = [0] * len(used)
    limbs: list[int] = []
    columns = zip(used, capability, guarantee or nothing, leaving or nothing, strict=True)
    for amount, limit, kept, left in columns:
        limbs += divmod(amount, LIMB)
        limbs += (UNLIMITED, 0) if limit == UNLIMITED else divmod(limit, LIMB)
        limbs += divmod(kept, LIMB)
        limbs += divmod(left, LIMB)
    return sealed(_doubles(2 + len(limbs)).pack(parent, len(used), *limbs))


def unpack_queue(record: bytes, what: str = "queue") -> QueueRecord:
    """Slots of which there is nothing are left out of the dicts, as are those without a limit."""
    numbers = _whole(opened(record, what), what)
    _fits(what, is_so=len(numbers) >= 2 and len(numbers) == 2 + QUEUE_WIDTH * numbers[1])
    found = QueueRecord(numbers[0], {}, {})
    for slot in range(numbers[1]):
        first = 2 + QUEUE_WIDTH * slot
        high, low, limit_high, limit_low, *others = numbers[first : first + QUEUE_WIDTH]
        if amount := high * LIMB + low:
            found.used[slot] = amount
        if limit_high != UNLIMITED:
            found.capability[slot] = limit_high * LIMB + limit_low
        if kept := others[0] * LIMB + others[1]:
            found.guarantee[slot] = kept
        if left := others[2] * LIMB + others[3]:
            found.leaving[slot] = left
    return found


def pack_class(requests: Iterable[tuple[int, int, int]], spec: bytes) -> bytes:
    """``requests``: (slot, amount, implied capacity)."""
    flat = [n for triple in requests for n in triple]
    return sealed(_COUNT.pack(len(flat) // 3) + _doubles(len(flat)).pack(*flat) + spec)


def unpack_class(record: bytes, what: str = "class") -> tuple[list[tuple[int, int, int]], bytes]:
    body = opened(record, what)
    _fits(what, is_so=len(body) >= _COUNT.size)
    end = _COUNT.size + 24 * _COUNT.unpack_from(body)[0]
    _fits(what, is_so=len(body) >= end)
    flat = _whole(body[_COUNT.size : end], what)
    return [(flat[i], flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3)], body[end:]


def pack_count(count: int) -> bytes:
    return sealed(_doubles(1).pack(count))


def unpack_count(record: bytes, what: str = "counter") -> int:
    numbers = _whole(opened(record, what), what)
    _fits(what, is_so=len(numbers) == 1)
    return numbers[0]
