"""The packed records of the ledger: little-endian, equal to what the scripts read and write.

A node is ``[version, spec_version, nslots]`` and five doubles per slot: allocatable, used (by us),
observed (used by others), releasing, nominated. Doubles hold every whole number below 2**53.
A slot beyond ``nslots`` has what its class says a node implies, and nothing used.
Totals of a queue exceed that, so they are pairs of limbs to the base 2**30.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from shared.ledger.protocol import JobRecord, QueueRecord, TaskRecord
from shared.messages import Group

HEAD = 3
"""Doubles before the first slot of a node record."""
WIDTH = 5
"""Doubles per slot of a node record."""
ALLOCATABLE, USED, OBSERVED, RELEASING, NOMINATED = range(WIDTH)
LIMB = 2**30
UNLIMITED = -1

_TASK = struct.Struct("<BIIIH")
_COUNT = struct.Struct("<I")


@cache
def _doubles(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}d")


def _unpack_doubles(record: bytes) -> list[int]:
    return [int(v) for v in _doubles(len(record) // 8).unpack(record)]


# --- nodes ------------------------------------------------------------------------------------


def pack_node(version: int, spec_version: int, slots: Sequence[int]) -> bytes:
    """``slots``: five whole numbers per slot, slot after slot."""
    return _doubles(HEAD + len(slots)).pack(version, spec_version, len(slots) // WIDTH, *slots)


def unpack_node(record: bytes) -> tuple[int, int, list[int]]:
    """(version, spec_version, five numbers per slot)."""
    version, spec_version, _, *slots = _unpack_doubles(record)
    return version, spec_version, slots


def unpack_nodes(records: Sequence[bytes]) -> NDArray[np.int64]:
    """One line per record: head and slots. Shorter records are filled up with zeros.

    Column 2 tells how many slots a record really has; slot s starts at ``HEAD + WIDTH * s``.
    """
    if not records:
        return np.zeros((0, HEAD), dtype=np.int64)
    longest = max(map(len, records))
    if longest != min(map(len, records)):
        records = [record.ljust(longest, b"\0") for record in records]
    flat = np.frombuffer(b"".join(records), dtype="<f8")
    return flat.reshape(len(records), longest // 8).astype(np.int64)


# --- tasks, jobs, queues, classes -------------------------------------------------------------


def pack_task(task: TaskRecord) -> bytes:
    return _TASK.pack(task.state, task.row, task.cid, task.version, task.group)


def unpack_task(record: bytes) -> TaskRecord:
    return TaskRecord(*_TASK.unpack(record))


def task_field(jid: int, tix: int) -> bytes:
    return b"%d.%d" % (jid, tix)


def pack_job(job: JobRecord) -> bytes:
    groups = [n for g in job.groups for n in (g.parent, g.minimum, g.held)]
    return _doubles(5 + len(groups)).pack(
        job.spec_version, job.qid, int(job.gone), len(job.groups), *groups, job.top
    )


def unpack_job(record: bytes) -> JobRecord:
    spec_version, qid, gone, _, *groups, top = _unpack_doubles(record)
    return JobRecord(
        spec_version=spec_version,
        qid=qid,
        gone=bool(gone),
        groups=[Group(*groups[i : i + 3]) for i in range(0, len(groups), 3)],
        top=top,
    )


def pack_queue(parent: int, used: Sequence[int], capability: Sequence[int]) -> bytes:
    """``used`` and ``capability`` by slot, of equal length; capability -1 is unlimited."""
    limbs: list[int] = []
    for amount, limit in zip(used, capability, strict=True):
        limbs += divmod(amount, LIMB)
        limbs += (UNLIMITED, 0) if limit == UNLIMITED else divmod(limit, LIMB)
    return _doubles(2 + len(limbs)).pack(parent, len(used), *limbs)


def unpack_queue(record: bytes) -> QueueRecord:
    """Only slots in use, and only slots with a limit, appear in the two dicts."""
    parent, _, *limbs = _unpack_doubles(record)
    used: dict[int, int] = {}
    capability: dict[int, int] = {}
    for slot in range(len(limbs) // 4):
        high, low, limit_high, limit_low = limbs[4 * slot : 4 * slot + 4]
        if amount := high * LIMB + low:
            used[slot] = amount
        if limit_high != UNLIMITED:
            capability[slot] = limit_high * LIMB + limit_low
    return QueueRecord(parent, used, capability)


def pack_class(requests: Iterable[tuple[int, int, int]], spec: bytes) -> bytes:
    """``requests``: (slot, amount, implied capacity)."""
    flat = [n for triple in requests for n in triple]
    return _COUNT.pack(len(flat) // 3) + _doubles(len(flat)).pack(*flat) + spec


def unpack_class(record: bytes) -> tuple[list[tuple[int, int, int]], bytes]:
    end = 4 + 24 * _COUNT.unpack_from(record)[0]
    flat = _unpack_doubles(record[4:end])
    return [(flat[i], flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3)], record[end:]


def pack_count(count: int) -> bytes:
    return _doubles(1).pack(count)


def unpack_count(record: bytes) -> int:
    return _unpack_doubles(record)[0]
