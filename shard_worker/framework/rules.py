"""The types of rules: the forms that an extension point accepts, and their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from shared.model.constraints import Taint
from shared.model.model import Node, TaskClass

if TYPE_CHECKING:
    from shard_worker.session_model.job import TaskInfo
    from shard_worker.session_model.world import World
    from shared.units.things import Things

    DeviceChoice = Callable[[TaskInfo, int, World], Things]
    Simulated = Callable[[TaskInfo, TaskInfo, int, World], str | None]

T_co = TypeVar("T_co", covariant=True)

REJECT, ABSTAIN, PERMIT = -1, 0, 1
"""The votes of JobPipelined, SubJobPipelined and JobEnqueueable."""

Mask = NDArray[np.bool_]
Scores = NDArray[np.float64]
Rows = NDArray[np.intp] | slice
"""Rows of a view: an array of row numbers, or a slice of step 1 (``slice(None)``: all of them)."""


class Scope(Enum):
    """Dependency of a rule's result for a task and a node, and so its lifetime in the cache."""

    STATIC = "class and specification of the node: kept until one of them changes"
    NODE = "what is on the node itself: kept until that row changes"
    DOMAIN = "what is on other nodes too: worked out for every task anew"


class Purpose(Enum):
    """Why domains and nodes are searched."""

    ALLOCATE = "allocate"
    PREEMPT = "preempt"
    RECLAIM = "reclaim"


class Check(NamedTuple):
    """One check of a task over all rows."""

    reason: str
    mask: Mask
    """True where the node passes."""
    curable: bool = True
    """Whether evicting tasks could make the node pass. (Volcano: Unschedulable, and not
    UnschedulableAndUnresolvable.)"""


@dataclass(frozen=True, slots=True)
class EventHandler:
    """Called by the session so that a rule can update its own state. A pipelined task counts as
    allocated, an evicted one as deallocated; an undone operation arrives as the opposite one."""

    allocate: Callable[[TaskInfo], None]
    deallocate: Callable[[TaskInfo], None]


Votes = Callable[["TaskInfo", "Sequence[TaskInfo]", "World"], "Sequence[TaskInfo] | None"]
"""(evictor, candidates, world) -> victims; None abstains, an empty answer allows none."""
ArrayScore = Callable[["TaskInfo", NDArray[np.intp], "World"], Scores]
"""(task, row numbers, world) -> a score for each of these rows."""
ClassMasks = Callable[[TaskClass, "NodeColumns"], "list[tuple[str, Mask]]"]
"""(class, nodes) -> (reason, True where the node passes) over all rows; only what can fail."""


class Coded(Protocol[T_co]):
    """A column of repeated values: ``values[codes[row]]``, and code -1 where a row has none.

    Values are interned: a value keeps its code as long as the view lives, and the list only grows.
    """

    @property
    def codes(self) -> NDArray[np.int32]: ...

    @property
    def values(self) -> Sequence[T_co]: ...

    def code(self, value: object) -> int:
        """The code of a value; for an unknown value a code that no row has."""
        ...

    @property
    def revision(self) -> int:
        """Rises whenever a row may have another code."""
        ...


class NodeColumns(Protocol):
    """The nodes as plugins see them. Index of every array: row. Amounts: the unit of the slot.

    ``used`` includes the usage of foreign pods. A row whose node is gone has None in ``nodes``,
    code -1 everywhere, and is never a candidate.
    """

    @property
    def size(self) -> int:
        """Number of rows."""
        ...

    @property
    def nodes(self) -> Sequence[Node | None]: ...

    @property
    def slot_names(self) -> Sequence[str]:
        """Slot -> the resource's name; slots without a known name may be missing."""
        ...

    def column(self, kind: str, slot: int) -> NDArray[np.int64]:
        """The ``size`` live amounts of a slot; ``kind``: allocatable, used, releasing, nominated.

        For a slot that no row has: zeros (``allocatable``: what a node has without saying so).
        """
        ...

    def label(self, key: str) -> Coded[str]:
        """The values of one label."""
        ...

    def taints(self) -> Coded[tuple[Taint, ...]]:
        """The taint set of each node (the empty tuple is a set)."""
        ...

    def images(self) -> Coded[tuple[tuple[str, int], ...]]:
        """(name, bytes) of the images on each node (the empty tuple is a set)."""
        ...

    def unschedulable(self) -> Mask:
        """True where the node is cordoned; length ``size``."""
        ...

    def looks(self) -> Coded[Any]:
        """A code for what nodes declare, without name and host name: few kinds, many nodes."""
        ...


class Scorer(Protocol):
    """A node score. Both methods return the same number for the same row (a property test checks
    it).

    A scorer that differs between nodes with the same looks and amounts has a further method,
    ``by_look(cls, view)``: False for the classes where it does.
    """

    @property
    def node_local(self) -> bool:
        """True if a row's score depends only on the class and that row's own amounts and spec."""
        ...

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> NDArray[np.float64]:
        """Scores of many rows."""
        ...

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        """Score of one row, without NumPy's cost per call."""
        ...


def by_kind(fn: Callable[[TaskClass, Node], str | None]) -> ClassMasks:
    """The array form of a static check: asked once for each kind of node."""

    def masks(cls: TaskClass, view: NodeColumns) -> list[tuple[str, Mask]]:
        codes, nodes = _kinds(view)
        answers = [None if node is None else fn(cls, node) for node in nodes]
        checks: list[tuple[str, Mask]] = []
        for reason in dict.fromkeys(a for a in answers if a is not None):
            passes = np.array([answer != reason for answer in answers], np.bool_)
            checks.append((reason, passes[codes]))
        return checks

    return masks


class ByKind:
    """The array form of a static score: asked once for each kind of node."""

    node_local = True

    def __init__(self, fn: Callable[[TaskClass, Node], float]) -> None:
        self._fn = fn

    def rows(self, cls: TaskClass, view: NodeColumns, rows: Rows) -> Scores:
        codes, nodes = _kinds(view)
        score = [0.0 if node is None else self._fn(cls, node) for node in nodes]
        scores: Scores = np.array(score, np.float64)[codes[rows]]
        return scores

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        node = view.nodes[row]
        return 0.0 if node is None else self._fn(cls, node)


def _kinds(view: NodeColumns) -> tuple[NDArray[np.intp], list[Node | None]]:
    """(kind of each row, one node of each kind)."""
    # Looks leave out the names: a rule in Python is called once for each kind of node, however many
    # nodes there are of it.
    codes = view.looks().codes[: view.size]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return inverse.reshape(-1), [view.nodes[row] for row in first.tolist()]
