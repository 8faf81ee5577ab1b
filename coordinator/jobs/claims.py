"""Devices that tasks hold by claims, charged to their queues; updated incrementally.

A claim counts once for each queue that uses it; each task has its own claim of each template. A
claim is charged with what it requested when its first user was placed.
"""

from __future__ import annotations

from shard_worker.dialects.volcano.plugins.queue.capacity_devices import (
    device_amounts,
    device_slots,
)
from shard_worker.session_model.queue_totals import charge_total
from shard_worker.session_model.workload import Amounts, ClusterInfo, QueueInfo
from shared.model.constraints import Constraints
from shared.model.devices import ResourceClaim, ResourceClaimTemplate
from shared.model.model import Job, WorldObject

Key = tuple[int, str]
"""(queue, claim), or (queue, job and template)."""
Made = ResourceClaim | ResourceClaimTemplate | None


class ClaimBook:
    """Charges claims to ``QueueInfo.claimed``."""

    def __init__(self, cluster: ClusterInfo) -> None:
        self._cluster = cluster
        self._users: dict[Key, int] = {}
        self._taken: dict[Key, Amounts] = {}
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

    def moved(self, queue: QueueInfo, job: Job, constraints: Constraints, by: int) -> None:
        """Charge or release the claims of ``by`` tasks of a job that were placed (or, if negative,
        left)."""
        objects, space, qid = self._cluster.objects, job.namespace, queue.queue.qid
        for name in constraints.claims:
            claim = objects.claims.get(f"{space}/{name}")
            key = (qid, f"{space}/{name}")
            before = self._users.get(key, 0)
            self._charge(queue, key, claim, by, (before + by > 0) - (before > 0))
        for name in constraints.claim_templates:
            template = objects.claim_templates.get(f"{space}/{name}")
            self._charge(queue, (qid, f"{job.jid}/{name}"), template, by, by)

    def _charge(self, queue: QueueInfo, key: Key, claim: Made, by: int, times: int) -> None:
        """``by``: change in the number of users; ``times``: multiple of what one claim takes."""
        # As of its first user: a claim that is edited while it is used gives back what it took.
        amounts = self._taken.get(key)
        if amounts is None:
            amounts = self._taken[key] = self._takes(claim)
        if times and amounts:
            charge_total(queue, "claimed", amounts.items(), times)
        users = self._users[key] = self._users.get(key, 0) + by
        if not users:
            del self._users[key], self._taken[key]

    def _takes(self, claim: Made) -> Amounts:
        names = self._cluster.names
        if names != self._known:  # a number may have another name than before
            self._slots, self._known = device_slots(names), [*names]
        if claim is None:
            return {}
        return device_amounts(claim.requests, self._slots, consumable=True)
