"""Tracks how long tasks have been BINDING, over the passes of the audit, and finds lost binds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from coordinator.ledger_audit.findings import AuditKind, Finding, RecordKind
from shared.ledger.entries.stored import BindEntry
from shared.ledger.records import unpack_task
from shared.messages.messages import TaskState

BIND_SECONDS = 10.0
"""A task may be BINDING this long before its bind entry is looked for.

An entry that nobody processes is requested after 5 s
(:data:`coordinator.service.bind_loop.LOOK_BACK_SECONDS`). If the cluster answers that the task has
already ended (``BindAnswer.OVER``), nothing is recorded for the bind, and the report of the end
follows. Both are done by then; noticing a stuck task after 10 s and a pass is no outage.
"""

STEP_TASKS = 1000
"""Tasks recorded per step: 1 ms."""

Task = tuple[int, int]


class StuckBinds:
    def __init__(self, seconds: float | None = None) -> None:
        """``seconds``: None for :data:`BIND_SECONDS`."""
        self._seconds = BIND_SECONDS if seconds is None else seconds
        self._since: dict[Task, tuple[int, float]] = {}
        """Task -> its row, and when it was first seen BINDING there."""
        self.stuck: dict[Task, int] = {}
        """Tasks that were BINDING in every pass for longer than the bound, with their rows."""

    def noting(self, binding: Mapping[Task, int], now: float) -> Iterator[None]:
        """Record the tasks that are BINDING in this pass, with their rows, step by step."""
        before, self._since, self.stuck = self._since, {}, {}
        for number, (task, row) in enumerate(binding.items(), 1):
            previous = before.get(task)
            # Another row: it was refused and placed again in between, so its time begins anew.
            since = previous[1] if previous is not None and previous[0] == row else now
            self._since[task] = row, since
            if now - since >= self._seconds:
                self.stuck[task] = row
            if number % STEP_TASKS == 0:
                yield


def named_in(entries: Iterable[BindEntry]) -> set[tuple[int, int, int]]:
    """(jid, tix, row) of every bind in these entries."""
    return {
        (jid, tix, row)
        for entry in entries
        for jid, _, tasks, rows in entry.binds
        for tix, row in zip(tasks, rows, strict=True)
    }


def lost_binds(
    stuck: Mapping[Task, int], named: set[tuple[int, int, int]], records: Mapping[Task, bytes]
) -> Iterator[Finding]:
    """Tasks that are still BINDING (``stuck``, with their rows) and that no open bind entry names.

    ``records`` were read after the entries: a bind entry is written together with the task record,
    so an entry that was missed belongs to a newer record.
    """
    for (jid, tix), row in stuck.items():
        if (jid, tix) not in records or (jid, tix, row) in named:
            continue
        record = records[jid, tix]
        task = unpack_task(record, jid, tix)
        if task.state == TaskState.BINDING and task.row == row:
            yield Finding(AuditKind.BIND_LOST, RecordKind.TASK, (jid, tix), record)
