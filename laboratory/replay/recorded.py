"""A recorded cluster: numbered Kubernetes objects and the state of each pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from coordinator.intake.admission.queues import DEFAULT, ROOT
from coordinator.intake.admission.result import Admission
from coordinator.intake.admission.step import PlacedPod
from coordinator.intake.intake import Intake
from laboratory.replay.left_out import Json, without_refused
from shard_worker.session_model.full_world import PlacedJob
from shard_worker.session_model.status import Status
from shard_worker.view.known_objects import KnownObjects
from shared.codec.packed import replace
from shared.errors import Refusal
from shared.ledger.entries.intake_batch import PutObject
from shared.manifests.parse import parse
from shared.model.model import Job, Node, PriorityClass, Queue, TaskClass
from shared.model.node_devices import assigned_devices
from shared.model.objects import ClusterObjects
from shared.model.topology import HyperNode
from shared.policy.model import Dialect

_BY_PHASE = {
    "Running": Status.RUNNING,
    "Succeeded": Status.SUCCEEDED,
    "Failed": Status.FAILED,
    "Unknown": Status.UNKNOWN,
}
_ENDED = Status.SUCCEEDED | Status.FAILED


class RecordError(ValueError):
    """The record cannot be replayed; the message has the object, field and remedy."""


@dataclass(slots=True)
class Recorded:
    """The objects, numbered as by intake."""

    admission: Admission
    nodes: list[Node]
    queues: list[Queue]
    classes: dict[int, TaskClass]
    placed_jobs: list[PlacedJob]
    """The state of every job, in order of jid."""
    hyper_nodes: list[HyperNode]
    priority_classes: dict[str, PriorityClass]
    objects: ClusterObjects = field(default_factory=ClusterObjects)
    left_out: list[str] = field(default_factory=list)
    """One line for each object that is not read."""

    @property
    def rows(self) -> dict[str, int]:
        return {node.name: node.row for node in self.nodes}


def read_recorded(
    items: Sequence[Json],
    now: float = 0.0,
    *,
    foreign: Set[str] = frozenset(),
    dialect: Dialect = Dialect.VOLCANO,
    flat: bool = False,
) -> Recorded:
    """Number the objects, in any order. ``now``: creation time of objects without one; ``foreign``:
    pods (``namespace/name``) that only use their nodes; ``dialect``, ``flat``: of the policy, see
    :class:`Intake`. Objects that are refused are left out; raises RecordError for one without a
    name that says which it is.
    """
    items, stray = without_stray(items)
    left_out: list[str] = []
    while True:
        intake = Intake(observe=True, dialect=dialect, flat=flat)
        admission = intake.admit(items, now)
        if not admission.refused:
            break
        # Begun anew, because what is left out may be what others refer to; each round has fewer
        # objects that can be refused.
        items, unread, lines = without_refused(items, admission.refused)
        if not lines:
            raise RecordError("\n".join(map(str, admission.refused)))
        foreign, left_out = foreign | unread, left_out + lines
    registry = intake.registry
    recorded = Recorded(
        admission=admission,
        nodes=sorted(admission.nodes, key=lambda node: node.row),
        queues=[
            replace(queue, parent=NOWHERE) if queue.name in stray else queue
            for queue in admission.queues
        ],
        classes=admission.classes,
        placed_jobs=[],
        hyper_nodes=list(admission.hyper_nodes),
        priority_classes=dict(registry.priority_classes),
        left_out=left_out,
    )
    known_objects = KnownObjects()
    for op in admission.ops:
        if isinstance(op, PutObject):
            known_objects.put(op.key, op.spec)
    recorded.objects = known_objects.objects
    recorded.placed_jobs = _placed_jobs(admission.jobs, admission.placed, recorded.nodes)
    for placed_job in recorded.placed_jobs:
        job = placed_job.job
        placed_job.foreign = job.dangling or (job.kind == "Pod" and job.key in foreign)
    return recorded


def readable(items: Iterable[Json]) -> tuple[list[Json], set[str], list[str]]:
    """The objects that can be read by themselves, before anybody looks into them: as
    :func:`without_refused`."""
    items = list(items)
    refused = [read for read in map(parse, items) if isinstance(read, Refusal)]
    return without_refused(items, refused) if refused else (items, set(), [])


def _placed_jobs(
    jobs: Iterable[Job], placed: Iterable[PlacedPod], nodes: Iterable[Node]
) -> list[PlacedJob]:
    by_name = {node.name: node for node in nodes}
    by_jid = {job.jid: PlacedJob(job) for job in sorted(jobs, key=lambda job: job.jid)}
    for pod in placed:
        placed_job, status = by_jid[pod.jid], pod.status
        placed_job.states[pod.tix] = state = _status(pod)
        if pod.node in by_name and not state & _ENDED:
            node, role = by_name[pod.node], placed_job.job.role_of(pod.tix)
            placed_job.rows[pod.tix] = node.row
            if devices := assigned_devices(node, dict(role.annotations)):
                placed_job.devices[pod.tix] = devices
        if status.nominated in by_name:
            placed_job.nominated[pod.tix] = by_name[status.nominated].row
        if status.started is not None:
            placed_job.started[pod.tix] = status.started
    return list(by_jid.values())


def _status(pod: PlacedPod) -> Status:
    """The pod's state in Volcano's terms."""
    if pod.phase in _BY_PHASE:
        running = pod.phase == "Running"
        return Status.RELEASING if running and pod.deleting else _BY_PHASE[pod.phase]
    if pod.deleting:
        return Status.RELEASING
    return Status.BOUND if pod.node else Status.PENDING


NOWHERE = 1 << 30
"""The qid of a parent that does not exist."""


def without_stray(items: Sequence[Json]) -> tuple[Sequence[Json], frozenset[str]]:
    """(objects, with queues of an invalid parent stripped of it; the names of these queues).

    Invalid is the queue itself, a missing one, or a descendant. Intake refuses such queues, but a
    recorded cluster may have them. Then no queue of a tree gets anything, while plugins without a
    tree ignore parents."""
    queues = [item for item in items if item.get("kind") == "Queue"]
    stray = _stray({name: parent for name, parent in map(_parentage, queues) if name})
    if not stray:
        return items, stray
    return [_orphaned(item) if _is_one(item, stray) else item for item in items], stray


def _stray(parents: Mapping[str, str]) -> frozenset[str]:
    """Queues whose chain of parents does not reach the root."""
    return frozenset(name for name in parents if not _reaches_root(name, parents))


def _reaches_root(name: str, parents: Mapping[str, str]) -> bool:
    visited: set[str] = set()
    while name not in ("", ROOT):
        if name not in parents:
            return name == DEFAULT
        if name in visited:
            return False
        visited.add(name)
        name = parents[name]
    return True


def _parentage(queue: Json) -> tuple[str, str]:
    """(name, parent); "" for missing or malformed values."""
    parts = (queue.get("metadata"), "name"), (queue.get("spec"), "parent")
    name, parent = (part.get(key) if isinstance(part, Mapping) else None for part, key in parts)
    return (name if isinstance(name, str) else "", parent if isinstance(parent, str) else "")


def _is_one(item: Json, stray: Iterable[str]) -> bool:
    return item.get("kind") == "Queue" and _parentage(item)[0] in stray


def _orphaned(queue: Json) -> Json:
    return {**queue, "spec": {k: v for k, v in queue["spec"].items() if k != "parent"}}
