"""The interface of cluster drivers for the binder. Arguments and results are columns, since calls
concern many tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Protocol

from coordinator.cluster.events import ReportedUsage
from shared.units.things import Things


class BindAnswer(IntEnum):
    OK = 0
    ALREADY = 1  # bound to this very node before: success
    ELSEWHERE = 2  # bound to another node: ``where`` tells which
    GONE = 3  # no such task, or another incarnation
    REFUSED = 4  # the node would not have it
    UNKNOWN = 5  # no answer in time: ask again
    SUCCEEDED = 6  # it ran, ended well, and that was reported before
    OVER = 7  # it was evicted, or decided anew since: what was asked is over
    PENDING = 8  # asked of another binder, which has not answered: to ask again waits for it


def incarnation_uid(uid: str, incarnation: int) -> str:
    """The uid of an incarnation: the job's uid, with the number of evictions if there were any."""
    return f"{uid}{_LIFE}{incarnation}" if incarnation else uid


def incarnation_of(uid: str) -> int:
    """The number of evictions of the task before this incarnation."""
    incarnation = uid.rpartition(_LIFE)[2] if _LIFE in uid else ""
    return int(incarnation) if incarnation.isdecimal() else 0


_LIFE = "~~"


@dataclass(frozen=True, slots=True)
class BindRequests:
    """Binds, as parallel columns. ``tasks`` are "jid.tix"; ``uids`` the incarnations
    (preconditions)."""

    tasks: list[str]
    uids: list[str]
    pods: list[str]
    nodes: list[str]
    durations: list[float | None]
    exit_codes: list[int] = field(default_factory=list)
    """The exit code each will have (0: success); empty if all succeed."""
    entries: list[str] = field(default_factory=list)
    """The entry of the bind stream that placed each; empty where nobody asks."""
    devices: list[Things] = field(default_factory=list)
    """Devices of its node that each task takes; empty if none takes any. Written to pods of a
    Kubernetes cluster; the simulated one is not sent it."""

    def select(self, positions: Sequence[int]) -> BindRequests:
        """The requests at these positions; columns that are empty stay so."""
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        return BindRequests(
            **{
                name: [values[i] for i in positions] if values else []
                for name, values in columns.items()
            }
        )


@dataclass(frozen=True, slots=True)
class BindAnswers:
    answers: list[int]
    where: list[str]
    """The node that a task is on; "" for none."""
    reasons: list[str] = field(default_factory=list)
    """The node's reason per refused task, "" for other tasks; empty if there are none. A cluster
    has a closed set of reasons: nodes that repeat one are quarantined."""


@dataclass(frozen=True, slots=True)
class StopAnswers:
    """The cluster's answers to one request to stop tasks. Tasks that are in no list are being
    stopped, and report their end, or have reported it."""

    never: list[str]
    """Tasks whose incarnation the cluster never had: it will not accept it later, and will not
    report on it."""
    pending: list[str] = field(default_factory=list)
    """Tasks to ask for again: a budget or another rule of the cluster does not let them go now, or
    there was no answer about them."""


class Phase(IntEnum):
    """Phase of a task that the cluster knows."""

    BOUND = 0
    RUNNING = 1
    RELEASING = 2
    SUCCEEDED = 3
    FAILED = 4
    UNKNOWN = 5


@dataclass(frozen=True, slots=True)
class Listed:
    """Tasks that are on nodes, or ended with unacknowledged reports; parallel columns.

    One part of a listing: ``token`` requests the next part, "" after the last one. Tasks that start
    or end while the parts are read may be missing, or still included.
    """

    tasks: list[str]
    uids: list[str]
    nodes: list[str]
    phases: list[int]
    token: str = ""
    highest: int = -1
    """In the first part: the highest job number of all tasks that the cluster ever had."""


Foreign = dict[str, dict[str, int]]
"""node -> resource -> amount, in the slot's unit, used by pods that are not ours."""


class Report(IntEnum):
    STARTED = 0
    RELEASING = 1
    SUCCEEDED = 2
    FAILED = 3
    BOUND = 4  # it is on this node, whoever bound it: adopted


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports after number ``after``, in order, as parallel columns."""

    last: int
    kinds: list[int]
    tasks: list[str]
    nodes: list[str]
    incarnations: dict[int, int] = field(default_factory=dict)
    """Position -> the incarnation reported; the first incarnation for positions not listed."""


class ClusterTimeout(Exception):
    """The cluster did not answer in time. The effect is unknown, and a retry is safe."""


class BindsAndReports(Protocol):
    """Cluster methods for binding."""

    async def bind(self, requests: BindRequests) -> BindAnswers: ...

    async def delete(self, tasks: list[str], uids: list[str] | None = None) -> StopAnswers:
        """Stop these incarnations of tasks (None: the current one, whichever it is).

        Running ones report RELEASING, then FAILED; incarnations that are over are ignored. A retry
        is harmless. Raises ClusterTimeout.
        """
        ...

    async def reports(self, *, after: int, wait: float) -> Reports:
        """Reports after number ``after``; waits up to ``wait`` seconds for at least one. Raises
        ClusterTimeout."""
        ...


class ListsTasks(Protocol):
    """Cluster methods for reconciling."""

    async def listing(self, token: str) -> Listed:
        """One part of all our tasks in the cluster; ``token`` "" begins. Raises ClusterTimeout."""
        ...

    async def look(self, tasks: list[str]) -> Listed:
        """The state of these tasks, including those that ended long ago. Raises ClusterTimeout."""
        ...

    async def foreign(self) -> Foreign:
        """Usage by pods that are not ours; nodes without any are left out. Raises
        ClusterTimeout."""
        ...


class RunsTasks(BindsAndReports, ListsTasks, Protocol):
    """Cluster methods that a leader uses for its tasks."""


class ClusterDriver(RunsTasks, Protocol):
    async def history_position(self) -> str:
        """Id of the last log entry in the history: later ones must not be trimmed. "" without a
        history."""
        ...

    async def acknowledged(self, jobs: list[tuple[int, int]]) -> None:
        """Record in the history, if there is one, that users were told that these jobs are stored:
        (first jid, number of jobs). Raises ClusterTimeout."""
        ...

    async def measured(self, measured: ReportedUsage) -> None:
        """Record in the history, if there is one, how busy a metrics source says that nodes are.
        Raises ClusterTimeout."""
        ...

    async def close(self) -> None: ...
