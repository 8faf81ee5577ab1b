"""What a cluster driver does for the binder. Columns in, columns out: many tasks a call."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol


class BindAnswer(IntEnum):
    OK = 0
    ALREADY = 1  # bound to this very node before: success
    ELSEWHERE = 2  # bound to another node: ``where`` tells which
    GONE = 3  # no such task, or another incarnation
    REFUSED = 4  # the node would not have it
    UNKNOWN = 5  # no answer in time: ask again
    SUCCEEDED = 6  # it ran, ended well, and that was reported before
    OVER = 7  # said by no cluster: it was evicted, and what was asked is over


def incarnation(uid: str, life: int) -> str:
    """The uid of a task of the job with this uid, after so many evictions of it."""
    return f"{uid}{_LIFE}{life}" if life else uid


def life_of(uid: str) -> int:
    """After how many evictions of the task this incarnation came."""
    life = uid.rpartition(_LIFE)[2] if _LIFE in uid else ""
    return int(life) if life.isdecimal() else 0


_LIFE = "~~"


@dataclass(frozen=True, slots=True)
class BindRequests:
    """Parallel columns. ``tasks`` are "jid.tix"; ``uids`` the incarnations (preconditions)."""

    tasks: list[str]
    uids: list[str]
    pods: list[str]
    nodes: list[str]
    durations: list[float | None]
    exit_codes: list[int] = field(default_factory=list)
    """What each ends with (0: well); empty where all end well."""


@dataclass(frozen=True, slots=True)
class BindAnswers:
    answers: list[int]
    where: list[str]
    """The node a task is on, "" where it is on none."""
    reasons: list[str] = field(default_factory=list)
    """What nodes said that refused, "" for all other tasks; empty where none refused, or said
    anything. A closed set of words per cluster: nodes that repeat one are set aside."""


class Phase(IntEnum):
    """Where a task stands that the cluster knows."""

    BOUND = 0
    RUNNING = 1
    RELEASING = 2
    SUCCEEDED = 3
    FAILED = 4
    NEVER = 5  # not known


@dataclass(frozen=True, slots=True)
class Listed:
    """Tasks that are on nodes now, or ended and not all reports of it are taken; parallel columns.

    Part of one listing: ``token`` asks for the next part, "" after the last. What comes or goes
    while the parts are read may be missing, or be in it still."""

    tasks: list[str]
    uids: list[str]
    nodes: list[str]
    phases: list[int]
    token: str = ""
    highest: int = -1
    """In the first part: the highest number of a job that it ever had a task of."""


Foreign = dict[str, dict[str, int]]
"""node -> resource -> amount in the slot's unit: what pods that are not ours use."""


class Report(IntEnum):
    STARTED = 0
    RELEASING = 1
    SUCCEEDED = 2
    FAILED = 3


@dataclass(frozen=True, slots=True)
class Reports:
    """What happened in the cluster after report number ``after``, in order. Parallel columns."""

    last: int
    kinds: list[int]
    tasks: list[str]
    nodes: list[str]
    lives: dict[int, int] = field(default_factory=dict)
    """Position -> which incarnation it is about; those not named are about the first."""


class ClusterTimeout(Exception):
    """The cluster did not answer in time; what it did is unknown. Asking again is safe."""


class ClusterDriver(Protocol):
    async def bind(self, requests: BindRequests) -> BindAnswers: ...

    async def delete(self, tasks: list[str], uids: list[str] | None = None) -> list[str]:
        """Stop these incarnations of tasks (None: whichever there is); what was running reports
        RELEASING, then FAILED. Of an incarnation that is over nothing happens.

        Returns those that it never had, and that it will never take from now on: no report of them
        will come. Asking again is harmless. Raises ClusterTimeout."""
        ...

    async def listing(self, token: str) -> Listed:
        """A part of all tasks it has, of ours; ``token`` "" begins. Raises ClusterTimeout."""
        ...

    async def look(self, tasks: list[str]) -> Listed:
        """These tasks, also those that ended long ago. Raises ClusterTimeout."""
        ...

    async def foreign(self) -> Foreign:
        """What others use on nodes, those left out where nobody does. Raises ClusterTimeout."""
        ...

    async def reports(self, *, after: int, wait: float) -> Reports:
        """At least one report newer than ``after``, or none when ``wait`` seconds have passed."""
        ...

    async def history_position(self) -> str:
        """The last log entry in the history, "" where none is kept: nothing after it may be cut."""
        ...

    async def acknowledged(self, jobs: list[tuple[int, int]]) -> None:
        """Note in the history, where one is kept, that users were told that these jobs are stored:
        (first jid, how many). Raises ClusterTimeout."""
        ...

    async def close(self) -> None: ...
