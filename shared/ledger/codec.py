"""The encoding of batches, answers and log entries between Python and the scripts: msgpack arrays.

Records and specifications are raw bytes in msgpack strings, so everything is read with ``raw=True``
and names are decoded one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgpack
from msgspec import convert

from shared.codec.checked import Malformed, binary, count, indices, integer
from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import (
    DropClass,
    DropJob,
    DropNode,
    DropQueue,
    IntakeOp,
    Move,
    Observe,
    PurgeJob,
    PutClass,
    PutJob,
    PutNode,
    PutObject,
    PutPartition,
    PutQueue,
)
from shared.ledger.entries.log import Committed
from shared.ledger.entries.stored import ThingAsk
from shared.ledger.errors import LedgerArgument
from shared.ledger.records import LIMB, pack_devices, unpack_devices
from shared.messages.messages import (
    ACCEPTED,
    DomainOp,
    EvictRun,
    Group,
    Run,
    Statement,
    StatusBatch,
    StatusItem,
    TaskState,
    Verdict,
)
from shared.slices import Steps
from shared.units.things import Things, Vector

_FEW_OPS = 200
"""Operations packed in one step: 6 us each."""

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
    devices: list[tuple[int, bytes]] = []
    for index, s in enumerate(statements, 1):
        heads.append(_HEAD.pack(s.jid, s.job_version, s.qid, s.priority, len(s.core), len(s.tail)))
        for run in (*s.core, *s.tail):
            count = len(run.tasks)
            runs.append(_RUN.pack(run.kind, run.cid, run.group, count))
            for column, values in zip(columns, _lists(run), strict=True):
                if len(values) != count:
                    raise LedgerArgument(f"job {s.jid}: the lists of a run differ in length")
                column.extend(values)
            if run.devices:
                devices.append((len(runs), pack_devices(run.devices)))
        if s.displaced or s.domains or s.expiry or s.evictions or s.in_part:
            domains = [[d.key, d.delta, d.condition, d.bound] for d in s.domains]
            extras.append([index, s.displaced, domains, s.expiry])
            if s.evictions or s.in_part:
                extras[-1] += [[_victims(e) for e in s.evictions], s.reason]
            if s.in_part:
                extras[-1].append(1)
    packed = [struct.pack(f"<{len(column)}I", *column) for column in columns]
    tail = [devices] if devices else []
    return pack([b"".join(heads), b"".join(runs), *packed, extras, *tail])


def _victims(run: EvictRun) -> list[Any]:
    if len(run.tasks) != len(run.rows):
        raise LedgerArgument(f"job {run.jid}: the lists of its victims differ in length")
    packed = [run.jid, run.job_version, run.cid, run.group, run.tasks, run.rows, run.guards]
    if run.to:
        packed += [run.to, run.specs, run.priority]
        packed += [pack_devices(run.devices)] if run.devices else []
    return packed


def read_statements(data: bytes) -> Iterator[Statement]:
    """Unpack a batch's statements one at a time. A truncated batch is detected only after the last
    one."""
    heads, runs, tasks, rows, versions, specs, levels, extras, *tail = unpack(data)
    devices = _devices(tail[0]) if tail else {}
    packed = tasks, rows, versions, specs, levels
    columns = [struct.unpack(f"<{len(column) // 4}I", column) for column in packed]
    run_heads = _RUN.iter_unpack(runs)
    more = {extra[0]: extra[1:] for extra in extras}
    first = number = 0
    for index, head in enumerate(_HEAD.iter_unpack(heads), 1):
        jid, version, qid, priority, ncore, ntail = head
        statement_runs: list[Run] = []
        for kind, cid, group, size in islice(run_heads, ncore + ntail):
            number += 1
            tasks_of, rows_of, *others = (list(column[first : first + size]) for column in columns)
            versions_of, specs_of, levels_of = others
            statement_runs.append(
                Run(
                    kind=kind,
                    cid=cid,
                    group=group,
                    tasks=tasks_of,
                    rows=rows_of,
                    versions=versions_of,
                    specs=specs_of,
                    levels=levels_of,
                    devices=devices.get(number, ()),
                )
            )
            first += size
        displaced, domains, expiry, *evicting = more.get(index, ([], [], 0.0))
        in_part = bool(evicting) and evicting[-1] == 1
        if in_part:
            evicting.pop()
        evictions, reason = _evictions(*evicting) if evicting else ([], b"")
        yield Statement(
            jid=jid,
            job_version=version,
            qid=qid,
            priority=priority,
            core=statement_runs[:ncore],
            tail=statement_runs[ncore:],
            displaced=displaced,
            domains=[DomainOp(d[0].decode(), d[1], d[2].decode(), d[3]) for d in domains],
            expiry=float(expiry),
            evictions=evictions,
            reason=reason.decode(),
            in_part=in_part,
        )
    if next(run_heads, None) is not None or any(len(column) != first for column in columns):
        raise Malformed("runs or operations that belong to no statement")


def _devices(taken: list[Any]) -> dict[int, Things]:
    return {count(run, "run"): unpack_devices(packed, "devices") for run, packed in taken}


def _evictions(runs: list[Any], reason: Any) -> tuple[list[EvictRun], bytes]:
    """The victims of a statement, and why."""
    return convert([_of_victims(run) for run in runs], list[EvictRun]), binary(reason, "reason")


_DEVICES_OF_VICTIMS = 10
"""Where a run of victims has the devices of their new node, packed."""


def _of_victims(run: Any) -> Any:
    if type(run) is not list or len(run) <= _DEVICES_OF_VICTIMS:
        return run
    *others, devices = run
    return [*others, unpack_devices(binary(devices, "devices"), "devices of victims")]


def _chosen(values: list[int], keep: Sequence[bool]) -> list[int]:
    return [value for value, is_chosen in zip(values, keep, strict=True) if is_chosen]


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
            tasks, rows, versions, specs, levels = (_chosen(values, keep) for values in _lists(run))
            chosen.append(
                replace(run, tasks=tasks, rows=rows, versions=versions, specs=specs, levels=levels)
            )
    return chosen


def committed_of(s: Statement, verdict: Verdict, tail: list[Run], ended: list[int]) -> Committed:
    """An accepted statement as the log records it."""
    return Committed(
        s.jid,
        verdict,
        s.priority,
        s.core,
        tail,
        ended,
        s.expiry,
        s.evictions,
        s.reason if s.evictions else "",
    )


# --- status and intake ------------------------------------------------------------------------


def pack_status(batch: StatusBatch) -> bytes:
    return pack([[_item(item) for item in batch.items], batch.expired])


def _item(item: StatusItem) -> list[Any]:
    packed = [int(item.state), item.jid, item.tasks, item.rows]
    if item.cid >= 0:
        packed += [item.cid, item.group]
        if item.devices:
            packed.append(pack_devices(item.devices))
    elif item.restarts:
        packed.append(list(item.restarts))
    return packed


def _flat(pairs: Iterable[tuple[int, ...]]) -> list[int]:
    return [number for pair in pairs for number in pair]


def _limbs(amounts: list[tuple[int, int]]) -> list[int]:
    """Amounts as (slot, high limb, low limb): an amount may exceed what the script's
    numbers hold."""
    return _flat((slot, *divmod(amount, LIMB)) for slot, amount in amounts)


def _of_limbs(flat: list[int]) -> list[tuple[int, int]]:
    limbs = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return [(slot, high * LIMB + low) for slot, high, low in limbs]


def _named(things: Iterable[tuple[str, Vector]]) -> list[Any]:
    return [[name, list(amounts)] for name, amounts in things]


def _op(op: IntakeOp) -> list[Any]:
    match op:
        case PutClass(cid, requests, spec, things):
            asks = [[ask.name, list(ask.amounts), list(ask.offers)] for ask in things]
            return [1, cid, _flat(requests), spec, asks]
        case PutNode(row, allocatable, spec_version, spec, things):
            return [2, row, _flat(allocatable), spec_version, spec, _named(things)]
        case DropNode(row, things):
            return [3, row, _named(things)]
        case Observe(row, used, things):
            return [4, row, _flat(used), _named(things)]
        case PutQueue(qid, parent, capability, spec, guarantee):
            limits = False if capability is None else _limbs(capability)
            return [5, qid, parent, limits, spec, _limbs(guarantee)]
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
        case DropClass(cid):
            return [12, cid]


def packing_ops(ops: Sequence[IntakeOp]) -> Steps[bytes]:
    """Pack operations a few at a time, so that a long list does not block: an array is its head and
    its elements one after the other."""
    if len(ops) <= _FEW_OPS:
        return pack([_op(op) for op in ops])
    parts = [_array_head(len(ops))]
    for at in range(0, len(ops), _FEW_OPS):
        few = [_op(op) for op in ops[at : at + _FEW_OPS]]
        parts.append(pack(few)[len(_array_head(len(few))) :])
        yield
    return b"".join(parts)


def _array_head(count: int) -> bytes:
    """The msgpack header of an array with this many elements."""
    if count < 1 << 4:
        return bytes((0x90 | count,))
    if count < 1 << 16:
        return b"\xdc" + struct.pack(">H", count)
    return b"\xdd" + struct.pack(">I", count)


def pack_documents(documents: Iterable[tuple[str, bytes | None]]) -> bytes:
    """Flat: key, document (False: deleted), and so on. The last entry of a key counts."""
    flat: list[str | bytes | bool] = []
    for key, body in dict(documents).items():
        flat += (key, False if body is None else body)
    return pack(flat)


def pairs(flat: list[int]) -> list[tuple[int, int]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


# A kind is followed by exactly the fields of its operation, each of its own type.


def _partition_of(revision: int, shards: Any, moves: Any, mode: bytes) -> PutPartition:
    owned = {count(shard, "shard"): indices(rows, "rows") for shard, rows in shards}
    moving = [
        Move(integer(giver, "move"), integer(taker, "move"), rows) for giver, taker, rows in moves
    ]
    return PutPartition(count(revision, "revision"), owned, moving, mode.decode())


def _queue_of(qid: int, parent: int, limits: Any, spec: bytes, guarantee: list[int]) -> PutQueue:
    return PutQueue(
        count(qid, "qid"),
        integer(parent, "parent"),
        None if limits is False else _of_limbs(limits),
        binary(spec, "queue"),
        _of_limbs(guarantee),
    )


def _job_of(jid: int, qid: int, version: int, flat: list[int], spec: bytes) -> PutJob:
    groups = [Group(*flat[i : i + 3]) for i in range(0, len(flat), 3)]
    numbers = count(jid, "jid"), integer(qid, "qid"), count(version, "version")
    return PutJob(*numbers, groups, binary(spec, "job"))


def _class_of(cid: int, flat: list[int], spec: bytes, things: Any) -> PutClass:
    requests = list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))
    asks = [
        ThingAsk(name.decode(), _vector(amounts), _vector(offers))
        for name, amounts, offers in things
    ]
    return PutClass(count(cid, "cid"), requests, binary(spec, "class"), asks)


def _vector(amounts: Any) -> Vector:
    return tuple([integer(amount, "things") for amount in amounts])


def _things_of(named: Any) -> Things:
    return tuple([(name.decode(), _vector(amounts)) for name, amounts in named])


def _observe_of(node: int, flat: list[int], things: Any) -> Observe:
    return Observe(count(node, "row"), pairs(flat), [*_things_of(things)])


def _node_of(node: int, flat: list[int], version: int, spec: bytes, things: Any) -> PutNode:
    numbers = count(node, "row"), pairs(flat), count(version, "version")
    return PutNode(*numbers, binary(spec, "node"), _things_of(things))


def _node_gone(node: int, things: Any) -> DropNode:
    return DropNode(count(node, "row"), _things_of(things))


def _object_of(key: bytes, spec: Any) -> PutObject:
    return PutObject(key.decode(), None if spec is False else binary(spec, "object"))


_OPS: dict[int, Callable[..., IntakeOp]] = {
    1: _class_of,
    2: _node_of,
    3: _node_gone,
    4: _observe_of,
    5: _queue_of,
    6: _job_of,
    7: lambda jid: DropJob(count(jid, "jid")),
    8: _object_of,
    9: _partition_of,
    10: lambda qid: DropQueue(count(qid, "qid")),
    11: lambda jid: PurgeJob(count(jid, "jid")),
    12: lambda cid: DropClass(count(cid, "cid")),
}

ALL_OPS: frozenset[int] = frozenset(_OPS)
NODE_OPS = frozenset({1, 2, 3, 4, 8, 9, 12})
"""The kinds that a worker's view applies: all but queues and jobs."""
TOTALS_OPS = frozenset({1, 5, 6, 7, 10, 11})
"""The kinds that totals depend on: classes, queues and jobs."""


def op_of(packed: Any) -> IntakeOp:
    """One operation; raises ValueError or TypeError for an unknown kind or form."""
    if type(packed) is not list or not packed or packed[0] not in ALL_OPS:
        raise Malformed("an operation of a kind that is not known")
    return _OPS[packed[0]](*packed[1:])


def read_ops(data: bytes, kinds: Collection[int] = ALL_OPS) -> Iterator[IntakeOp]:
    """Unpack operations one at a time."""
    return (op_of(op) for op in unpack(data) if op[0] in kinds or op[0] not in ALL_OPS)
