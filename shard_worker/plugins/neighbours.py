"""Who is on which node, counted by what others ask of them: the memory of rules between pods.

A *kind* is all pods of one namespace with the same labels; a *question* is a set of (namespaces,
selector) pairs that all have to hold. Each question that was ever asked in a session has a column
of counts per row, which follows every allocation, nomination and eviction, so that asking again
costs nothing and no task is looked at twice.

What an eviction of this session took away is not counted any more. A pod that was leaving already
when the session began still counts between pods, but not where pods are spread: as Kubernetes has
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shard_worker.rules import Coded, EventHandler
from shard_worker.session import Session
from shard_worker.session_job import SessionJob, matches
from shard_worker.tasks import Status, TaskInfo
from shard_worker.world import World
from shared.model import Pairs, PodTerm, Role, Selector

SHARED = "neighbours"
Counts = NDArray[np.int64]
Asked = tuple[tuple[str, ...] | None, Selector | None]
"""(namespaces, None = all; selector of labels)."""


@dataclass(frozen=True, slots=True)
class Question:
    """The pods of which all of ``asked`` holds. ``staying``: those that leave do not count."""

    asked: tuple[Asked, ...]
    staying: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """A term as somebody has it: its namespaces no longer depend on whose it is."""

    topology_key: str
    namespaces: tuple[str, ...] | None
    selector: Selector | None
    anti: bool
    weight: int


@dataclass(slots=True, eq=False)
class _Kind:
    """Pods of one namespace, labels and terms."""

    namespace: str
    labels: dict[str, str]
    terms: tuple[Held, ...]
    leaving: bool
    rows: dict[int, int] = field(default_factory=dict)
    """Row -> how many of them are there."""
    columns: list[Counts] = field(default_factory=list)
    """Counts that they are counted in."""

    def add(self, row: int, by: int) -> None:
        self.rows[row] = self.rows.get(row, 0) + by
        for column in self.columns:
            column[row] += by


class Neighbours:
    """Of one session; starts anew with every world that the session enters."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._world: World | None = None
        self._reset()
        ssn.add_event_handler(EventHandler(allocate=self.add, deallocate=self.remove))

    def _reset(self) -> None:
        self._read = False
        self._at: dict[TaskInfo, tuple[_Kind, int]] = {}
        self._gone: set[TaskInfo] = set()
        """Evicted by this session."""
        self._kinds: dict[tuple[str, Pairs, tuple[PodTerm, ...], bool], _Kind] = {}
        self._of_role: dict[tuple[int, int, bool], tuple[SessionJob, Role, _Kind]] = {}
        self._counts: dict[Question, Counts] = {}
        self._holders: dict[Held, Counts] = {}
        self._concern: dict[tuple[str, Pairs], list[tuple[Held, Counts]]] = {}

    # --- questions ----------------------------------------------------------------------------

    def count(self, question: Question) -> Counts:
        """How many such pods are on each row. Not to be changed by the caller."""
        self._catch_up()
        found = self._counts.get(question)
        if found is None:
            found = self._counts[question] = np.zeros(self._ssn.world.size, np.int64)
            for kind in self._kinds.values():
                self._join(kind, question, found)
        return found

    def holders(self, task: TaskInfo) -> list[tuple[Held, Counts]]:
        """Terms of others that mean this task, with how many on each row have them: conditions
        against it (weight 0) and wishes for and against it."""
        self._catch_up()
        key = (task.job.job.namespace, task.role.labels)
        found = self._concern.get(key)
        if found is None:
            labels = dict(task.role.labels)
            found = self._concern[key] = [
                (held, counts)
                for held, counts in self._holders.items()
                if means(held.namespaces, held.selector, key[0], labels)
            ]
        return found

    # --- what happens -------------------------------------------------------------------------

    def add(self, task: TaskInfo) -> None:
        """The task is on its row, or will be; nothing where it is counted already."""
        self._begin()
        self._gone.discard(task)
        if self._read and task not in self._at and task.row >= 0:
            self._settle(task, leaving=False)

    def remove(self, task: TaskInfo) -> None:
        """The task is not there any more, or will not be."""
        self._begin()
        if task.status is Status.RELEASING:
            self._gone.add(task)
        counted = self._at.pop(task, None)
        if counted is not None:
            kind, row = counted
            kind.add(row, -1)

    def take(self, task: TaskInfo) -> None:
        """A dry run takes the task off its node; :meth:`add` puts it back."""
        self._catch_up()
        self.remove(task)

    def _begin(self) -> None:
        world = self._ssn.world
        if world is not self._world:
            self._reset()
            self._world = world

    def _catch_up(self) -> None:
        """Read who is where, once."""
        self._begin()
        if not self._read:
            self._read = True
            for tasks in self._ssn.world.resident.values():
                for task in tasks:
                    if task not in self._gone:
                        self._settle(task, leaving=task.status is Status.RELEASING)

    def _settle(self, task: TaskInfo, *, leaving: bool) -> None:
        kind = self._kind(task, leaving)
        self._at[task] = (kind, task.row)
        kind.add(task.row, +1)

    # --- kinds --------------------------------------------------------------------------------

    def _kind(self, task: TaskInfo, leaving: bool) -> _Kind:
        place = (id(task.job), id(task.role), leaving)
        known = self._of_role.get(place)
        if known is not None:
            return known[2]
        constraints = task.cls.constraints
        terms = () if constraints is None else constraints.pod_terms
        namespace = task.job.job.namespace
        key = (namespace, task.role.labels, terms, leaving)
        kind = self._kinds.get(key)
        if kind is None:
            held = tuple(hold(term, namespace) for term in terms if term.anti or term.weight)
            kind = _Kind(namespace, dict(task.role.labels), held, leaving)
            self._kinds[key] = kind
            self._enlist(kind)
        self._of_role[place] = (task.job, task.role, kind)
        return kind

    def _enlist(self, kind: _Kind) -> None:
        """A kind that was not seen before is counted wherever it is meant."""
        for question, counts in self._counts.items():
            self._join(kind, question, counts)
        for held in dict.fromkeys(kind.terms):
            counts = self._holders.setdefault(held, np.zeros(self._ssn.world.size, np.int64))
            kind.columns += [counts] * kind.terms.count(held)
        if kind.terms:
            self._concern.clear()

    def _join(self, kind: _Kind, question: Question, counts: Counts) -> None:
        if question.staying and kind.leaving:
            return
        if all(means(*asked, kind.namespace, kind.labels) for asked in question.asked):
            kind.columns.append(counts)
            for row, count in kind.rows.items():
                counts[row] += count


def neighbours_of(ssn: Session) -> Neighbours:
    """One for all plugins of a session; the first that asks registers it for its events."""
    found = ssn.shared.get(SHARED)
    if not isinstance(found, Neighbours):
        found = ssn.shared[SHARED] = Neighbours(ssn)
    return found


# --- terms ------------------------------------------------------------------------------------


def hold(term: PodTerm, namespace: str) -> Held:
    """A term of a pod of this namespace."""
    spaces = spaces_of(term, namespace)
    return Held(term.topology_key, spaces, term.selector, term.anti, term.weight)


def spaces_of(term: PodTerm, namespace: str) -> tuple[str, ...] | None:
    """The namespaces that a term of a pod of this one looks into; None = all."""
    if term.all_namespaces:
        return None
    return term.namespaces or (namespace,)


def means(
    namespaces: tuple[str, ...] | None,
    selector: Selector | None,
    namespace: str,
    labels: dict[str, str],
) -> bool:
    """Is a pod of this namespace with these labels meant?"""
    return (namespaces is None or namespace in namespaces) and matches(selector, labels)


# --- domains ----------------------------------------------------------------------------------


def by_domain(column: Coded[str], counts: Counts) -> Counts:
    """Sums per value of a label; index: code. What is on rows without the label counts nowhere."""
    codes = column.codes
    there = codes >= 0
    sums = np.bincount(codes[there], weights=counts[there], minlength=len(column.values))
    return sums.astype(np.int64)


def on_rows(column: Coded[str], per_code: NDArray[np.int64]) -> Counts:
    """Each row's domain's number; 0 on rows without the label."""
    padded = np.append(per_code, 0)
    found: Counts = padded[column.codes]
    return found


def has_label(columns: Iterable[Coded[str]], size: int) -> NDArray[np.bool_]:
    """Rows that have all of these labels."""
    there = np.ones(size, np.bool_)
    for column in columns:
        there &= column.codes >= 0
    return there
