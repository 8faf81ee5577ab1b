"""Rewrites the records that contradict the task records, before a new leader leads.

A leader that confirms a finding reports it and marks the ledger. The next leader looks at a marked
ledger while nobody may write to it. So a single look is exact, and its sums may be written; beside
running writers neither would be true (decision 0039).
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from coordinator.ledger_audit.bind_watch import StuckBinds
from coordinator.ledger_audit.figures import AuditFigures
from coordinator.ledger_audit.findings import AuditKind, Finding, RecordKind
from coordinator.ledger_audit.looker import RECORDS, AuditReader
from coordinator.ledger_audit.portions import portions
from shared.codec.packed import replace
from shared.ledger import records
from shared.ledger.codec import unpack
from shared.ledger.entries.audit import Table
from shared.ledger.entries.stored import BindEntry, Write
from shared.ledger.protocol import RECOUNT, Ledger
from shared.ledger.records import ALLOCATABLE, WIDTH
from shared.ledger.retry import insist
from shared.messages.messages import Epoch
from shared.records.specs import decode_node

LOOKS = 4
"""Maximum number of looks. The first finds all there is, the second the sums that a deleted task or
nomination leaves behind, the third nothing."""
UNSEEN_VERSION = 2**40
"""Takes the place of a negative counter of a cross-node rule: greater than any that was read. These
counters are versions, so a statement that relies on an old one is refused."""
IMPLIED = "implied"
"""Field of the meta record: the capacities that every node has without declaring them."""

_TABLES = {
    RecordKind.NODE: Table.NODE,
    RecordKind.QUEUE: Table.QUEUE,
    RecordKind.JOB: Table.JOB,
    RecordKind.TASK: Table.TASK,
    RecordKind.NOMINATION: Table.NOMINATION,
    RecordKind.DOMAIN: Table.DOMAIN,
}

T = TypeVar("T")


async def recount(ledger: Ledger, leader: Epoch) -> list[Finding]:
    """Rewrite what contradicts the task records, and remove the mark. Returns what was wrong.

    Records that cannot be recomputed stay as they are, and damage that comes back is left after
    :data:`LOOKS`: the new leader's audit reports both. After an error or a kill the mark is still
    there, and the next leader begins anew.
    """

    async def rewrite(writes: list[Write], binds: list[BindEntry]) -> None:
        await insist(partial(ledger.rewrite, leader, writes, binds), call_name="recount")

    # Nobody else may write from here on, not even workers that are not claimed yet.
    await rewrite([], [])
    reader = AuditReader(
        ledger, figures=AuditFigures(), watch=StuckBinds(0.0), pace=_WithoutRests()
    )
    rewritten: dict[tuple[object, ...], Finding] = {}
    for _ in range(LOOKS):
        findings = [finding for finding in await reader.look() if finding.recomputable]
        if not findings:
            break
        for portion in portions(findings, RECORDS):
            await rewrite(*await _corrections(reader, portion))
        rewritten = {finding.identity: finding for finding in findings} | rewritten
    await rewrite([Write(Table.META, RECOUNT.encode(), None)], [])
    return [*rewritten.values()]


class _WithoutRests:
    """Implements :class:`coordinator.ledger_audit.looker.Pace` for a process that does nothing
    else yet. Probes are answered between any two steps."""

    used = 0.0
    is_over = True
    now = staticmethod(time.monotonic)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    async def give_way(self, rest: float) -> None:
        await asyncio.sleep(0)


async def _corrections(
    reader: AuditReader, findings: Sequence[Finding]
) -> tuple[list[Write], list[BindEntry]]:
    """The writes and bind entries that put right these findings."""
    by_record: defaultdict[Table, defaultdict[str, list[Finding]]] = defaultdict(
        lambda: defaultdict(list)
    )
    binds = []
    for finding in findings:
        if finding.kind is AuditKind.BIND_LOST:
            binds.append(_bind(finding))
        else:
            table, name = _field(finding)
            by_record[table][name].append(finding)
    writes = []
    for table, by_name in by_record.items():
        present = await reader.records(table, [*by_name])
        capacities = await _capacities(reader, [*by_name]) if table is Table.NODE else {}
        for name, of_record in by_name.items():
            capacity = capacities.get(name, {})
            record = _corrected(table, present.get(name, b""), of_record, capacity)
            writes.append(Write(table, name.encode(), record))
    return writes, binds


def _field(finding: Finding) -> tuple[Table, str]:
    """The table of the record and its field there."""
    name = ".".join(map(str, finding.name))
    if finding.subject is RecordKind.NODE and finding.key:
        return Table.THING, f"{name}/{finding.key}"
    return _TABLES[finding.subject], name or finding.key


def _corrected(
    table: Table, record: bytes, findings: Sequence[Finding], capacity: dict[int, int]
) -> bytes | None:
    """The record as it should be; None where there should be none."""
    match table:
        case Table.NODE:
            return _node(record, findings, capacity)
        case Table.THING:
            return _thing(record, findings)
        case Table.QUEUE:
            queue = records.unpack_queue(record)
            for finding in findings:
                amounts = (queue.used, queue.leaving)[finding.part]
                amounts.update((slot, should) for slot, _, should in finding.difference)
            return records.pack_queue(queue)
        case Table.JOB:
            job = records.unpack_job(record)
            for finding in findings:
                for group, _, should in finding.difference:
                    job.groups[group] = replace(job.groups[group], held=should)
            return records.pack_job(job)
        case Table.DOMAIN:
            return records.pack_count(UNSEEN_VERSION)
        case _:  # a task or a nomination without a job
            return None


async def _capacities(reader: AuditReader, rows: Sequence[str]) -> dict[str, dict[int, int]]:
    """Slot -> allocatable amount of these nodes, by their specifications."""
    implied: dict[int, int] = {}
    for record in (await reader.records(Table.META, [IMPLIED])).values():
        pairs = unpack(records.opened(record, "implied capacities"))
        implied = dict(zip(pairs[::2], pairs[1::2], strict=True))
    specs = await reader.records(Table.NODE_SPEC, rows)
    return {row: {**implied, **dict(decode_node(spec).allocatable)} for row, spec in specs.items()}


def _node(record: bytes, findings: Sequence[Finding], capacity: dict[int, int]) -> bytes:
    version, spec, amounts = records.unpack_node(record)
    for finding in findings:
        for slot, _, should in finding.difference:
            for added in range(len(amounts) // WIDTH, slot + 1):
                amounts += [capacity.get(added, 0), *[0] * (WIDTH - 1)]
            is_capacity = finding.part == ALLOCATABLE
            amounts[WIDTH * slot + finding.part] = capacity.get(slot, 0) if is_capacity else should
    return records.pack_node(version + 1, spec, amounts)


def _thing(record: bytes, findings: Sequence[Finding]) -> bytes | None:
    version, amounts = records.unpack_thing(record) if record else (0, [])
    for finding in findings:
        for at, _, should in finding.difference:
            if at >= len(amounts):
                amounts += [0] * (WIDTH * (at // WIDTH + 1) - len(amounts))
            amounts[at] = should
    return records.pack_thing(version, amounts) if any(amounts) else None


def _bind(finding: Finding) -> BindEntry:
    """The entry that a commit would have written. The one before it is acknowledged, so that nobody
    drives it any more. A second one, after a lost answer, does no harm: where the cluster has the
    task already, it answers so."""
    jid, tix = finding.name
    task = records.unpack_task(finding.record, jid, tix)
    return BindEntry(
        "",
        [(jid, task.cid, [tix], [task.row])],
        {(jid, tix): task.incarnation} if task.incarnation else {},
        devices={(jid, tix): task.devices} if task.devices else {},
    )
