"""A draft collects the changes that one list makes to the registry, before anybody reads them.

The registry shows nothing of a draft before :meth:`Draft.keep`. A list that is refused as a whole
is a draft that is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Generic, TypeVar

from coordinator.intake.admission.membership import add_held
from coordinator.intake.admission.registry import NO_QUEUE, Registry, unpack_task
from coordinator.intake.documents.document import Document, Key
from coordinator.jobs.charges.kai_charges import kai_charges
from shard_worker.dialects.kai.service.gangs import stored_groups
from shared.byte_cache import footprint
from shared.codec.packed import replace
from shared.errors import InvalidInput
from shared.ledger.class_op import put_class
from shared.ledger.entries.intake_batch import IntakeOp, PutJob, PutNode, PutObject, PutQueue
from shared.manifests.kubernetes.objects import PodTemplate
from shared.model.constraints import Constraints
from shared.model.kai import KaiPodGroup
from shared.model.model import Job, Node, Queue, Requests, TaskClass
from shared.model.node_devices import declared
from shared.model.storage import Amounts
from shared.policy.model import Dialect
from shared.records.specs import (
    GONE_NODE_KEY,
    HYPER_NODE_KEY,
    OBJECT_KEYS,
    PRIORITY_CLASS_KEY,
    SLOTS_KEY,
    encode_hyper_node,
    encode_node,
    encode_object,
    encode_priority_class,
    encode_queue,
    encode_slots,
)
from shared.records.specs_jobs import encode_job
from shared.slices import Steps
from shared.units.queue_slots import QUEUE_SLOTS
from shared.units.slots import BASE, FREE, MOST_ASKED, MOST_RESOURCES, PODS, Slots

K = TypeVar("K")
V = TypeVar("V")

_TEMPLATES, _TEMPLATE_BYTES = 4096, 4096
"""Most templates whose class is remembered, and the most bytes of each."""


class DraftOverlay(Generic[K, V]):
    """A dict with pending changes on top that can still be dropped."""

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

    def items(self) -> Iterator[tuple[K, V]]:
        """All items, the changed ones last."""
        for key, value in self._base.items():
            if key not in self.changed:
                yield key, value
        yield from self.changed.items()

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
        "_offered",
        "batch_jobs",
        "classes",
        "flat",
        "group_kind",
        "groups",
        "held",
        "hyper_nodes",
        "inert",
        "jobs",
        "next_cid",
        "next_jid",
        "next_qid",
        "next_row",
        "nodes",
        "objects",
        "pods",
        "priority_classes",
        "queues",
        "templates",
        "tree_children",
        "tree_nodes",
    )

    def __init__(self, base: Registry) -> None:
        self._base = base
        self.group_kind = base.group_kind
        self.flat = base.flat
        self._new_slots: dict[str, int] = {}
        self._offered: set[str] = set()
        self._best_effort: set[int] = set()
        self.classes = DraftOverlay(base.classes)
        self.templates = DraftOverlay(base.templates)
        self.nodes = DraftOverlay(base.nodes)
        self.queues = DraftOverlay(base.queues)
        self.hyper_nodes = DraftOverlay(base.hyper_nodes)
        self.priority_classes = DraftOverlay(base.priority_classes)
        self.objects = DraftOverlay(base.objects)
        self.jobs = DraftOverlay(base.jobs)
        self.groups = DraftOverlay(base.groups)
        self.batch_jobs = DraftOverlay(base.batch_jobs)
        self.pods = DraftOverlay(base.pods)
        self.inert = DraftOverlay(base.inert)
        self.tree_nodes = DraftOverlay(base.tree_nodes)
        self.tree_children = DraftOverlay(base.tree_children)
        self.held: dict[int, dict[int, int]] = {}
        """New best-effort members: jid -> group -> how many."""
        self.next_row = base.next_row
        self.next_qid = base.next_qid
        self.next_jid = base.next_jid
        self.next_cid = base.next_cid

    # --- numbers ------------------------------------------------------------------------------

    def requests(self, amounts: Amounts, field_: str, *, offers: bool) -> Requests:
        """Amounts as (slot, amount) pairs, sorted; a new name gets a slot. ``field_`` is their path
        in the manifest, for errors; ``offers`` marks those of a node or a queue. Raises
        InvalidInput where they name more resources than there may be."""
        new = [name for name, _ in amounts if self._known_slot(name) < 0]
        if new:
            self._take_names(new, field_, offers=offers)
        if offers:
            self._offered.update(name for name, _ in amounts)
        return tuple(sorted((self._known_slot(name), n) for name, n in amounts))

    def _take_names(self, new: list[str], field_: str, *, offers: bool) -> None:
        names = {name for name in (*self._base.slots.names, *self._new_slots) if name != FREE}
        only_asked = len(names - self._base.offered - self._offered - set(BASE))
        # Names that only pods give are a tenant's to invent: they may take half of the slots, so
        # that nodes always find some (decision 0037).
        if not offers and only_asked + len(new) > MOST_ASKED:
            raise InvalidInput(
                field_,
                new[0],
                f"no node offers it, and pods name {only_asked} such resources already, of "
                f"{MOST_ASKED} that may be; ask for what nodes offer, or delete what asks for "
                "the others",
            )
        if len(names) + len(new) > MOST_RESOURCES:
            raise InvalidInput(
                field_,
                new[0],
                f"{len(names)} resources have names, and no more than {MOST_RESOURCES} may; "
                "leave it out, or delete the nodes, queues and jobs that name others",
            )
        free = [slot for slot, name in enumerate(self._base.slots.names) if name == FREE]
        for name in new:
            count = len(self._new_slots)
            last = len(self._base.slots) + count - len(free)
            self._new_slots[name] = free[count] if count < len(free) else last

    def _known_slot(self, name: str) -> int:
        slot = self._base.slots.find(name)
        if slot is None:
            return self._new_slots.get(name, -1)
        self._base.doubtful.discard(name)
        return slot

    def class_of(self, template: PodTemplate, *, protected: bool = False) -> int:
        """The number of a template's task class, old or new. ``protected``: see kai_charges."""
        cid = self.templates.get((template, protected))
        if cid is None:
            requests = self.requests(template.requests, "resources.requests", offers=False)
            cls = self._class(template, requests)
            cid = self._number(self._charged(cls, self._charges(cls, protected=protected)))
            # Not remembered where the class is missing: once somebody creates it, the same template
            # means another task class.
            # Nor where it is large: so the cache has a bound in bytes.
            known = not template.priority_class or template.priority_class in self.priority_classes
            if known and footprint(template) <= _TEMPLATE_BYTES:
                self.templates[template, protected] = cid
        elif self._base.doubtful:
            self._base.doubtful.difference_update(name for name, _ in template.requests)
            self._base.doubtful.difference_update(QUEUE_SLOTS)
        return cid

    def find_class(self, template: PodTemplate, *, protected: bool = False) -> int | None:
        """The number of a template's task class; None where no accepted object has it."""
        cid = self.templates.get((template, protected))
        if cid is None:
            cls = self._class(template, self._known(template.requests))
            charges = self._known(self._charges(cls, protected=protected))
            cid = self.classes.get(replace(cls, charges=charges) if charges else cls)
        return cid

    def requests_of(self, cid: int) -> Amounts:
        """The requests of a class by name. Costs a pass over all classes."""
        names = {slot: name for name, slot in self._new_slots.items()}
        names |= dict(enumerate(self._base.slots.names))
        requests = next(cls.requests for cls, number in self.classes.items() if number == cid)
        return tuple((names[slot], n) for slot, n in requests if slot != PODS)

    def recharged(self, cids: Collection[int], *, protected: bool) -> dict[int, int]:
        """Classes -> those of the same tasks where they may, or may not, be evicted. Costs a pass
        over all classes."""
        classes = {cid: cls for cls, cid in self.classes.items() if cid in cids}
        return {
            cid: self._number(self._charged(cls, self._charges(cls, protected=protected)))
            for cid, cls in classes.items()
        }

    def _number(self, cls: TaskClass) -> int:
        """The number of a task class, a new one where there is none."""
        cid = self.classes.get(cls)
        if cid is None:
            cid = self.classes[cls] = self.next_cid
            self.next_cid += 1
            if cls.best_effort:
                self._best_effort.add(cid)
        return cid

    def _charges(self, cls: TaskClass, *, protected: bool) -> Amounts:
        """Amounts that queues count of a task beside its requests, by the rules of the dialect."""
        if self._base.dialect is not Dialect.KAI:
            return ()
        return kai_charges(cls, self._all_slots().names, protected=protected)

    def _charged(self, cls: TaskClass, charges: Amounts) -> TaskClass:
        slots = self.requests(charges, "resources.requests", offers=True)
        return cls if slots == cls.charges else replace(cls, charges=slots)

    def _known(self, amounts: Amounts) -> Requests:
        """Amounts by slot, -1 for names that have none; nothing is assigned."""
        return tuple(sorted((self._known_slot(name), n) for name, n in amounts))

    @property
    def images(self) -> bool:
        return self._base.images

    def _class(self, template: PodTemplate, requests: Requests) -> TaskClass:
        """The task class of a template. Tolerations are sorted, because their order has no
        effect."""
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
            things=template.things,
            gpu_share=template.gpu_share,
        )

    def _preempts(self, template: PodTemplate) -> bool:
        """Whether the pod may preempt: its own ``preemptionPolicy`` wins over its priority
        class's."""
        if template.preempts is not None or not template.priority_class:
            return template.preempts is not False
        priority_class = self.priority_classes.get(template.priority_class)
        return priority_class is None or priority_class.preempts

    def new_jid(self) -> int:
        jid = self.next_jid
        self.next_jid += 1
        return jid

    def job(self, jid: int) -> Job:
        """The job with this number, which must exist."""
        job = self.jobs.get(jid)
        if job is None:
            raise KeyError(f"job {jid}")
        return job

    def leaving(self, jid: int) -> Job | None:
        """A job that was stopped (deleted, or ended by a policy) and is not purged yet."""
        return self._base.leaving.get(jid)

    def present_jobs(self) -> Iterator[Job]:
        """All jobs, the stopped ones that are not purged included. Costs a pass over all jobs."""
        yield from self.jobs.values()
        yield from self._base.leaving.values()

    def document(self, key: Key) -> Document | None:
        """The stored document, as it was before this list."""
        return self._base.documents.get(key)

    def job_named(self, key: str) -> Job | None:
        """The Job ``namespace/name``; one that is being deleted counts too."""
        jid = self.batch_jobs.get(key)
        return None if jid is None else self.jobs.get(jid) or self._base.leaving.get(jid)

    @property
    def known_pods(self) -> Mapping[str, int]:
        """Submitted pods of before this list: ``namespace/name`` -> packed task."""
        return self._base.pods

    def has_jobs(self) -> bool:
        """Whether any Job exists, so that there are pods which nobody submitted."""
        return bool(self.batch_jobs.changed or self._base.batch_jobs)

    def pod(self, key: str) -> int:
        """The packed task of a pod that must exist."""
        task = self.pods.get(key)
        if task is None:
            raise KeyError(f"pod {key}")
        return task

    def deleting(self, task: int) -> bool:
        """Whether this pod, or its job, is being deleted."""
        return task in self._base.deleting or unpack_task(task)[0] in self._base.leaving

    def qid(self, queue: str) -> int:
        record = self.queues.get(queue)
        return NO_QUEUE if record is None else record.qid

    def best_effort(self, cid: int) -> bool:
        """Whether the class requests nothing but a pod slot of the node (best effort)."""
        return cid in self._base.best_effort or cid in self._best_effort

    def waiting_for(self, queue: str) -> set[int]:
        """The jobs whose queue, of this name, does not exist yet."""
        return self._base.queueless.get(queue, set())

    def hold(self, jid: int, group: int, count: int) -> None:
        """Count new best-effort members of a group: they are present while they are pending."""
        of_job = self.held.setdefault(jid, {})
        of_job[group] = of_job.get(group, 0) + count

    def gone_node(self, name: str) -> Node | None:
        """The deleted node of this name, if there was one."""
        return self._base.gone_nodes.get(name)

    # --- the end ------------------------------------------------------------------------------

    def operations(self) -> Steps[list[IntakeOp]]:
        """The operations that the ledger must store; each comes after those that it refers to."""
        ops: list[IntakeOp] = []
        if self._new_slots:
            ops.append(PutObject(SLOTS_KEY, encode_slots(self._all_slots())))
        for cls, cid in self.classes.changed.items():
            yield
            ops.append(put_class(cid, cls))
        ops += [
            PutObject(PRIORITY_CLASS_KEY + name, encode_priority_class(priority))
            for name, priority in self.priority_classes.changed.items()
        ]
        ops += [
            PutObject(HYPER_NODE_KEY + name, encode_hyper_node(hyper))
            for name, hyper in self.hyper_nodes.changed.items()
        ]
        for key, value in self.objects.changed.items():
            yield
            ops.append(PutObject(key, encode_object(value)))
        for queue in self._parents_first():
            capability = None if queue.capability is None else list(queue.capability)
            guarantee, spec = list(queue.guarantee), encode_queue(queue)
            ops.append(PutQueue(queue.qid, queue.parent, capability, spec, guarantee))
        names = self._all_slots().names if self.nodes.changed else []
        for name, node in self.nodes.changed.items():
            yield
            if name in self._base.gone_nodes:
                ops.append(PutObject(GONE_NODE_KEY + name, None))
            allocatable = list(node.allocatable)
            things = declared(node, names, before=self._base.nodes.get(name))
            ops.append(PutNode(node.row, allocatable, node.spec, encode_node(node), things))
        for job in self.jobs.changed.values():
            yield
            ops.append(self._put_job(job))
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
        groups = list(job.groups)
        for group, count in (self.held.get(job.jid) or {}).items():
            add_held(groups, group, count)
        if len(groups) > 1 and self._base.dialect is Dialect.KAI:
            kai_group = self.objects.get(OBJECT_KEYS[KaiPodGroup] + job.kai_group)
            groups = stored_groups(job, groups, kai_group)
        return PutJob(job.jid, self.qid(job.queue), job.spec, groups, encode_job(job))

    def _all_slots(self) -> Slots:
        slots = Slots(self._base.slots.names)
        for name in self._new_slots:
            slots.intern(name)
        return slots

    def keep(self) -> None:
        """Apply the draft to the registry."""
        base = self._base
        if self._new_slots:
            base.add_slots(self._new_slots)
        base.offered.update(self._offered)
        base.best_effort.update(self._best_effort)
        # A cache: what it loses is looked up by the class itself.
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
            self.inert,
            self.tree_nodes,
            self.tree_children,
        ):
            overlay.keep()
        for jid, job in self.jobs.changed.items():
            if job.queue not in base.queues:
                base.wait_for_queue(job.queue, jid)
        for name in self.queues.changed:
            base.queueless.pop(name, None)
        for name in self.nodes.changed:
            base.gone_nodes.pop(name, None)
        base.next_row, base.next_qid, base.next_jid = self.next_row, self.next_qid, self.next_jid
        base.next_cid = self.next_cid
