"""What the ledger's scripts answer, keep and tell in the streams, read strictly.

Every reader checks the seal first and knows the form exactly. Whatever it is given, it returns what
was written, or raises :class:`LedgerAltered`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgpack

from shared.checked import Malformed, count, each, indices, integer, number, row
from shared.ledger.codec import (
    ALL_OPS,
    NODE_OPS,
    STATES,
    VERDICTS,
    accepted_runs,
    committed_of,
    op_of,
    pack_statements,
    pairs,
    unpack,
    unpack_ops,
    unpack_statements,
)
from shared.ledger.errors import LedgerAltered
from shared.ledger.protocol import (
    BindEntry,
    CommitEntry,
    Committed,
    EpochEntry,
    Evicted,
    IntakeEntry,
    LogEntry,
    Nomination,
    PutPartition,
    StatusEntry,
)
from shared.ledger.records import opened
from shared.messages import (
    ACCEPTED,
    NOMINATE,
    Answer,
    Epoch,
    Rows,
    Run,
    StatusItem,
    Verdict,
)
from shared.wire import parse_epoch

PAYLOAD, RECORDS, SEAL = b"p", b"r", b"s"
"""The fields of an entry of a stream: what it tells, the node records that go with it (those of the
rows it names; of the log's batches only), and the SHA-1 of the one and of the other."""

_BYTES = frozenset((bytes,))
_WRONG = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    struct.error,
    msgpack.UnpackException,
)


@contextmanager
def _strictly(what: str) -> Iterator[None]:
    """What a reader stumbles over is a form that it does not know."""
    try:
        yield
    except _WRONG as error:
        raise LedgerAltered(what, f"not of a form known here: {error}") from error


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest().encode()


# --- answers ------------------------------------------------------------------------------------


def open_reply(answer: Any) -> tuple[list[Any], bytes, bool, str]:
    """(head, packed records, given before, id of the entry in the log) of a batch's answer."""
    what = "an answer of the ledger's server"
    with _strictly(what):
        packed, records, replayed, logged, seal = row(answer, "answer", 5)
        if seal != _sha1(packed + b"%d" % replayed + logged) + _sha1(records):
            raise LedgerAltered(what)
        return unpack(packed), records, bool(replayed), logged.decode()


def verdict_of(value: Any) -> Verdict:
    if type(value) is not int or not 0 <= value < len(VERDICTS):
        raise Malformed(f"{value!r} is no verdict")
    return VERDICTS[value]


def refusal(head: list[Any]) -> Verdict | None:
    """Why the whole batch was refused, None where it was judged."""
    with _strictly("an answer of the ledger's server"):
        return verdict_of(head[0]) if len(head) == 1 else None


def unpack_answers(head: list[Any]) -> list[Answer]:
    """``head`` is [verdict, verdicts, ats, tails, rows]; ``ats`` are flat pairs (index, at), and a
    tail begins with the index of its statement. Indices count from 1."""
    with _strictly("an answer of the ledger's server"):
        _, verdicts, flat, told, _ = head
        ats = dict(pairs(flat))
        tails = _tails(told)
        return [
            Answer(verdict_of(verdict), ats.get(i, -1), tails.get(i, []))
            for i, verdict in enumerate(verdicts, 1)
        ]


def unpack_applied(head: list[Any]) -> list[list[int]]:
    with _strictly("an answer of the ledger's server"):
        _, applied, _ = head
        return each(applied, "applied", indices)


def unpack_rows(rows: Any, records: bytes) -> Rows:
    with _strictly("an answer of the ledger's server"):
        return _rows(rows, unpack(records) if records else [])


def _tails(told: Sequence[Sequence[int]]) -> dict[int, list[Verdict]]:
    return {tail[0]: [verdict_of(v) for v in tail[1:]] for tail in told}


def _rows(rows: Any, records: Any) -> Rows:
    indices(rows, "rows")
    if type(records) is not list or not set(map(type, records)) <= _BYTES:
        raise Malformed("records: an array of bytes wanted")
    if len(rows) != len(records):
        raise Malformed(f"{len(records)} records of {len(rows)} rows")
    return Rows(rows, records)


# --- what is kept -------------------------------------------------------------------------------


def unpack_nomination(jid: int, record: bytes) -> Nomination:
    what = f"the nominations of job {jid}"
    with _strictly(what):
        priority, since, expiry, runs = unpack(opened(record, what))
        return Nomination(
            jid=jid,
            priority=integer(priority, "priority"),
            since=float(number(since, "since")),
            expiry=float(number(expiry, "expiry")),
            runs=each(runs, "runs", _nominated),
        )


def _nominated(value: object, at: str) -> Run:
    cid, group, tasks, rows, levels = row(value, at, 5)
    return Run(
        kind=NOMINATE,
        cid=count(cid, at),
        group=count(group, at),
        tasks=indices(tasks, at),
        rows=indices(rows, at),
        versions=[],
        specs=[],
        levels=indices(levels, at),
    )


def unpack_partition(record: bytes) -> PutPartition:
    with _strictly("the partition"):
        found = op_of(unpack(opened(record, "the partition")))
        if not isinstance(found, PutPartition):
            raise Malformed("another operation stands there")
        return found


# --- the streams --------------------------------------------------------------------------------


def payload(entry_id: str, fields: Mapping[bytes, bytes]) -> tuple[bytes, bytes | None]:
    """What an entry tells, and the packed records that go with it."""
    told, records = fields.get(PAYLOAD), fields.get(RECORDS)
    seal = b"" if told is None else _sha1(told)
    if records is not None:
        seal += _sha1(records)
    if told is None or len(fields) != 2 + (records is not None) or fields.get(SEAL) != seal:
        raise LedgerAltered(f"entry {entry_id} of a stream")
    return told, records


def unpack_entry(
    entry_id: str, fields: Mapping[bytes, bytes], *, rows_only: bool = False
) -> LogEntry:
    """``rows_only`` leaves out what changes neither nodes nor classes nor nominations: a view needs
    no more, and reading it costs a tenth."""
    told, records = payload(entry_id, fields)
    with _strictly(f"entry {entry_id} of the log"):
        kind, *body = unpack(told)
        if type(kind) is not int or not 0 <= kind < len(_ENTRIES):
            raise Malformed(f"{kind!r} is no kind of entry")
        if records is not None:
            body.append(unpack(records))
        return _ENTRIES[kind](entry_id, body, rows_only)


_NO_STATEMENTS = pack_statements([])


def _commit_entry(entry_id: str, body: list[Any], rows_only: bool) -> CommitEntry:
    writer, epoch, sequence, batch, verdicts, told, dropped, rows, records = body
    if rows_only and not dropped and not unpack(batch)[-1]:
        batch, verdicts = _NO_STATEMENTS, []  # none of them made or ended a nomination
    tails, ended = _tails(told), dict(dropped)
    accepted: list[Committed] = []
    refused: list[tuple[int, Verdict]] = []
    for i, (s, value) in enumerate(zip(unpack_statements(batch), verdicts, strict=True), 1):
        verdict, tail = verdict_of(value), tails.get(i, [])
        if verdict in ACCEPTED:
            runs = accepted_runs(s.tail, tail)
            accepted.append(committed_of(s, verdict, runs, ended.get(i, [])))
            refused += [(s.jid, v) for v in tail if v not in ACCEPTED]
        else:
            refused.append((s.jid, verdict))
    return CommitEntry(
        id=entry_id,
        writer=writer.decode(),
        epoch=_epoch(epoch),
        sequence=count(sequence, "sequence"),
        accepted=accepted,
        refused=refused,
        fresh=_rows(rows, records),
    )


def _status_entry(entry_id: str, body: list[Any], rows_only: bool) -> StatusEntry:
    writer, epoch, sequence, items, lapsed, rows, records = body
    return StatusEntry(
        id=entry_id,
        writer=writer.decode(),
        epoch=_epoch(epoch),
        sequence=count(sequence, "sequence"),
        items=[] if rows_only else each(items, "items", _status_item),
        lapsed=indices(lapsed, "lapsed"),
        fresh=_rows(rows, records),
    )


def _status_item(value: object, at: str) -> StatusItem:
    if type(value) is not list or len(value) not in (4, 6):
        raise Malformed(f"{at}: array of 4 or 6 wanted")
    state, jid, tasks, rows, *adopted = value
    if type(state) is not int or not 0 <= state < len(STATES):
        raise Malformed(f"{at}: {state!r} is no state of a task")
    numbers = [integer(n, at) for n in adopted]
    return StatusItem(
        STATES[state], count(jid, at), indices(tasks, at), indices(rows, at), *numbers
    )


def _intake_entry(entry_id: str, body: list[Any], rows_only: bool) -> IntakeEntry:
    writer, epoch, sequence, ops, dropped, rows, documents, records = body
    return IntakeEntry(
        id=entry_id,
        writer=writer.decode(),
        epoch=_epoch(epoch),
        sequence=count(sequence, "sequence"),
        ops=unpack_ops(ops, NODE_OPS if rows_only else ALL_OPS),
        fresh=_rows(rows, records),
        dropped=indices(dropped, "dropped"),
        documents=[] if rows_only else [name.decode() for name in documents],
    )


def _epoch_entry(entry_id: str, body: list[Any], _rows_only: bool) -> EpochEntry:
    writer, epoch = body
    return EpochEntry(entry_id, writer.decode(), _epoch(epoch))


def _epoch(told: bytes) -> Epoch:
    return parse_epoch(told.decode(), "epoch")


_ENTRIES = (_commit_entry, _status_entry, _intake_entry, _epoch_entry)


def unpack_binds(entry_id: str, fields: Mapping[bytes, bytes]) -> BindEntry:
    """It tells of binds flat: jid, cid, count, tasks, rows, and so on; then jid, tix, life of those
    that were evicted before, flat; then of each eviction jid, by, reason, tasks, rows, lives."""
    told, _ = payload(entry_id, fields)
    with _strictly(f"entry {entry_id} of the binds"):
        binds_told, again, evicts = row(unpack(told), "binds", 3)
        flat, lives = indices(binds_told, "binds"), indices(again, "lives")
        named = zip(lives[::3], lives[1::3], lives[2::3], strict=True)
        binds: list[tuple[int, int, list[int], list[int]]] = []
        at = 0
        while at < len(flat):
            jid, cid, size = flat[at : at + 3]
            middle, end = at + 3 + size, at + 3 + 2 * size
            if end > len(flat):
                raise Malformed("tasks or rows are missing")
            binds.append((jid, cid, flat[at + 3 : middle], flat[middle:end]))
            at = end
        return BindEntry(
            entry_id,
            binds,
            {(jid, tix): life for jid, tix, life in named},
            each(evicts, "evicts", _evicted),
        )


def _evicted(value: object, at: str) -> Evicted:
    jid, by, reason, *lists = row(value, at, 6)
    tasks, rows, lives = (indices(numbers, at) for numbers in lists)
    if not len(tasks) == len(rows) == len(lives):
        raise Malformed(f"{at}: its lists of tasks, rows and lives differ in length")
    return Evicted(count(jid, at), count(by, at), reason.decode(), tasks, rows, lives)
