"""What intake knows: names, and the numbers given to them. A draft collects one list's changes.

Nothing of a draft is seen in the registry before :meth:`Draft.keep`; a list that is refused as a
whole is a draft that is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from coordinator.objects.document import Document, Key
from shared.ledger.protocol import IntakeOp, PutClass, PutJob, PutNode, PutObject, PutQueue
from shared.manifests import Amounts, PodTemplate
from shared.messages import Group
from shared.model import (
    Constraints,
    HyperNode,
    Job,
    Node,
    PriorityClass,
    Queue,
    Requests,
    TaskClass,
    WorldObject,
)
from shared.slots import PODS, Slots
from shared.specs import (
    GONE_NODE_KEY,
    HYPER_NODE_KEY,
    PRIORITY_CLASS_KEY,
    SLOTS_KEY,
    encode_class,
    encode_hyper_node,
    encode_job,
    encode_node,
    encode_object,
    encode_priority_class,
    encode_queue,
    encode_slots,
)

K = TypeVar("K")
V = TypeVar("V")

_TEMPLATES = 8192
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
    next_row: int = 0
    next_qid: int = 0
    next_jid: int = 0

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


class Overlay(Generic[K, V]):
    """A dict with changes on top that can still be dropped."""

    __slots__ = ("_base", "changed")

    def __init__(self, base: dict[K, V]) -> None:
        self._base = base
        self.changed: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        value = self.changed.get(key)
        return self._base.get(key) if value is None else value

    def __setitem__(self, key: K, value: V) -> None:
        self.changed[key] = value

    def __contains__(self, key: K) -> bool:
        return key in self.changed or key in self._base

    def values(self) -> Iterator[V]:
        """All values, the changed ones last."""
        for key, value in self._base.items():
            if key not in self.changed:
                yield value
        yield from self.changed.values()

    def keep(self) -> None:
        self._base.update(self.changed)


class Draft:
    """The changes of one list on top of a registry."""

    __slots__ = (
        "_base",
        "_best_effort",
        "_new_slots",
        "batch_jobs",
        "classes",
        "groups",
        "held",
        "hyper_nodes",
        "jobs",
        "next_jid",
        "next_qid",
        "next_row",
        "nodes",
        "objects",
        "pods",
        "priority_classes",
        "queues",
        "templates",
    )

    def __init__(self, base: Registry) -> None:
        self._base = base
        self._new_slots: dict[str, int] = {}
        self._best_effort: set[int] = set()
        self.classes = Overlay(base.classes)
        self.templates = Overlay(base.templates)
        self.nodes = Overlay(base.nodes)
        self.queues = Overlay(base.queues)
        self.hyper_nodes = Overlay(base.hyper_nodes)
        self.priority_classes = Overlay(base.priority_classes)
        self.objects = Overlay(base.objects)
        self.jobs = Overlay(base.jobs)
        self.groups = Overlay(base.groups)
        self.batch_jobs = Overlay(base.batch_jobs)
        self.pods = Overlay(base.pods)
        self.held: dict[int, dict[int, int]] = {}
        """New best-effort members: jid -> group -> how many."""
        self.next_row = base.next_row
        self.next_qid = base.next_qid
        self.next_jid = base.next_jid

    # --- numbers ------------------------------------------------------------------------------

    def requests(self, amounts: Amounts) -> Requests:
        return tuple(sorted((self._slot(name), n) for name, n in amounts))

    def _slot(self, name: str) -> int:
        slot = self._known_slot(name)
        if slot < 0:
            slot = self._new_slots[name] = len(self._base.slots) + len(self._new_slots)
        return slot

    def _known_slot(self, name: str) -> int:
        slot = self._base.slots.find(name)
        return self._new_slots.get(name, -1) if slot is None else slot

    def class_of(self, template: PodTemplate) -> int:
        """The number of the task class of a template, given now if it had none."""
        cid = self.templates.get(template)
        if cid is None:
            cls = self._class(template, self.requests(template.requests))
            cid = self.classes.get(cls)
            if cid is None:
                cid = len(self._base.classes) + len(self.classes.changed)
                self.classes[cls] = cid
                if cls.best_effort:
                    self._best_effort.add(cid)
            if not template.priority_class or template.priority_class in self.priority_classes:
                self.templates[template] = cid
        return cid

    def find_class(self, template: PodTemplate) -> int | None:
        """The number of a template's class, None where nothing accepted has it."""
        cid = self.templates.get(template)
        if cid is None:
            requests = [(self._known_slot(name), n) for name, n in template.requests]
            cid = self.classes.get(self._class(template, tuple(sorted(requests))))
        return cid

    @property
    def images(self) -> bool:
        return self._base.images

    def _class(self, template: PodTemplate, requests: Requests) -> TaskClass:
        """The order in which tolerations were written decides nothing: classes do not keep it."""
        constraints = template.constraints
        if template.images and self._base.images:
            constraints = replace(constraints or Constraints(), images=template.images)
        if not self._preempts(template):
            constraints = replace(constraints or Constraints(), preempts=False)
        return TaskClass(
            requests=tuple(sorted((*requests, (PODS, 1)))),
            selector=template.selector,
            affinity=template.affinity,
            tolerations=tuple(sorted(template.tolerations, key=repr)),
            constraints=constraints,
        )

    def _preempts(self, template: PodTemplate) -> bool:
        """What the pod says itself counts, else what its priority class says."""
        if template.preempts is not None or not template.priority_class:
            return template.preempts is not False
        known = self.priority_classes.get(template.priority_class)
        return known is None or known.preempts

    def new_jid(self) -> int:
        jid = self.next_jid
        self.next_jid += 1
        return jid

    def job(self, jid: int) -> Job:
        """A job that must exist."""
        job = self.jobs.get(jid)
        if job is None:
            raise KeyError(f"job {jid}")
        return job

    def leaving(self, jid: int) -> Job | None:
        """A job that is stopped and not purged."""
        return self._base.leaving.get(jid)

    def present_jobs(self) -> Iterator[Job]:
        """All jobs, those that are stopped and not purged too. A pass over all of them."""
        yield from self.jobs.values()
        yield from self._base.leaving.values()

    def document(self, key: Key) -> Document | None:
        """As it was before this list."""
        return self._base.documents.get(key)

    def job_named(self, key: str) -> Job | None:
        """The Job under ``namespace/name``, one that is being deleted too."""
        jid = self.batch_jobs.get(key)
        return None if jid is None else self.jobs.get(jid) or self._base.leaving.get(jid)

    @property
    def known_pods(self) -> Mapping[str, int]:
        """Pods that were submitted as such before this list."""
        return self._base.pods

    def has_jobs(self) -> bool:
        """Is there any Job, so that pods exist which were not submitted as such?"""
        return bool(self.batch_jobs.changed or self._base.batch_jobs)

    def pod(self, key: str) -> int:
        """The packed task of a pod that must exist."""
        task = self.pods.get(key)
        if task is None:
            raise KeyError(f"pod {key}")
        return task

    def deleting(self, task: int) -> bool:
        """Is this pod, or the job it belongs to, on its way out?"""
        return task in self._base.deleting or unpack_task(task)[0] in self._base.leaving

    def qid(self, queue: str) -> int:
        known = self.queues.get(queue)
        return NO_QUEUE if known is None else known.qid

    def best_effort(self, cid: int) -> bool:
        """Does the class ask for nothing but its place among the pods of a node?"""
        return cid in self._base.best_effort or cid in self._best_effort

    def waiting_for(self, queue: str) -> set[int]:
        """Jobs that wait for a queue of this name."""
        return self._base.queueless.get(queue, set())

    def hold(self, jid: int, group: int, count: int) -> None:
        """Best-effort members of a group came: they count as present while they are pending."""
        held = self.held.setdefault(jid, {})
        held[group] = held.get(group, 0) + count

    def gone_node(self, name: str) -> Node | None:
        """The node that had this name, where it was deleted."""
        return self._base.gone_nodes.get(name)

    # --- the end ------------------------------------------------------------------------------

    def operations(self) -> list[IntakeOp]:
        """What the ledger must store, in an order in which everything named exists."""
        ops: list[IntakeOp] = []
        if self._new_slots:
            names = Slots([*self._base.slots.names, *self._new_slots])
            ops.append(PutObject(SLOTS_KEY, encode_slots(names)))
        for cls, cid in self.classes.changed.items():
            requests = [(slot, n, self._implied(slot)) for slot, n in cls.requests]
            ops.append(PutClass(cid, requests, encode_class(cls)))
        ops += [
            PutObject(PRIORITY_CLASS_KEY + name, encode_priority_class(priority))
            for name, priority in self.priority_classes.changed.items()
        ]
        ops += [
            PutObject(HYPER_NODE_KEY + name, encode_hyper_node(hyper))
            for name, hyper in self.hyper_nodes.changed.items()
        ]
        ops += [PutObject(key, encode_object(o)) for key, o in self.objects.changed.items()]
        for queue in self._parents_first():
            capability = None if queue.capability is None else list(queue.capability)
            kept, spec = list(queue.guarantee), encode_queue(queue)
            ops.append(PutQueue(queue.qid, queue.parent, capability, spec, kept))
        for name, node in self.nodes.changed.items():
            if name in self._base.gone_nodes:
                ops.append(PutObject(GONE_NODE_KEY + name, None))
            allocatable = list(node.allocatable)
            ops.append(PutNode(node.row, allocatable, node.spec, encode_node(node)))
        ops += map(self._put_job, self.jobs.changed.values())
        return ops

    def _parents_first(self) -> list[Queue]:
        """The changed queues, none before its parent."""
        if len(self.queues.changed) < 2:
            return list(self.queues.changed.values())
        parents = {queue.qid: queue.parent for queue in self.queues.values()}

        def depth(queue: Queue) -> int:
            steps, at = 0, queue.parent
            while at >= 0:
                steps, at = steps + 1, parents[at]
            return steps

        return sorted(self.queues.changed.values(), key=depth)

    def _put_job(self, job: Job) -> PutJob:
        held = self.held.get(job.jid)
        groups = list(job.groups)
        if held:
            for group, count in held.items():
                _add_held(groups, group, count)
        return PutJob(job.jid, self.qid(job.queue), job.spec, groups, encode_job(job))

    def _implied(self, slot: int) -> int:
        if slot < len(self._base.slots):
            return self._base.slots.implied(slot)
        return Slots([*self._base.slots.names, *self._new_slots]).implied(slot)

    def keep(self) -> None:
        """Make the changes part of the registry."""
        base = self._base
        for name in self._new_slots:
            base.slots.intern(name)
        base.best_effort |= self._best_effort
        if len(base.templates) > _TEMPLATES:
            base.templates.clear()
        for jid, job in self.jobs.changed.items():
            old = base.jobs.get(jid)
            if old is not None and old.queue != job.queue:
                base.stop_waiting(old)
        for overlay in (
            self.classes,
            self.templates,
            self.nodes,
            self.queues,
            self.hyper_nodes,
            self.priority_classes,
            self.objects,
            self.jobs,
            self.groups,
            self.batch_jobs,
            self.pods,
        ):
            overlay.keep()
        for jid, job in self.jobs.changed.items():
            if job.queue not in base.queues:
                base.queueless.setdefault(job.queue, set()).add(jid)
        for name in self.queues.changed:
            base.queueless.pop(name, None)
        for name in self.nodes.changed:
            base.gone_nodes.pop(name, None)
        base.next_row, base.next_qid, base.next_jid = self.next_row, self.next_qid, self.next_jid


def _add_held(groups: list[Group], group: int, count: int) -> None:
    """Add to a group and every ancestor of it."""
    while group >= 0:
        g = groups[group]
        groups[group] = Group(g.parent, g.minimum, g.held + count)
        group = g.parent
