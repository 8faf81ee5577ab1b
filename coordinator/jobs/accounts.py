"""The totals behind Order: capacity of the cluster, usage of queues and jobs, and promised amounts.

Every change of a task's state passes through :meth:`Accounts.move`; every open turn and nomination
through :meth:`Accounts.promise` and :meth:`Accounts.give_back`. ``validate`` recomputes everything
from the task states and compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from coordinator.jobs.charges.claims import ClaimBook
from coordinator.jobs.charges.cluster_capacity import ClusterCapacity
from coordinator.jobs.charges.gpu_memory import GpuMemoryBook, by_memory
from coordinator.jobs.charges.volumes import VolumeBook
from coordinator.jobs.gate_removals import GateRemovals
from coordinator.jobs.rule_objects import drop_rule_object, put_rule_object
from coordinator.jobs.state import (
    NO_TASKS,
    JobState,
    Need,
    amounts,
    by_state,
    count_group,
    deleted_members,
    recount,
)
from shard_worker.session_model.queue_totals import (
    PENDING,
    RUNNING,
    book,
    charge,
    charge_total,
    figures,
    link,
    reserves,
    unbook,
    waits_for_entry,
)
from shard_worker.session_model.workload import Amounts, ClusterInfo, JobInfo, QueueInfo, add
from shared.messages.messages import ALLOCATE, HOLDING, UNSUCCESSFUL, Outcome, TaskState
from shared.model.model import Node, Queue, Requests, Role, TaskClass, WorldObject
from shared.units.things import Vector

PENDING_STATE = int(TaskState.PENDING)
_STATES = tuple(TaskState)
"""By number: the enum's call takes ten times as long as an index."""
_USING = frozenset({TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING})
_PROCEEDS = frozenset({TaskState.BOUND, TaskState.RUNNING})
_REQUESTED = _USING | {TaskState.PENDING}
_OUTSIDE = frozenset({TaskState.PENDING, *UNSUCCESSFUL})
_HOLDING = frozenset(HOLDING)
_TOTALS = ("allocated", "requested", "gated", "releasing", "inqueue", "kept", "reserved")


class Accounts:
    """Totals of cluster, queues and jobs, updated incrementally."""

    def __init__(self) -> None:
        self.cluster = ClusterInfo()
        self.capacity = ClusterCapacity(offered=self.cluster.total, idle=self.cluster.free)
        self.classes: dict[int, TaskClass] = {}
        self.dirty = True
        """A total moved since the last session: shares must be computed anew."""
        self.tasks: Counter[int] = Counter()
        """Tasks of all jobs by state."""
        self.deleted = 0
        """Tasks that ended because their pods were deleted."""
        self.started = 0
        """Jobs that hold a member and are neither done nor deleted."""
        self.nowhere = QueueInfo(queue=Queue(qid=-1, name=""))
        """The totals of jobs whose queue does not exist."""
        self.queueless: dict[int, JobInfo] = {}
        """Jobs whose queue does not exist."""
        self.unlinked = False
        """A queue came, went or moved since it was told which ones are above it."""
        self.claims = ClaimBook(self.cluster)
        self.gpu_memory = GpuMemoryBook(self.cluster, self.classes)
        self.volumes = VolumeBook()
        self.gates = GateRemovals(self.cluster, self.classes)

    def begin(self, now: float) -> None:
        """Start a session: values derived from totals and queues are recomputed."""
        self.cluster.now = now
        if self.unlinked:
            link(self.cluster.queues)
            self.unlinked = False
        for state in self.gpu_memory.take_rowless():
            self._settle_memory(state)
        if self.dirty:
            self.cluster.revision += 1
            self.dirty = False

    # --- objects ------------------------------------------------------------------------------

    def put_object(self, value: WorldObject) -> None:
        """Add or update an object. Namespace quotas count in rules over totals; any object may be
        what a job waits for."""
        self.capacity.freed()
        self.claims.put_object(value)
        self.volumes.put(value)
        self.dirty |= put_rule_object(self.cluster.objects, value)

    def drop_object(self, value: WorldObject) -> None:
        self.capacity.freed()
        self.claims.drop_object(value)
        self.volumes.drop(value)
        self.dirty |= drop_rule_object(self.cluster.objects, value)

    # --- nodes --------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """Add or update a node."""
        self.drop_node(node.row)
        self.cluster.nodes[node.row] = node
        self.gpu_memory.count_node(node, +1)
        self._offer(node.allocatable, +1)

    def drop_node(self, row: int) -> None:
        node = self.cluster.nodes.pop(row, None)
        if node is not None:
            self.gpu_memory.count_node(node, -1)
            self._offer(node.allocatable, -1)

    def _offer(self, requests: Requests, sign: int) -> None:
        add(self.cluster.total, requests, sign)
        add(self.capacity.idle, requests, sign)
        if sign > 0:
            self.capacity.freed()
        self.cluster.nodes_revision += 1
        self.dirty = True

    def observe(self, foreign: dict[int, dict[int | str, int | Vector]]) -> None:
        """Take what pods that are not ours use, by row."""
        self.cluster.foreign = foreign
        self.cluster.foreign_sums = {}
        for used in foreign.values():
            amounts = [
                (at, n) for at, n in used.items() if isinstance(at, int) and isinstance(n, int)
            ]
            add(self.cluster.foreign_sums, amounts, +1)
        self.cluster.nodes_revision += 1
        self.capacity.freed()
        self.dirty = True

    # --- jobs ---------------------------------------------------------------------------------

    def admit(self, state: JobState) -> None:
        """Add a job to its queue's totals. Policies see only jobs whose queue exists."""
        state.counted = True
        jobs = self.cluster.jobs if state.info.qid >= 0 else self.queueless
        jobs[state.job.jid] = state.info
        self.queue(state).jobs += 1
        self.started += state.info.held[0] > 0
        self._count(state, +1)

    def retire(self, state: JobState) -> None:
        """Stop counting a finished or deleted job as one of its queue's jobs. What its tasks hold
        still counts."""
        if state.counted:
            state.counted = False
            if state.info.figures is not None:
                unbook(self.cluster, self.queue(state), state.info)
            jobs = self.cluster.jobs if state.info.qid >= 0 else self.queueless
            del jobs[state.job.jid]
            self.queue(state).jobs -= 1
            self.started -= state.info.held[0] > 0
            self.dirty = True

    def forget(self, state: JobState) -> None:
        """Remove a job from every total, as if it had never been there."""
        self.retire(state)
        self._count(state, -1)

    def _count(self, state: JobState, sign: int) -> None:
        queue, info = self.queue(state), state.info
        if info.requested:
            add(queue.requested, info.requested.items(), sign)
            add(queue.gated, info.gated.items(), sign)
        if info.allocated:
            add(queue.requested, info.allocated.items(), sign)
            charge(queue, info.allocated.items(), sign)
        self.dirty = True
        if sign > 0 and info.job.min_resources is not None:
            self.refigure(state)
        self._ask_claims(state, queue, sign)
        self._count_memory(state, queue, sign)
        for role in state.job.roles:
            if role.annotations and reserves(role):
                waiting = state.states.count(PENDING_STATE, role.first, role.first + role.count)
                charged = self.classes[role.cid].charged
                charge_total(queue, "reserved", charged, sign * waiting)
        if not any(state.states):
            self.tasks[TaskState.PENDING] += sign * len(state.states)
            return
        self.deleted += sign * deleted_members(state)
        for role in state.job.roles:
            part = by_state(state.states[role.first : role.first + role.count])
            cls = self.classes[role.cid]
            requests = cls.requests
            if cls.constraints is not None and (using := sum(part.get(s, 0) for s in _USING)):
                self.claims.moved(queue, state.job, cls, sign * using)
            for before, count in part.items():
                self.tasks[before] += sign * count
                if before in _HOLDING:
                    add(self.capacity.idle, requests, -sign * count)
                if before == TaskState.RELEASING:
                    add(self.capacity.releasing, requests, sign * count)
                    add(queue.releasing, cls.charged, sign * count)

    def _ask_claims(self, state: JobState, queue: QueueInfo, sign: int) -> None:
        """Count what tasks of a job claim that wait, or are placed."""
        for role in state.job.roles:
            cls = self.classes[role.cid]
            if cls.constraints is None:
                continue
            part = by_state(state.states[role.first : role.first + role.count])
            number = sum(part.get(each, 0) for each in (TaskState.PENDING, *_USING))
            if number:
                self.claims.asked(queue, state.job, cls, sign * number)

    def _count_memory(self, state: JobState, queue: QueueInfo, sign: int) -> None:
        """Count what tasks of a job hold, or wait for, by MiB of GPUs."""
        for role in state.job.roles:
            cls = self.classes[role.cid]
            if by_memory(cls) and not role.gated:
                waiting = state.states.count(PENDING_STATE, role.first, role.first + role.count)
                self.gpu_memory.wait(queue, cls, sign * waiting)
        if sign > 0:
            self._settle_memory(state)
        else:
            self.gpu_memory.forget(queue, state.job.jid)

    def _settle_memory(self, state: JobState) -> None:
        for role in state.job.roles:
            if by_memory(self.classes[role.cid]):
                tasks = range(role.first, role.first + role.count)
                self.gpu_memory.settle(self.queue(state), state, role, tasks)

    def queue(self, state: JobState) -> QueueInfo:
        qid = state.info.qid
        return self.cluster.queues[qid] if qid >= 0 else self.nowhere

    def needed(self, need: Need, *, most: bool = False) -> Amounts:
        """The least amounts of a need; ``most``: as much as its tasks may come to on some node."""
        if not self.depends_on_node(need):
            return amounts(need, self.classes)
        return self.gpu_memory.needed(need, most=most)

    def most(self, state: JobState, need: Need) -> Amounts | None:
        """Amounts that as many tasks of a job as are needed may come to on some nodes; None where
        they are the same on all."""
        if not any(map(by_memory, state.info.classes)):
            return None
        return self.gpu_memory.most(state, need)

    def depends_on_node(self, need: Need) -> bool:
        """Whether the amounts of a need are not the same on every node."""
        return any(by_memory(self.classes[cid]) for cid, _ in need)

    # --- promises -----------------------------------------------------------------------------

    def promise(self, state: JobState, charge: list[tuple[int, int]]) -> None:
        """Charge (class, tasks) to the job's queue and to the cluster until :meth:`give_back`."""
        # A job has one charge at a time: what it was promised before is returned first.
        self.give_back(state)
        state.charge = charge
        state.charged_beside = self.gpu_memory.promised(state)
        self._promise(state, +1)

    def give_back(self, state: JobState) -> None:
        if state.charge:
            self._promise(state, -1)
            state.charge, state.charged_beside = [], {}

    def _promise(self, state: JobState, times: int) -> None:
        queue = self.queue(state)
        for cid, count in state.charge:
            cls = self.classes[cid]
            if queue.above:
                charge(queue, cls.charged, times * count)
            else:
                add(queue.allocated, cls.charged, times * count)
            add(self.capacity.promised, cls.requests, times * count)
        if state.charged_beside:
            charge_total(queue, "claimed", state.charged_beside.items(), times)

    # --- tasks --------------------------------------------------------------------------------

    def begin_binds(self, state: JobState, outcome: Outcome) -> None:
        """Count the tasks that a turn has placed as binding."""
        for placement in outcome.placements:
            if placement.kind == ALLOCATE:
                self.move(state, state.expected(placement.tasks), TaskState.BINDING)
        state.returned = NO_TASKS

    def begin_bind_run(self, run: Sequence[JobState]) -> None:
        """As :meth:`begin_binds` after :meth:`give_back`, of like jobs that :meth:`binds_alike`
        tells apart from others: each total moves once."""
        first, count = run[0], len(run)
        self._promise(first, -count)
        for state in run:
            info, job = state.info, state.job
            state.charge, state.need = [], None
            state.states[0] = TaskState.BINDING
            self.started += state.counted and not info.held[0]
            count_group(info.held, job.groups, job.roles[0].group, 1)
            info.pending, info.using = 0, 1
            # Its one task is all that the job requests.
            info.requested, info.allocated = info.allocated, info.requested
        self.tasks[TaskState.PENDING] -= count
        self.tasks[TaskState.BINDING] += count
        role = first.job.roles[0]
        self._account_totals(first, role, TaskState.PENDING, TaskState.BINDING, count)

    def binds_alike(self, state: JobState) -> tuple[int, int] | None:
        """The queue and the class of a job of one pending task with an open turn, whose bind moves
        nothing but sums of these two; None for any other job."""
        role, info, charge = state.job.roles[0], state.info, state.charge
        cls = self.classes[role.cid]
        if (
            len(state.states) != 1
            or state.states[0]
            or len(state.job.roles) != 1
            or info.pending != 1
            or charge != [(role.cid, 1)]
            or state.charged_beside
            or state.evicted
            or state.nominated
            or role.gated
            or (role.annotations and reserves(role))
            or state.returned
            or info.job.min_resources is not None
            or cls.constraints is not None
            or by_memory(cls)
        ):
            return None
        return info.qid, role.cid

    def move(self, state: JobState, tasks: Iterable[int], new: TaskState) -> None:
        """Move tasks from their present states to a new one, and update every total."""
        roles, tasks = state.job.roles, list(tasks)
        if state.evicted and new is not TaskState.RELEASING:
            self.leave(state, state.evicted.intersection(tasks), leaving=False)
        if len(roles) == 1:
            self._move(state, roles[0], tasks, new)
            return
        for role in roles:
            members = [t for t in tasks if role.first <= t < role.first + role.count]
            if members:
                self._move(state, role, members, new)

    def proceed(self, state: JobState, tasks: Sequence[int], new: TaskState) -> bool:
        """As :meth:`move`, from being bound towards running, which no sum tells apart. False, and
        nothing is done, where it is another move, or the job's figures follow its tasks."""
        states = state.states
        if new not in _PROCEEDS or state.info.job.min_resources is not None:
            return False
        if any(states[t] not in _USING for t in tasks):
            return False
        if any(map(by_memory, state.info.classes)):
            return False
        counts = self.tasks
        for t in tasks:
            counts[states[t]] -= 1
            states[t] = new
        counts[new] += len(tasks)
        self.dirty = True
        return True

    def leave(self, state: JobState, tasks: Collection[int], *, leaving: bool) -> None:
        """Mark RELEASING tasks as being evicted, or not any more; evicted ones are no members of
        their gangs."""
        members = state.info.held
        before = members[0] > 0
        for tix in tasks:
            group = state.job.role_of(tix).group
            count_group(members, state.job.groups, group, -1 if leaving else 1)
        if state.counted:
            self.started += (members[0] > 0) - before
        if leaving:
            state.evicted |= frozenset(tasks)
        else:
            state.evicted = state.evicted.difference(tasks) or NO_TASKS
        state.need = None
        self.dirty = True

    def _move(self, state: JobState, role: Role, tasks: list[int], new: TaskState) -> None:
        states = state.states
        state.need = None
        befores: dict[int, int] = {}
        for t in tasks:
            before = states[t]
            befores[before] = befores.get(before, 0) + 1
            states[t] = new
        self.tasks[new] += len(tasks)
        for before, count in befores.items():
            self.tasks[before] -= count
            if before != new:
                self._account(state, role, _STATES[before], new, count)
        if by_memory(self.classes[role.cid]):
            self.gpu_memory.settle(self.queue(state), state, role, tasks)
        self.refigure(state)

    def _account(
        self, state: JobState, role: Role, before: TaskState, new: TaskState, count: int
    ) -> None:
        if before in _USING and new in _USING:  # on its way to running: no sum tells these apart
            self.dirty = True
            return
        info, charged = state.info, self.classes[role.cid].charged
        # Differences and no recount: a state change costs the same whatever the job's size
        # (decision 0035).
        if (before in _OUTSIDE) != (new in _OUTSIDE):
            sign = -1 if new in _OUTSIDE else 1
            was_started = info.held[0] > 0
            count_group(info.held, state.job.groups, role.group, sign * count)
            if state.counted:
                self.started += (info.held[0] > 0) - was_started
        if before is TaskState.PENDING or new is TaskState.PENDING:
            self._pending(state, role, count if new is TaskState.PENDING else -count)
        if (before in UNSUCCESSFUL) != (new in UNSUCCESSFUL):
            info.failed += count if new in UNSUCCESSFUL else -count
        if (before in _USING) != (new in _USING):
            using = count if new in _USING else -count
            info.using += using
            add(info.allocated, charged, using)
        self._account_totals(state, role, before, new, count)

    def _pending(self, state: JobState, role: Role, delta: int) -> None:
        info, cls = state.info, self.classes[role.cid]
        if state.backfills(cls):
            count_group(info.best_effort, state.job.groups, role.group, delta)
        else:
            info.pending += delta
        add(info.requested, cls.charged, delta)
        if role.gated:
            add(info.gated, cls.charged, delta)

    def _account_totals(
        self, state: JobState, role: Role, before: TaskState, new: TaskState, count: int
    ) -> None:
        """Move ``count`` tasks of a role, or of like roles, in the totals of queue and cluster."""
        cls, queue, capacity = self.classes[role.cid], self.queue(state), self.capacity
        requests, charged = cls.requests, cls.charged
        if (before is TaskState.PENDING) != (new is TaskState.PENDING):
            waiting = count if new is TaskState.PENDING else -count
            if by_memory(cls) and not role.gated:
                self.gpu_memory.wait(queue, cls, waiting)
            if role.gated:
                add(queue.gated, charged, waiting)
            elif role.annotations and reserves(role):
                charge_total(queue, "reserved", charged, waiting)
        if (before in _REQUESTED) != (new in _REQUESTED):
            requested = count if new in _REQUESTED else -count
            add(queue.requested, charged, requested)
            if cls.constraints is not None:
                self.claims.asked(queue, state.job, cls, requested)
        if (before in _USING) != (new in _USING):
            using = count if new in _USING else -count
            if queue.above:
                charge(queue, charged, using)
            else:
                add(queue.allocated, charged, using)
            if cls.constraints is not None:
                self.claims.moved(queue, state.job, cls, using)
        if (before in _HOLDING) != (new in _HOLDING):
            add(capacity.idle, requests, -count if new in _HOLDING else count)
        if TaskState.RELEASING in (before, new):
            leaving = count if new is TaskState.RELEASING else -count
            add(capacity.releasing, requests, leaving)
            add(queue.releasing, charged, leaving)
        if (before in _USING and new not in _USING) or (before in _HOLDING and new not in _HOLDING):
            capacity.freed()  # it begins to leave: can be promised; it left: can be taken
        self.dirty = True

    def refigure(self, state: JobState) -> None:
        """Update what the totals count of a job's minResources, and its phase."""
        info = state.info
        if info.job.min_resources is None or not state.counted or info.qid < 0:
            return
        members = info.held[0]
        if members and members >= info.job.groups[0].minimum:
            info.phase = RUNNING
        elif info.phase == RUNNING and not members:
            # Not while some members run: the queue counts these as well as all of minResources, so
            # that the rest of the gang might never be admitted.
            info.phase = PENDING
        if not waits_for_entry(info.phase) or info.allocated or info.figures is not None:
            book(self.cluster, self.queue(state), info)

    # --- invariants ---------------------------------------------------------------------------

    def validate(self, jobs: Iterable[JobState]) -> None:
        """Raise AssertionError where a total differs from a recomputed one. ``jobs``: all, deleted
        ones that are not purged included."""
        idle: Amounts = {}
        releasing: Amounts = {}
        promised: Amounts = {}
        tasks: Counter[int] = Counter()
        queues: dict[int, QueueInfo] = {}
        for node in self.cluster.nodes.values():
            add(idle, node.allocatable, 1)
        for state in jobs:
            self._validate_job(state)
            queue = queues.setdefault(state.info.qid, QueueInfo(queue=self.queue(state).queue))
            queue.jobs += state.counted
            for total in (queue.allocated, queue.requested):
                add(total, list(state.info.allocated.items()), 1)
            add(queue.requested, list(state.info.requested.items()), 1)
            add(queue.gated, list(state.info.gated.items()), 1)
            own_figures = figures(state.info) if state.counted and state.info.qid >= 0 else None
            if own_figures is not None:
                add(queue.inqueue, own_figures.inqueue.items(), 1)
                add(queue.kept, own_figures.kept.items(), 1)
            tasks.update(state.states)
            for role in state.job.roles:
                cls = self.classes[role.cid]
                part = state.states[role.first : role.first + role.count]
                if reserves(role):
                    add(queue.reserved, cls.charged, part.count(TaskState.PENDING))
                add(idle, cls.requests, -sum(part.count(s) for s in HOLDING))
                add(releasing, cls.requests, part.count(TaskState.RELEASING))
                add(queue.releasing, cls.charged, part.count(TaskState.RELEASING))
            for cid, count in state.charge:
                add(promised, self.classes[cid].requests, count)
                add(queue.allocated, self.classes[cid].charged, count)
        self.gates.add_to(queues)
        assert _same(idle, self.capacity.idle), ("idle", idle, self.capacity.idle)
        assert _same(releasing, self.capacity.releasing), ("releasing", releasing)
        assert _same(promised, self.capacity.promised), ("promised", promised)
        assert +tasks == +self.tasks, ("tasks", tasks, self.tasks)
        for qid, recorded in [*self.cluster.queues.items(), (-1, self.nowhere)]:
            now = queues.pop(qid, QueueInfo(queue=recorded.queue))
            assert recorded.jobs == now.jobs, (recorded.queue.name, "jobs", recorded.jobs, now.jobs)
            for name in _TOTALS:
                left, right = getattr(recorded, name), getattr(now, name)
                assert _same(left, right), (recorded.queue.name, name, left, right)
        assert not queues, ("no such queue", list(queues))
        self._validate_tree()

    def _validate_tree(self) -> None:
        """Compare the sums below each queue with recomputed ones."""
        recorded = {qid: info.below for qid, info in self.cluster.queues.items()}
        if self.unlinked:
            return  # it is added up anew before anybody asks
        link(self.cluster.queues)
        for qid, info in self.cluster.queues.items():
            before = recorded[qid]
            assert (before is None) == (info.below is None), (info.queue.name, "below")
            for name in ("allocated", "inqueue", "kept", "reserved") if before else ():
                left, right = getattr(before, name), getattr(info.below, name)
                assert _same(left, right), (info.queue.name, "below", name, left, right)

    def _validate_job(self, state: JobState) -> None:
        info = state.info
        recorded = (list(info.held), info.pending, info.failed, dict(info.allocated), info.using)
        gated = dict(info.gated)
        recount(state, self.classes)
        now = (list(info.held), info.pending, info.failed, dict(info.allocated), info.using)
        assert _same(gated, info.gated), (state.job.key, "gated", gated, info.gated)
        assert _same(recorded[3], now[3]), (state.job.key, "allocated", recorded[3], now[3])
        assert recorded[:3] + recorded[4:] == now[:3] + now[4:], (state.job.key, recorded, now)


def _same(left: Amounts, right: Amounts) -> bool:
    return all(left.get(s, 0) == right.get(s, 0) for s in left.keys() | right.keys())
