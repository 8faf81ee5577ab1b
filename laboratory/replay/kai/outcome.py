"""A state of a KAI scenario as JSON: tasks, PodGroups and nodes in KAI's words."""

from __future__ import annotations

from typing import Any

from laboratory.replay.kai.rounds import ComparedState, Round
from laboratory.replay.kai.scenario import Json
from shard_worker.dialects.kai.devices import device_columns, gpu_slots, request_of
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import COMPLETED, OCCUPYING, Status
from shared.manifests.kai.groups import pod_group_of
from shared.model.gpu_request import ONE
from shared.units.slots import CPU, MEMORY
from shared.units.times import rfc3339


def as_json(name: str, observed: ComparedState) -> dict[str, Any]:
    """One line of ``quadrant replay``."""
    played = observed.round
    tasks = {task.key: task for task in played.session.world.tasks()}
    return {
        "id": name,
        "kind": observed.kind,
        "tasks": {key: task_json(played, pod, tasks.get(key)) for key, pod in pods_of(played)},
        "podGroups": {
            group.key: {"lastStart": _last_start(played, group.key), "message": ""}
            for group in played.session.world.objects.kai_groups.values()
        },
        "nodes": nodes_json(played),
        "rounds": [counts.as_json() for counts in observed.counts],
    }


def pods_of(played: Round) -> list[tuple[str, Json]]:
    """The pods of PodGroups, by ``namespace/name``."""
    return [
        (key, pod)
        for key, pod in played.recorded.pods.items()
        if pod_group_of(pod["metadata"].get("annotations") or {})
    ]


def task_json(played: Round, pod: Json, task: TaskInfo | None) -> dict[str, Any]:
    """One task. A task that the session does not know is as it was recorded."""
    if task is None:
        return {
            "status": pod["status"].get("phase", "Pending"),
            "node": pod["spec"].get("nodeName", ""),
            "gpuGroups": [],
            "requestedGpus": 0,
            "acceptedGpus": 0,
            "requestedMilliCpu": 0,
            "requestedMemory": 0,
        }
    requests = dict(task.requests)
    request = request_of(task, played.session.world.view.slot_names)
    requested = 0 if request is None else request.part * request.devices / ONE
    used = played.session.asked_by([task]).gpu / ONE if task.devices else 0
    placed = task.row >= 0 and bool(task.status & (OCCUPYING | Status.PIPELINED | Status.RELEASING))
    ended, was_on = bool(task.status & COMPLETED), pod["spec"].get("nodeName", "")
    return {
        "status": _status(task, stuck=task.key in played.recorded.stuck),
        "node": played.session.world.node(task.row).name if placed else was_on if ended else "",
        "gpuGroups": played.recorded.group_labels(task, played.session) if placed else [],
        "requestedGpus": requested,
        "acceptedGpus": used or requested if placed else 0,
        "requestedMilliCpu": requests.get(CPU, 0),
        "requestedMemory": requests.get(MEMORY, 0),
    }


def _status(task: TaskInfo, *, stuck: bool) -> str:
    """KAI's word for the state of a task."""
    if stuck and task.status is Status.RELEASING:
        return "StuckInReleasing"
    return (task.status.name or "").title()


def _last_start(played: Round, key: str) -> str | None:
    session = played.session
    group = session.world.objects.kai_groups[key]
    started = {session.kai_jobs[jid].key: at for jid, at in session.started.items()}
    at = started.get(key, group.last_start)
    return None if at is None else rfc3339(at)


def nodes_json(played: Round) -> dict[str, dict[str, float]]:
    """Whole devices that are free, and about to be."""
    world = played.session.world
    slots, columns = gpu_slots(world), device_columns(world)
    declared = columns.declared
    nodes: dict[str, dict[str, float]] = {}
    for row, node in enumerate(world.view.nodes):
        if node is not None:
            if declared[row]:
                idle, future = int(columns.whole_now[row]), int(columns.whole_later[row])
            else:
                idle = sum(int(world.idle(slot)[row]) for slot in slots) // ONE
                future = sum(int(world.future_idle(slot)[row]) for slot in slots) // ONE
            nodes[node.name] = {"idleGpus": idle, "releasingGpus": future - idle}
    return nodes
