"""The filter for dynamic resource allocation: the nodes on which a task's claims can be served.

A claim that is allocated keeps the task on nodes that reach its devices. Any other is served from a
node's free devices. A device that a task got is not given out again, in this session or a later
one, while the claim's allocation is not stored yet. Nodes with equal devices and equal usage are
evaluated once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.rules import Check, EventHandler, Mask
from shard_worker.framework.session import Session
from shard_worker.kube_scheduler.cel.tree import CelError
from shard_worker.kube_scheduler.devices.pools import DevicePool, Key, Offer, Pools
from shard_worker.kube_scheduler.devices.search import (
    AssignedDevice,
    DeviceSearch,
    DeviceUsage,
    OpenClaim,
)
from shard_worker.kube_scheduler.filters.claim_users import ClaimUsers
from shard_worker.kube_scheduler.filters.node_checks import terms_mask
from shard_worker.kube_scheduler.filters.volumes import placed
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.world import World
from shared.model.devices import ResourceClaim, own_claim
from shared.model.model import TaskClass

ELSEWHERE = "resourceclaim not available on the node"
NONE_FREE = "cannot allocate all claims"
IN_USE = "resourceclaim in use"
UNJUDGED = "claim cannot be judged: "
REMEMBERED = 1 << 14
"""Maximum number of cached answers for kinds of nodes."""
MOST_USERS = 256
"""Maximum number of pods that may share a claim."""


def concerned(cls: TaskClass) -> bool:
    constraints = cls.constraints
    return constraints is not None and bool(constraints.claims or constraints.claim_templates)


class _Layout:
    """The devices that each node of a world reaches."""

    def __init__(self, world: World) -> None:
        self.pools = Pools(world.objects)
        self.local: dict[int, list[Offer]] = {}
        """Row -> the devices that only this node reaches."""
        self.row_of: dict[Key, int] = {}
        for name, offers in self.pools.local.items():
            row = world.row_of(name)
            if row >= 0:
                self.local[row] = offers
                self.row_of.update((offer.key, row) for offer in offers)
        self.wide: list[tuple[DevicePool, Mask]] = []
        """Devices that several nodes reach, with the mask of these nodes."""
        for pool in self.pools.wide:
            every = np.ones(world.size, np.bool_)
            reach = every if pool.reach is None else terms_mask(pool.reach, world.view)
            self.wide.append((pool, reach))


@dataclass(slots=True)
class _Served:
    """The devices that a claim got in this session."""

    got: list[AssignedDevice]
    row: int


class DeviceClaimFilter:
    """The claims of one session; reset for every world that the session enters."""

    def __init__(self, ssn: Session, *, frees: bool = False) -> None:
        """``frees``: an allocated claim whose pods the session evicts is free for others, as KAI's
        scheduler has it; for Volcano's it is allocated as long as it says so."""
        self._ssn = ssn
        self._frees = frees
        self._world: World | None = None
        self._freed: set[str] = set()
        """Allocated claims of which all pods went, which are served anew."""
        ssn.add_event_handler(EventHandler(allocate=self._take, deallocate=self._release))

    def _begin(self, world: World) -> None:
        if world is self._world:
            return
        self._world = world
        layout = _Layout(world)
        self._pools, self._local, self._wide = layout.pools, layout.local, layout.wide
        self._row_of = layout.row_of
        self._states: dict[object, int] = {}
        self._judged: dict[object, bool | CelError] = {}
        self._codes = np.zeros(world.size, np.int64)
        for row, offers in self._local.items():
            self._codes[row] = self._code(tuple((offer.kind, False, ()) for offer in offers))
        self._usage = DeviceUsage()
        self._gone: dict[str, set[str]] = {}
        """Allocated claim -> uids of its pods that the session evicted."""
        self._claims: ClaimUsers[_Served] = ClaimUsers()
        self._freed = self._left_claims(world)
        for key, claim in world.objects.claims.items():
            for got in () if key in self._freed else self._allocated(claim):
                self._use(got)
        having: dict[str, list[str]] = {}
        for key, claim in world.objects.claims.items():
            for uid in () if claim.allocation is None else claim.reserved:
                having.setdefault(uid, []).append(key)
        for task in placed(world):
            named = {f"{claim.namespace}/{claim.name}" for claim in _named(task, world)}
            if named.issuperset(having.get(task.uid, ())):  # else those of templates are written
                self._take(task)

    def _left_claims(self, world: World) -> set[str]:
        """Allocated claims whose pods were evicted and wait again. Their allocation is about to be
        taken back; whoever was promised a place for that must not lose it to them."""
        if not self._frees:
            return set()
        waiting = {task.uid for task in world.linked_tasks() if task.row < 0}
        allocated = (
            (key, set(claim.reserved))
            for key, claim in world.objects.claims.items()
            if claim.allocation is not None
        )
        return {key for key, users in allocated if users and users <= waiting}

    def _code(self, state: object) -> int:
        """A code for the node's own devices and their usage; nodes with equal codes are
        interchangeable."""
        return self._states.setdefault(state, len(self._states) + 1)

    def _use(self, got: AssignedDevice, by: int = 1) -> None:
        """Mark a device as used; with -1 as free again."""
        usage = self._usage
        (usage.add if by > 0 else usage.drop)(got)
        row = self._row_of.get(got.offer.key, -1)
        if row >= 0:
            offers = self._local[row]
            state = ((o.kind, o.key in usage.whole, _parts(usage, o)) for o in offers)
            self._codes[row] = self._code(tuple(state))

    def _allocated(self, claim: ResourceClaim) -> Iterable[AssignedDevice]:
        """The devices of an allocated claim that slices still offer."""
        for result in () if claim.allocation is None else claim.allocation.results:
            offer = self._pools.offers.get((result.driver, result.pool, result.device))
            if offer is not None:
                yield AssignedDevice(
                    claim.name, result.request, offer, result.admin, result.capacity
                )

    # --- before any node ----------------------------------------------------------------------

    def pre_predicate(self, task: TaskInfo, world: World) -> str | None:
        """The reason why the task can run on no node; None if it may."""
        constraints, space = task.cls.constraints, task.job.job.namespace
        if constraints is None:
            return None
        for name in constraints.claims:
            claim = world.objects.claims.get(f"{space}/{name}")
            if claim is None:
                return f'resourceclaim "{name}" not found'
            if (
                claim.allocation is not None
                and task.uid not in claim.reserved
                and len(claim.reserved) >= MOST_USERS
            ):
                return IN_USE
        for name in constraints.claim_templates:
            if f"{space}/{name}" not in world.objects.claim_templates:
                return f'resourceclaimtemplate "{name}" not found'
        freed = self._freed if world is self._world else set[str]()
        for open_claim in _wanted(task, world, freed):
            for request in open_claim.requests:
                for ask in request.asks:
                    if ask.device_class not in world.objects.device_classes:
                        missing = f"device class {ask.device_class} does not exist"
                        return f"request {request.name}: {missing}"
        return None

    # --- nodes --------------------------------------------------------------------------------

    def checks(self, task: TaskInfo, world: World) -> Sequence[Check]:
        self._begin(world)
        if (reason := self.pre_predicate(task, world)) is not None:
            return [Check(reason, np.zeros(world.size, np.bool_), curable=False)]
        reached = self._reached(task, world)
        checks = [] if reached.all() else [Check(ELSEWHERE, reached, curable=False)]
        open_claims = [
            each for each in self._open(task, world) if each.key not in self._claims.given
        ]
        return [*checks, *self._free(open_claims)] if open_claims else checks

    def _reached(self, task: TaskInfo, world: World) -> Mask:
        """Nodes that reach the devices of the task's allocated claims."""
        passes: Mask = np.ones(world.size, np.bool_)
        for claim in _named(task, world):
            if f"{claim.namespace}/{claim.name}" in self._freed:
                continue
            if claim.allocation is not None and claim.allocation.nodes is not None:
                passes &= terms_mask(claim.allocation.nodes, world.view)
        for requests in self._open(task, world):
            served = self._claims.given.get(requests.key)
            if served is not None:
                passes &= self._reach_of(served, world)
        return passes

    def _reach_of(self, served: _Served, world: World) -> Mask:
        """Nodes that reach the devices that a claim got in this session."""
        passes: Mask = np.ones(world.size, np.bool_)
        for got in served.got:
            for pool, mask in self._wide:
                if got.offer in pool.offers:
                    passes &= mask
                    break
            else:
                passes &= np.arange(world.size) == served.row
        return passes

    def _free(self, open_claims: list[OpenClaim]) -> list[Check]:
        """Check for nodes whose free devices serve these claims together."""
        ask = tuple((each.requests, each.matches) for each in open_claims)
        alike = np.stack([self._codes, *(mask.astype(np.int64) for _, mask in self._wide)], axis=1)
        kinds, first, inverse = np.unique(alike, axis=0, return_index=True, return_inverse=True)
        used = tuple(
            (o.key, o.key in self._usage.whole, _parts(self._usage, o))
            for pool, _ in self._wide
            for o in pool.offers
            if o.key in self._usage.whole or o.key in self._usage.parts
        )
        answers: list[bool | CelError] = []
        for kind, row in zip(kinds.tolist(), first.tolist(), strict=True):
            key = (ask, tuple(kind), used)
            answer = self._judged.get(key)
            if answer is None:
                if len(self._judged) >= REMEMBERED:
                    self._judged.clear()
                answer = self._judged[key] = self._serves(open_claims, row)
            answers.append(answer)
        codes: NDArray[np.intp] = inverse.reshape(-1)
        errors = dict.fromkeys(str(a) for a in answers if isinstance(a, CelError))
        unjudged = [
            Check(
                f"{UNJUDGED}{error}",
                np.array([str(a) != error for a in answers], np.bool_)[codes],
                curable=False,
            )
            for error in errors
        ]
        passes = np.array([a is not False for a in answers], np.bool_)[codes]
        return [*unjudged, Check(NONE_FREE, passes)]

    def _serves(self, open_claims: list[OpenClaim], row: int) -> bool | CelError:
        try:
            return self._search(open_claims, row) is not None
        except CelError as error:
            return error

    def _search(self, open_claims: list[OpenClaim], row: int) -> list[AssignedDevice] | None:
        offers = list(self._local.get(row, ()))
        for pool, mask in self._wide:
            if mask[row]:
                offers += pool.offers
        return DeviceSearch(self._pools, offers, self._usage).run(open_claims)

    # --- what happens -------------------------------------------------------------------------

    def _take(self, task: TaskInfo) -> None:
        if not concerned(task.cls) or task.row < 0:
            return
        world = self._ssn.world
        self._begin(world)
        if task in self._claims:
            return
        for key, _ in self._allocated_to(task, world):
            self._gone.get(key, set()).discard(task.uid)
        every = self._open(task, world)
        allocated = self._claims.given
        fresh = [claim for claim in every if claim.key not in allocated]
        try:
            got = self._search(fresh, task.row) if fresh else []
        except CelError:
            got = None
        for claim in every:
            # got is None where it runs on a node on which it never could have been put
            if claim.key not in allocated and got is not None:
                devices = [device for device in got if device.claim == claim.key]
                allocated[claim.key] = _Served(devices, task.row)
                for device in devices:
                    self._use(device)
        self._claims.add(task, [each.key for each in every if each.key in allocated])

    def _release(self, task: TaskInfo) -> None:
        if self._ssn.world is not self._world:
            return
        for served in self._claims.remove(task):
            for got in served.got:
                self._use(got, -1)
        for key, claim in self._allocated_to(task, self._ssn.world):
            gone = self._gone.setdefault(key, set())
            gone.add(task.uid)
            if key not in self._freed and gone.issuperset(claim.reserved):
                self._freed.add(key)
                for got in self._allocated(claim):
                    self._use(got, -1)

    def _allocated_to(self, task: TaskInfo, world: World) -> list[tuple[str, ResourceClaim]]:
        """The allocated claims that a task has, where evictions free them."""
        if not self._frees or task.cls.constraints is None:
            return []
        space, job = task.job.job.namespace, task.job.job
        own = (own_claim(job.uid, task.name, name) for name in task.cls.constraints.claim_templates)
        keys = [f"{space}/{name}" for name in (*task.cls.constraints.claims, *own)]
        claims = ((key, world.objects.claims.get(key)) for key in keys)
        return [
            (key, claim)
            for key, claim in claims
            if claim is not None and claim.allocation is not None and task.uid in claim.reserved
        ]

    def _open(self, task: TaskInfo, world: World) -> list[OpenClaim]:
        return _wanted(task, world, self._freed)

    def waits_at(self, row: int) -> bool:
        """Whether pods that the session evicts still have devices of the row by claims."""
        return any(
            self._row_of.get(got.offer.key, row) == row
            for key in (self._freed & self._gone.keys()) - self._claims.given.keys()
            for got in self._allocated(self._ssn.world.objects.claims[key])
        )

    def got(self, task: TaskInfo) -> list[AssignedDevice]:
        """The devices that this session gave to the claims of a placed task."""
        self._begin(self._ssn.world)
        return [device for served in self._claims.of(task) for device in served.got]


def _parts(usage: DeviceUsage, offer: Offer) -> tuple[tuple[str, int], ...]:
    """The parts of a shared device that are in use."""
    parts = usage.parts.get(offer.key, {})
    return tuple(sorted((name, units) for name, units in parts.items() if units))


# --- claims -----------------------------------------------------------------------------------


def _named(task: TaskInfo, world: World) -> list[ResourceClaim]:
    constraints = task.cls.constraints
    names = () if constraints is None else constraints.claims
    keys = (f"{task.job.job.namespace}/{name}" for name in names)
    return [world.objects.claims[key] for key in keys if key in world.objects.claims]


def _is_written(task: TaskInfo, template: str, world: World, freed: Collection[str]) -> bool:
    """Whether the task's own claim of this template exists, and says which devices it has."""
    job = task.job.job
    key = f"{job.namespace}/{own_claim(job.uid, task.name, template)}"
    claim = None if key in freed else world.objects.claims.get(key)
    return task.row >= 0 and claim is not None and claim.allocation is not None


def _wanted(task: TaskInfo, world: World, freed: Collection[str]) -> list[OpenClaim]:
    """The task's unallocated claims: those it names, and its own from each template."""
    claims = [
        OpenClaim(f"{claim.namespace}/{claim.name}", claim.requests, claim.matches)
        for claim in _named(task, world)
        if claim.allocation is None or f"{claim.namespace}/{claim.name}" in freed
    ]
    constraints = task.cls.constraints
    for name in () if constraints is None else constraints.claim_templates:
        template = world.objects.claim_templates.get(f"{task.job.job.namespace}/{name}")
        if template is not None and not _is_written(task, name, world, freed):
            claims.append(OpenClaim(f"{task.key}/{name}", template.requests, template.matches))
    return claims
