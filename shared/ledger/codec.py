"""How batches, answers and log entries travel between Python and the scripts: msgpack arrays.

Records and specifications are raw bytes in msgpack strings, so everything is read with ``raw=True``
and names are decoded one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Any

import msgpack

from shared.ledger.errors import LedgerArgument
from shared.ledger.protocol import (
    BindEntry,
    CommitEntry,
    Committed,
    DropJob,
    DropNode,
    DropQueue,
    EpochEntry,
    IntakeEntry,
    IntakeOp,
    LogEntry,
    Move,
    Nomination,
    Observe,
    PurgeJob,
    PutClass,
    PutJob,
    PutNode,
    PutObject,
    PutPartition,
    PutQueue,
    StatusEntry,
)
from shared.ledger.records import LIMB
from shared.messages import (
    ACCEPTED,
    NOMINATE,
    Answer,
    DomainOp,
    Epoch,
    Group,
    Rows,
    Run,
    Statement,
    StatusBatch,
    StatusItem,
    TaskState,
    Verdict,
)

VERDICTS = tuple(Verdict)
STATES = tuple(TaskState)


def pack(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value, use_bin_type=False)
    return packed


def unpack(data: bytes) -> Any:
    return msgpack.unpackb(data, raw=True, strict_map_key=False)


# --- statements -------------------------------------------------------------------------------


_HEAD = struct.Struct("<IIiiII")
_RUN = struct.Struct("<IIII")


def _lists(run: Run) -> tuple[list[int], ...]:
    return run.tasks, run.rows, run.versions, run.specs, run.levels


def pack_statements(statements: Sequence[Statement]) -> bytes:
    """A batch as columns: see ``scripts/commit.lua`` for their meaning. Errors: LedgerArgument."""
    try:
        return _pack_statements(statements)
    except struct.error as error:
        for s in statements:
            try:
                _pack_statements([s])
            except struct.error:
                text = f"job {s.jid}: a number of its statement is negative or too large"
                raise LedgerArgument(text) from error
        raise


def _pack_statements(statements: Sequence[Statement]) -> bytes:
    heads: list[bytes] = []
    runs: list[bytes] = []
    columns: tuple[list[int], ...] = ([], [], [], [], [])
    extras: list[Any] = []
    for index, s in enumerate(statements, 1):
        heads.append(_HEAD.pack(s.jid, s.job_version, s.qid, s.priority, len(s.core), len(s.tail)))
        for run in (*s.core, *s.tail):
            count = len(run.tasks)
            runs.append(_RUN.pack(run.kind, run.cid, run.group, count))
            for column, values in zip(columns, _lists(run), strict=True):
                if len(values) != count:
                    raise LedgerArgument(f"job {s.jid}: the lists of a run differ in length")
                column.extend(values)
        if s.displaced or s.domains or s.expiry:
            domains = [[d.key, d.delta, d.condition, d.bound] for d in s.domains]
            extras.append([index, s.displaced, domains, s.expiry])
    packed = [struct.pack(f"<{len(column)}I", *column) for column in columns]
    return pack([b"".join(heads), b"".join(runs), *packed, extras])


def unpack_statements(data: bytes) -> list[Statement]:
    heads, runs, *packed, extras = unpack(data)
    columns = [struct.unpack(f"<{len(column) // 4}I", column) for column in packed]
    run_heads = _RUN.iter_unpack(runs)
    more = {extra[0]: extra[1:] for extra in extras}
    first = 0
    found: list[Statement] = []
    for index, head in enumerate(_HEAD.iter_unpack(heads), 1):
        jid, version, qid, priority, ncore, ntail = head
        own: list[Run] = []
        for kind, cid, group, count in islice(run_heads, ncore + ntail):
            lists = (list(column[first : first + count]) for column in columns)
            own.append(Run(kind, cid, group, *lists))
            first += count
        displaced, domains, expiry = more.get(index, ([], [], 0.0))
        found.append(
            Statement(
                jid=jid,
                job_version=version,
                qid=qid,
                priority=priority,
                core=own[:ncore],
                tail=own[ncore:],
                displaced=displaced,
                domains=[DomainOp(d[0].decode(), d[1], d[2].decode(), d[3]) for d in domains],
                expiry=float(expiry),
            )
        )
    return found


def _chosen(values: list[int], keep: Sequence[bool]) -> list[int]:
    return [value for value, kept in zip(values, keep, strict=True) if kept]


def accepted_runs(runs: list[Run], verdicts: Sequence[Verdict]) -> list[Run]:
    """The operations of a tail that were accepted; runs with none are left out."""
    if all(verdict in ACCEPTED for verdict in verdicts):
        return [run for run in runs if run.tasks]
    chosen: list[Run] = []
    first = 0
    for run in runs:
        keep = [v in ACCEPTED for v in verdicts[first : first + len(run.tasks)]]
        first += len(run.tasks)
        if any(keep):
            kept = (_chosen(values, keep) for values in _lists(run))
            chosen.append(Run(run.kind, run.cid, run.group, *kept))
    return chosen


# --- status and intake ------------------------------------------------------------------------


def pack_status(batch: StatusBatch) -> bytes:
    items = [
        [int(i.state), i.jid, i.tasks, i.rows, i.cid, i.group]
        if i.adopted
        else [int(i.state), i.jid, i.tasks, i.rows]
        for i in batch.items
    ]
    return pack([items, batch.lapsed])


def _flat(pairs: Iterable[tuple[int, ...]]) -> list[int]:
    return [number for pair in pairs for number in pair]


def _limits(capability: list[tuple[int, int]] | None) -> list[int] | bool:
    """(slot, high limb, low limb): a limit may exceed what the script's numbers hold."""
    if capability is None:
        return False
    return _flat((slot, *divmod(amount, LIMB)) for slot, amount in capability)


def _op(op: IntakeOp) -> list[Any]:
    match op:
        case PutClass(cid, requests, spec):
            return [1, cid, _flat(requests), spec]
        case PutNode(row, allocatable, spec_version, spec):
            return [2, row, _flat(allocatable), spec_version, spec]
        case DropNode(row):
            return [3, row]
        case Observe(row, used):
            return [4, row, _flat(used)]
        case PutQueue(qid, parent, capability, spec):
            return [5, qid, parent, _limits(capability), spec]
        case PutJob(jid, qid, spec_version, groups, spec):
            numbers = [n for g in groups for n in (g.parent, g.minimum, g.held)]
            return [6, jid, qid, spec_version, numbers, spec]
        case DropJob(jid):
            return [7, jid]
        case PutObject(key, spec):
            return [8, key, False if spec is None else spec]
        case PutPartition(revision, shards, moving, mode):
            moves = [[move.giver, move.taker, move.rows] for move in moving]
            return [9, revision, [[shard, rows] for shard, rows in shards.items()], moves, mode]
        case DropQueue(qid):
            return [10, qid]
        case PurgeJob(jid):
            return [11, jid]


def pack_ops(ops: Iterable[IntakeOp]) -> bytes:
    return pack([_op(op) for op in ops])


def pack_documents(documents: Iterable[tuple[str, bytes | None]]) -> bytes:
    """Flat: key, document (False: none any more), and so on. Of one key the last word counts."""
    flat: list[str | bytes | bool] = []
    for key, body in dict(documents).items():
        flat += (key, False if body is None else body)
    return pack(flat)


def _pairs(flat: list[int]) -> list[tuple[int, int]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def unpack_partition(op: list[Any]) -> PutPartition:
    _, revision, shards, moves, mode = op
    return PutPartition(revision, dict(shards), [Move(*move) for move in moves], mode.decode())


def _put_queue(op: list[Any]) -> PutQueue:
    flat = op[3]
    if flat is False:
        return PutQueue(op[1], op[2], None, op[4])
    limbs = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return PutQueue(op[1], op[2], [(slot, high * LIMB + low) for slot, high, low in limbs], op[4])


def _put_job(op: list[Any]) -> PutJob:
    flat = op[4]
    groups = [Group(*flat[i : i + 3]) for i in range(0, len(flat), 3)]
    return PutJob(op[1], op[2], op[3], groups, op[5])


def _put_class(op: list[Any]) -> PutClass:
    flat = op[2]
    return PutClass(op[1], list(zip(flat[::3], flat[1::3], flat[2::3], strict=True)), op[3])


_OPS: dict[int, Callable[[list[Any]], IntakeOp]] = {
    1: _put_class,
    2: lambda op: PutNode(op[1], _pairs(op[2]), op[3], op[4]),
    3: lambda op: DropNode(op[1]),
    4: lambda op: Observe(op[1], _pairs(op[2])),
    5: _put_queue,
    6: _put_job,
    7: lambda op: DropJob(op[1]),
    8: lambda op: PutObject(op[1].decode(), None if op[2] is False else op[2]),
    9: unpack_partition,
    10: lambda op: DropQueue(op[1]),
    11: lambda op: PurgeJob(op[1]),
}


_NODE_OPS = frozenset({1, 2, 3, 4, 8, 9})
"""The kinds a view follows: all but queues and jobs."""


def unpack_ops(data: bytes, kinds: Collection[int] = _OPS.keys()) -> list[IntakeOp]:
    return [_OPS[op[0]](op) for op in unpack(data) if op[0] in kinds]


# --- answers ----------------------------------------------------------------------------------


def unpack_answers(head: list[Any]) -> list[Answer]:
    """``head`` is [verdict, verdicts, ats, tails, rows]; ``ats`` are flat pairs (index, at), and a
    tail begins with the index of its statement. Indices count from 1."""
    _, verdicts, pairs, told, _ = head
    ats = dict(_pairs(pairs))
    tails = _tails(told)
    return [
        Answer(VERDICTS[verdict], ats.get(i, -1), tails.get(i, []))
        for i, verdict in enumerate(verdicts, 1)
    ]


def _tails(told: list[list[int]]) -> dict[int, list[Verdict]]:
    return {tail[0]: [VERDICTS[v] for v in tail[1:]] for tail in told}


def unpack_rows(rows: list[int], records: bytes) -> Rows:
    return Rows(rows, unpack(records) if records else [])


# --- nominations, log, binds ------------------------------------------------------------------


def unpack_nomination(jid: int, record: bytes) -> Nomination:
    priority, since, expiry, runs = unpack(record)
    return Nomination(
        jid=jid,
        priority=priority,
        since=float(since),
        expiry=float(expiry),
        runs=[
            Run(NOMINATE, cid, group, tasks, rows, [], [], levels)
            for cid, group, tasks, rows, levels in runs
        ],
    )


_NO_STATEMENTS = pack_statements([])


def _commit_entry(entry_id: str, body: list[Any], rows_only: bool) -> CommitEntry:
    writer, epoch, sequence, batch, verdicts, told, dropped, rows, records = body
    if rows_only and not dropped and not unpack(batch)[-1]:
        batch, verdicts = _NO_STATEMENTS, []  # none of them made or ended a nomination
    tails, ended = _tails(told), dict(dropped)
    accepted: list[Committed] = []
    refused: list[tuple[int, Verdict]] = []
    for i, (s, number) in enumerate(zip(unpack_statements(batch), verdicts, strict=True), 1):
        verdict, tail = VERDICTS[number], tails.get(i, [])
        if verdict in ACCEPTED:
            runs = accepted_runs(s.tail, tail)
            accepted.append(
                Committed(s.jid, verdict, s.priority, s.core, runs, ended.get(i, []), s.expiry)
            )
            refused += [(s.jid, v) for v in tail if v not in ACCEPTED]
        else:
            refused.append((s.jid, verdict))
    return CommitEntry(
        id=entry_id,
        writer=writer.decode(),
        epoch=Epoch.parse(epoch.decode()),
        sequence=sequence,
        accepted=accepted,
        refused=refused,
        fresh=Rows(rows, records),
    )


def _status_entry(entry_id: str, body: list[Any], rows_only: bool) -> StatusEntry:
    writer, epoch, sequence, items, lapsed, rows, records = body
    return StatusEntry(
        id=entry_id,
        writer=writer.decode(),
        epoch=Epoch.parse(epoch.decode()),
        sequence=sequence,
        items=[] if rows_only else [StatusItem(STATES[state], *rest) for state, *rest in items],
        lapsed=lapsed,
        fresh=Rows(rows, records),
    )


def _intake_entry(entry_id: str, body: list[Any], rows_only: bool) -> IntakeEntry:
    writer, epoch, sequence, ops, dropped, rows, records, documents = body
    return IntakeEntry(
        id=entry_id,
        writer=writer.decode(),
        epoch=Epoch.parse(epoch.decode()),
        sequence=sequence,
        ops=unpack_ops(ops, _NODE_OPS if rows_only else _OPS.keys()),
        fresh=Rows(rows, records),
        dropped=dropped,
        documents=[] if rows_only else [name.decode() for name in documents],
    )


def _epoch_entry(entry_id: str, body: list[Any], _rows_only: bool) -> EpochEntry:
    return EpochEntry(entry_id, body[0].decode(), Epoch.parse(body[1].decode()))


_ENTRIES = (_commit_entry, _status_entry, _intake_entry, _epoch_entry)


def unpack_entry(entry_id: str, payload: bytes, *, rows_only: bool = False) -> LogEntry:
    """``rows_only`` leaves out what changes neither nodes nor classes nor nominations: a view needs
    no more, and reading it costs a tenth."""
    kind, *body = unpack(payload)
    return _ENTRIES[kind](entry_id, body, rows_only)


def unpack_binds(entry_id: str, payload: bytes) -> BindEntry:
    """The payload is flat: jid, cid, count, tasks, rows, and so on."""
    flat = unpack(payload)
    binds: list[tuple[int, int, list[int], list[int]]] = []
    at = 0
    while at < len(flat):
        jid, cid, count = flat[at : at + 3]
        middle, end = at + 3 + count, at + 3 + 2 * count
        binds.append((jid, cid, flat[at + 3 : middle], flat[middle:end]))
        at = end
    return BindEntry(entry_id, binds)
