"""Zones of bound volumes, and the limit of volumes per CSI driver and node.

Zones: a volume with zone or region labels goes to nodes with the same, if the node has any such
label. Limits: what a CSI driver allows on a node (CSINode), each volume counted once however many
tasks use it there; evictions can cure it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Check, EventHandler, Mask
from shard_worker.framework.session import Session
from shard_worker.kube_scheduler.filters.node_checks import per_value
from shard_worker.kube_scheduler.filters.volumes import (
    bound,
    claim_keys,
    class_of,
    concerned,
    placed,
)
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.world import World
from shared.model.objects import ClusterObjects
from shared.model.storage import Volume

ZONE = "node(s) had no available volume zone"
LIMIT = "node(s) exceed max volume count"
NEWER = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
ZONES = (*NEWER, *NEWER.values())
BETWEEN = "__"
"""Separator of the zones of a volume that several zones reach."""
NO_LIMIT = 1 << 62
Counts = NDArray[np.int64]
Attachment = tuple[str, str]
"""(CSI driver, volume)."""


def zone_checks(task: TaskInfo, world: World) -> Sequence[Check]:
    """Check that nodes are in the zones of the task's bound volumes."""
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
    # A node without any zone label is not bound to zones, as Kubernetes sees it.
    return [Check(ZONE, passes | ~zoned, curable=False)]


def _in_zone(key: str, value: str, world: World) -> Mask:
    """Rows in one of the zones, by the same label or, if a node lacks it, its newer name."""
    zones = frozenset(value.split(BETWEEN))
    column = world.view.label(key)
    mask = per_value(column, lambda zone: zone in zones)
    if key in NEWER:
        newer = per_value(world.view.label(NEWER[key]), lambda zone: zone in zones)
        mask = np.where(column.codes >= 0, mask, newer)
    return mask


class VolumeLimits:
    """The filter by volume limits; its counts are reset for every world that the session enters."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._world: World | None = None
        ssn.add_event_handler(EventHandler(allocate=self._attach, deallocate=self._detach))

    def _begin(self, world: World) -> None:
        if world is self._world:
            return
        self._world = world
        self._limits: dict[str, Counts] = {}
        """Driver -> maximum number of volumes per row."""
        self._counts: dict[str, Counts] = {}
        """Driver -> number of volumes per row."""
        self._users: dict[Attachment, Counter[int]] = {}
        """Volume -> row -> number of tasks that use it there."""
        self._of_task: dict[TaskInfo, tuple[int, set[Attachment]]] = {}
        for name, node in world.objects.csi_nodes.items():
            row = world.row_of(name)
            for driver, limit in node.limits if row >= 0 else ():
                if driver not in self._limits:
                    self._limits[driver] = np.full(world.size, NO_LIMIT, np.int64)
                self._limits[driver][row] = limit
        for task in placed(world):
            self._attach(task)

    def checks(self, task: TaskInfo, world: World) -> Sequence[Check]:
        """Check that nodes can attach the task's volumes, per driver."""
        self._begin(world)
        volumes = attachments(task, world.objects)
        passes: Mask = np.ones(world.size, np.bool_)
        for driver in {driver for driver, _ in volumes if driver in self._limits}:
            of_driver = [volume for volume in volumes if volume[0] == driver]
            more = np.full(world.size, len(of_driver), np.int64)
            for volume in of_driver:
                for row, users in self._users.get(volume, {}).items():
                    # Attached there already for another task: it counts once for a node.
                    more[row] -= users > 0
            fits = self._count(driver) + more <= self._limits[driver]
            # A node beyond its limit still takes a task that brings no further volume.
            passes &= fits | (more == 0)
        return [] if passes.all() else [Check(LIMIT, passes)]

    def _count(self, driver: str) -> Counts:
        counts = self._counts.get(driver)
        if counts is None:
            counts = self._counts[driver] = np.zeros(self._ssn.world.size, np.int64)
        return counts

    def _attach(self, task: TaskInfo) -> None:
        if not concerned(task.cls) or task.row < 0:
            return
        self._begin(self._ssn.world)
        if task not in self._of_task:
            volumes = attachments(task, self._ssn.world.objects)
            self._of_task[task] = (task.row, volumes)
            self._move(task.row, volumes, +1)

    def _detach(self, task: TaskInfo) -> None:
        if self._ssn.world is self._world and task in self._of_task:
            row, volumes = self._of_task.pop(task)
            self._move(row, volumes, -1)

    def _move(self, row: int, volumes: set[Attachment], by: int) -> None:
        for volume in volumes:
            users = self._users.setdefault(volume, Counter())
            users[row] += by
            if users[row] == max(by, 0):  # the first came, or the last went
                self._count(volume[0])[row] += by


def attachments(task: TaskInfo, objects: ClusterObjects) -> set[Attachment]:
    """The volumes that a task uses. A volume that is still to be created is named by its claim,
    with the provisioner of its class as the driver."""
    used: set[Attachment] = set()
    for key in claim_keys(task):
        claim = objects.volume_claims.get(key)
        if claim is None:
            continue
        volume = objects.volumes.get(claim.volume)
        if volume is not None:
            used.add((volume.driver, volume.handle or volume.name))
        elif (cls := class_of(claim, objects)) is not None:
            used.add((cls.provisioner, key))
    return {(driver, name) for driver, name in used if driver}


def _bound_volumes(task: TaskInfo, objects: ClusterObjects) -> list[Volume]:
    claims = (objects.volume_claims.get(key) for key in claim_keys(task))
    volumes = (objects.volumes.get(c.volume) for c in claims if c is not None and bound(c))
    return [volume for volume in volumes if volume is not None]
