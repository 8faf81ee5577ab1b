"""The registry of intake: all accepted names, and the numbers assigned to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from coordinator.intake.admission.journal import Journal, JournaledDict, JournaledSet
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import WITHOUT_EFFECT
from shared.manifests.kubernetes.groups import NativeManifest
from shared.manifests.kubernetes.objects import PodTemplate
from shared.model.model import Job, Node, PriorityClass, Queue, TaskClass, WorldObject
from shared.model.topology import HyperNode
from shared.policy.model import Dialect
from shared.units.slots import Slots

K = TypeVar("K")
V = TypeVar("V")

_JOURNALED = (
    "classes",
    "templates",
    "nodes",
    "gone_nodes",
    "queues",
    "hyper_nodes",
    "priority_classes",
    "objects",
    "jobs",
    "groups",
    "batch_jobs",
    "pods",
    "queueless",
    "leaving",
    "documents",
    "inert",
    "tree_nodes",
    "tree_children",
)
_TIX_BITS = 32
INERT_OBJECTS = 1000
"""Maximum number of objects without effect (ConfigMaps and the like) in a namespace."""
NO_QUEUE = -1
"""Queue number of a job whose queue does not exist."""


def pack_task(jid: int, tix: int) -> int:
    return jid << _TIX_BITS | tix


def unpack_task(task: int) -> tuple[int, int]:
    return task >> _TIX_BITS, task & (1 << _TIX_BITS) - 1


@dataclass(slots=True)
class Registry:
    """All accepted objects, under ``namespace/name``, or ``name`` for cluster-wide ones."""

    slots: Slots = field(default_factory=Slots)
    classes: dict[TaskClass, int] = field(default_factory=dict)
    best_effort: set[int] = field(default_factory=set)
    """Numbers of the best-effort classes (no requests)."""
    templates: dict[tuple[PodTemplate, bool], int] = field(default_factory=dict)
    """Cache of the class numbers of recent templates, with whether their tasks are protected: saves
    building and hashing the class."""
    nodes: dict[str, Node] = field(default_factory=dict)
    gone_nodes: dict[str, Node] = field(default_factory=dict)
    """Deleted nodes. A name keeps its row for ever, because tasks may still run there."""
    queues: dict[str, Queue] = field(default_factory=dict)
    hyper_nodes: dict[str, HyperNode] = field(default_factory=dict)
    priority_classes: dict[str, PriorityClass] = field(default_factory=dict)
    objects: dict[str, WorldObject] = field(default_factory=dict)
    """Volumes, budgets, devices and the like, by their ledger keys."""
    dialect: Dialect = Dialect.VOLCANO
    """Dialect of the policy in force: its queues and PodGroups are queues and jobs here."""
    flat: bool = False
    """No queue counts for another above it (KAI's ``full-hierarchy-fairness: false``)."""
    images: bool = False
    """Whether images on nodes, and those that tasks need, are kept; they separate task classes."""
    jobs: dict[int, Job] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    """:func:`group_key` of a PodGroup -> jid; includes those that only have pods yet."""
    batch_jobs: dict[str, int] = field(default_factory=dict)
    pods: dict[str, int] = field(default_factory=dict)
    """``namespace/name`` of a submitted pod -> packed (jid, tix)."""
    queueless: dict[str, set[int]] = field(default_factory=dict)
    """Name of a missing queue -> the jobs that wait for it."""
    leaving: dict[int, Job] = field(default_factory=dict)
    """Deleted jobs that are not purged: their names stay taken."""
    deleting: set[int] = field(default_factory=set)
    """Deleted members of remaining jobs, as packed (jid, tix), until they are purged."""
    documents: dict[Key, Document] = field(default_factory=dict)
    inert: dict[str, int] = field(default_factory=dict)
    """Namespace -> number of its objects without effect; those of the cluster under ""."""
    tree_nodes: dict[str, NativeManifest] = field(default_factory=dict)
    """The groups that have a parent or are CompositePodGroups, by :func:`group_key`."""
    tree_children: dict[str, frozenset[str]] = field(default_factory=dict)
    """:func:`group_key` of a CompositePodGroup -> those of the groups that name it as parent."""
    offered: set[str] = field(default_factory=set)
    """Resource names that nodes and queues have used since the name got its slot."""
    doubtful: set[str] = field(default_factory=set, compare=False)
    """Resource names that a search considers unused (see :mod:`resource_names`); using one removes
    it here."""
    next_row: int = 0
    next_qid: int = 0
    next_jid: int = 0
    next_cid: int = 0
    _journal: Journal = field(default_factory=Journal, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in _JOURNALED:
            setattr(self, name, JournaledDict(self._journal))
        self.best_effort = JournaledSet(self._journal)
        self.deleting = JournaledSet(self._journal)
        self.offered = JournaledSet(self._journal)

    # --- taking back what the ledger refused ----------------------------------------------------

    def mark(self) -> None:
        """Start journaling, so that :meth:`undo` can revert later changes."""
        self._journal.mark()
        # The first step, so the last to be undone; numbers are plain fields that no journaled dict
        # covers.
        self._journal.note(partial(self._set_numbers, *self._numbers))

    def forget_mark(self) -> None:
        """Make the changes since the mark final: they are durable."""
        self._journal.forget()

    def undo(self) -> None:
        """Revert to the state at the mark."""
        self._journal.undo()

    @property
    def _numbers(self) -> tuple[int, int, int, int]:
        return self.next_row, self.next_qid, self.next_jid, self.next_cid

    def _set_numbers(self, row: int, qid: int, jid: int, cid: int) -> None:
        self.next_row, self.next_qid, self.next_jid, self.next_cid = row, qid, jid, cid

    def add_slots(self, names: Iterable[str]) -> None:
        self._keep_slots()
        for name in names:
            self.slots.intern(name)

    def free_slots(self, names: Iterable[str]) -> None:
        self._keep_slots()
        for name in names:
            self.slots.free(name)
            self.offered.discard(name)

    def _keep_slots(self) -> None:
        self._journal.note(partial(self.slots.assign, list(self.slots.names)))

    def wait_for_queue(self, name: str, jid: int) -> None:
        """Note that a job waits for a queue that does not exist."""
        if name not in self.queueless:
            self.queueless[name] = JournaledSet(self._journal)
        self.queueless[name].add(jid)

    def count_inert(self, key: Key, change: int) -> None:
        """Count an object without effect that appeared or went."""
        if key.kind in WITHOUT_EFFECT:
            self.inert[key.namespace] = self.inert.get(key.namespace, 0) + change
            if not self.inert[key.namespace]:
                del self.inert[key.namespace]

    @property
    def group_kind(self) -> str:
        """The kind of the documents of gangs whose pods come by themselves."""
        return "KaiPodGroup" if self.dialect is Dialect.KAI else "PodGroup"

    @property
    def queue_kind(self) -> str:
        """The kind of the documents of queues that count."""
        return "KaiQueue" if self.dialect is Dialect.KAI else "Queue"

    def document_kind(self, job: Job) -> str:
        """The kind of the document that a job has where it is no pod of its own."""
        return self.group_kind if job.kind == "PodGroup" else job.kind

    # --- names ----------------------------------------------------------------------------------

    def job_named(self, key: str) -> Job | None:
        """The Job ``namespace/name``; one that is being deleted counts too."""
        jid = self.batch_jobs.get(key, -1)
        return self.jobs.get(jid) or self.leaving.get(jid)

    def stop_waiting(self, job: Job) -> None:
        """Stop a job that was deleted, or changed its queue, from waiting for this one."""
        waiting = self.queueless.get(job.queue)
        if waiting is not None:
            waiting.discard(job.jid)
            if not waiting:
                del self.queueless[job.queue]
