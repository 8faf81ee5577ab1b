"""Volumes: where a task can have its PersistentVolumeClaims.

A bound claim keeps the task where its volume can be reached. One that waits for its first consumer
goes where a free volume fits (the smallest does), or where its class can have one made. Any other
unbound claim, and a missing one, keep the task from every node. What a task took is not given
twice: it is remembered, and forgotten again where the task is undone. Tasks that have a node
already, and whose claims are still to be bound, are taken up first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shard_worker.plugins.node_checks import terms_mask
from shard_worker.rules import Check, EventHandler, Mask
from shard_worker.session import Session
from shard_worker.session_job import matches
from shard_worker.tasks import OCCUPYING, Status, TaskInfo
from shard_worker.world import World
from shared.model import StorageClass, TaskClass, Terms, Volume, VolumeClaim
from shared.objects import ClusterObjects

IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
AFFINITY = "node(s) had volume node affinity conflict"
NOTHING_FREE = "node(s) didn't find available persistent volumes to bind"
NOT_MADE = frozenset({"", "kubernetes.io/no-provisioner"})
"""Provisioners that make no volumes."""
LOOKED_AT = 64
"""Kinds of reach up to which rows are grouped by them; beyond, they are judged one by one."""


def concerned(cls: TaskClass) -> bool:
    return cls.constraints is not None and bool(cls.constraints.volumes)


@dataclass(frozen=True, slots=True)
class Choice:
    """What becomes of a claim: this volume, or (None) one that is made on the row's node."""

    claim: str
    volume: str | None
    row: int


@dataclass(slots=True)
class _Kept:
    choice: Choice
    users: int = 1


@dataclass(frozen=True, slots=True)
class _Option:
    """What there is for one claim."""

    claim: str
    made: Mask
    """Nodes for which a volume can be made."""
    free: list[tuple[str, Mask]]
    """(volume, nodes that reach it), the best first."""

    @property
    def reach(self) -> Iterable[Mask]:
        """What the volumes can be reached from, each kind once."""
        return {id(mask): mask for _, mask in self.free}.values()


class VolumeBinding:
    """Of one session; starts anew with every world that the session enters."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._world: World | None = None
        self._reach: dict[Terms | None, Mask] = {}
        """Nodes that terms mean; kept as long as no node changes."""
        self._nodes: tuple[object, int] = (None, -1)
        self._reset()
        ssn.add_event_handler(EventHandler(allocate=self._take, deallocate=self._release))

    def _reset(self) -> None:
        self._kept: dict[str, _Kept] = {}
        """Key of a claim -> what this session chose for it."""
        self._taken: set[str] = set()
        """Volumes among those choices."""
        self._of_task: dict[TaskInfo, list[str]] = {}

    def _begin(self, world: World) -> None:
        nodes = (world.view, world.view.revision)
        if self._nodes != nodes:
            self._reach.clear()
            self._nodes = nodes
        if world is not self._world:
            self._reset()
            self._world = world
            for task in placed(world):
                self._take(task)

    # --- before any node ----------------------------------------------------------------------

    def pre_predicate(self, task: TaskInfo, world: World) -> str | None:
        """Why the task can run nowhere."""
        for key in claim_keys(task):
            claim = world.objects.volume_claims.get(key)
            name = key.partition("/")[2]
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if claim.phase == "Lost":
                lost = f'bound to non-existent persistentvolume "{claim.volume}"'
                return f'persistentvolumeclaim "{name}" {lost}'
            if not bound(claim) and not waits(claim, world.objects):
                return IMMEDIATE
        return None

    # --- nodes --------------------------------------------------------------------------------

    def checks(self, task: TaskInfo, world: World) -> Sequence[Check]:
        self._begin(world)
        nowhere = np.zeros(world.size, np.bool_)
        if (reason := self.pre_predicate(task, world)) is not None:
            return [Check(reason, nowhere, curable=False)]
        reached: Mask = np.ones(world.size, np.bool_)
        fixed: Mask = np.ones(world.size, np.bool_)
        loose: list[VolumeClaim] = []
        for key in claim_keys(task):
            claim = world.objects.volume_claims[key]
            kept = self._kept.get(key)
            if bound(claim):
                volume = world.objects.volumes.get(claim.volume)
                if volume is None:
                    return [Check(NO_VOLUME, nowhere, curable=False)]
                reached &= self._reachable(volume, world)
            elif kept is not None and kept.choice.volume is not None:
                reached &= self._reachable(world.objects.volumes[kept.choice.volume], world)
            elif kept is not None:
                fixed &= np.arange(world.size) == kept.choice.row
            else:
                loose.append(claim)
        found = [] if reached.all() else [Check(AFFINITY, reached, curable=False)]
        fixed &= self._loose_mask(loose, world)
        if not fixed.all():
            found.append(Check(NOTHING_FREE, fixed, curable=False))
        return found

    def _reachable(self, volume: Volume, world: World) -> Mask:
        """Nodes that can reach a volume."""
        return self._within(volume.affinity, world)

    def _within(self, terms: Terms | None, world: World) -> Mask:
        """The nodes that terms mean, None = all; worked out once."""
        mask = self._reach.get(terms)
        if mask is None:
            every = np.ones(world.size, np.bool_)
            mask = self._reach[terms] = every if terms is None else terms_mask(terms, world.view)
        return mask

    def _options(self, claims: list[VolumeClaim], world: World) -> list[_Option]:
        """What there is for each claim, those that ask for little first."""
        return [
            _Option(
                f"{claim.namespace}/{claim.name}",
                self._made_mask(claim, world),
                [(v.name, self._reachable(v, world)) for v in self._free_for(claim, world)],
            )
            for claim in sorted(claims, key=lambda claim: claim.request)
        ]

    def _loose_mask(self, claims: list[VolumeClaim], world: World) -> Mask:
        """Nodes where all of these claims can be had together."""
        options = self._options(claims, world)
        if len(options) > 1 and not all(option.made.all() for option in options):
            return _together(options, world.size)
        passes: Mask = np.ones(world.size, np.bool_)
        for option in options:
            here = option.made.copy()
            for mask in option.reach:
                here |= mask
            passes &= here
        return passes

    def _made_mask(self, claim: VolumeClaim, world: World) -> Mask:
        """Nodes for which the claim's class can have a volume made."""
        cls = class_of(claim, world.objects)
        if cls is None or cls.provisioner in NOT_MADE:
            return np.zeros(world.size, np.bool_)
        if claim.node:
            here: Mask = np.arange(world.size) == world.row_of(claim.node)
            return here
        return self._within(cls.topologies, world)

    def _free_for(self, claim: VolumeClaim, world: World) -> list[Volume]:
        """Volumes that fit the claim, the best first: one kept for it, then the smallest. A claim
        for which a node was chosen already has one made."""
        if claim.node:
            return []
        fitting = [
            volume
            for volume in world.objects.volumes.values()
            if volume.name not in self._taken and fits(volume, claim, world.objects)
        ]
        return sorted(fitting, key=lambda v: (v.claim == "", v.capacity))

    # --- what happens -------------------------------------------------------------------------

    def _take(self, task: TaskInfo) -> None:
        if not concerned(task.cls) or task.row < 0:
            return
        world = self._ssn.world
        self._begin(world)
        if task in self._of_task:
            return
        loose, shared = [], []
        for key in claim_keys(task):
            claim = world.objects.volume_claims.get(key)
            if claim is None or bound(claim):
                continue
            if key in self._kept:
                shared.append(key)
            else:
                loose.append(claim)
        plan = _plan(self._options(loose, world), task.row) or []
        for key in shared:
            self._kept[key].users += 1
        for choice in plan:
            self._kept[choice.claim] = _Kept(choice)
            if choice.volume is not None:
                self._taken.add(choice.volume)
        self._of_task[task] = [*shared, *(choice.claim for choice in plan)]

    def _release(self, task: TaskInfo) -> None:
        if self._ssn.world is not self._world:
            return
        for key in self._of_task.pop(task, ()):
            kept = self._kept[key]
            kept.users -= 1
            if not kept.users:
                del self._kept[key]
                if kept.choice.volume is not None:
                    self._taken.discard(kept.choice.volume)

    def choices(self, task: TaskInfo) -> list[Choice]:
        """What this session chose for the unbound claims of a task that has a node."""
        self._begin(self._ssn.world)
        return [self._kept[key].choice for key in self._of_task.get(task, ())]


def _together(options: list[_Option], size: int) -> Mask:
    """Rows where the claims can be had together, though they may want the same volume: those from
    which the same volumes and makers can be reached are judged once."""
    reach = {id(mask): mask for option in options for mask in option.reach}
    if len(reach) > LOOKED_AT:
        judged = (_plan(options, row) is not None for row in range(size))
        return np.fromiter(judged, np.bool_, size)
    alike = np.stack([*(option.made for option in options), *reach.values()], axis=1)
    _, first, inverse = np.unique(alike, axis=0, return_index=True, return_inverse=True)
    answers = [_plan(options, row) is not None for row in first.tolist()]
    found: Mask = np.array(answers, np.bool_)[inverse.reshape(-1)]
    return found


def _plan(options: list[_Option], row: int) -> list[Choice] | None:
    """What the claims get on a node; None where one gets nothing."""
    plan: list[Choice] = []
    chosen: set[str] = set()
    for option in options:
        names = (name for name, mask in option.free if name not in chosen and mask[row])
        name = next(names, None)
        if name is None and not option.made[row]:
            return None
        if name is not None:
            chosen.add(name)
        plan.append(Choice(option.claim, name, row))
    return plan


def placed(world: World) -> list[TaskInfo]:
    """Tasks that have a node, in an order that does not depend on when they got it."""
    found = [
        task
        for tasks in world.resident.values()
        for task in tasks
        if task.status & (OCCUPYING | Status.PIPELINED) and task.cls.constraints is not None
    ]
    return sorted(found, key=lambda task: (task.job.job.jid, task.tix))


# --- objects ----------------------------------------------------------------------------------


def claim_keys(task: TaskInfo) -> Iterable[str]:
    """``namespace/name`` of the claims of a task."""
    constraints = task.cls.constraints
    names = () if constraints is None else constraints.volumes
    return [f"{task.job.job.namespace}/{name}" for name in names]


def bound(claim: VolumeClaim) -> bool:
    """Has the claim its volume for good?"""
    return bool(claim.volume) and (claim.bound or claim.phase == "Bound")


def waits(claim: VolumeClaim, objects: ClusterObjects) -> bool:
    """Is a volume found for it only when a task that uses it has a node? A claim that names its
    volume is waited for, as those of immediate classes are."""
    cls = class_of(claim, objects)
    return cls is not None and cls.waits and not claim.volume


def awaits_volume(task: TaskInfo, world: World) -> bool:
    """Does a task that has a node have to wait for a volume before it is bound?"""
    found = (world.objects.volume_claims.get(key) for key in claim_keys(task))
    return any(claim is None or not bound(claim) for claim in found)


def class_name(claim: VolumeClaim, objects: ClusterObjects) -> str:
    """The class as written; where none is, the default one."""
    if claim.storage_class is not None:
        return claim.storage_class
    defaults = [cls.name for cls in objects.storage_classes.values() if cls.default]
    return min(defaults, default="")


def class_of(claim: VolumeClaim, objects: ClusterObjects) -> StorageClass | None:
    return objects.storage_classes.get(class_name(claim, objects))


def fits(volume: Volume, claim: VolumeClaim, objects: ClusterObjects) -> bool:
    """Is it free, or kept for the claim, and what the claim asks for?"""
    if volume.capacity < claim.request or volume.mode != claim.mode:
        return False
    if volume.claim:
        mine = volume.claim == f"{claim.namespace}/{claim.name}"
        return mine and volume.claim_uid in ("", claim.uid)
    return (
        volume.phase in ("", "Available")
        and volume.storage_class == class_name(claim, objects)
        and set(claim.access_modes) <= set(volume.access_modes)
        and (claim.selector is None or matches(claim.selector, dict(volume.labels)))
    )
