"""Devices that tasks claim, counted against their queues by class.

A queue's amounts name them ``deviceclass/CLASS`` (devices) and ``DIMENSION.deviceclass/CLASS``
(claimed parts of shared devices). A claim counts once, however many tasks of the queue use it;
every task has its own claim from each template. Requests for all devices, for one of several
alternatives, and for administration are not counted, as in Volcano.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from shard_worker.session_model.queue_totals import whole
from shard_worker.session_model.status import OCCUPYING, Status
from shard_worker.session_model.workload import Amounts, QueueInfo, add
from shared.model.constraints import Constraints
from shared.model.devices import DeviceRequest
from shared.model.model import Requests

if TYPE_CHECKING:
    from shard_worker.session_model.job import SessionJob, TaskInfo
    from shard_worker.session_model.world import World

CLASS = "deviceclass/"
THOUSAND = 1000
_NONE = Constraints()


def device_slots(names: Sequence[str]) -> dict[str, int]:
    """Name -> slot of the resources that count devices."""
    return {
        name: slot
        for slot, name in enumerate(names)
        if name.startswith(CLASS) or f".{CLASS}" in name
    }


def device_amounts(
    requests: Sequence[DeviceRequest], slots: Mapping[str, int], *, consumable: bool
) -> Amounts:
    """The quota amounts that a claim takes. ``consumable``: count parts of shared devices too."""
    total: Amounts = {}
    for request in requests:
        if len(request.asks) != 1:
            continue
        ask = request.asks[0]
        if ask.everything or ask.admin:
            continue
        slot = slots.get(CLASS + ask.device_class)
        if slot is not None:
            add(total, [(slot, ask.count * THOUSAND)], 1)
        for dimension, amount in ask.capacity if consumable else ():
            slot = slots.get(f"{dimension}.{CLASS}{ask.device_class}")
            if slot is not None:
                add(total, [(slot, amount)], ask.count)
    return total


class Claimed:
    """The devices that tasks of a world hold, by queue; kept up to date by the session's events."""

    def __init__(self, world: World, *, consumable: bool) -> None:
        self._world = world
        self._consumable = consumable
        self._slots = device_slots(world.view.slot_names)
        self._held: dict[int, Amounts] = {}
        """Queue -> amounts that it and those below it hold."""
        self._users: dict[tuple[int, str], int] = {}
        """(queue, claim) -> number of tasks that hold it."""
        for task in world.linked_tasks():
            if task.status & (OCCUPYING | Status.PIPELINED):
                self.allocate(task)
        if not world.whole:
            self._held = {q.queue.qid: dict(whole(q, "claimed")) for q in world.queues.values()}

    @property
    def world(self) -> World:
        return self._world

    @property
    def slots(self) -> Mapping[str, int]:
        return self._slots

    def held(self, qid: int) -> Amounts:
        """Amounts that a queue and those below it hold. Callers must not change them."""
        return self._held.get(qid, {})

    # --- events -------------------------------------------------------------------------------

    def allocate(self, task: TaskInfo) -> None:
        self._count(task, +1)

    def deallocate(self, task: TaskInfo) -> None:
        self._count(task, -1)

    def _count(self, task: TaskInfo, by: int) -> None:
        queue = task.job.queue
        if queue is None:
            return
        for claim, requests in self._claims(task):
            key = (queue.queue.qid, claim)
            users = self._users[key] = self._users_of(key) + by
            if users == (1 if by > 0 else 0):  # the first that holds it, or the last that did
                self._charge(queue, self._amounts(requests), by)

    def _charge(self, queue: QueueInfo, amounts: Amounts, by: int) -> None:
        for at in (queue, *queue.above):
            add(self._held.setdefault(at.queue.qid, {}), amounts.items(), by)

    # --- what tasks ask for -------------------------------------------------------------------

    def asks(self, task: TaskInfo) -> Requests:
        """The task's requests plus the devices that its queue would hold in addition."""
        return self._with(task, users=0)

    def gives(self, task: TaskInfo) -> Requests:
        """The task's requests plus the devices that no other task of its queue holds."""
        return self._with(task, users=1)

    def _with(self, task: TaskInfo, users: int) -> Requests:
        queue, more = task.job.queue, Amounts()
        for claim, requests in self._claims(task):
            key = (-1 if queue is None else queue.queue.qid, claim)
            if self._users_of(key) == users:
                add(more, self._amounts(requests).items(), 1)
        return tuple(sorted({**dict(task.requests), **more}.items())) if more else task.requests

    def least(self, job: SessionJob) -> Amounts:
        """The devices of the minimum number of tasks that the job needs to start."""
        counted: set[str] = set()
        total: Amounts = {}
        for task in job.tasks[: max(job.minimum, 1)]:
            for claim, requests in self._claims(task):
                if claim not in counted:
                    counted.add(claim)
                    add(total, self._amounts(requests).items(), 1)
        return total

    def _users_of(self, key: tuple[int, str]) -> int:
        """Number of tasks of a queue that hold a claim.

        A turn's context has only some of the tasks: there a claim in use that none of them holds
        counts as held by the queue.
        """
        users = self._users.get(key)
        if users is None and not self._world.whole:
            claim = self._world.objects.claims.get(key[1])
            return int(claim is not None and (bool(claim.reserved) or claim.allocation is not None))
        return users or 0

    def _claims(self, task: TaskInfo) -> Iterator[tuple[str, Sequence[DeviceRequest]]]:
        """For each claim of a task: a key that tells claims apart, and its requests."""
        constraints, space = task.cls.constraints or _NONE, task.job.job.namespace
        objects = self._world.objects
        for name in constraints.claims:
            claim = objects.claims.get(f"{space}/{name}")
            if claim is not None:
                yield f"{space}/{name}", claim.requests
        for name in constraints.claim_templates:
            template = objects.claim_templates.get(f"{space}/{name}")
            if template is not None:
                yield f"{task.key}/{name}", template.requests

    def _amounts(self, requests: Sequence[DeviceRequest]) -> Amounts:
        return device_amounts(requests, self._slots, consumable=self._consumable)
