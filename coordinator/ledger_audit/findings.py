"""The findings of the ledger audit, and the rule that confirms them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class AuditKind(StrEnum):
    """The kinds of damage, named as in the metric and events."""

    NODE_USED = "node-used"  # a node's used amounts are not those of the tasks that hold it
    NODE_RELEASING = "node-releasing"  # the same of those that are leaving it
    NODE_NOMINATED = "node-nominated"  # a node's promised amounts are not those of nominations
    THING = "thing"  # amounts of a named thing of a node (a host port) are not those of its holders
    QUEUE_USED = "queue-used"  # a queue's used amounts are not those of its and its children's jobs
    QUEUE_LEAVING = "queue-leaving"
    GROUP_HELD = "group-held"  # a group's held members are not those that its tasks are
    TASK_WITHOUT_JOB = "task-without-job"
    NOMINATION_WITHOUT_JOB = "nomination-without-job"
    BIND_LOST = "bind-lost"  # BINDING for longer than a bound, and no bind entry names the task
    NEGATIVE = "negative"  # an amount below 0, of whatever record


QUEUE_PART = {AuditKind.QUEUE_USED: 0, AuditKind.QUEUE_LEAVING: 1}


class RecordKind(StrEnum):
    """The kind of record that is wrong."""

    NODE = "node"
    QUEUE = "queue"
    JOB = "job"
    TASK = "task"
    NOMINATION = "nomination"
    DOMAIN = "domain"


@dataclass(frozen=True, slots=True)
class Finding:
    """A record that contradicts the task records."""

    kind: AuditKind
    subject: RecordKind
    name: tuple[int, ...]
    """(row,), (qid,), (jid,) or (jid, tix); empty for a counter."""
    record: bytes
    """The record as it was read."""
    difference: tuple[tuple[int, int, int], ...] = ()
    """(slot or group, recorded amount, amount by the tasks), in the order of slots."""
    part: int = 0
    """The wrong amount among those of a slot of a node (:data:`shared.ledger.records.WIDTH`), or
    :data:`QUEUE_PART` of a queue."""
    key: str = ""
    """The name of a counter of a cross-node rule, or of a named thing of the node."""
    row: int = -1
    """The node of a task or nomination whose job does not exist."""
    recomputable: bool = True
    """False if it cannot be recomputed, because the class of one of its tasks has no record."""

    @classmethod
    def of_sums(
        cls,
        kind: AuditKind,
        subject: RecordKind,
        name: tuple[int, ...],
        record: bytes,
        difference: tuple[tuple[int, int, int], ...],
        *,
        part: int = 0,
        key: str = "",
        recomputable: bool = True,
    ) -> Finding:
        """Finding about a record that differs from the sums of its tasks; an amount below 0 is
        worse."""
        if any(has < 0 for _, has, _ in difference):
            kind = AuditKind.NEGATIVE
        return cls(kind, subject, name, record, difference, part, key, recomputable=recomputable)

    @property
    def identity(self) -> tuple[object, ...]:
        return self.kind, self.subject, self.name, self.part, self.key

    def __str__(self) -> str:
        return f"{self.subject} {'.'.join(map(str, self.name))}: {self.describe()}"

    def describe(self) -> str:
        """The problem in words, without the object's name, for events and logs."""
        if not self.difference:
            return self.kind.value
        part_name = "group" if self.subject is RecordKind.JOB else "slot"
        if self.kind is AuditKind.THING:
            part_name = f"{self.key} part"
        parts = [
            f"{part_name} {at}: {has}, should be {should}" for at, has, should in self.difference
        ]
        more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
        return f"{self.kind.value}, {'; '.join(parts[:3])}{more}"


def confirmed(first: Iterable[Finding], second: Iterable[Finding]) -> list[Finding]:
    """The findings of the second look that the first one had too, at unchanged versions.

    Between the looks either nobody wrote the record, or those who did kept its difference to the
    tasks to the unit, as every correct script does: of a queue that is charged a hundred times a
    second no two looks see the same record. A race in reading would need to be off by the same
    amounts twice; and before anything is rewritten, the next leader looks once more while nobody
    writes."""
    first_by_identity = {finding.identity: finding for finding in first}
    return [f for f in second if (old := first_by_identity.get(f.identity)) and _same(old, f)]


def _same(old: Finding, new: Finding) -> bool:
    if old.record == new.record and old.difference == new.difference:
        return True
    return bool(new.difference) and _offsets(old) == _offsets(new)


def _offsets(finding: Finding) -> list[tuple[int, int]]:
    return [(at, has - should) for at, has, should in finding.difference]
