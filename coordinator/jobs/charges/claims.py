"""Devices that tasks hold by claims, charged to their queues; updated incrementally.

A claim counts once for each queue that uses it; each task has its own claim of each template. A
claim is charged with what it requested when its first user was placed. Under a KAI policy GPUs of
claims count in queues as all GPUs do, and what waiting tasks claim is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from shard_worker.dialects.kai.claimed_gpus import gpus_of
from shard_worker.dialects.volcano.plugins.queue.capacity_devices import (
    device_amounts,
    device_slots,
)
from shard_worker.session_model.queue_totals import charge_total
from shard_worker.session_model.workload import Amounts, ClusterInfo, QueueInfo, add
from shared.model.devices import ResourceClaim, ResourceClaimTemplate
from shared.model.model import Job, TaskClass, WorldObject
from shared.units.queue_slots import GPU_SHARE, NON_PREEMPTIBLE

Key = tuple[int, str]
"""(queue, claim), or (queue, job and template)."""
Made = ResourceClaim | ResourceClaimTemplate | None


@dataclass(slots=True)
class _Users:
    """The users of claims, and what each claim was charged with."""

    users: dict[Key, int] = field(default_factory=dict)
    taken: dict[Key, Amounts] = field(default_factory=dict)


class ClaimBook:
    """Charges claims to ``QueueInfo.claimed``, and under KAI to ``QueueInfo.claims_requested``."""

    def __init__(self, cluster: ClusterInfo) -> None:
        self._cluster = cluster
        self._placed, self._asking = _Users(), _Users()
        self._slots: dict[str, int] = {}
        self._known: list[str] = []
        """The names of slots that were looked at."""

    def put_object(self, value: WorldObject) -> None:
        objects = self._cluster.objects
        match value:
            case ResourceClaim():
                objects.claims[f"{value.namespace}/{value.name}"] = value
            case ResourceClaimTemplate():
                objects.claim_templates[f"{value.namespace}/{value.name}"] = value
            case _:
                pass

    def drop_object(self, value: WorldObject) -> None:
        objects = self._cluster.objects
        match value:
            case ResourceClaim():
                objects.claims.pop(f"{value.namespace}/{value.name}", None)
            case ResourceClaimTemplate():
                objects.claim_templates.pop(f"{value.namespace}/{value.name}", None)
            case _:
                pass

    def moved(self, queue: QueueInfo, job: Job, cls: TaskClass, by: int) -> None:
        """Charge or release the claims of ``by`` tasks of a job that were placed (or, if negative,
        left)."""
        for key, claim, times in self._changes(self._placed, queue, job, cls, by):
            amounts = self._amounts(self._placed, key, by, partial(self._held, claim, cls))
            if times and amounts:
                charge_total(queue, "claimed", amounts.items(), times)

    def asked(self, queue: QueueInfo, job: Job, cls: TaskClass, by: int) -> None:
        """Count the claims of ``by`` tasks of a job that came, waiting or placed (or went)."""
        for key, claim, times in self._changes(self._asking, queue, job, cls, by):
            amounts = self._amounts(self._asking, key, by, partial(self._gpus, claim))
            if times and amounts:
                add(queue.claims_requested, amounts.items(), times)

    def _changes(
        self, book: _Users, queue: QueueInfo, job: Job, cls: TaskClass, by: int
    ) -> Iterator[tuple[Key, Made, int]]:
        """(key, claim, multiple of what one such claim takes) of each claim of these tasks."""
        constraints = cls.constraints
        if constraints is None:
            return
        objects, space, qid = self._cluster.objects, job.namespace, queue.queue.qid
        for name in constraints.claims:
            key = (qid, f"{space}/{name}")
            before = book.users.get(key, 0)
            yield key, objects.claims.get(f"{space}/{name}"), (before + by > 0) - (before > 0)
        for name in constraints.claim_templates:
            template = objects.claim_templates.get(f"{space}/{name}")
            yield (qid, f"{job.jid}/{name}"), template, by

    def _amounts(self, book: _Users, key: Key, by: int, takes: Callable[[], Amounts]) -> Amounts:
        """Amounts that one claim takes, and the new number of its users."""
        # As of its first user: a claim that is edited while it is used gives back what it took.
        amounts = book.taken.get(key)
        if amounts is None:
            amounts = book.taken[key] = takes()
        users = book.users[key] = book.users.get(key, 0) + by
        if not users:
            del book.users[key], book.taken[key]
        return amounts

    def _held(self, claim: Made, cls: TaskClass) -> Amounts:
        """Amounts that a claim takes of its queue."""
        if claim is None:
            return {}
        names = self._cluster.names
        if names != self._known:  # a number may have another name than before
            self._slots, self._known = device_slots(names), [*names]
        amounts = device_amounts(claim.requests, self._slots, consumable=True)
        gpus, protected = self._gpus(claim), NON_PREEMPTIBLE[-1]
        if gpus and protected in names and is_protected(cls, names):
            amounts[names.index(protected)] = sum(gpus.values())
        return amounts | gpus

    def _gpus(self, claim: Made) -> Amounts:
        """The GPUs of a claim, where queues count them."""
        names = self._cluster.names
        gpus = 0 if claim is None or GPU_SHARE not in names else gpus_of(claim.requests)
        return {names.index(GPU_SHARE): gpus} if gpus else {}


def is_protected(cls: TaskClass, names: Sequence[str]) -> bool:
    """Whether tasks of the class may not be evicted."""
    return any(names[slot] in NON_PREEMPTIBLE for slot, _ in cls.charges)
