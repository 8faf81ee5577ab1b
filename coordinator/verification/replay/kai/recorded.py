"""A recorded cluster of KAI's objects: what the engine numbers of it, and KAI's own records."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.intake.admission.queues import DEFAULT
from coordinator.verification.replay.kai.gpu_groups import (
    RecordedDevices,
    key_of,
    label_of,
    recorded_devices,
    request_of_annotations,
)
from coordinator.verification.replay.kai.scenario import Json
from coordinator.verification.replay.recorded import Recorded, RecordError, read_recorded
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shared.errors import InvalidInput
from shared.manifests.kai.groups import pod_group_of, read_kai_pod_group
from shared.manifests.kai.queues import read_kai_queue, read_kai_topology
from shared.model.named_devices import ASSIGNED_DEVICES, DEVICES, written_devices
from shared.model.node_pool import NodePool
from shared.units.times import moment

ENGINE_GROUP = "scheduling.k8s.io/group-name"


@dataclass(frozen=True, slots=True)
class KaiRecorded:
    """``recorded``: with KAI's records among its objects."""

    recorded: Recorded
    pods: Mapping[str, Json]
    """By ``namespace/name``, as they were recorded."""
    devices: RecordedDevices
    stuck: frozenset[str]
    """Pods that have been leaving for longer than the policy waits."""

    def group_labels(self, task: TaskInfo, session: KaiSession) -> list[str]:
        """The names of the shared devices that a task takes, as its pod's labels have them."""
        if request_of_annotations(dict(task.role.annotations)) is None:
            return []
        node = session.world.node(task.row).name
        return [self.devices.labels.get((node, name), label_of(name)) for name, _ in task.devices]

    def group_of(self, pod: Json) -> str:
        """The PodGroup of a pod (``namespace/name``), "" for none."""
        metadata = pod["metadata"]
        name = pod_group_of(metadata.get("annotations") or {})
        return f"{metadata.get('namespace', 'default')}/{name}" if name else ""


def read_kai_recorded(
    items: Sequence[Json], now: float, *, patience: float, pool: NodePool | None
) -> KaiRecorded:
    """Number the objects, in any order. ``patience``: seconds that a pod may be leaving until its
    room is promised to nobody any more. ``pool``: the objects that exist; of pods outside of it
    only what they use. Raises RecordError if an object is refused."""
    items = [item for item in items if pool is None or _is_in(pool, item)]
    foreign = {key_of(item) for item in items if pool and _is_alone_outside(pool, item)}
    devices = recorded_devices(items)
    queues = {item["metadata"]["name"] for item in items if item["kind"] == "Queue"}
    recorded = read_recorded(
        [_for_engine(item, devices, queues) for item in items if item["kind"] != "Topology"],
        now,
        foreign=foreign,
    )
    objects = recorded.objects
    for item in items:
        try:
            match item["kind"]:
                case "Queue":
                    queue = read_kai_queue(item)
                    objects.kai_queues[queue.name] = queue
                case "PodGroup":
                    group = read_kai_pod_group(item)
                    objects.kai_groups[group.key] = group
                case "Topology":
                    topology = read_kai_topology(item)
                    objects.kai_topologies[topology.name] = topology
                case _:
                    pass
        except InvalidInput as error:
            raise RecordError(f"{item['kind']} {item['metadata'].get('name')}: {error}") from None
    pods = {
        f"{item['metadata'].get('namespace', 'default')}/{item['metadata']['name']}": item
        for item in items
        if item["kind"] == "Pod"
    }
    stuck = frozenset(key for key, pod in pods.items() if _is_stuck(pod, now, patience))
    for standing in recorded.standings:
        job = standing.job
        standing.stuck |= {
            tix
            for tix, state in standing.states.items()
            if state is Status.RELEASING and f"{job.namespace}/{job.pod_name(tix)}" in stuck
        }
    return KaiRecorded(recorded, pods, devices, stuck)


def _is_in(pool: NodePool, item: Json) -> bool:
    """Whether a node, queue or PodGroup is in the pool. Pods are where their group is: those of a
    group that is left out only use their nodes."""
    labelled = item["kind"] in ("Node", "Queue", "PodGroup")
    return not labelled or pool.has(item["metadata"].get("labels") or {})


def _is_alone_outside(pool: NodePool, item: Json) -> bool:
    """Whether a pod without a PodGroup is another pool's."""
    metadata = item["metadata"]
    alone = item["kind"] == "Pod" and not pod_group_of(metadata.get("annotations") or {})
    return alone and not pool.has(metadata.get("labels") or {})


def _is_stuck(pod: Json, now: float, patience: float) -> bool:
    deleted = pod["metadata"].get("deletionTimestamp")
    return deleted is not None and now - moment(deleted) > patience


def _for_engine(item: Json, devices: RecordedDevices, queues: Container[str]) -> Mapping[str, Any]:
    """The object as the engine's intake reads it: kinds that it has not are those it has. A group
    of a queue that is not there stands in the engine's own: KAI's rules do not find it in a leaf,
    and let it wait."""
    match item["kind"]:
        case "Queue":
            name = item["metadata"]["name"]
            return {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {},
            }
        case "PodGroup":
            spec = item.get("spec") or {}
            queue = spec.get("queue", DEFAULT)
            return {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": item["metadata"],
                "spec": {
                    "minMember": 0,
                    "queue": queue if queue in queues else DEFAULT,
                    "priorityClassName": spec.get("priorityClassName") or "train",
                },
            }
        case "Pod":
            metadata = item["metadata"]
            marks = dict(metadata.get("annotations") or {})
            if name := pod_group_of(marks):
                marks[ENGINE_GROUP] = name
            if taken := devices.taken.get(key_of(item)):
                marks[ASSIGNED_DEVICES] = written_devices(taken)
            return {**item, "metadata": {**metadata, "annotations": marks}}
        case "Node":
            metadata = item["metadata"]
            offered = devices.offered.get(metadata["name"], ())
            marks = dict(metadata.get("annotations") or {})
            if offered:
                marks[DEVICES] = written_devices(offered)
            return {**item, "metadata": {**metadata, "annotations": marks}}
        case _:
            return item
