"""Intake: from submitted objects to the operations that make them durable.

No I/O and no clock. :meth:`Intake.admit` judges each object of a list alone, in an order in which
references come first (classes of priority, queues, nodes, PodGroups, then Jobs and Pods), whatever
their order in the list. What it returns must become durable before anything else is done with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator.admission.cluster import admit_hyper_node, admit_node, admit_priority_class
from coordinator.admission.gangs import admit_job, admit_pod_group
from coordinator.admission.members import without
from coordinator.admission.pods import admit_pod, join_members
from coordinator.admission.queues import admit_queues
from coordinator.admission.registry import Draft, Registry, pack_task, unpack_task
from coordinator.admission.step import Notice, Placed, Step, key_of, kind_of
from shared.errors import InvalidInput, Refusal
from shared.ledger.protocol import DropJob, DropNode, IntakeOp, PutObject, Snapshot
from shared.manifests import (
    JobManifest,
    NodeManifest,
    PodGroupManifest,
    PodManifest,
    QueueManifest,
    parse,
)
from shared.model import HyperNode, Job, Node, PriorityClass, Queue, TaskClass
from shared.specs import (
    HYPER_NODE_KEY,
    PRIORITY_CLASS_KEY,
    SLOTS_KEY,
    decode_class,
    decode_hyper_node,
    decode_job,
    decode_node,
    decode_priority_class,
    decode_queue,
    decode_slots,
)

__all__ = ["Admission", "Intake", "Notice", "Placed"]

_JUDGES: dict[type, Callable[[Step, Any], None]] = {
    PriorityClass: admit_priority_class,
    HyperNode: admit_hyper_node,
    NodeManifest: admit_node,
    PodGroupManifest: admit_pod_group,
    JobManifest: admit_job,
    PodManifest: admit_pod,
}
"""In the order of judging; queues, whose order among themselves matters, come before nodes."""
_NAMESPACED = {"Pod", "PodGroup", "Job"}


@dataclass(slots=True)
class Admission:
    """What came of a list. ``ops`` make the rest durable; the other fields are for Order."""

    ops: list[IntakeOp] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    nodes_gone: list[int] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    hyper_nodes: list[HyperNode] = field(default_factory=list)
    hyper_nodes_gone: list[str] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    """New or changed."""
    jobs_gone: list[int] = field(default_factory=list)
    tasks_gone: list[tuple[int, int]] = field(default_factory=list)
    """Deleted members (jid, tix) of jobs that stay: to be recorded as FAILED, and stopped."""
    classes: dict[int, TaskClass] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    accepted: int = 0
    """Objects taken, the unchanged ones among them."""
    unchanged: int = 0
    placed: list[Placed] = field(default_factory=list)
    """Pods that were submitted as already bound (``Intake(observe=True)`` only)."""


class Intake:
    """The names that are taken, and the next numbers. ``observe`` also takes what a running cluster
    shows: pods that have a node, and creation times as written (``replay``)."""

    def __init__(self, *, observe: bool = False) -> None:
        self.registry = Registry()
        self._observe = observe

    def admit(self, items: Sequence[object], now: float, *, atomic: bool = False) -> Admission:
        """Take a list of objects. With ``atomic`` one refusal refuses the whole list.

        The queue ``default`` is created with the first list, also with an empty one.
        """
        out = Admission()
        manifests = self._parse(items, out)
        draft = Draft(self.registry)
        step = Step(draft, now, self._observe)
        for kind, judge in _JUDGES.items():
            _each(step, judge, manifests.get(kind, ()))
            if kind is PriorityClass:
                admit_queues(step, manifests.get(QueueManifest, ()))
        join_members(step)
        out.refused += step.refused
        if atomic and out.refused:
            return Admission(refused=out.refused)
        out.accepted = len(items) - len(out.refused)
        out.unchanged = step.unchanged
        out.notices = list(step.notices.values())
        out.placed = step.placed
        self._collect(draft, out)
        draft.keep()
        return out

    def _parse(self, items: Sequence[object], out: Admission) -> dict[type, list[Any]]:
        manifests: dict[type, list[Any]] = {}
        for item in items:
            manifest = parse(item)
            if isinstance(manifest, Refusal):
                out.refused.append(manifest)
            else:
                manifests.setdefault(type(manifest), []).append(manifest)
        return manifests

    def _collect(self, draft: Draft, out: Admission) -> None:
        out.ops += draft.operations()
        out.classes = {cid: cls for cls, cid in draft.classes.changed.items()}
        out.nodes = list(draft.nodes.changed.values())
        out.queues = list(draft.queues.changed.values())
        out.hyper_nodes = list(draft.hyper_nodes.changed.values())
        out.jobs = list(draft.jobs.changed.values())

    # --- deletion -----------------------------------------------------------------------------

    def remove(self, kind: str, namespace: str, name: str) -> Admission:
        """Delete one object. What is unknown, and a Queue, is refused.

        A PodGroup or Job goes with all its members; deleting a member of a PodGroup alone leaves
        the rest (``tasks_gone``).
        """
        key = f"{namespace}/{name}" if kind in _NAMESPACED else name
        match kind:
            case "Node" if key in self.registry.nodes:
                row = self.registry.nodes.pop(key).row
                return Admission(ops=[DropNode(row)], nodes_gone=[row], accepted=1)
            case "HyperNode" if key in self.registry.hyper_nodes:
                del self.registry.hyper_nodes[key]
                gone = PutObject(HYPER_NODE_KEY + key, None)
                return Admission(ops=[gone], hyper_nodes_gone=[key], accepted=1)
            case "PriorityClass" if key in self.registry.priority_classes:
                del self.registry.priority_classes[key]
                return Admission(ops=[PutObject(PRIORITY_CLASS_KEY + key, None)], accepted=1)
            case "PodGroup" if key in self.registry.groups:
                return self._drop_job(self.registry.groups[key])
            case "Job" if key in self.registry.batch_jobs:
                return self._drop_job(self.registry.batch_jobs[key])
            case "Pod" if key in self.registry.pods:
                return self._drop_pod(*unpack_task(self.registry.pods[key]))
            case "Queue":
                message = "deleting a queue is not in this version; close it by status.state Closed"
                return Admission(refused=[Refusal(kind, key, "", "", message)])
            case _:
                pass
        return Admission(
            refused=[Refusal(kind, key, "", "", "not found; check kind, namespace and name")]
        )

    def _drop_job(self, jid: int) -> Admission:
        self.forget(jid)
        return Admission(ops=[DropJob(jid)], jobs_gone=[jid], accepted=1)

    def _drop_pod(self, jid: int, tix: int) -> Admission:
        job = self.registry.jobs[jid]
        if job.kind == "Pod":
            return self._drop_job(jid)
        draft = Draft(self.registry)
        if draft.best_effort(job.role_of(tix).cid):
            # The ledger counts such a member as present, and has no way to take it back.
            message = "deleting one pod of a PodGroup that asks for nothing is not in this version"
            error = Refusal("Pod", job.pod_name(tix), "", "", f"{message}; delete its PodGroup")
            return Admission(refused=[error])
        del self.registry.pods[f"{job.namespace}/{job.pod_name(tix)}"]
        job = self.registry.jobs[jid] = without(job, tix)
        draft.jobs[jid] = job
        return Admission(ops=draft.operations(), jobs=[job], tasks_gone=[(jid, tix)], accepted=1)

    def forget(self, jid: int) -> None:
        """Free the names of a job that is gone; its number is not given again."""
        job = self.registry.jobs.pop(jid, None)
        if job is None:
            return
        names = {"PodGroup": self.registry.groups, "Job": self.registry.batch_jobs}
        names.get(job.kind, {}).pop(job.key, None)
        for role in job.roles:
            for name in role.names:
                self.registry.pods.pop(f"{job.namespace}/{name}", None)
        self.registry.queueless.get(job.queue, set()).discard(jid)

    # --- recovery -----------------------------------------------------------------------------

    def restore(self, snapshot: Snapshot) -> list[HyperNode]:
        """Know what the ledger holds, and nothing else. Returns the hyper nodes, for Order."""
        new = self.registry = Registry()
        self._restore_objects(snapshot)
        new.classes = {decode_class(spec): cid for cid, spec in sorted(snapshot.classes.items())}
        new.best_effort = {cid for cls, cid in new.classes.items() if cls.best_effort}
        new.nodes = {node.name: node for node in map(decode_node, snapshot.node_specs.values())}
        new.queues = {
            queue.name: queue for queue in map(decode_queue, snapshot.queue_specs.values())
        }
        for jid, spec in sorted(snapshot.job_specs.items()):
            record = snapshot.jobs.get(jid)
            if record is not None and not record.gone:
                self._restore_job(decode_job(spec))
        new.next_row = 1 + max([*snapshot.nodes.rows, *snapshot.node_specs], default=-1)
        new.next_qid = 1 + max(snapshot.queue_specs, default=-1)
        new.next_jid = 1 + max([*snapshot.jobs, *snapshot.job_specs], default=-1)
        return list(new.hyper_nodes.values())

    def _restore_objects(self, snapshot: Snapshot) -> None:
        for key, spec in snapshot.objects.items():
            if key == SLOTS_KEY:
                self.registry.slots = decode_slots(spec)
            elif key.startswith(HYPER_NODE_KEY):
                hyper = decode_hyper_node(spec)
                self.registry.hyper_nodes[hyper.name] = hyper
            elif key.startswith(PRIORITY_CLASS_KEY):
                priority = decode_priority_class(spec)
                self.registry.priority_classes[priority.name] = priority

    def _restore_job(self, job: Job) -> None:
        new = self.registry
        new.jobs[job.jid] = job
        if job.kind == "PodGroup":
            new.groups[job.key] = job.jid
        elif job.kind == "Job":
            new.batch_jobs[job.key] = job.jid
        for role in job.roles:
            for i, name in enumerate(role.names):
                if name:
                    new.pods[f"{job.namespace}/{name}"] = pack_task(job.jid, role.first + i)
        if job.queue not in new.queues:
            new.queueless.setdefault(job.queue, set()).add(job.jid)


def _each(step: Step, judge: Callable[[Step, Any], None], manifests: Iterable[Any]) -> None:
    for manifest in manifests:
        try:
            judge(step, manifest)
        except InvalidInput as error:
            step.refused.append(error.refusal(kind_of(manifest), key_of(manifest)))
