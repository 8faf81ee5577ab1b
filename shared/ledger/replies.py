"""Strict decoders for what the ledger's scripts answer, store and write into the streams.

Every decoder checks the seal first and accepts one exact form: it returns what was written, or
raises :class:`LedgerAltered`.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import islice
from typing import Any, TypeVar

import msgpack

from shared.codec.checked import Malformed, count, each, indices, integer, number, row
from shared.ledger.codec import (
    ALL_OPS,
    NODE_OPS,
    STATES,
    TOTALS_OPS,
    VERDICTS,
    accepted_runs,
    committed_of,
    op_of,
    pack_statements,
    pairs,
    read_ops,
    read_statements,
    unpack,
)
from shared.ledger.entries.intake_batch import PutPartition
from shared.ledger.entries.log import (
    CommitEntry,
    Committed,
    EpochEntry,
    IntakeEntry,
    LogEntry,
    StatusEntry,
)
from shared.ledger.entries.snapshot import Nomination
from shared.ledger.entries.stored import BindEntry, Evicted
from shared.ledger.errors import LedgerAltered
from shared.ledger.records import opened, unpack_devices
from shared.messages.messages import (
    ACCEPTED,
    NOMINATE,
    Answer,
    Epoch,
    Rows,
    Run,
    StatusItem,
    Verdict,
)
from shared.messages.wire import parse_epoch

PAYLOAD, RECORDS, SEAL = b"p", b"r", b"s"
"""The fields of a stream entry: the payload, the node records of the rows it names (batches in the
log only), and the SHA-1 of the one and of the other."""

PORTION = 100
"""Statements, items or operations per portion of an entry: 0.5 ms to decode."""

T = TypeVar("T")

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
def _strictly(record_name: str) -> Iterator[None]:
    """Turn every parse error within the block into LedgerAltered for this record."""
    try:
        yield
    except _WRONG as error:
        raise LedgerAltered(record_name, f"not of a form known here: {error}") from error


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest().encode()


# --- answers ------------------------------------------------------------------------------------


def open_reply(answer: Any) -> tuple[list[Any], bytes, bool, str]:
    """(head, packed records, answered before, id of the log entry) of a batch's answer."""
    record_name = "an answer of the ledger's server"
    with _strictly(record_name):
        packed, records, replayed, logged, again, seal = row(answer, "answer", 6)
        if seal != _sha1(packed + b"%d" % replayed) + _sha1(records) or logged != again:
            raise LedgerAltered(record_name)
        return unpack(packed), records, bool(replayed), logged.decode()


def verdict_of(value: Any) -> Verdict:
    if type(value) is not int or not 0 <= value < len(VERDICTS):
        raise Malformed(f"{value!r} is no verdict")
    return VERDICTS[value]


def refusal(head: list[Any]) -> Verdict | None:
    """Why the whole batch was refused; None where it was judged."""
    with _strictly("an answer of the ledger's server"):
        return verdict_of(head[0]) if len(head) == 1 else None


def unpack_answers(head: list[Any]) -> list[Answer]:
    """``head`` is [verdict, verdicts, ats, tails, rows]; ``ats`` are flat pairs (index, at), and a
    tail begins with the index of its statement. Indices count from 1."""
    with _strictly("an answer of the ledger's server"):
        _, verdicts, flat, packed_tails, _ = head
        ats = dict(pairs(flat))
        tails = _tails(packed_tails)
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


def _tails(packed: Sequence[Sequence[int]]) -> dict[int, list[Verdict]]:
    return {tail[0]: [verdict_of(v) for v in tail[1:]] for tail in packed}


def _rows(rows: Any, records: Any) -> Rows:
    """The rows of an answer. A list of things may follow the records: row, name, record, ..."""
    indices(rows, "rows")
    if type(records) is not list:
        raise Malformed("records: an array wanted")
    things = _things(records.pop()) if len(records) > len(rows) else []
    if not set(map(type, records)) <= _BYTES:
        raise Malformed("records: an array of bytes wanted")
    if len(rows) != len(records):
        raise Malformed(f"{len(records)} records of {len(rows)} rows")
    return Rows(rows, records, things)


def _things(flat: Any) -> list[tuple[int, str, bytes]]:
    if type(flat) is not list or not set(map(type, flat[2::3])) <= _BYTES:
        raise Malformed("things: rows, names and records wanted")
    rows = indices(flat[::3], "things")
    return list(zip(rows, (name.decode() for name in flat[1::3]), flat[2::3], strict=True))


# --- what is kept -------------------------------------------------------------------------------


def unpack_nomination(jid: int, record: bytes) -> Nomination:
    record_name = f"the nominations of job {jid}"
    with _strictly(record_name):
        priority, since, expiry, runs = unpack(opened(record, record_name))
        return Nomination(
            jid=jid,
            priority=integer(priority, "priority"),
            since=float(number(since, "since")),
            expiry=float(number(expiry, "expiry")),
            runs=each(runs, "runs", _nominated),
        )


def _nominated(value: object, at: str) -> Run:
    if type(value) is not list or len(value) not in (5, 6):
        raise Malformed(f"{at}: array of 5 or 6 wanted")
    cid, group, tasks, rows, levels, *devices = value
    return Run(
        kind=NOMINATE,
        cid=count(cid, at),
        group=count(group, at),
        tasks=indices(tasks, at),
        rows=indices(rows, at),
        versions=[],
        specs=[],
        levels=indices(levels, at),
        devices=unpack_devices(devices[0], at) if devices else (),
    )


def unpack_partition(record: bytes) -> PutPartition:
    with _strictly("the partition"):
        operation = op_of(unpack(opened(record, "the partition")))
        if not isinstance(operation, PutPartition):
            raise Malformed("another operation stands there")
        return operation


# --- the streams --------------------------------------------------------------------------------


def payload(entry_id: str, fields: Mapping[bytes, bytes]) -> tuple[bytes, bytes | None]:
    """The content of a stream entry, and the packed records that belong to it."""
    content, records = fields.get(PAYLOAD), fields.get(RECORDS)
    seal = b"" if content is None else _sha1(content)
    if records is not None:
        seal += _sha1(records)
    if content is None or len(fields) != 2 + (records is not None) or fields.get(SEAL) != seal:
        raise LedgerAltered(f"entry {entry_id} of a stream")
    return content, records


class _EntryPart(Enum):
    """Which part of an entry to read, by the kinds of operations of an intake."""

    WHOLE = ALL_OPS
    ROWS = NODE_OPS
    TOTALS = TOTALS_OPS


def unpack_entry(
    entry_id: str, fields: Mapping[bytes, bytes], *, rows_only: bool = False
) -> LogEntry:
    """One entry of the log. ``rows_only`` leaves out what changes neither nodes nor classes nor
    nominations: a view needs no more, and decoding it costs a tenth."""
    part = _EntryPart.ROWS if rows_only else _EntryPart.WHOLE
    portions = _portions_of(entry_id, fields, part, sys.maxsize)
    return next(portion for portion in portions if portion is not None)


def entry_portions(entry_id: str, fields: Mapping[bytes, bytes]) -> Iterator[LogEntry | None]:
    """One entry as several small ones under its id, so that no single step decodes all of it: a
    batch may have 4,000 operations, which takes 20 ms. None: work was done, and more follows.

    Parts that no total depends on (operations on nodes and objects, keys of documents) are left
    out.
    """
    return _portions_of(entry_id, fields, _EntryPart.TOTALS, PORTION)


def _portions_of(
    entry_id: str, fields: Mapping[bytes, bytes], part: _EntryPart, size: int
) -> Iterator[LogEntry | None]:
    content, records = payload(entry_id, fields)
    yield None
    with _strictly(f"entry {entry_id} of the log"):
        kind, *body = unpack(content)
        if type(kind) is not int or not 0 <= kind < len(_ENTRIES):
            raise Malformed(f"{kind!r} is no kind of entry")
        yield None
        if records is not None:
            body.append(unpack(records))
            yield None
        yield from _ENTRIES[kind](entry_id, body, part, size)


_NO_STATEMENTS = pack_statements([])


def _portions(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split into portions; always at least one, perhaps empty, which carries the entry's other
    fields."""
    rest = iter(values)
    portion = [*islice(rest, size)]
    yield portion
    while portion := [*islice(rest, size)]:
        yield portion


def _commit_entry(
    entry_id: str, body: list[Any], part: _EntryPart, size: int
) -> Iterator[CommitEntry]:
    writer, epoch, sequence, batch, verdicts, packed_tails, dropped, rows, records = body
    if part is _EntryPart.ROWS and not dropped and not unpack(batch)[7]:
        # None of them made or ended a nomination.
        batch, verdicts, packed_tails = _NO_STATEMENTS, [], []
    tails, ended, fresh = _tails(packed_tails), dict(dropped), _rows(rows, records)
    judged = enumerate(zip(read_statements(batch), verdicts, strict=True), 1)
    for portion in _portions(judged, size):
        accepted: list[Committed] = []
        refused: list[tuple[int, Verdict]] = []
        for i, (s, value) in portion:
            verdict, tail = verdict_of(value), tails.get(i, [])
            if verdict in ACCEPTED:
                runs = accepted_runs(s.tail, tail)
                accepted.append(committed_of(s, verdict, runs, ended.get(i, [])))
                refused += [(s.jid, v) for v in tail if v not in ACCEPTED]
            else:
                refused.append((s.jid, verdict))
        yield CommitEntry(
            id=entry_id,
            writer=writer.decode(),
            epoch=_epoch(epoch),
            sequence=count(sequence, "sequence"),
            accepted=accepted,
            refused=refused,
            fresh=fresh,
        )
        fresh = Rows([], [])


def _status_entry(
    entry_id: str, body: list[Any], part: _EntryPart, size: int
) -> Iterator[StatusEntry]:
    writer, epoch, sequence, items, expired, rows, records = body
    ended, fresh = indices(expired, "expired"), _rows(rows, records)
    if type(items) is not list:
        raise Malformed("items: an array wanted")
    for portion in _portions([] if part is _EntryPart.ROWS else items, size):
        yield StatusEntry(
            id=entry_id,
            writer=writer.decode(),
            epoch=_epoch(epoch),
            sequence=count(sequence, "sequence"),
            items=each(portion, "items", _status_item),
            expired=ended,
            fresh=fresh,
        )
        ended, fresh = [], Rows([], [])


def _status_item(value: object, at: str) -> StatusItem:
    if type(value) is not list or len(value) not in (4, 6, 7):
        raise Malformed(f"{at}: array of 4, 6 or 7 wanted")
    state, jid, tasks, rows, *adopted = value
    if type(state) is not int or not 0 <= state < len(STATES):
        raise Malformed(f"{at}: {state!r} is no state of a task")
    cid, group = [integer(n, at) for n in adopted[:2]] or (-1, -1)
    return StatusItem(
        STATES[state],
        count(jid, at),
        indices(tasks, at),
        indices(rows, at),
        cid,
        group,
        unpack_devices(adopted[2], at) if len(adopted) > 2 else (),
    )


def _intake_entry(
    entry_id: str, body: list[Any], part: _EntryPart, size: int
) -> Iterator[IntakeEntry]:
    writer, epoch, sequence, ops, dropped, rows, documents, records = body
    ended, fresh = indices(dropped, "dropped"), _rows(rows, records)
    names = [name.decode() for name in documents] if part is _EntryPart.WHOLE else []
    for portion in _portions(read_ops(ops, part.value), size):
        yield IntakeEntry(
            id=entry_id,
            writer=writer.decode(),
            epoch=_epoch(epoch),
            sequence=count(sequence, "sequence"),
            ops=portion,
            fresh=fresh,
            dropped=ended,
            documents=names,
        )
        ended, names, fresh = [], [], Rows([], [])


def _epoch_entry(
    entry_id: str, body: list[Any], _part: _EntryPart, _size: int
) -> Iterator[EpochEntry]:
    writer, epoch = body
    yield EpochEntry(entry_id, writer.decode(), _epoch(epoch))


def _epoch(data: bytes) -> Epoch:
    return parse_epoch(data.decode(), "epoch")


_ENTRIES: tuple[Callable[[str, list[Any], _EntryPart, int], Iterator[LogEntry]], ...] = (
    _commit_entry,
    _status_entry,
    _intake_entry,
    _epoch_entry,
)


_OF_MOVES = 7
"""Parts of an eviction of tasks that move."""


def unpack_binds(entry_id: str, fields: Mapping[bytes, bytes]) -> BindEntry:
    """One entry of the bind stream. It holds binds as a flat list (jid, cid, count, tasks, rows,
    ...); then (jid, tix, incarnation) of the tasks that were evicted before; then of each
    eviction jid, by, reason, tasks, rows, incarnations, and where they move the new rows; then,
    where there are any, (jid, tix, devices) of the tasks that take devices."""
    content, _ = payload(entry_id, fields)
    with _strictly(f"entry {entry_id} of the binds"):
        binds_told, again, evicts, *tail = unpack(content)
        bind_tail = tail[0] if tail else []
        assigned = zip(bind_tail[::3], bind_tail[1::3], bind_tail[2::3], strict=True)
        flat, incarnations = indices(binds_told, "binds"), indices(again, "lives")
        named = zip(incarnations[::3], incarnations[1::3], incarnations[2::3], strict=True)
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
            {(jid, tix): incarnation for jid, tix, incarnation in named},
            each(evicts, "evicts", _evicted),
            {
                (count(jid, "devices"), count(tix, "devices")): unpack_devices(packed, "devices")
                for jid, tix, packed in assigned
            },
        )


def _evicted(value: object, at: str) -> Evicted:
    moves = type(value) is list and len(value) == _OF_MOVES
    jid, by, reason, *lists = row(value, at, _OF_MOVES if moves else _OF_MOVES - 1)
    tasks, rows, incarnations, *to = (indices(numbers, at) for numbers in lists)
    if any(len(numbers) != len(tasks) for numbers in (rows, incarnations, *to)):
        raise Malformed(f"{at}: its lists of tasks, rows, lives and new rows differ in length")
    return Evicted(count(jid, at), count(by, at), reason.decode(), tasks, rows, incarnations, *to)
