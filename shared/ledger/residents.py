"""Every task record of the ledger as columns, and every job with its specification.

For a reader that wants all of them at once: an object for each of 140,000 records costs a second.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shared.ledger import records
from shared.ledger.errors import LedgerAltered
from shared.messages.messages import TaskState
from shared.units.things import Things

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
_SEALED = ("state", "row", "cid", "version", "group")
_WIDTH = 6
NO_DEVICES = 0
"""The code of a task without devices."""


class DeviceCodes:
    """Which devices a task takes, as a number: most tasks of a cluster share a few combinations, so
    that a column of codes stands for them."""

    __slots__ = ("_codes", "_taken")

    def __init__(self) -> None:
        self._taken: list[Things] = [()]
        self._codes: dict[Things, int] = {(): NO_DEVICES}

    def __len__(self) -> int:
        return len(self._taken)

    def __getitem__(self, code: int) -> Things:
        return self._taken[code]

    def code(self, devices: Things) -> int:
        """The code of a combination, a new one where it has none yet."""
        code = self._codes.get(devices)
        if code is None:
            code = self._codes[devices] = len(self._taken)
            self._taken.append(devices)
        return code

    def forget_unused(self, codes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Keep what this column names, numbered anew; returns the column with the new codes."""
        used, places = np.unique(np.append(codes, NO_DEVICES), return_inverse=True)
        self._taken = [self._taken[code] for code in used.tolist()]
        self._codes = {devices: code for code, devices in enumerate(self._taken)}
        return places[:-1].astype(np.int32)


@dataclass(frozen=True, slots=True)
class Residents:
    """Read while writers go on, after a snapshot: the log after that makes both right."""

    tasks: Ints
    """One column per task with a record: jid, tix, state, row, class, code of its devices."""
    jobs: list[tuple[int, int, bool, bytes]]
    """(jid, qid, gone, specification), sorted by jid."""
    devices: DeviceCodes = field(default_factory=DeviceCodes)


NO_TASKS: Ints = np.zeros((_WIDTH, 0), np.int64)


def read_jobs(
    packed: Mapping[int, bytes], specs: Mapping[int, bytes]
) -> list[tuple[int, int, bool, bytes]]:
    """:attr:`Residents.jobs` of packed records. Errors: LedgerAltered."""
    jobs = []
    for jid in sorted(packed):
        job = records.unpack_job(packed[jid], f"job {jid}")
        jobs.append((jid, job.qid, job.gone, specs.get(jid, b"")))
    return jobs


def read_tasks(packed: Mapping[bytes, bytes], codes: DeviceCodes) -> Ints:
    """The columns of packed records by their names; devices are added to ``codes``.

    Errors: LedgerAltered.
    """
    short = {name: record for name, record in packed.items() if len(record) == _RECORD.itemsize}
    tables = [_short(short)] if short else []
    rest = packed.keys() - short.keys() if len(short) < len(packed) else ()
    tables += [_long(rest, packed, codes)] if rest else []
    return np.concatenate(tables, axis=1) if tables else NO_TASKS


def _short(packed: Mapping[bytes, bytes]) -> Ints:
    """The records, of these, of tasks that were never evicted and take no devices."""
    jids, tixs = _numbers(packed)
    read = np.frombuffer(b"".join(packed.values()), _RECORD)
    fields = [read[name].astype(np.int64) for name in _SEALED]
    state, row, cid, *_ = fields
    # All seals at once: a sum modulo a prime can be formed over columns (decision 0026).
    seals = records.task_seals(jids, tixs, fields)
    wrong = np.flatnonzero((seals != read["seal"]) | (state == 0) | (state > TaskState.LOST))
    if len(wrong):
        raise LedgerAltered(f"task {jids[wrong[0]]}.{tixs[wrong[0]]}")
    return np.stack([jids, tixs, state, row, cid, np.full_like(jids, NO_DEVICES)])


def _long(names: Collection[bytes], packed: Mapping[bytes, bytes], codes: DeviceCodes) -> Ints:
    columns = []
    for name in names:
        jid, tix = (int(number) for number in name.split(b"."))
        task = records.unpack_task(packed[name], jid, tix)
        columns.append((jid, tix, task.state, task.row, task.cid, codes.code(task.devices)))
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
