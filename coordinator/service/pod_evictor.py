"""Commits evictions that somebody asked for, one at a time, under a writer of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

import structlog

from coordinator.core.pod_evictions import (
    Action,
    EvictionObstacle,
    EvictionPlan,
    EvictionRefusal,
    Leaving,
    PodEvictions,
    Task,
    VolumeWait,
)
from coordinator.intake.admission.pod_names import owner_of
from coordinator.intake.admission.registry import Registry, unpack_task
from coordinator.order.order import Order
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.ledger.retry import AcceptedRun, insist, write
from shared.messages.messages import ACCEPTED, CommitBatch, CommitReply, Epoch

EVICTOR = "evictor"
"""Its writer name in the ledger."""
ATTEMPTS = 3
"""How often a statement is made anew after the ledger refused it: what it read had moved."""

log = structlog.get_logger(__name__)


class CommitsEvictions(Protocol):
    async def commit(self, batch: CommitBatch) -> CommitReply: ...
    async def read_domains(self) -> dict[str, int]: ...
    async def read_tasks(
        self, jids: list[int]
    ) -> dict[int, tuple[JobRecord, dict[int, TaskRecord]]]: ...


class PodEvictor:
    def __init__(
        self,
        order: Order,
        ledger: CommitsEvictions,
        *,
        epoch: Epoch,
        registry: Callable[[], Registry],
        run: AcceptedRun,
        kick: Callable[[], None],
        guard: asyncio.Lock,
        withdraw: Callable[[Iterable[Task]], None],
    ) -> None:
        """``kick``: called after each, so that what waited for it goes on. ``guard``: the
        recorder's. ``withdraw``: has tasks that wait for volumes give their places back."""
        self._evictions = PodEvictions(order)
        self._ledger = ledger
        self._epoch = epoch
        self._registry = registry
        self._run = run
        self._kick = kick
        self._sequence = 0
        # Two evictions at once would count the same budget twice; and while a state is being
        # recorded the books still count a pod that has ended as running (seed 709).
        self._guard = guard
        self._withdraw = withdraw

    def task_of(self, namespace: str, name: str) -> Task | None:
        """The task of a pod; None if there is none."""
        registry = self._registry()
        task = registry.pods.get(f"{namespace}/{name}")
        if task is not None:
            return unpack_task(task)
        owner = owner_of(registry, namespace, name)
        return None if owner is None else (owner[0].jid, owner[1])

    def budgets_allow(self, task: Task) -> EvictionRefusal | None:
        return self._evictions.budgets_allow(task, self._registry().objects)

    async def evict(
        self, task: Task, *, action: Action, requester: str, dry_run: bool = False
    ) -> EvictionRefusal | Leaving:
        """Evict a pod of a Job, with its gang where that demands it. Leaving: it is on its way out,
        by this call or by an earlier one."""
        async with self._guard:
            for _ in range(ATTEMPTS):
                plan = self._evictions.plan(
                    task, self._registry().objects, action=action, requester=requester
                )
                if isinstance(plan, VolumeWait):
                    if dry_run:
                        return Leaving()
                    self._withdraw(plan.tasks)
                    deleted = action is Action.DELETE  # who deletes does not ask again
                    return Leaving() if deleted else EvictionRefusal(EvictionObstacle.VOLUME)
                if not isinstance(plan, EvictionPlan):
                    if isinstance(plan, Leaving) and not dry_run:
                        self._evictions.granted(task)
                    return plan
                if dry_run or await self._commit(plan):
                    return Leaving()
            return EvictionRefusal(EvictionObstacle.BUSY)

    async def restart(self, jid: int, tasks: Sequence[int]) -> None:
        """Stop those of the tasks that hold a node, so that they begin anew; none of them where
        the job is being placed."""
        async with self._guard:
            plan = self._evictions.plan_restart(jid, tasks)
            if plan is not None:
                await self._commit(plan)

    async def _commit(self, plan: EvictionPlan) -> bool:
        self._evictions.begin(plan)
        accepted = False
        try:
            reply = await self._send(plan)
            # Sent again after a lost answer, the ledger returns the first answer.
            accepted = all(answer.verdict in ACCEPTED for answer in reply.answers)
            if not accepted:
                log.info("Eviction is made anew", verdict=reply.answers[0].verdict.name)
                # The records after the versions: those of before would not show what moved them.
                versions = await insist(self._ledger.read_domains, call_name="read domains")
                counted = partial(self._ledger.read_tasks, self._evictions.counted(plan))
                records = await insist(counted, call_name="read tasks")
                self._evictions.reread(plan, versions, records)
        finally:
            self._evictions.end(plan, accepted=accepted)
            self._kick()
        return accepted

    async def _send(self, plan: EvictionPlan) -> CommitReply:
        self._sequence += 1
        sequence = self._sequence

        def send(run: str) -> Awaitable[CommitReply]:
            batch = CommitBatch(EVICTOR, self._epoch, sequence, run, [plan.statement])
            return self._ledger.commit(batch)

        return await write(send, run=self._run, call_name="evict")
