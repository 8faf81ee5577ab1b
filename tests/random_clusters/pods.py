"""Random PodGroups and their pods: what runs keeps to its node's amounts, and asks for no more."""

from __future__ import annotations

from random import Random

from laboratory.workloads.drawn_demands import APPS, ask_for_more
from laboratory.workloads.drawn_objects import job_marks
from tests.laboratory.replay.build import Json, group, pod


def group_of(draw: Random, name: str, queues: list[str], room: dict[str, int]) -> list[Json]:
    """Some of its pods run, as far as there is room; others wait, or are in other states."""
    size = draw.randint(1, 5)
    runs = draw.random() < 0.5
    spec: Json = {"queue": draw.choice(queues), "minMember": draw.randint(0, size)}
    if draw.random() < 0.3:
        spec["priorityClassName"] = draw.choice(["mid", "top"])
    if draw.random() < 0.2:
        spec["minTaskMember"] = {"a": 1, "b": draw.randint(0, 2)}
    if draw.random() < 0.2 and not runs:
        mode = draw.choice(["hard", "hard", "soft"])
        spec["networkTopology"] = {"mode": mode, "highestTierAllowed": draw.randint(1, 2)}
    if draw.random() < 0.3:
        spec["minResources"] = {"cpu": str(draw.randint(1, size))}
    marks = job_marks(draw)
    items = [_group_object(draw, name, spec, marks, runs=runs)]
    items += [_pod(draw, f"{name}-{i}", name, room if runs else {}) for i in range(size)]
    return items


def _group_object(draw: Random, name: str, spec: Json, marks: Json, *, runs: bool) -> Json:
    phase = "Running" if runs else draw.choice(["Inqueue", "Inqueue", "Pending"])
    item = group(name, phase=phase, **spec)
    item["metadata"]["annotations"] = marks
    return item


def _pod(draw: Random, name: str, group: str, room: dict[str, int]) -> Json:
    cpu = draw.choice([0, 1, 1, 1, 2])
    free = [on for on, left in room.items() if left >= cpu]
    on = draw.choice(free) if free and draw.random() < 0.8 else ""
    if on:
        room[on] -= cpu
    # Not Unknown: a service knows no such pods, and one session does not count them as neighbours.
    phases = ["Running"] * 8 + ["Pending", "Succeeded"]
    pod_item = pod(name, group=group, cpu=cpu, on=on, phase=draw.choice(phases) if on else "")
    pod_item["spec"]["containers"][0]["image"] = draw.choice(["busybox", "trainer:2"])
    if not cpu:
        pod_item["spec"]["containers"][0]["resources"] = {}
    marks: Json = pod_item["metadata"]["annotations"]
    marks["volcano.sh/task-spec"] = draw.choice("ab")
    pod_item["metadata"]["labels"] = {"app": draw.choice(APPS)}
    if draw.random() < 0.2:
        marks["volcano.sh/preemptable"] = draw.choice(["true", "false"])
    if draw.random() < 0.2:
        pod_item["spec"]["tolerations"] = [{"key": "batch", "operator": "Exists"}]
    if on and draw.random() < 0.05:
        pod_item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    # A record is not judged for what stands there already: only pods that wait ask for more.
    if not on:
        ask_for_more(draw, pod_item)
    return pod_item
