"""Past of one job from the history, for a leader that did not see it happen.

Only for who asks about a job: the part of the file since the job was stored is read, and nothing is
kept. Its lines are in the order of their times but for what a follower of the ledger's log wrote
late.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from shared.messages.messages import TaskState

MOST_BYTES = 64 * 2**20
"""Most of the file that is read for one answer: half a second. What comes later is left out."""
LATE_SECONDS = 60.0
"""How much later than its time an event may have been written."""
_STEP = 2**16
"""Bytes in which the beginning is not searched for any more."""
_TIME = re.compile(rb'\{"t":([0-9.]+)')


@dataclass(frozen=True, slots=True)
class PastPlacement:
    at: float
    shard: int
    tasks: list[int]
    rows: list[int]
    levels: list[int]
    is_nomination: bool


@dataclass(frozen=True, slots=True)
class PastEviction:
    """``jid``: whose tasks they were; ``by_jid``: the job that they made room for."""

    at: float
    jid: int
    tasks: list[int]
    by_jid: int
    reason: str


@dataclass(frozen=True, slots=True)
class PastStates:
    at: float
    state: TaskState
    tasks: list[int]


PastEvent = PastPlacement | PastEviction | PastStates


def past_of_job(path: Path, jid: int, *, since: float, until: float) -> list[PastEvent]:
    """Events of the job in the file between two times (seconds since 1970). Raises OSError."""
    mark = re.compile(rb'"ev":"(?:commit|status|adopted)".*[\[,:]%d[,\]]' % jid)
    events: list[PastEvent] = []
    with path.open("rb") as file:
        for line in _lines(file, since - LATE_SECONDS):
            if mark.search(line) is None:
                continue
            event = orjson.loads(line)
            if event["t"] > until + LATE_SECONDS:
                break
            if since <= event["t"] < until:
                events += _of_event(event, jid)
    return events


def _lines(file: BinaryIO, since: float) -> Iterator[bytes]:
    """The complete lines from a time on."""
    begin, end = 0, file.seek(0, 2)
    while end - begin > _STEP:
        middle = (begin + end) // 2
        file.seek(middle)
        file.readline()  # the rest of a line
        match = _TIME.match(file.readline())
        if match is not None and float(match[1]) < since:
            begin = middle
        else:
            end = middle
    file.seek(begin)
    if begin:
        file.readline()
    left = MOST_BYTES
    while left > 0 and (line := file.readline()).endswith(b"\n"):
        left -= len(line)
        yield line


def _of_event(event: dict[str, Any], jid: int) -> Iterator[PastEvent]:
    at = event["t"]
    if event["ev"] == "commit":
        for statement in event["statements"]:
            yield from _of_statement(statement, jid, at=at, shard=int(event["shard"]))
        return
    for name, of, tasks, *_ in event["items"]:
        if of == jid:
            yield PastStates(at, TaskState[name], tasks)


def _of_statement(
    statement: dict[str, Any], jid: int, *, at: float, shard: int
) -> Iterator[PastEvent]:
    by_jid = statement["jid"]
    for name, is_nomination in (("nominate", True), ("alloc", False)):
        if by_jid == jid and (placed := statement[name]):
            tasks, rows, _, levels = (list(column) for column in zip(*placed, strict=True))
            yield PastPlacement(at, shard, tasks, rows, levels, is_nomination)
    for victim, _, _, _, tasks, *_ in statement.get("evict", ()):
        if jid in (victim, by_jid):
            yield PastEviction(at, victim, tasks, by_jid, statement.get("reason", ""))
