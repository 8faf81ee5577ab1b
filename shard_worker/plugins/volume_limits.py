"""Volumes that are bound already: their zones, and how many of a driver a node takes.

Zones: a volume with zone or region labels goes to nodes with the same, where the node has any such
label. Limits: what a CSI driver allows on a node (CSINode), each volume counted once however many
tasks use it there; evictions can cure it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from shard_worker.plugins.node_checks import per_value
from shard_worker.plugins.volumes import bound, claim_keys, class_of
from shard_worker.rules import Check, Mask
from shard_worker.tasks import Status, TaskInfo
from shard_worker.world import World
from shared.model import Volume
from shared.objects import ClusterObjects

ZONE = "node(s) had no available volume zone"
LIMIT = "node(s) exceed max volume count"
NEWER = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
ZONES = (*NEWER, *NEWER.values())
BETWEEN = "__"
"""Between the zones of a volume that can be reached from several."""


def zone_checks(task: TaskInfo, world: World) -> Sequence[Check]:
    """Nodes outside the zones of the task's bound volumes."""
    labels = [
        (key, value)
        for volume in _bound_volumes(task, world.objects)
        for key, value in volume.labels
        if key in ZONES
    ]
    if not labels:
        return []
    zoned: Mask = np.zeros(world.size, np.bool_)
    for key in ZONES:
        zoned |= world.view.label(key).codes >= 0
    passes: Mask = np.ones(world.size, np.bool_)
    for key, value in labels:
        passes &= _in_zone(key, value, world)
    return [Check(ZONE, passes | ~zoned, curable=False)]


def _in_zone(key: str, value: str, world: World) -> Mask:
    """Rows with one of the zones, told by the same label or, where a node lacks it, the newer."""
    zones = frozenset(value.split(BETWEEN))
    column = world.view.label(key)
    mask = per_value(column, lambda zone: zone in zones)
    if key in NEWER:
        newer = per_value(world.view.label(NEWER[key]), lambda zone: zone in zones)
        mask = np.where(column.codes >= 0, mask, newer)
    return mask


def limit_checks(task: TaskInfo, world: World) -> Sequence[Check]:
    """Nodes that take no more volumes of a driver."""
    limits = {
        world.row_of(name): dict(node.limits) for name, node in world.objects.csi_nodes.items()
    }
    limits.pop(-1, None)
    wanted = attachments([task], world.objects)
    if not limits or not wanted:
        return []
    passes: Mask = np.ones(world.size, np.bool_)
    for row, allowed in limits.items():
        passes[row] = _within(wanted, allowed, row, world)
    return [] if passes.all() else [Check(LIMIT, passes)]


def _within(
    wanted: set[tuple[str, str]], allowed: Mapping[str, int], row: int, world: World
) -> bool:
    if not any(driver in allowed for driver, _ in wanted):
        return True
    staying = (task for task in world.tasks_on(row) if task.status is not Status.RELEASING)
    there = attachments(staying, world.objects)
    for driver in {driver for driver, _ in wanted - there}:
        count = sum(one == driver for one, _ in wanted | there)
        if count > allowed.get(driver, count):
            return False
    return True


def attachments(tasks: Iterable[TaskInfo], objects: ClusterObjects) -> set[tuple[str, str]]:
    """(CSI driver, volume) of what tasks use; a volume that is still to be made goes by its claim,
    and its class's maker is its driver."""
    found: set[tuple[str, str]] = set()
    for task in tasks:
        for key in claim_keys(task):
            claim = objects.volume_claims.get(key)
            if claim is None:
                continue
            volume = objects.volumes.get(claim.volume)
            if volume is not None:
                found.add((volume.driver, volume.handle or volume.name))
            elif (cls := class_of(claim, objects)) is not None:
                found.add((cls.provisioner, key))
    return {(driver, name) for driver, name in found if driver}


def _bound_volumes(task: TaskInfo, objects: ClusterObjects) -> list[Volume]:
    claims = (objects.volume_claims.get(key) for key in claim_keys(task))
    volumes = (objects.volumes.get(c.volume) for c in claims if c is not None and bound(c))
    return [volume for volume in volumes if volume is not None]
