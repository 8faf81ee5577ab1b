"""What intake knows: names, and the numbers given to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from coordinator.intake.admission.journal import Journal, JournaledDict, JournaledSet
from coordinator.intake.documents.document import Document, Key
from shared.manifests.kubernetes.objects import PodTemplate
from shared.model.model import Job, Node, PriorityClass, Queue, TaskClass, WorldObject
from shared.model.topology import HyperNode
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
)
_TIX_BITS = 32
NO_QUEUE = -1
"""Queue number of a job whose queue does not exist (yet)."""


def pack_task(jid: int, tix: int) -> int:
    return jid << _TIX_BITS | tix


def unpack_task(task: int) -> tuple[int, int]:
    return task >> _TIX_BITS, task & (1 << _TIX_BITS) - 1


@dataclass(slots=True)
class Registry:
    """Everything accepted so far. Objects stand under ``name`` or ``namespace/name``."""

    slots: Slots = field(default_factory=Slots)
    classes: dict[TaskClass, int] = field(default_factory=dict)
    best_effort: set[int] = field(default_factory=set)
    """Numbers of the classes that ask for nothing."""
    templates: dict[PodTemplate, int] = field(default_factory=dict)
    """Class numbers of templates seen lately: spares building and hashing the class."""
    nodes: dict[str, Node] = field(default_factory=dict)
    gone_nodes: dict[str, Node] = field(default_factory=dict)
    """Deleted nodes: a name keeps its row for ever, because what ran there may still run."""
    queues: dict[str, Queue] = field(default_factory=dict)
    hyper_nodes: dict[str, HyperNode] = field(default_factory=dict)
    priority_classes: dict[str, PriorityClass] = field(default_factory=dict)
    objects: dict[str, WorldObject] = field(default_factory=dict)
    """Volumes, budgets, devices and the like, by their keys in the ledger."""
    images: bool = False
    """Which images are on which node, and which a task needs, is kept: it tells classes apart."""
    jobs: dict[int, Job] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    """PodGroups, also those that do not exist yet but have pods, by jid."""
    batch_jobs: dict[str, int] = field(default_factory=dict)
    pods: dict[str, int] = field(default_factory=dict)
    """Pods submitted as such, by packed (jid, tix)."""
    queueless: dict[str, set[int]] = field(default_factory=dict)
    """Jobs that wait for a queue to be created, by its name."""
    leaving: dict[int, Job] = field(default_factory=dict)
    """Deleted jobs that are not purged: their names are taken."""
    deleting: set[int] = field(default_factory=set)
    """Deleted members of jobs that stay, by packed (jid, tix), until they are purged."""
    documents: dict[Key, Document] = field(default_factory=dict)
    offered: set[str] = field(default_factory=set)
    """Names of resources that nodes and queues have named since they have a number."""
    doubtful: set[str] = field(default_factory=set, compare=False)
    """Names of resources that a search takes for unused (see :mod:`resource_names`): who uses one
    takes it out of here."""
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
        """From here on :meth:`undo` can take back what changes."""
        self._journal.mark()
        self._journal.note(partial(self._set_numbers, *self._numbers))

    def forget_mark(self) -> None:
        """Make the changes since the mark final: they are durable."""
        self._journal.forget()

    def undo(self) -> None:
        """Everything is again as it was at the mark."""
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
        """A job waits for a queue that is not there."""
        if name not in self.queueless:
            self.queueless[name] = JournaledSet(self._journal)
        self.queueless[name].add(jid)

    # --- names ----------------------------------------------------------------------------------

    def job_named(self, key: str) -> Job | None:
        """The Job under ``namespace/name``, one that is being deleted too."""
        jid = self.batch_jobs.get(key, -1)
        return self.jobs.get(jid) or self.leaving.get(jid)

    def stop_waiting(self, job: Job) -> None:
        """A job that is deleted waits for no queue any more."""
        waiting = self.queueless.get(job.queue)
        if waiting is not None:
            waiting.discard(job.jid)
            if not waiting:
                del self.queueless[job.queue]
