"""A job, by the ledger's side of a history."""

from __future__ import annotations

from typing import Any

from coordinator.verification.checker.state.device_use import Taken
from coordinator.verification.checker.state.kai import Charge

PENDING, BINDING, BOUND, RUNNING, RELEASING, SUCCEEDED, FAILED, LOST = range(8)
STATES = ("PENDING", "BINDING", "BOUND", "RUNNING", "RELEASING", "SUCCEEDED", "FAILED", "LOST")
UNSUCCESSFUL = (FAILED, LOST)
ENDED = (SUCCEEDED, *UNSUCCESSFUL)

NOWHERE = -1


class RoleFacts:
    """Facts of the members ``first .. first + count - 1`` of a job that rules read."""

    __slots__ = (
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

    def __init__(self, first: int, count: int, facts: dict[str, Any]) -> None:
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


class CheckedJob:
    """A job. Lists are indexed by task, except ``groups``, ``held``, ``shards``, ``best_effort``
    and ``idle``, which are indexed by group, and ``roles``."""

    __slots__ = (
        "adopted",
        "began",
        "best_effort",
        "changed",
        "charges",
        "cids",
        "devices",
        "earlier",
        "evicted",
        "forgotten",
        "given",
        "gone",
        "gone_at",
        "group_of",
        "groups",
        "held",
        "idle",
        "key",
        "left",
        "line",
        "lives",
        "member",
        "named",
        "priority",
        "promised",
        "qid",
        "respecified",
        "restarted",
        "roles",
        "rows",
        "shards",
        "spared",
        "spec",
        "states",
        "submitted",
        "topology",
        "unpromised",
    )

    def __init__(self, key: str, line: int) -> None:
        self.key = key
        self.line = line
        self.qid = -1
        self.spec = -1
        self.respecified = 0.0  # when it last changed
        self.gone = False
        self.gone_at = 0  # line of its deletion
        self.forgotten = False
        self.groups: list[list[int]] = []  # [parent, minimum]
        self.held: list[int] = []
        self.shards: list[int | None] = []  # where a gang's first member was placed
        self.best_effort: list[int] = []  # per group, counted in ``held`` from the start
        self.idle: list[int] = []  # per group: pending members among those
        self.priority = 0
        self.topology: dict[str, Any] | None = None  # hard, where it has one
        self.named = False  # its tasks have names of their own, not by their job's
        self.roles: list[RoleFacts] = []
        self.adopted: set[int] = set()  # found by the ledger where the cluster had them
        self.spared = False  # in part by a rule of its own: a policy let somebody evict it
        self.states = bytearray()
        self.member = bytearray()  # 1: part of the job now
        self.rows: list[int] = []
        self.cids: list[int] = []
        self.group_of: list[int] = []
        self.submitted: list[float] = []
        self.changed: list[int] = []  # line of the last change
        self.earlier: dict[int, list[int]] = {}  # rows a task was committed to before
        self.devices: dict[int, Taken] = {}  # of tasks that hold some
        self.given: dict[tuple[int, int], list[Taken]] = {}  # (task, row) -> all it ever had there
        self.charges: dict[int, Charge] = {}  # of tasks that count in a queue of KAI's
        self.evicted: set[int] = set()  # leaving, and no members of their gangs
        self.began: dict[int, float] = {}  # when tasks that run started, as the cluster says
        self.promised: list[int] = []  # classes of its tasks that are nominated, or were at last
        self.unpromised: float | None = None  # when those nominations ended; None: they have not
        self.left: dict[int, float] = {}  # when a task last left its node by itself
        self.lives: dict[int, int] = {}  # incarnations that were evicted, or begun anew, and ended
        self.restarted: set[tuple[int, int]] = set()  # (task, incarnation) begun anew after its end

    def grow(self, size: int, t: float) -> None:
        by = size - len(self.states)
        if by > 0:
            self.states += bytes(by)
            self.member += bytes(by)
            self.rows += [NOWHERE] * by
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
