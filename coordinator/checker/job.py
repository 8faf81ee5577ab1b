"""One job as the ledger's side of a history has it."""

from __future__ import annotations

PENDING, BINDING, BOUND, RUNNING, RELEASING, SUCCEEDED, FAILED = range(7)
STATES = ("PENDING", "BINDING", "BOUND", "RUNNING", "RELEASING", "SUCCEEDED", "FAILED")

NOWHERE = -1


class Job:
    """One job. Lists run over the tasks, except ``groups``, ``held`` and ``shards``."""

    __slots__ = (
        "best_effort",
        "changed",
        "cids",
        "earlier",
        "evicted",
        "forgotten",
        "gone",
        "group_of",
        "groups",
        "held",
        "key",
        "line",
        "lives",
        "member",
        "qid",
        "rows",
        "shards",
        "spec",
        "states",
        "submitted",
    )

    def __init__(self, key: str, line: int) -> None:
        self.key = key
        self.line = line
        self.qid = -1
        self.spec = -1
        self.gone = False
        self.forgotten = False
        self.groups: list[list[int]] = []  # [parent, minimum]
        self.held: list[int] = []
        self.shards: list[int | None] = []  # where a gang's first member was placed
        self.best_effort: list[int] = []  # per group, counted in ``held`` from the start
        self.states = bytearray()
        self.member = bytearray()  # 1: part of the job now
        self.rows: list[int] = []
        self.cids: list[int] = []
        self.group_of: list[int] = []
        self.submitted: list[float] = []
        self.changed: list[int] = []  # line of the last change
        self.earlier: dict[int, list[int]] = {}  # rows a task was committed to before
        self.evicted: set[int] = set()  # leaving, and no members of their gangs
        self.lives: dict[int, int] = {}  # incarnations that were evicted and have ended

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
