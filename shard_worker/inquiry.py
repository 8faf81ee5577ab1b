"""An inquiry: what would come of these turns on this shard's view, and why not, without doing it.

The turns are placed one after the other, each on top of those before it, as real turns are; then
everything is undone. Nothing goes to the ledger, no figure is counted, and the worker's own
compiled classes stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from shard_worker.displace import give_back_own
from shard_worker.funnel import Check, Funnel, Near, funnel
from shard_worker.placing import Placed, place
from shard_worker.statement import Place, Statement, runs_of
from shard_worker.task_class import Classes
from shard_worker.view import View
from shared.checked import (
    binary,
    boolean,
    count,
    each,
    indices,
    integer,
    mapping,
    pack_sealed,
    row,
    text,
    unpack_sealed,
)
from shared.messages import NOMINATE, OutcomeCode, Placement, TaskRun, Turn
from shared.model import TaskClass
from shared.specs import decode_class
from shared.wire import decode_turns, encode_turns, outcome_code, placement, placement_row

_INQUIRY = b"inquiry"
_FINDINGS = b"findings"

ROLES = 4
"""Roles of a job that get a funnel."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What is asked of one worker."""

    turns: list[Turn]
    wanted: list[dict[int, int]]
    """Of each turn: class -> tasks of it that have to start together."""
    classes: dict[int, bytes] = field(default_factory=dict)
    """Classes that nothing accepted has yet, encoded; they are forgotten again."""
    implied: dict[int, int] = field(default_factory=dict)
    """Slots that nothing accepted names yet: what every node offers of them by nature."""
    funnels: bool = False
    """Funnels also for turns that find a place."""

    def encode(self) -> bytes:
        turns = encode_turns(self.turns)
        return pack_sealed(_INQUIRY, [turns, self.wanted, self.classes, self.implied, self.funnels])

    @classmethod
    def decode(cls, data: bytes) -> Inquiry:
        """Errors: Malformed."""
        turns, wanted, classes, implied, funnels = row(unpack_sealed(_INQUIRY, data), "inquiry", 5)
        asked = decode_turns(binary(turns, "inquiry.turns"))
        return cls(
            turns=asked,
            wanted=[_counts(w, "inquiry.wanted") for w in row(wanted, "inquiry", len(asked))],
            classes=mapping(classes, "inquiry.classes", count, binary),
            implied=_counts(implied, "inquiry.implied"),
            funnels=boolean(funnels, "inquiry.funnels"),
        )


@dataclass(frozen=True, slots=True)
class RoleFunnel:
    """The funnel of one role's class."""

    cid: int
    role: str
    wanted: int
    funnel: Funnel


@dataclass(frozen=True, slots=True)
class Finding:
    """What would come of one turn. ``code``: PLACED, NOMINATED, INFEASIBLE, or STALE where the view
    does not know a class yet."""

    jid: int
    code: OutcomeCode
    placements: list[Placement] = field(default_factory=list)
    displaced: list[int] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    funnels: list[RoleFunnel] = field(default_factory=list)
    """The role that found no place first."""


@dataclass(frozen=True, slots=True)
class Findings:
    """``log_id``: how far the view had followed the ledger's log. Fewer findings than turns where
    there was no time for the others."""

    log_id: str
    findings: list[Finding]

    def encode(self) -> bytes:
        return pack_sealed(_FINDINGS, [self.log_id, [_plain(found) for found in self.findings]])

    @classmethod
    def decode(cls, data: bytes) -> Findings:
        """Errors: Malformed."""
        log_id, findings = row(unpack_sealed(_FINDINGS, data), "findings", 2)
        return cls(text(log_id, "findings.log_id"), each(findings, "findings", _finding))


def examine(
    inquiry: Inquiry,
    classes: Classes,
    *,
    may_go_on: Callable[[], bool] = lambda: True,
) -> list[Finding]:
    """One finding per turn, of as many as there is time for (of one at least).

    The view of ``classes`` is as before when this returns, whatever happens."""
    view = classes.view
    with _known(view, inquiry) as numbers:
        trial = _Trial(inquiry, classes, numbers)
        try:
            found = [trial.turn(i, turn) for i, turn in enumerate(inquiry.turns[:1])]
            for i, turn in enumerate(inquiry.turns[1:], start=1):
                if not may_go_on():
                    break
                found.append(trial.turn(i, turn))
            return found
        finally:
            for statement in reversed(trial.statements):
                statement.rollback()


@contextmanager
def _known(view: View, inquiry: Inquiry) -> Iterator[dict[int, int]]:
    """The classes and slots that travelled with the inquiry are known meanwhile.

    Yields the number that each class has here: another than it was sent with, as that one may be
    given to another class by now."""
    numbers = {cid: -1 - i for i, cid in enumerate(inquiry.classes)}
    revision = view.revision
    try:
        for slot, amount in inquiry.implied.items():
            view.columns.imply(slot, amount)
            view.revision += 1
        for cid, spec in inquiry.classes.items():
            view.classes[numbers[cid]] = decode_class(spec)
        yield numbers
    finally:
        for number in numbers.values():
            view.classes.pop(number, None)
        for slot in inquiry.implied:
            view.columns.imply(slot, 0)
            view.revision += 1
        assert view.revision >= revision


class _Trial:
    """Turns on a view, each on top of those before."""

    def __init__(self, inquiry: Inquiry, classes: Classes, numbers: dict[int, int]) -> None:
        """``numbers``: what the view calls the classes that came with the inquiry."""
        self._inquiry = inquiry
        self._view = classes.view
        self._session = classes.session
        self._mode = classes.mode
        self._classes = classes
        self._numbers = numbers
        self.statements: list[Statement] = []

    def turn(self, index: int, asked: Turn) -> Finding:
        numbers, view = self._numbers, self._view
        runs = [replace(run, cid=numbers.get(run.cid, run.cid)) for run in asked.runs]
        turn = replace(asked, runs=runs)
        if not runs or any(run.cid not in view.classes for run in runs):
            return Finding(turn.jid, OutcomeCode.STALE)
        wanted, told = self._inquiry.wanted[index], list[RoleFunnel]()
        if self._inquiry.funnels:
            told = self._funnels(turn, wanted)
        placed = place(turn, session=self._session, view=view, classes=self._classes)
        if placed.core:
            self.statements.append(placed.statement)
        code = _code(placed)
        if code is OutcomeCode.INFEASIBLE:
            told = told or self._funnels(turn, wanted)
            told.sort(key=lambda funnel: funnel.role != placed.failed_role)
        return Finding(
            jid=turn.jid,
            code=code,
            placements=self._placements([*placed.core, *placed.tail]),
            displaced=list(placed.displaced),
            reasons=dict(placed.reasons),
            funnels=told,
        )

    def _placements(self, places: list[Place]) -> list[Placement]:
        """With the class numbers of the inquiry."""
        sent = {number: cid for cid, number in self._numbers.items()}
        return [
            Placement(sent.get(r.cid, r.cid), r.kind, r.tasks, r.rows, r.levels)
            for r in runs_of(places)
        ]

    def _funnels(self, turn: Turn, wanted: dict[int, int]) -> list[RoleFunnel]:
        """Of each role, with what the job itself holds by nomination given back."""
        view = self._view
        sent = {number: cid for cid, number in self._numbers.items()}
        aside = Statement(view)
        give_back_own(aside, view, turn)
        try:
            return [
                self._funnel(run, sent.get(run.cid, run.cid), wanted)
                for run in turn.runs[:ROLES]
                if not view.classes[run.cid].best_effort
            ]
        finally:
            aside.rollback()

    def _funnel(self, run: TaskRun, cid: int, wanted: dict[int, int]) -> RoleFunnel:
        need = wanted.get(cid, 1)
        cls: TaskClass = self._view.classes[run.cid]
        found = funnel(cls, view=self._view, session=self._session, mode=self._mode, wanted=need)
        return RoleFunnel(cid, run.role, need, found)


def _code(placed: Placed) -> OutcomeCode:
    if not placed.core:
        return OutcomeCode.INFEASIBLE
    waits = any(op.kind == NOMINATE for op in placed.core)
    return OutcomeCode.NOMINATED if waits else OutcomeCode.PLACED


# --- wire ---------------------------------------------------------------------------------------


def _counts(value: Any, at: str) -> dict[int, int]:
    return mapping(value, at, count, count)


def _plain(f: Finding) -> list[object]:
    places = [placement_row(p) for p in f.placements]
    funnels = [[r.cid, r.role, r.wanted, _plain_funnel(r.funnel)] for r in f.funnels]
    return [f.jid, int(f.code), places, f.displaced, f.reasons, funnels]


def _plain_funnel(f: Funnel) -> list[object]:
    checks = [[c.kind, c.name, c.slot, c.count, c.only, c.starts, c.examples] for c in f.checks]
    near = [[n.row, n.lacks] for n in f.near]
    figures = [f.total, f.fits, f.starts, f.later, f.matching, f.empty]
    return [figures, f.idle, f.scarce, checks, near, f.smaller]


def _finding(value: object, at: str) -> Finding:
    jid, code, places, displaced, reasons, funnels = row(value, at, 6)
    return Finding(
        jid=count(jid, at),
        code=outcome_code(code, at),
        placements=each(places, f"{at}.placements", placement),
        displaced=indices(displaced, f"{at}.displaced"),
        reasons=mapping(reasons, f"{at}.reasons", text, count),
        funnels=each(funnels, f"{at}.funnels", _role),
    )


def _role(value: object, at: str) -> RoleFunnel:
    cid, role, wanted, told = row(value, at, 4)
    figures, idle, scarce, checks, near, smaller = row(told, at, 6)
    total, fits, starts, later, matching, empty = (count(n, at) for n in row(figures, at, 6))
    found = Funnel(
        total=total,
        fits=fits,
        starts=starts,
        later=later,
        matching=matching,
        empty=empty,
        idle=each(idle, f"{at}.idle", _amount),
        scarce=indices(scarce, f"{at}.scarce"),
        checks=each(checks, f"{at}.checks", _check),
        near=each(near, f"{at}.near", _near),
        smaller=each(smaller, f"{at}.smaller", _amount),
    )
    return RoleFunnel(integer(cid, at), text(role, at), count(wanted, at), found)


def _amount(value: object, at: str) -> tuple[int, int]:
    slot, amount = row(value, at, 2)
    return count(slot, at), integer(amount, at)


def _check(value: object, at: str) -> Check:
    kind, name, slot, nodes, only, starts, examples = row(value, at, 7)
    return Check(
        kind=text(kind, at),
        name=text(name, at),
        slot=integer(slot, at),
        count=count(nodes, at),
        only=count(only, at),
        starts=count(starts, at),
        examples=indices(examples, at),
    )


def _near(value: object, at: str) -> Near:
    node, lacks = row(value, at, 2)
    return Near(count(node, at), each(lacks, at, _lack))


def _lack(value: object, at: str) -> tuple[int, int, int, int]:
    slot, needs, idle, later = (integer(figure, at) for figure in row(value, at, 4))
    return slot, needs, idle, later
