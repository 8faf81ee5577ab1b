"""Counts of pods per node by what rules between pods ask: the memory of those rules.

A *kind* is all pods of one namespace with the same labels; a *question* is a set of (namespaces,
selector) pairs that all have to hold. Each question that was ever asked in a session has a column
of counts per row, which follows every allocation, nomination and eviction, so that asking again
costs nothing and no task is looked at twice. Kinds and questions find one another by labels
(:mod:`shard_worker.session_model.selector_index`): with thousands of each nobody asks all of the
other.

A pod that this session evicts is not counted any more. A pod that was leaving already when the
session began still counts between pods, but not in topology spread: as Kubernetes has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Coded, EventHandler
from shard_worker.framework.session import Session
from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.session_model.selector_index import LabelIndex, LabelTerm, TermIndex
from shard_worker.session_model.status import Status
from shard_worker.session_model.world import World
from shared.model.constraints import PodTerm
from shared.model.model import Pairs, Role

SHARED = "neighbours"
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PodQuestion:
    """Selects the pods that match all ``terms``. ``staying``: leaving pods do not count."""

    terms: tuple[LabelTerm, ...]
    staying: bool = False

    def counts(self, kind: _PodKind) -> bool:
        """Whether the pods of this kind match."""
        if self.staying and kind.leaving:
            return False
        return all(term.selects(kind.namespace, kind.labels) for term in self.terms)


@dataclass(frozen=True, slots=True)
class ResolvedTerm:
    """A pod's affinity term with its namespaces resolved."""

    topology_key: str
    asks: LabelTerm
    anti: bool
    weight: int


@dataclass(slots=True, eq=False)
class _PodKind:
    """Pods with the same namespace, labels and terms."""

    namespace: str
    labels: dict[str, str]
    terms: tuple[ResolvedTerm, ...]
    leaving: bool
    rows: dict[int, int] = field(default_factory=dict)
    """Row -> number of such pods on it."""
    columns: list[Counts] = field(default_factory=list)
    """The columns of counts that include these pods."""

    def add(self, row: int, by: int) -> None:
        self.rows[row] = self.rows.get(row, 0) + by
        for column in self.columns:
            column[row] += by


class Neighbours:
    """The counts of one session; reset for every world that the session enters."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._world: World | None = None
        self._reset()
        ssn.add_event_handler(EventHandler(allocate=self.add, deallocate=self.remove))

    def _reset(self) -> None:
        self._read = False
        self._at: dict[TaskInfo, tuple[_PodKind, int]] = {}
        self._gone: set[TaskInfo] = set()
        """Tasks evicted by this session."""
        self._kinds: dict[tuple[str, Pairs, tuple[PodTerm, ...], bool], _PodKind] = {}
        self._of_role: dict[tuple[int, int, bool], tuple[SessionJob, Role, _PodKind]] = {}
        self._labels = LabelIndex[_PodKind]()
        """All kinds by label, to find those that a question counts."""
        self._counts: dict[PodQuestion, Counts] = {}
        self._asking = TermIndex[PodQuestion]()
        """Questions by their first term, to find those that count a new kind."""
        self._holders: dict[ResolvedTerm, Counts] = {}
        self._holding = TermIndex[ResolvedTerm]()
        """Terms of pods by what they select, to find those that select a task."""
        self._concern: dict[tuple[str, Pairs], list[tuple[ResolvedTerm, Counts]]] = {}

    # --- questions ----------------------------------------------------------------------------

    @property
    def has_terms(self) -> bool:
        """Whether any pod has terms about others."""
        self._catch_up()
        return bool(self._holders)

    def count(self, question: PodQuestion) -> Counts:
        """Number of such pods per row. Callers must not change it."""
        self._catch_up()
        counts = self._counts.get(question)
        if counts is None:
            counts = self._counts[question] = np.zeros(self._ssn.world.size, np.int64)
            self._asking.add(question, question.terms[0])
            for kind in self._labels.selected(question.terms[0]):
                if question.counts(kind):
                    _join(kind, counts)
        return counts

    def holders(self, task: TaskInfo) -> list[tuple[ResolvedTerm, Counts]]:
        """Terms of other pods that select this task, with the number of such pods per row.

        Required anti-affinity (weight 0), and preferences for and against it.
        """
        self._catch_up()
        key = (task.job.job.namespace, task.role.labels)
        holders = self._concern.get(key)
        if holders is None:
            terms = self._holding.selecting(key[0], dict(task.role.labels))
            holders = self._concern[key] = [(term, self._holders[term]) for term in terms]
        return holders

    # --- what happens -------------------------------------------------------------------------

    def add(self, task: TaskInfo) -> None:
        """Count a task on its current or future row; does nothing if it is counted already."""
        self._begin()
        self._gone.discard(task)
        if self._read and task not in self._at and task.row >= 0:
            self._settle(task, leaving=False)

    def remove(self, task: TaskInfo) -> None:
        """Stop counting a task that left its row, or will not be placed there."""
        self._begin()
        if task.status is Status.RELEASING:
            self._gone.add(task)
        counted = self._at.pop(task, None)
        if counted is not None:
            kind, row = counted
            kind.add(row, -1)

    def take(self, task: TaskInfo) -> None:
        """Take the task off its node in a dry run; :meth:`add` puts it back."""
        self._catch_up()
        self.remove(task)

    def _begin(self) -> None:
        world = self._ssn.world
        if world is not self._world:
            self._reset()
            self._world = world

    def _catch_up(self) -> None:
        """Read the pods of all nodes; done once per world."""
        self._begin()
        if not self._read:
            self._read = True
            for task in self._ssn.world.linked_residents():
                if task not in self._gone:
                    self._settle(task, leaving=task.status is Status.RELEASING)

    def _settle(self, task: TaskInfo, *, leaving: bool) -> None:
        kind = self._kind(task, leaving)
        self._at[task] = (kind, task.row)
        kind.add(task.row, +1)

    # --- kinds --------------------------------------------------------------------------------

    def _kind(self, task: TaskInfo, leaving: bool) -> _PodKind:
        place = (id(task.job), id(task.role), leaving)
        entry = self._of_role.get(place)
        if entry is not None:
            return entry[2]
        constraints = task.cls.constraints
        terms = () if constraints is None else constraints.pod_terms
        namespace = task.job.job.namespace
        key = (namespace, task.role.labels, terms, leaving)
        kind = self._kinds.get(key)
        if kind is None:
            held_terms = tuple(hold(term, namespace) for term in terms if term.anti or term.weight)
            kind = _PodKind(namespace, dict(task.role.labels), held_terms, leaving)
            self._kinds[key] = kind
            self._enlist(kind)
        self._of_role[place] = (task.job, task.role, kind)
        return kind

    def _enlist(self, kind: _PodKind) -> None:
        """Count a new kind in the columns of every question that it matches."""
        self._labels.add(kind, kind.namespace, tuple(kind.labels.items()))
        for question in self._asking.selecting(kind.namespace, kind.labels):
            if question.counts(kind):
                _join(kind, self._counts[question])
        for term in dict.fromkeys(kind.terms):
            counts = self._holders.get(term)
            if counts is None:
                counts = self._holders[term] = np.zeros(self._ssn.world.size, np.int64)
                self._holding.add(term, term.asks)
                self._concern.clear()
            kind.columns += [counts] * kind.terms.count(term)


def _join(kind: _PodKind, counts: Counts) -> None:
    """Include the kind in this column from now on."""
    kind.columns.append(counts)
    for row, count in kind.rows.items():
        counts[row] += count


def neighbours_of(ssn: Session) -> Neighbours:
    """The counts that all plugins of a session share; the first call registers them for its
    events."""
    neighbours = ssn.shared.get(SHARED)
    if not isinstance(neighbours, Neighbours):
        neighbours = ssn.shared[SHARED] = Neighbours(ssn)
    return neighbours


# --- terms ------------------------------------------------------------------------------------


def hold(term: PodTerm, namespace: str) -> ResolvedTerm:
    """The term with the namespaces resolved for a pod of this namespace."""
    return ResolvedTerm(term.topology_key, label_term(term, namespace), term.anti, term.weight)


def label_term(term: PodTerm, namespace: str) -> LabelTerm:
    """The pods that a term of a pod of this namespace selects."""
    spaces = None if term.all_namespaces else term.namespaces or (namespace,)
    return LabelTerm(spaces, term.selector)


# --- domains ----------------------------------------------------------------------------------


def by_domain(column: Coded[str], counts: Counts) -> Counts:
    """Sum the counts per value of a label; index: code. Rows without the label are left out."""
    codes = column.codes
    labelled = codes >= 0
    sums = np.bincount(codes[labelled], weights=counts[labelled], minlength=len(column.values))
    return sums.astype(np.int64)


def on_rows(column: Coded[str], per_code: NDArray[np.int64]) -> Counts:
    """The value of each row's domain; 0 for rows without the label."""
    padded = np.append(per_code, 0)
    domain_counts: Counts = padded[column.codes]
    return domain_counts


def has_label(columns: Iterable[Coded[str]], size: int) -> NDArray[np.bool_]:
    """Rows that have all of these labels."""
    labelled = np.ones(size, np.bool_)
    for column in columns:
        labelled &= column.codes >= 0
    return labelled
