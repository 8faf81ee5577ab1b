"""MIG: instances of a GPU as resources of their own (``nvidia.com/mig-1g.10gb``)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from shard_worker.framework.rules import Check
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.world import World
from shared.model.model import Pairs, Requests

MIG = "nvidia.com/mig-"
"""Begins the name of an instance's resource; as an annotation it marks a legacy pod."""
_SLICES = re.compile(re.escape(MIG) + r"([0-9]{1,3})g\..*")

LEGACY = "pods with an annotation nvidia.com/mig-* are not placed any more"
WITH_LEGACY = "node(s) had legacy MIG pods"


def slices(name: str) -> int:
    """How many GPUs an instance of a resource counts for in quotas: the slices of its profile, 0
    for what is no instance."""
    profile = _SLICES.fullmatch(name)
    return int(profile[1]) if profile else 0


def mig_amount(requests: Requests, names: Sequence[str]) -> int:
    """Thousandths of a GPU that MIG instances count for in quotas. ``names``: of slots."""
    return sum(slices(names[slot]) * amount for slot, amount in requests if slot < len(names))


def mig_slots(names: Sequence[str]) -> list[tuple[int, int]]:
    """(slot, slices of its profile) of the resources that are instances. ``names``: of slots."""
    return [(slot, number) for slot, name in enumerate(names) if (number := slices(name))]


def is_mig(name: str) -> bool:
    """Whether a resource is an instance of a GPU."""
    return name.startswith(MIG)


def wants_mig(task: TaskInfo, world: World) -> bool:
    names = world.view.slot_names
    return any(slot < len(names) and is_mig(names[slot]) for slot, _ in task.requests)


def is_legacy(task: TaskInfo) -> bool:
    """Whether an annotation, and no request, asks for instances."""
    return names_instances(task.role.annotations)


def names_instances(annotations: Pairs) -> bool:
    """Whether a legacy pod has these annotations."""
    return any(key.startswith(MIG) for key, _ in annotations)


def refused_legacy(task: TaskInfo, world: World) -> str | None:
    """Why the task runs on no node."""
    del world
    return LEGACY if is_legacy(task) else None


def beside_legacy(task: TaskInfo, world: World) -> Sequence[Check]:
    """Instances go on no node with a legacy pod."""
    if not wants_mig(task, world):
        return ()
    legacy = np.zeros(world.size, np.bool_)
    for row in world.inhabited_rows():
        legacy[row] = any(is_legacy(resident) for resident in world.tasks_on(row))
    return [Check(WITH_LEGACY, ~legacy)]
