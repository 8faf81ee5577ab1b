"""A job, by the ledger's side of a history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from laboratory.checker.state.device_use import Taken
from laboratory.checker.state.kai import Charge

PENDING, BINDING, BOUND, RUNNING, RELEASING, SUCCEEDED, FAILED, LOST = range(8)
STATES = ("PENDING", "BINDING", "BOUND", "RUNNING", "RELEASING", "SUCCEEDED", "FAILED", "LOST")
UNSUCCESSFUL = (FAILED, LOST)
ENDED = (SUCCEEDED, *UNSUCCESSFUL)

NOWHERE = -1


class RoleFacts:
    """Facts of the members ``first .. first + count - 1`` of a job that rules read."""

    __slots__ = (
        "cid",
        "count",
        "first",
        "gated",
        "labels",
        "numa",
        "preemptable",
        "priority",
        "revocable",
        "system",
    )

    def __init__(self, first: int, count: int, facts: dict[str, Any], cid: int = NOWHERE) -> None:
        self.cid = cid
        self.first = first
        self.count = count
        self.labels: dict[str, str] = facts.get("labels", {})
        self.priority: int = facts.get("priority", 1)
        self.system = facts.get("class", "").startswith("system-") or self.priority >= SYSTEM
        self.preemptable: bool = facts.get("preemptable", True)
        self.revocable: bool = facts.get("revocable", facts.get("preemptable", False))
        self.gated: bool = facts.get("gated", False)
        self.numa: str = facts.get("numa", "")
        """The guarantee that its pods ask of the kubelet's topology manager."""


SYSTEM = 2_000_000_000
"""Priorities from this value on are those of system pods."""


@dataclass(slots=True, eq=False)
class CheckedJob:
    """A job. Lists are indexed by task, except ``groups``, ``held``, ``shards``, ``best_effort``
    and ``idle``, which are indexed by group, and ``roles``."""

    key: str
    line: int
    qid: int = -1
    spec: int = -1
    respecified: float = 0.0  # when it last changed
    gone: bool = False
    gone_at: int = 0  # line of its deletion
    forgotten: bool = False
    groups: list[list[int]] = field(default_factory=list)  # [parent, minimum]
    held: list[int] = field(default_factory=list)
    shards: list[int | None] = field(default_factory=list)  # where a gang's first member was placed
    # Per group, counted in ``held`` from the start.
    best_effort: list[int] = field(default_factory=list)
    idle: list[int] = field(default_factory=list)  # per group: pending members among those
    priority: int = 0
    topology: dict[str, Any] | None = None  # hard, where it has one
    named: bool = False  # its tasks have names of their own, not by their job's
    roles: list[RoleFacts] = field(default_factory=list)
    adopted: set[int] = field(default_factory=set)  # found by the ledger where the cluster had them
    spared: bool = False  # in part by a rule of its own: a policy let somebody evict it
    states: bytearray = field(default_factory=bytearray)
    member: bytearray = field(default_factory=bytearray)  # 1: part of the job now
    rows: list[int] = field(default_factory=list)
    cids: list[int] = field(default_factory=list)
    group_of: list[int] = field(default_factory=list)
    submitted: list[float] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)  # line of the last change
    since: list[float] = field(default_factory=list)  # when it was put on its row
    # Rows a task was committed to before, with (incarnation, since when).
    earlier: dict[int, list[tuple[int, int, float]]] = field(default_factory=dict)
    placed_as: dict[int, int] = field(default_factory=dict)  # incarnation on the row, if not 0
    uids: set[str] = field(default_factory=set)
    queue: str = ""  # by its own word; "" where the history does not say it
    devices: dict[int, Taken] = field(default_factory=dict)  # of tasks that hold some
    # (task, row) -> all it ever had there.
    given: dict[tuple[int, int], list[Taken]] = field(default_factory=dict)
    # Of tasks that count in a queue of KAI's.
    charges: dict[int, Charge] = field(default_factory=dict)
    evicted: set[int] = field(default_factory=set)  # leaving, and no members of their gangs
    # When tasks that run started, as the cluster says.
    began: dict[int, float] = field(default_factory=dict)
    # Classes of its tasks that are nominated, or were at last.
    promised: list[int] = field(default_factory=list)
    unpromised: float | None = None  # when those nominations ended; None: they have not
    left: dict[int, float] = field(default_factory=dict)  # when a task last left its node by itself
    # Incarnations that were evicted, or begun anew, and ended.
    incarnations: dict[int, int] = field(default_factory=dict)
    # (task, incarnation) begun anew after its end.
    restarted: set[tuple[int, int]] = field(default_factory=set)

    def grow(self, size: int, t: float) -> None:
        by = size - len(self.states)
        if by > 0:
            self.states += bytes(by)
            self.member += bytes(by)
            self.rows += [NOWHERE] * by
            self.since += [0.0] * by
            self.cids += [NOWHERE] * by
            self.group_of += [0] * by
            self.submitted += [t] * by
            self.changed += [self.line] * by

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]

    def role_of(self, tix: int) -> RoleFacts:
        for role in self.roles:
            if role.first <= tix < role.first + role.count:
                return role
        return _PLAIN

    def holds(self, group: int, latest: int) -> bool:
        """Whether a member of the group, or of a group below, has a node, in a state up to
        ``latest``."""
        return any(
            BINDING <= state <= latest and group in self.chain(self.group_of[tix])
            for tix, state in enumerate(self.states)
        )

    def give(self, tix: int, row: int, devices: Taken) -> None:
        """Note devices of a task on a row."""
        self.devices[tix] = devices
        self.given.setdefault((tix, row), []).append(devices)

    def hold(self, group: int, count: int) -> None:
        """Change the member count of a group and its ancestors."""
        while group >= 0:
            self.held[group] += count
            group = self.groups[group][0]

    def idles(self, group: int, count: int) -> None:
        """Change the number of pending best-effort members of a group and its ancestors."""
        while group >= 0:
            self.idle[group] += count
            group = self.groups[group][0]

    @property
    def finished(self) -> bool:
        """Whether every task succeeded."""
        return self.states.count(SUCCEEDED) == len(self.states)

    def chain(self, group: int) -> list[int]:
        """A group and its ancestors."""
        chain = []
        while group >= 0:
            chain.append(group)
            group = self.groups[group][0]
        return chain


_PLAIN = RoleFacts(0, 0, {})
