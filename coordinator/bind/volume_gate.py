"""Binds that wait until the claims of their tasks have volumes.

A claim with volumeBindingMode WaitForFirstConsumer gets its volume once its task has a node. Until
then the bind is kept back: a kubelet could not mount what is not there. Its entry of the bind
stream stays unacknowledged meanwhile, and that is all that a successor needs: it reads the entry
again, and comes to the same from the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coordinator.bind.binder import BindPlan, part_of
from coordinator.bind.evictions import uid_of
from coordinator.jobs.state import JobState, SchedulingStatus
from coordinator.order.order import Order
from shared.messages.messages import StatusItem, TaskState
from shared.model.model import Job

VOLUME_SECONDS = 600.0
"""A bind waits for volumes this long, as kube-scheduler's does; then its place is released."""


class VolumeGate:
    def __init__(self, order: Order) -> None:
        self._order = order
        self.objects = order.accounts.volumes

    def split(self, plan: BindPlan) -> tuple[BindPlan, BindPlan]:
        """(binds that may go out, binds that wait). Most plans have no task with a claim, which
        costs a look at the classes of their jobs."""
        jobs = {jid: self._order.jobs.get(jid) for jid in dict.fromkeys(plan.jids)}
        if not any(state is not None and self._has_claims(state.job) for state in jobs.values()):
            return plan, part_of(plan, [])
        waits: list[int] = []
        for i, jid in enumerate(plan.jids):
            state = jobs[jid]
            if state is not None and self.unbound(state.job, plan.tasks[i]):
                waits.append(i)
        waiting = set(waits)
        goes = [i for i in range(len(plan.jids)) if i not in waiting]
        return part_of(plan, goes), part_of(plan, waits)

    def _has_claims(self, job: Job) -> bool:
        classes = (self._order.accounts.classes[role.cid] for role in job.roles)
        return any(cls.constraints is not None and cls.constraints.volumes for cls in classes)

    def claims(self, job: Job, tix: int) -> list[str]:
        """The claims of the task, ``namespace/name``."""
        constraints = self._order.accounts.classes[job.role_of(tix).cid].constraints
        names = () if constraints is None else constraints.volumes
        return [f"{job.namespace}/{name}" for name in names]

    def unbound(self, job: Job, tix: int) -> list[str]:
        """Claims of the task that have no volume."""
        return [key for key in self.claims(job, tix) if self.objects.unbound(key)]

    def wanted(self, plan: BindPlan) -> BindPlan:
        """The plan without tasks that are no longer to be bound there: deleted, evicted, or
        released."""
        return part_of(plan, [i for i in range(len(plan.jids)) if self._is_wanted(plan, i)])

    def _is_wanted(self, plan: BindPlan, i: int) -> bool:
        state, tix = self._order.jobs.get(plan.jids[i]), plan.tasks[i]
        if state is None:
            return False
        if state.status is SchedulingStatus.OPEN or state.unread:
            return True  # the outcome of its turn is not known yet, and this may be its place
        same = uid_of(state, tix) == plan.requests.uids[i]
        return same and state.states[tix] == TaskState.BINDING and state.rows[tix] == plan.rows[i]

    def release(
        self,
        plan: BindPlan,
        failures: Mapping[int, str],
        *,
        name_of: Callable[[int], str | None],
    ) -> list[StatusItem]:
        """Give up the places of these tasks (position in the plan -> why): what to record. The
        reason is kept with the job, which is placed again."""
        items = []
        for i, why in failures.items():
            jid, tix, row = plan.jids[i], plan.tasks[i], plan.rows[i]
            items.append(StatusItem(TaskState.PENDING, jid, [tix], [row]))
            state: JobState | None = self._order.jobs.get(jid)
            if state is not None:
                state.refused_by = f"node {name_of(row) or row}: {why}"
        return items
