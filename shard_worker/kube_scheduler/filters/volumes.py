"""Volume binding: the nodes on which a task can use its PersistentVolumeClaims.

A bound claim keeps the task on nodes that reach its volume. A claim that waits for its first
consumer needs a free volume that fits (the smallest is chosen), or a class that can create one. Any
other unbound claim, or a missing one, fits no node. A volume chosen for a task is not chosen again
unless the task is undone. Tasks that have a node already, with claims still to be bound, choose
first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shard_worker.framework.rules import Check, EventHandler, Mask
from shard_worker.framework.session import Session
from shard_worker.kube_scheduler.filters.claim_users import ClaimUsers
from shard_worker.kube_scheduler.filters.node_checks import terms_mask
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import OCCUPYING, Status
from shard_worker.session_model.world import World
from shared.model.constraints import Terms
from shared.model.label_selector import matches
from shared.model.model import TaskClass
from shared.model.objects import ClusterObjects
from shared.model.storage import StorageClass, Volume, VolumeClaim

IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
LOST = "bound to non-existent persistentvolume"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
AFFINITY = "node(s) had volume node affinity conflict"
NOTHING_FREE = "node(s) didn't find available persistent volumes to bind"
NOT_MADE = frozenset({"", "kubernetes.io/no-provisioner"})
"""Provisioners that create no volumes."""
LOOKED_AT = 64
"""Rows are grouped by the volumes that they reach up to this many distinct sets of nodes; beyond
that they are evaluated one by one."""


def concerned(cls: TaskClass) -> bool:
    return cls.constraints is not None and bool(cls.constraints.volumes)


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice for a claim: this volume, or (None) a new one created for the row's node."""

    claim: str
    volume: str | None
    row: int


@dataclass(frozen=True, slots=True)
class _Option:
    """The possible volumes for one claim."""

    claim: str
    makeable: Mask
    """Nodes for which a volume can be created."""
    free: list[tuple[str, Mask]]
    """(volume, nodes that reach it), best first."""

    @property
    def reach(self) -> Iterable[Mask]:
        """The sets of nodes that reach the volumes, without duplicates."""
        return {id(mask): mask for _, mask in self.free}.values()


class VolumeBinding:
    """The choices of one session; reset for every world that the session enters."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._world: World | None = None
        self._reach: dict[Terms | None, Mask] = {}
        """Nodes selected by terms; cached as long as no node changes."""
        self._nodes: tuple[object, int] = (None, -1)
        self._reset()
        ssn.add_event_handler(EventHandler(allocate=self._take, deallocate=self._release))

    def _reset(self) -> None:
        self._claims: ClaimUsers[Choice] = ClaimUsers()
        """This session's choices by claim."""
        self._taken: set[str] = set()
        """The volumes that are chosen."""

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
        """The reason why the task can run on no node; None if it may."""
        for key in claim_keys(task):
            claim = world.objects.volume_claims.get(key)
            name = key.partition("/")[2]
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if claim.phase == "Lost":
                return f'persistentvolumeclaim "{name}" {LOST} "{claim.volume}"'
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
            choice = self._claims.given.get(key)
            if bound(claim):
                volume = world.objects.volumes.get(claim.volume)
                if volume is None:
                    return [Check(NO_VOLUME, nowhere, curable=False)]
                reached &= self._reachable(volume, world)
            elif choice is not None and choice.volume is not None:
                reached &= self._reachable(world.objects.volumes[choice.volume], world)
            elif choice is not None:
                fixed &= np.arange(world.size) == choice.row
            else:
                loose.append(claim)
        checks = [] if reached.all() else [Check(AFFINITY, reached, curable=False)]
        fixed &= self._loose_mask(loose, world)
        if not fixed.all():
            checks.append(Check(NOTHING_FREE, fixed, curable=False))
        return checks

    def _reachable(self, volume: Volume, world: World) -> Mask:
        """Nodes that reach a volume."""
        return self._within(volume.affinity, world)

    def _within(self, terms: Terms | None, world: World) -> Mask:
        """Nodes that the terms select; None selects all. Cached."""
        mask = self._reach.get(terms)
        if mask is None:
            every = np.ones(world.size, np.bool_)
            mask = self._reach[terms] = every if terms is None else terms_mask(terms, world.view)
        return mask

    def _options(self, claims: list[VolumeClaim], world: World) -> list[_Option]:
        """The options for each claim, the smallest requests first."""
        return [
            _Option(
                f"{claim.namespace}/{claim.name}",
                self._made_mask(claim, world),
                [(v.name, self._reachable(v, world)) for v in self._free_for(claim, world)],
            )
            for claim in sorted(claims, key=lambda claim: claim.request)
        ]

    def _loose_mask(self, claims: list[VolumeClaim], world: World) -> Mask:
        """Nodes where volumes can be found or created for all of these claims together."""
        options = self._options(claims, world)
        if len(options) > 1 and not all(option.makeable.all() for option in options):
            return _together(options, world.size)
        passes: Mask = np.ones(world.size, np.bool_)
        for option in options:
            reachable = option.makeable.copy()
            for mask in option.reach:
                reachable |= mask
            passes &= reachable
        return passes

    def _made_mask(self, claim: VolumeClaim, world: World) -> Mask:
        """Nodes for which the claim's class can create a volume."""
        cls = class_of(claim, world.objects)
        if cls is None or cls.provisioner in NOT_MADE:
            return np.zeros(world.size, np.bool_)
        if claim.node:
            on_node: Mask = np.arange(world.size) == world.row_of(claim.node)
            return on_node
        return self._within(cls.topologies, world)

    def _free_for(self, claim: VolumeClaim, world: World) -> list[Volume]:
        """Volumes that fit the claim: first one reserved for it, then the smallest. Empty for a
        claim with a chosen node, which gets a new volume."""
        if claim.node:
            return []
        fitting = [
            volume
            for volume in world.objects.volumes.values()
            if volume.name not in self._taken and fits(volume, claim, world.objects)
        ]
        # False sorts first: a volume reserved for the claim comes before any free one.
        return sorted(fitting, key=lambda v: (v.claim == "", v.capacity))

    # --- what happens -------------------------------------------------------------------------

    def _take(self, task: TaskInfo) -> None:
        if not concerned(task.cls) or task.row < 0:
            return
        world = self._ssn.world
        self._begin(world)
        if task in self._claims:
            return
        loose, shared = [], []
        for key in claim_keys(task):
            claim = world.objects.volume_claims.get(key)
            if claim is None or bound(claim):
                continue
            if key in self._claims.given:
                shared.append(key)
            else:
                loose.append(claim)
        plan = _plan(self._options(loose, world), task.row) or []
        for choice in plan:
            self._claims.given[choice.claim] = choice
            if choice.volume is not None:
                self._taken.add(choice.volume)
        self._claims.add(task, [*shared, *(choice.claim for choice in plan)])

    def _release(self, task: TaskInfo) -> None:
        if self._ssn.world is not self._world:
            return
        for choice in self._claims.remove(task):
            if choice.volume is not None:
                self._taken.discard(choice.volume)

    def choices(self, task: TaskInfo) -> list[Choice]:
        """This session's choices for the unbound claims of a placed task."""
        self._begin(self._ssn.world)
        return self._claims.of(task)


def _together(options: list[_Option], size: int) -> Mask:
    """Rows where all claims can be satisfied, though they may compete for a volume. Rows that reach
    the same volumes and provisioners are evaluated once."""
    reach = {id(mask): mask for option in options for mask in option.reach}
    if len(reach) > LOOKED_AT:
        judged = (_plan(options, row) is not None for row in range(size))
        return np.fromiter(judged, np.bool_, size)
    alike = np.stack([*(option.makeable for option in options), *reach.values()], axis=1)
    _, first, inverse = np.unique(alike, axis=0, return_index=True, return_inverse=True)
    answers = [_plan(options, row) is not None for row in first.tolist()]
    possible: Mask = np.array(answers, np.bool_)[inverse.reshape(-1)]
    return possible


def _plan(options: list[_Option], row: int) -> list[Choice] | None:
    """A volume for each claim on a node; None if some claim gets none."""
    plan: list[Choice] = []
    chosen: set[str] = set()
    for option in options:
        names = (name for name, mask in option.free if name not in chosen and mask[row])
        name = next(names, None)
        if name is None and not option.makeable[row]:
            return None
        if name is not None:
            chosen.add(name)
        plan.append(Choice(option.claim, name, row))
    return plan


def placed(world: World) -> list[TaskInfo]:
    """Tasks that have a node, in an order that does not depend on when they got it.

    Tasks that were leaving when the session began are included: they hold their devices and volumes
    until they end. Tasks that the session itself evicts are not: they make room for pipelined
    tasks.
    """
    placed_tasks = [
        task
        for task in world.linked_residents()
        if _has_node(task) and task.cls.constraints is not None
    ]
    return sorted(placed_tasks, key=lambda task: (task.job.job.jid, task.tix))


def _has_node(task: TaskInfo) -> bool:
    if task.status is Status.RELEASING:
        return not task.evicted
    return bool(task.status & (OCCUPYING | Status.PIPELINED))


# --- objects ----------------------------------------------------------------------------------


def claim_keys(task: TaskInfo) -> Iterable[str]:
    """``namespace/name`` of the claims of a task."""
    constraints = task.cls.constraints
    names = () if constraints is None else constraints.volumes
    return [f"{task.job.job.namespace}/{name}" for name in names]


def bound(claim: VolumeClaim) -> bool:
    """Whether the claim is bound to its volume for good."""
    return bool(claim.volume) and (claim.bound or claim.phase == "Bound")


def waits(claim: VolumeClaim, objects: ClusterObjects) -> bool:
    """Whether the claim is bound only once a task that uses it has a node. A claim that names its
    volume is not."""
    cls = class_of(claim, objects)
    return cls is not None and cls.waits and not claim.volume


def class_name(claim: VolumeClaim, objects: ClusterObjects) -> str:
    """The storage class that the claim names, else the default class."""
    if claim.storage_class is not None:
        return claim.storage_class
    defaults = [cls.name for cls in objects.storage_classes.values() if cls.default]
    return min(defaults, default="")


def class_of(claim: VolumeClaim, objects: ClusterObjects) -> StorageClass | None:
    return objects.storage_classes.get(class_name(claim, objects))


def fits(volume: Volume, claim: VolumeClaim, objects: ClusterObjects) -> bool:
    """Whether the volume is free, or reserved for the claim, and matches the claim."""
    if volume.capacity < claim.request or volume.mode != claim.mode:
        return False
    if volume.claim:
        for_claim = volume.claim == f"{claim.namespace}/{claim.name}"
        return for_claim and volume.claim_uid in ("", claim.uid)
    return (
        volume.phase in ("", "Available")
        and volume.storage_class == class_name(claim, objects)
        and set(claim.access_modes) <= set(volume.access_modes)
        and (claim.selector is None or matches(claim.selector, dict(volume.labels)))
    )
