"""Every task record of the ledger as columns, and every job with its specification.

For a reader that wants all of them at once: an object for each of 140,000 records costs a second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.ledger import records
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.ledger.errors import LedgerAltered

Ints = NDArray[np.int64]

_RECORD = np.dtype(
    [
        ("state", "u1"),
        ("row", "<u4"),
        ("cid", "<u4"),
        ("version", "<u4"),
        ("group", "<u2"),
        ("seal", "<u4"),
    ],
    align=False,
)
"""A task record (:mod:`shared.ledger.records`) of one that was never evicted."""
_WIDTH = 5


@dataclass(frozen=True, slots=True)
class Residents:
    """Read while writers go on, after a snapshot: the log after that makes both right."""

    tasks: Ints
    """One column per task with a record: jid, tix, state, row, class."""
    jobs: list[tuple[int, int, bool, bytes]]
    """(jid, qid, gone, specification), sorted by jid."""


def residents_of(
    tasks: Iterable[tuple[int, int, TaskRecord]],
    jobs: Mapping[int, JobRecord],
    specs: Mapping[int, bytes],
) -> Residents:
    """From single records: (jid, tix, record)."""
    columns = [(jid, tix, task.state, task.row, task.cid) for jid, tix, task in tasks]
    return Residents(
        np.array(columns, np.int64).reshape(-1, _WIDTH).T,
        [(jid, job.qid, job.gone, specs.get(jid, b"")) for jid, job in sorted(jobs.items())],
    )


def read_tasks(packed: Mapping[bytes, bytes]) -> Ints:
    """The columns of packed records by their names. Errors: LedgerAltered."""
    short = {name: record for name, record in packed.items() if len(record) == _RECORD.itemsize}
    tables = [_short(short)] if short else []
    rest = packed.keys() - short.keys() if len(short) < len(packed) else ()
    tables += [_long(rest, packed)] if rest else []
    return np.concatenate(tables, axis=1) if tables else np.zeros((_WIDTH, 0), np.int64)


def _short(packed: Mapping[bytes, bytes]) -> Ints:
    """Those of tasks that were never evicted."""
    jids, tixs = _numbers(packed)
    read = np.frombuffer(b"".join(packed.values()), _RECORD)
    state, row, cid = (read[name].astype(np.int64) for name in ("state", "row", "cid"))
    seals = records.task_seals(
        jids, tixs, (state, row, cid, read["version"].astype(np.int64), read["group"])
    )
    wrong = np.flatnonzero((seals != read["seal"]) | (state == 0) | (state > records.LAST_STATE))
    if len(wrong):
        raise LedgerAltered(f"task {jids[wrong[0]]}.{tixs[wrong[0]]}")
    return np.stack([jids, tixs, state, row, cid])


def _long(names: Collection[bytes], packed: Mapping[bytes, bytes]) -> Ints:
    columns = []
    for name in names:
        jid, tix = (int(number) for number in name.split(b"."))
        task = records.unpack_task(packed[name], jid, tix)
        columns.append((jid, tix, task.state, task.row, task.cid))
    return np.array(columns, np.int64).T


def _numbers(packed: Mapping[bytes, bytes]) -> tuple[Ints, Ints]:
    """(jids, tixs) of names ``jid.tix``."""
    try:
        numbers = np.array(b".".join(packed).split(b"."), dtype="S20").astype(np.int64)
    except ValueError:
        numbers = np.zeros(0, np.int64)
    if len(numbers) != 2 * len(packed):
        raise LedgerAltered("a field of the task table", "that is no name of a task")
    return numbers[::2], numbers[1::2]
