"""What the coordinator's state machine asks to be done: values, executed by whoever runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coordinator.dispatch.dispatcher import SendTurns
from coordinator.jobs.state import JobState
from shared.ledger.entries.intake_batch import IntakeOp, PutObject, PutPartition
from shared.messages.messages import StatusItem, TaskState
from shared.records.quarantine import Aside, aside_key, encode_aside
from shared.records.reservation import encode_reserved, reserved_key


@dataclass(frozen=True, slots=True)
class Reread:
    """Instruction: read the ledger's truth about these jobs and give it to :meth:`reread`."""

    jids: list[int]


@dataclass(frozen=True, slots=True)
class Lapse:
    """Instruction: record that these jobs hold no nominations any more."""

    jids: list[int]


@dataclass(frozen=True, slots=True)
class Repartition:
    """Instruction: store this partition."""

    put: PutPartition


@dataclass(frozen=True, slots=True)
class Stop:
    """Instruction: delete these tasks (jid, tix) at the cluster, then record what
    :meth:`Coordinator.stopped` makes of those that it never had."""

    tasks: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Fail:
    """Instruction: record these items (deleted members that were never placed), then tell
    :meth:`Coordinator.failed` of them."""

    items: list[StatusItem]


@dataclass(frozen=True, slots=True)
class Purge:
    """Instruction: nothing is left of these deleted jobs and members (jid, tix): forget them."""

    jids: list[int]
    pods: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class LeaveOut:
    """Instruction: store that these nodes (by row) are set aside, or (None) not any more; then tell
    :meth:`Coordinator.left_out`."""

    marks: Mapping[int, Aside | None]

    def ops(self) -> list[IntakeOp]:
        return [
            PutObject(aside_key(row), None if aside is None else encode_aside(aside))
            for row, aside in self.marks.items()
        ]


@dataclass(frozen=True, slots=True)
class Keep:
    """Instruction: store for which job each of these nodes (by row) is kept, None: for none any
    more; then tell :meth:`Aging.stored`."""

    marks: dict[int, int | None]

    def ops(self) -> list[IntakeOp]:
        return [
            PutObject(reserved_key(row), None if jid is None else encode_reserved(jid))
            for row, jid in self.marks.items()
        ]


Instruction = SendTurns | Reread | Lapse | Repartition | Stop | Fail | Purge | LeaveOut | Keep


def never_placed(tasks: list[tuple[int, int]], jobs: Mapping[int, JobState]) -> list[StatusItem]:
    """Deleted members (jid, tix) that are pending as FAILED, one item a job, class and group: the
    ledger has to know which of them ask for nothing, and counted for their groups until now."""
    items: dict[tuple[int, int, int], StatusItem] = {}
    for jid, tix in tasks:
        if jid not in jobs:  # deleted as a whole meanwhile
            continue
        role = jobs[jid].job.role_of(tix)
        new = StatusItem(TaskState.FAILED, jid, [], [], role.cid, role.group)
        item = items.setdefault((jid, role.cid, role.group), new)
        item.tasks.append(tix)
        item.rows.append(0)
    return list(items.values())


def items_of(tasks: list[tuple[int, int]], row: Callable[[int, int], int]) -> list[StatusItem]:
    """Tasks (jid, tix) as FAILED, one item a job."""
    items: dict[int, StatusItem] = {}
    for jid, tix in tasks:
        item = items.setdefault(jid, StatusItem(TaskState.FAILED, jid, [], []))
        item.tasks.append(tix)
        item.rows.append(row(jid, tix))
    return list(items.values())
