"""A recorded cluster of KAI's objects: what the engine numbers of it, and KAI's own records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from laboratory.replay.kai.gpu_groups import (
    RecordedDevices,
    key_of,
    label_of,
    recorded_devices,
    request_of_annotations,
)
from laboratory.replay.kai.scenario import Json
from laboratory.replay.recorded import Recorded, read_recorded
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shared.manifests.kai.groups import pod_group_of
from shared.model.named_devices import ASSIGNED_DEVICES, DEVICES, written_devices
from shared.model.node_pool import NodePool, node_pool_of
from shared.policy.kai_model import KaiPolicy
from shared.policy.model import Dialect, Policy
from shared.units.things import Things
from shared.units.times import moment


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
    items: Sequence[Json],
    now: float,
    *,
    policy: Policy,
    foreign: Set[str] = frozenset(),
) -> KaiRecorded:
    """Number the objects, in any order, as a service of the policy admits them. ``foreign``: pods
    (``namespace/name``) that only use their nodes. Objects that are refused are left out."""
    options = (policy.kai or KaiPolicy()).options
    devices = recorded_devices(items)
    recorded = read_recorded(
        [_with_devices(item, devices) for item in items],
        now,
        foreign=foreign,
        dialect=Dialect.KAI,
        flat=not options.full_hierarchy_fairness,
    )
    pods = {key_of(item): item for item in items if item["kind"] == "Pod"}
    patience = options.stuck_in_releasing_threshold
    stuck = frozenset(key for key, pod in pods.items() if _is_stuck(pod, now, patience))
    for placed_job in recorded.placed_jobs:
        job = placed_job.job
        placed_job.stuck |= {
            tix
            for tix, state in placed_job.states.items()
            if state is Status.RELEASING and f"{job.namespace}/{job.pod_name(tix)}" in stuck
        }
    return KaiRecorded(recorded, pods, devices, stuck)


def within_pool(items: Sequence[Json], policy: Policy) -> tuple[list[Json], set[str]]:
    """(objects that exist in the policy's node pool, pods of others among them that only use their
    nodes). A service makes this choice itself."""
    pool = node_pool_of(policy)
    if pool is None:
        return list(items), set()
    inside = [item for item in items if _is_in(pool, item)]
    return inside, {key_of(item) for item in inside if _is_alone_outside(pool, item)}


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


def _with_devices(item: Json, devices: RecordedDevices) -> Json:
    """A node with its devices, a pod with those that it is on, as the service has them."""
    match item["kind"]:
        case "Pod":
            return _marked(item, ASSIGNED_DEVICES, devices.taken.get(key_of(item), ()))
        case "Node":
            return _marked(item, DEVICES, devices.offered.get(item["metadata"]["name"], ()))
        case _:
            return item


def _marked(item: Json, mark: str, things: Things) -> Json:
    if not things:
        return item
    metadata = item["metadata"]
    marks = {**(metadata.get("annotations") or {}), mark: written_devices(things)}
    return {**item, "metadata": {**metadata, "annotations": marks}}
