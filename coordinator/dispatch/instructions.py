"""Instructions: what the coordinator's state machine asks its host to execute, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from coordinator.dispatch.dispatcher import SendTurns
from coordinator.jobs.state import JobState
from shared.ledger.entries.intake_batch import IntakeOp, PutObject, PutPartition
from shared.messages.messages import StatusItem, TaskState
from shared.records.quarantine import Quarantine, encode_quarantine, quarantine_key
from shared.records.reservation import encode_reserved, reserved_key
from shared.records.usage import UsageBucket, encode_usage, usage_key


@dataclass(frozen=True, slots=True)
class Reread:
    """Instruction: read the ledger's records of these jobs and pass them to :meth:`reread`."""

    jids: list[int]


@dataclass(frozen=True, slots=True)
class ReleaseNominations:
    """Instruction: store that these jobs' nominations have expired."""

    jids: list[int]


@dataclass(frozen=True, slots=True)
class Repartition:
    """Instruction: store this partition."""

    put: PutPartition


@dataclass(frozen=True, slots=True)
class Stop:
    """Instruction: delete these incarnations of tasks (jid, tix) at the cluster, then record what
    :meth:`Coordinator.stopped` returns for those that it never had."""

    tasks: list[tuple[int, int]]
    uids: list[str]
    """Uids of the incarnations meant. By the time that the cluster is asked, the end of one may be
    recorded: asked by its task alone, the cluster would refuse to ever start the next one."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Instruction: record these items (deleted members that were never placed), then call
    :meth:`Coordinator.failed` with them."""

    items: list[StatusItem]


@dataclass(frozen=True, slots=True)
class Purge:
    """Instruction: remove these deleted jobs and members (jid, tix); their last task has left."""

    jids: list[int]
    pods: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class StoreQuarantines:
    """Instruction: store the quarantines of these nodes (by row), None to end one; then call
    :meth:`Coordinator.left_out`."""

    marks: Mapping[int, Quarantine | None]

    def ops(self) -> list[IntakeOp]:
        return [
            PutObject(
                quarantine_key(row), None if quarantine is None else encode_quarantine(quarantine)
            )
            for row, quarantine in self.marks.items()
        ]


@dataclass(frozen=True, slots=True)
class StoreReservations:
    """Instruction: store the job that each of these nodes (by row) is reserved for, None to release
    it; then call :meth:`Aging.stored`."""

    marks: dict[int, int | None]

    def ops(self) -> list[IntakeOp]:
        return [
            PutObject(reserved_key(row), None if jid is None else encode_reserved(jid))
            for row, jid in self.marks.items()
        ]


@dataclass(frozen=True, slots=True)
class StoreUsage:
    """Instruction: store these samples of what queues use (by the first of each bucket), None to
    delete them; then call :meth:`UsageOverTime.stored`."""

    marks: Mapping[int, UsageBucket | None]

    def ops(self) -> list[IntakeOp]:
        return [
            PutObject(usage_key(first), None if bucket is None else encode_usage(bucket))
            for first, bucket in self.marks.items()
        ]


@dataclass(frozen=True, slots=True)
class RemoveGates:
    """Instruction: store these pods (jid -> tasks) without Volcano's scheduling gate; then call
    :meth:`Order.gates_removed`."""

    tasks: Mapping[int, list[int]]


@dataclass(frozen=True, slots=True)
class Regroup:
    """Instruction: move the pods of these jobs of one to the groups that they name, leave those of
    ``apart`` jobs of their own, and let those of ``expired`` wait for no group any more; then call
    :meth:`LateGroups.stored`."""

    move: list[int]
    apart: list[int] = field(default_factory=list)
    expired: list[int] = field(default_factory=list)


NOWHERE = 0
"""In the place of a row, for a task that has none."""

Instruction = (
    SendTurns
    | Reread
    | ReleaseNominations
    | Repartition
    | Stop
    | Fail
    | Purge
    | StoreQuarantines
    | StoreReservations
    | StoreUsage
    | RemoveGates
    | Regroup
)


def failures(
    tasks: list[tuple[int, int]],
    jobs: Mapping[int, JobState],
    row: Callable[[int, int], int] = lambda jid, tix: NOWHERE,
) -> list[StatusItem]:
    """Tasks (jid, tix) as FAILED, one item per job, class and group: a task that the ledger has as
    pending by then is a member of its group where it asks for nothing, and must not count any more.
    ``row``: where each is, of tasks that have a place."""
    items: dict[tuple[int, int, int], StatusItem] = {}
    for jid, tix in tasks:
        if jid not in jobs:  # deleted as a whole meanwhile
            continue
        role = jobs[jid].job.role_of(tix)
        new = StatusItem(TaskState.FAILED, jid, [], [], role.cid, role.group)
        item = items.setdefault((jid, role.cid, role.group), new)
        item.tasks.append(tix)
        item.rows.append(row(jid, tix))
    return list(items.values())
