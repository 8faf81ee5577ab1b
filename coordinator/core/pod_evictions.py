"""Evictions of single pods that somebody asks for: ``kubectl drain`` and ``kubectl delete pod``.

Pure: from the books to one statement, which a writer of the coordinator's own commits. A pod of a
Job comes back as another incarnation, as after any eviction. Where the rest of its gang would fall
below its minimum, the whole gang goes with it and is placed anew together: a half gang would hold
nodes for nothing.

Disruption budgets are counted over the books as the plugin pdb counts them. The ledger has a
version of each: the statement reads and raises it, so that an eviction by a worker in between
refuses the statement and it is counted again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from coordinator.bind.volume_gate import VolumeGate
from coordinator.jobs.state import JobState, SchedulingStatus
from coordinator.order.cross_node import ASKED_FOR, BUDGET
from coordinator.order.order import Order
from shard_worker.dialects.volcano.plugins.job.pdb import allowed
from shared.codec.packed import replace
from shared.ledger.entries.stored import JobRecord, TaskRecord
from shared.messages.messages import (
    ENDED,
    GUARD_GANG,
    GUARD_REST,
    GUARD_WHOLE,
    DomainOp,
    EvictRun,
    Statement,
    TaskState,
)
from shared.model.label_selector import matches
from shared.model.model import Job, Role, WorldObject
from shared.model.storage import Budget

Task = tuple[int, int]
"""(jid, tix)"""
TaskRecords = Mapping[int, tuple[JobRecord, Mapping[int, TaskRecord]]]
"""Job by job what the ledger has of it and of its tasks."""

EVICTABLE = (TaskState.BOUND, TaskState.RUNNING)


class Action(Enum):
    """Kind of a requested eviction, with the checks that apply; the first word of its reason."""

    EVICT = "evict"
    """Disruption budgets are kept (``.../pods/NAME/eviction``)."""
    DELETE = "delete"
    """Nobody is asked (``DELETE .../pods/NAME``), as in Kubernetes."""
    RESTART = "restart"
    """A policy of the Job begins these pods anew while the others run on, as Volcano's controller
    deletes them."""


class EvictionObstacle(Enum):
    ENDING = "the pod is ending by itself; send it again"
    ENDED = "the pod has ended; nothing of it is on a node"
    UNPLACED = "the pod waits for a node, so there is nothing to stop"
    LEFT = "the pod waits for a node; nothing of it is on one"
    VOLUME = "the pod waits for a volume, and gives its place back; send it again"
    BUSY = "the pod's job is being placed; send it again"
    BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


@dataclass(frozen=True, slots=True)
class EvictionPlan:
    """The statement to commit, and the keys whose versions it raises."""

    statement: Statement
    tasks: tuple[Task, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvictionRefusal:
    obstacle: EvictionObstacle
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Leaving:
    """The pod is on its way out already."""


@dataclass(frozen=True, slots=True)
class VolumeWait:
    """These tasks have a place and no volume: they are not evicted, but give it back."""

    tasks: tuple[Task, ...]


class PodEvictions:
    """Plans evictions over the books of ``order``."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._volumes = VolumeGate(order)
        self._committed: dict[Task, int] = {}
        """Evicted in the ledger, and not in the books yet -> incarnation."""

    def plan(
        self, task: Task, objects: Mapping[str, WorldObject], *, action: Action, requester: str
    ) -> EvictionPlan | VolumeWait | EvictionRefusal | Leaving:
        """``objects``: the cluster's objects by ledger key, budgets among them. ``requester``:
        named in the reason that history and events show."""
        self._forget_known()
        jid, tix = task
        order, state = self._order, self._order.jobs.get(jid)
        if state is None or self._leaves(state, tix):
            return Leaving()
        task_state = state.states[tix]
        if task_state == TaskState.RELEASING:
            # It keeps its uid, for whose end whoever drains would wait in vain: once it has ended,
            # it is answered so. Who deletes does not wait for it.
            return (
                Leaving() if action is Action.DELETE else EvictionRefusal(EvictionObstacle.ENDING)
            )
        if task_state in ENDED:
            return EvictionRefusal(EvictionObstacle.ENDED)
        if task_state == TaskState.PENDING:
            # Whoever drains listed it on a node: it left with its gang since, and that is all that
            # was asked for.
            left = action is Action.EVICT
            return EvictionRefusal(EvictionObstacle.LEFT if left else EvictionObstacle.UNPLACED)
        keys = order.spanning.keys(jid)
        if _moves(state) or order.spanning.touched(keys):
            return EvictionRefusal(EvictionObstacle.BUSY)
        whole = order.session.keeps_gangs or state.job.leaves_whole
        tasks = self._gang_of(state, tix) if whole else [tix]
        if waiting := self._wait_for_volumes(state, tasks):
            return VolumeWait(tuple((jid, t) for t in waiting))
        if any(state.states[t] not in EVICTABLE for t in tasks):
            return EvictionRefusal(EvictionObstacle.BUSY)
        if action is Action.EVICT and (why := self._exceeded(state, tasks, objects)):
            return EvictionRefusal(EvictionObstacle.BUDGET, why)
        statement = self._statement(state, tasks, keys, f"{action.value}: for {requester}")
        return EvictionPlan(statement, tuple((jid, t) for t in tasks), tuple(keys))

    def plan_restart(self, jid: int, tasks: Iterable[int]) -> EvictionPlan | None:
        """The statement that stops those of the tasks that hold a node and are not on their way out
        of it; None where there are none, or the job is being placed. Nobody else is asked, and the
        rest of the gang stays: the Job's own policy says so."""
        self._forget_known()
        order, state = self._order, self._order.jobs.get(jid)
        if state is None:
            return None
        keys = order.spanning.keys(jid)
        leaving = [t for t in tasks if state.states[t] in EVICTABLE and not self._leaves(state, t)]
        if not leaving or _moves(state) or order.spanning.touched(keys):
            return None
        reason = f"{Action.RESTART.value}: for {state.job.key}"
        statement = self._statement(state, leaving, keys, reason, guarded=False)
        return EvictionPlan(statement, tuple((jid, t) for t in leaving), tuple(keys))

    def budgets_allow(
        self, task: Task, objects: Mapping[str, WorldObject]
    ) -> EvictionRefusal | None:
        """Whether the budgets allow one pod to go that nobody makes anew; None if they do."""
        self._forget_known()
        jid, tix = task
        state = self._order.jobs.get(jid)
        if state is None or state.states[tix] not in EVICTABLE:
            return None
        why = self._exceeded(state, [tix], objects)
        return EvictionRefusal(EvictionObstacle.BUDGET, why) if why else None

    # --- a plan on its way ----------------------------------------------------------------------

    def begin(self, plan: EvictionPlan) -> None:
        """Keep turns that touch the same keys back until :meth:`end`."""
        self._order.spanning.take(ASKED_FOR, plan.keys)

    def end(self, plan: EvictionPlan, *, accepted: bool) -> None:
        if accepted:
            keys = dict.fromkeys(plan.keys, 1)
            by = plan.statement.jid
            self._order.spanning.accepted(by, keys, evicts=True, out_as=ASKED_FOR)
        self._order.came_back(ASKED_FOR)
        if not accepted:
            return
        for jid, tix in plan.tasks:
            state = self._order.jobs.get(jid)
            if state is not None and tix not in state.evicted:
                self._committed[jid, tix] = state.incarnations.get(tix, 0)
            self.granted((jid, tix))

    def granted(self, task: Task) -> None:
        """Note that the eviction of the task's present incarnation was acknowledged to its caller.
        The pod then changes its uid even if it succeeds before the cluster stops it."""
        jid, tix = task
        if (state := self._order.jobs.get(jid)) is not None:
            state.evicted_on_request[tix] = state.incarnations.get(tix, 0)

    def counted(self, plan: EvictionPlan) -> list[int]:
        """The job of the plan, and those that its budgets count."""
        budgets = [key for key in plan.keys if key.startswith(BUDGET)]
        return sorted(self._order.spanning.members(budgets) | {plan.statement.jid})

    def reread(self, plan: EvictionPlan, versions: Mapping[str, int], records: TaskRecords) -> None:
        """Take the ledger's versions of the plan's keys, after it refused the statement, and then
        its ``records`` of those that are :meth:`counted`: who raised a version may have evicted
        pods of which the books were not told yet (seed 2000739)."""
        self._order.spanning.versions.update({key: versions.get(key, 0) for key in plan.keys})
        for jid, (_, tasks) in records.items():
            if (state := self._order.jobs.get(jid)) is None:
                continue
            for tix, task in tasks.items():
                incarnation = state.incarnations.get(tix, 0)
                if (
                    task.state == TaskState.RELEASING
                    and task.incarnation == incarnation
                    and state.states[tix] in EVICTABLE
                    and tix not in state.evicted
                ):
                    self._committed[jid, tix] = incarnation

    # --- what goes ------------------------------------------------------------------------------

    def _leaves(self, state: JobState, tix: int) -> bool:
        """Whether it is being stopped, by an eviction or with its whole job."""
        if tix in state.evicted or tix in state.stopping:
            return True
        return (state.job.jid, tix) in self._committed

    def _wait_for_volumes(self, state: JobState, tasks: list[int]) -> list[int]:
        return [
            t
            for t in tasks
            if state.states[t] == TaskState.BINDING and self._volumes.unbound(state.job, t)
        ]

    def _forget_known(self) -> None:
        """Forget the evictions that the books have meanwhile."""
        jobs = self._order.jobs
        for (jid, tix), incarnation in list(self._committed.items()):
            state = jobs.get(jid)
            if (
                state is None
                or state.states[tix] not in EVICTABLE
                or tix in state.evicted
                or state.incarnations.get(tix, 0) != incarnation
            ):
                del self._committed[jid, tix]

    def _gang_of(self, state: JobState, tix: int) -> list[int]:
        """The tasks that leave with this one: those of the widest group that would otherwise be
        left in part."""
        job, leaving = state.job, [tix]
        if job.leaves_whole:
            return self._placed(state, 0)
        # From the inside out, each with all that leaves by then: a group that goes as a whole may
        # be more than the one above it can spare (seed 711).
        for group in _chain(job, job.role_of(tix).group):
            members = self._members(state, group, leaving)
            if 0 < members < job.groups[group].minimum:
                leaving = self._placed(state, group)
        return leaving

    def _members(self, state: JobState, group: int, leaving: Collection[int]) -> int:
        """The members of a group once these have left, and those whose eviction the ledger has and
        the books have not yet."""
        job, info = state.job, state.info
        committed = {t for jid, t in self._committed if jid == job.jid} - state.evicted
        ended = sum(group in _chain(job, job.role_of(t).group) for t in committed.union(leaving))
        return info.held[group] + info.best_effort[group] - ended

    def _placed(self, state: JobState, group: int) -> list[int]:
        """The tasks of a group, and of those below, that hold nodes and are not on their way
        out."""
        absent_states = (TaskState.PENDING, TaskState.RELEASING, *ENDED)
        return [
            t
            for role in state.job.roles
            if group in _chain(state.job, role.group)
            for t in range(role.first, role.first + role.count)
            if state.states[t] not in absent_states and not self._leaves(state, t)
        ]

    def _statement(
        self,
        state: JobState,
        tasks: Iterable[int],
        keys: Iterable[str],
        reason: str,
        *,
        guarded: bool = True,
    ) -> Statement:
        order, job = self._order, state.job
        runs: dict[tuple[int, int], EvictRun] = {}
        for tix in tasks:
            role = job.role_of(tix)
            run = runs.get((role.cid, role.group))
            if run is None:
                run = EvictRun(job.jid, job.spec, role.cid, role.group, [], [], guards=0)
                runs[role.cid, role.group] = run
            run.tasks.append(tix)
            run.rows.append(state.rows[tix])
        leaving = list(tasks)
        evictions = list(runs.values())
        if guarded:
            evictions = [
                replace(run, guards=self._guards(state, run.group, leaving)) for run in evictions
            ]
        versions = order.spanning.versions
        return Statement(
            jid=job.jid,
            job_version=job.spec,
            qid=state.info.qid,
            priority=job.priority,
            core=[],
            tail=[],
            displaced=[],
            domains=[DomainOp(key, 1, "le", versions.get(key, 0)) for key in keys],
            evictions=evictions,
            reason=reason,
            in_part=not order.session.keeps_gangs,
        )

    def _guards(self, state: JobState, group: int, leaving: list[int]) -> int:
        """Have the ledger check that the gang is whole or gone afterwards, but for members that
        have ended. A gang that is in part already would be refused for ever: it is not checked."""
        if state.job.leaves_whole:
            return GUARD_WHOLE + self._members(state, 0, leaving) * GUARD_REST
        if not self._order.session.keeps_gangs:
            return 0
        job, rest = state.job, 0
        for above in _chain(job, group):
            members = self._members(state, above, leaving)
            if 0 < members < job.groups[above].minimum:
                if not set(leaving).issuperset(self._placed(state, above)):
                    return 0
                rest = max(rest, members)
        return GUARD_GANG + rest * GUARD_REST

    # --- budgets --------------------------------------------------------------------------------

    def _exceeded(
        self, state: JobState, tasks: list[int], objects: Mapping[str, WorldObject]
    ) -> str:
        """The first budget that does not allow these evictions; "" for none."""
        for key in self._order.spanning.keys(state.job.jid):
            budget = objects.get(key) if key.startswith(BUDGET) else None
            if isinstance(budget, Budget) and (why := self._beyond(budget, state, tasks)):
                return why
        return ""

    def _beyond(self, budget: Budget, state: JobState, tasks: list[int]) -> str:
        """Why the budget does not allow these evictions, in Kubernetes' words; "" if it does."""
        job = state.job
        leaving = [t for t in tasks if _selects(budget, job, job.role_of(t))]
        if not leaving:
            return ""
        healthy = expected = 0
        key = f"{BUDGET}{budget.namespace}/{budget.name}"
        for member in self._order.spanning.members((key,)):
            other = self._order.jobs.get(member)  # pods of a job that is being deleted do not count
            if other is not None and other.job.namespace == budget.namespace:
                runs, exists = self._count(budget, other)
                healthy, expected = healthy + runs, expected + exists
        room = allowed(budget, healthy, expected)
        if len(leaving) <= room:
            return ""
        # Kubernetes evicts pods that do not run whatever the budget says of those that do.
        running = sum(state.states[t] == TaskState.RUNNING for t in leaving)
        if running <= room:
            return ""
        needed = healthy - room
        return (
            f"The disruption budget {budget.name} needs {needed} healthy pods and has {healthy} "
            f"currently; {len(leaving)} would leave together"
        )

    def _count(self, budget: Budget, state: JobState) -> tuple[int, int]:
        """(healthy, expected) pods of a job under a budget."""
        healthy = expected = 0
        evicted = [tix for jid, tix in self._committed if jid == state.job.jid]
        for role in state.job.roles:
            if _selects(budget, state.job, role):
                end = role.first + role.count
                part = state.states[role.first : end]
                healthy += part.count(TaskState.RUNNING)
                healthy -= sum(
                    role.first <= t < end and state.states[t] == TaskState.RUNNING for t in evicted
                )
                expected += role.count - sum(map(part.count, ENDED))
        return healthy, expected


def _moves(state: JobState) -> bool:
    """Whether a turn of the job is open, or its nominations would fall with our statement."""
    return state.status is SchedulingStatus.OPEN or state.unread or bool(state.nominated)


def _chain(job: Job, group: int) -> Iterator[int]:
    """A group and those above it."""
    while group >= 0:
        yield group
        group = job.groups[group].parent


def _selects(budget: Budget, job: Job, role: Role) -> bool:
    return budget.namespace == job.namespace and matches(budget.selector, dict(role.labels))
