"""The encoding of turns and outcomes. Each message is sealed and decoded strictly
(:mod:`shared.codec.checked`).

Lists of tasks and rows are checked as a whole; no Python code runs per task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from shared.codec.checked import Malformed, count, each, indices, integer, mapping, row, text
from shared.codec.checked import pack_sealed as _pack
from shared.codec.checked import unpack_sealed as _unpack
from shared.messages.messages import (
    NOBODY,
    Epoch,
    EvictRun,
    Group,
    Outcome,
    OutcomeCode,
    Placement,
    TaskRun,
    Turn,
)

_TURNS = b"turns"
_OUTCOMES = b"outcomes"

_TURN = (int, int, int, int, list, list, int, int, int, dict)
_WORLD = (str, bytes)
"""The extra fields of a turn that needs a session."""
_TASK_RUN = (int, int, str, list)
_OUTCOME = (int, int, list, dict, str, list, int, int, int, int, int, list, str)
_MOVED = (dict,)
"""The extra field of an outcome that changed versions."""
_CODES = tuple(OutcomeCode)


def encode_turns(turns: Iterable[Turn]) -> bytes:
    return _pack(_TURNS, [_turn_row(turn) for turn in turns])


def decode_turns(data: bytes) -> list[Turn]:
    """Errors: Malformed."""
    return each(_unpack(_TURNS, data), "turns", _turn)


def encode_outcomes(outcomes: Iterable[Outcome]) -> bytes:
    return _pack(_OUTCOMES, [_outcome_row(outcome) for outcome in outcomes])


def decode_outcomes(data: bytes) -> list[Outcome]:
    """Errors: Malformed."""
    return each(_unpack(_OUTCOMES, data), "outcomes", _outcome)


_EPOCH = re.compile(r"[0-9]{1,15}:[!-9;-~]{1,64}")


def parse_epoch(value: Any, at: str) -> Epoch:
    if _EPOCH.fullmatch(text(value, at)) is None:
        raise Malformed(f"{at}: not an epoch: COUNTER:NONCE wanted")
    return Epoch.parse(value)


# --- turns --------------------------------------------------------------------------------------


def _turn_row(t: Turn) -> list[Any]:
    extra = [t.action, t.world] if t.world else []
    return [
        t.jid,
        t.job_version,
        t.qid,
        t.priority,
        [[g.parent, g.minimum, g.held] for g in t.groups],
        [[r.cid, r.group, r.role, r.tasks] for r in t.runs],
        t.total,
        t.tail,
        t.attempt,
        t.nominated,
        *extra,
    ]


def _turn(value: Any, at: str) -> Turn:
    flat = _shape(value, at, _TURN, _WORLD)
    jid, version, qid, priority, groups, runs, total, tail, attempt, nominated, *extra = value
    if (jid | version | qid | total | tail | attempt) < 0 and (flat or jid != NOBODY):
        raise Malformed(f"{at}: a number of job {jid} is negative")
    if nominated:
        nominated = mapping(nominated, f"{at}.nominated", count, count)
    return Turn(
        jid=jid,
        job_version=version,
        qid=qid,
        priority=priority,
        groups=[_group(g, f"{at}.groups") for g in groups],
        runs=[_task_run(r, f"{at}.runs") for r in runs],
        total=total,
        tail=tail,
        attempt=attempt,
        nominated=nominated,
        action="allocate" if flat else extra[0],
        world=b"" if flat else extra[1],
    )


def _group(value: Any, at: str) -> Group:
    parent, minimum, members = row(value, at, 3)
    return Group(integer(parent, at), integer(minimum, at), integer(members, at))


def _task_run(value: Any, at: str) -> TaskRun:
    _shape(value, at, _TASK_RUN)
    cid, group, role, tasks = value
    return TaskRun(cid, group, role, indices(tasks, at))


# --- outcomes -----------------------------------------------------------------------------------


def _outcome_row(o: Outcome) -> list[Any]:
    return [
        o.jid,
        int(o.code),
        [placement_row(p) for p in o.placements],
        o.reasons,
        o.failed_role,
        o.displaced,
        o.committed,
        o.rechecked,
        o.conflicts_true,
        o.conflicts_read,
        o.session,
        [victims_row(run) for run in o.evictions],
        o.reason,
        *([o.moved] if o.moved else ()),
    ]


def _outcome(value: Any, at: str) -> Outcome:
    still = _shape(value, at, _OUTCOME, _MOVED)
    jid, code, placements, reasons, role, displaced, *counts = value[:11]
    evictions, reason, *extra = value[11:]
    committed, rechecked, true, read, session = counts
    if jid < NOBODY or (committed | rechecked | true | read | session) < 0:
        raise Malformed(f"{at}: a number of job {jid} is negative")
    return Outcome(
        jid=jid,
        code=outcome_code(code, at),
        placements=[placement(p, f"{at}.placements") for p in placements],
        reasons=mapping(reasons, f"{at}.reasons", text, count) if reasons else reasons,
        failed_role=role,
        displaced=indices(displaced, f"{at}.displaced"),
        committed=committed,
        rechecked=rechecked,
        conflicts_true=true,
        conflicts_read=read,
        session=session,
        evictions=[victims(run, f"{at}.evictions") for run in evictions],
        reason=reason,
        moved={} if still else mapping(extra[0], f"{at}.moved", text, count),
    )


def victims_row(run: EvictRun) -> list[Any]:
    return [run.jid, run.job_version, run.cid, run.group, run.tasks, run.rows, run.guards]


def victims(value: Any, at: str) -> EvictRun:
    jid, version, cid, group, tasks, rows, guards = row(value, at, 7)
    run = EvictRun(
        jid=count(jid, at),
        job_version=count(version, at),
        cid=count(cid, at),
        group=count(group, at),
        tasks=indices(tasks, at),
        rows=indices(rows, at),
        guards=count(guards, at),
    )
    if len(run.tasks) != len(run.rows):
        raise Malformed(f"{at}: its lists of tasks and rows differ in length")
    return run


def outcome_code(value: Any, at: str) -> OutcomeCode:
    if type(value) is not int or not 0 <= value < len(_CODES):
        raise Malformed(f"{at}: {value!r} is no code of an outcome")
    return _CODES[value]


def placement_row(p: Placement) -> list[Any]:
    return [p.cid, p.kind, p.tasks, p.rows, p.levels]


def placement(value: Any, at: str) -> Placement:
    cid, kind, tasks, rows, levels = row(value, at, 5)
    lists = indices(tasks, at), indices(rows, at), indices(levels, at)
    if not len(tasks) == len(rows) == len(levels):
        raise Malformed(f"{at}: its lists of tasks, rows and levels differ in length")
    return Placement(integer(cid, at), count(kind, at), *lists)


def _shape(value: Any, at: str, types: tuple[type, ...], more: tuple[type, ...] = ()) -> bool:
    """Whether the array has exactly these types: one comparison, whatever their number. False where
    the types of ``more`` follow."""
    if type(value) is list:
        actual = tuple(map(type, value))
        if actual == types:
            return True
        if more and actual == types + more:
            return False
    expected = ", ".join(t.__name__ for t in types)
    raise Malformed(f"{at}: array of {expected} wanted")
