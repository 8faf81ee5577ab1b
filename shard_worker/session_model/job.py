"""A job inside a session: its tasks, its sub jobs, and how many are in each state.

Only a session over a world (:mod:`shard_worker.session_model.world`) has an object per task. The
fast path has columns and runs.

The counts that gang rules ask for follow every change of a task's status, so that asking costs the
same for a job of three tasks and one of ten thousand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from shard_worker.session_model.status import LOST, OCCUPYING, READY, STATUS_OF, VALID, Status
from shard_worker.session_model.workload import Amounts, JobInfo, QueueInfo, add
from shared.messages.messages import TaskState
from shared.model.label_selector import matches
from shared.model.model import Job, Requests, Role, TaskClass
from shared.model.topology import SubGroupPolicy, Topology
from shared.units.things import Things

_NUMBER = re.compile(r"-?[0-9]{1,9}")

DEFAULT_SUB_JOB = ""
"""Name of the sub job of all tasks that no policy names."""
PREEMPTABLE = "volcano.sh/preemptable"
"""Annotation, or label, of a pod or its job: whether it may be evicted for others."""


@dataclass(slots=True, eq=False)
class TaskInfo:
    """Compared by identity: a world has one object per task."""

    job: SessionJob
    tix: int
    """Index in its job."""
    role: Role
    cls: TaskClass
    name: str
    """Name of its pod."""
    status: Status = Status.PENDING
    row: int = -1
    """The node it is on, was on, or is pipelined to; -1 for none."""
    sub: SubJob = field(init=False)
    nominated: int = -1
    """Row of the node that an earlier session nominated for it; -1 for none."""
    created: float = 0.0
    """Seconds since 1970."""
    started: float = 0.0
    """When it began to run, seconds since 1970; 0 where unknown."""
    uid: str = ""
    devices: Things = ()
    """Devices that it takes of its node: where it is, was placed in this session, or is leaving."""
    evicted: bool = False
    """Whether a statement of this session evicted it; False for tasks that were leaving before."""

    @property
    def key(self) -> str:
        return f"{self.job.job.namespace}/{self.name}"

    @property
    def cid(self) -> int:
        return self.role.cid

    @property
    def requests(self) -> Requests:
        return self.cls.requests

    @property
    def charged(self) -> Requests:
        """Amounts that the task counts for its job and its queue."""
        return self.cls.charged

    @property
    def taking(self) -> TaskClass:
        """Its class, with its devices: what it takes of its node."""
        return self.cls.with_devices(self.devices)

    @property
    def gated(self) -> bool:
        """Whether it has a scheduling gate."""
        return self.role.gated

    @property
    def best_effort(self) -> bool:
        """Whether it requests nothing but a pod slot."""
        return self.cls.best_effort

    @property
    def backfilled(self) -> bool:
        """Whether backfill places it; it then counts as present while it is pending."""
        return self.job.backfilled and self.cls.best_effort

    @property
    def priority(self) -> int:
        return self.role.priority

    @property
    def preempts(self) -> bool:
        """Whether others may be evicted for it (``preemptionPolicy`` other than Never)."""
        constraints = self.cls.constraints
        return constraints is None or constraints.preempts

    @property
    def preemptable(self) -> bool:
        """Whether it may be evicted for others; the pod's annotation or label wins over its
        job's."""
        for marks in (self.role.annotations, self.role.labels):
            for key, value in marks:
                if key == PREEMPTABLE:
                    return value.lower() == "true"
        return self.job.preemptable

    def __repr__(self) -> str:
        return f"<{self.key} {self.status.name} {self.row}>"


class Census:
    """How many tasks are in each state, best-effort ones counted apart."""

    __slots__ = ("best_effort", "by_status")

    def __init__(self) -> None:
        self.by_status: Counter[Status] = Counter()
        self.best_effort: Counter[Status] = Counter()

    def count(self, task: TaskInfo, by: int) -> None:
        self.by_status[task.status] += by
        if task.backfilled:
            self.best_effort[task.status] += by

    def of(self, states: Status) -> int:
        """Tasks in any of these states."""
        bits = states._value_  # flags as plain integers: asked for after every placement
        return sum(n for status, n in self.by_status.items() if status._value_ & bits)

    @property
    def ready(self) -> int:
        """Tasks that count as ready: allocated, binding, bound, running or succeeded."""
        return self.of(READY)

    @property
    def waiting(self) -> int:
        """Pipelined tasks."""
        return self.by_status[Status.PIPELINED]

    @property
    def pending_best_effort(self) -> int:
        """Pending tasks that backfill places: they count as present."""
        return self.best_effort[Status.PENDING]

    @property
    def valid(self) -> int:
        """Tasks that count, or still may, for the minimum."""
        return self.of(VALID)


def requested(tasks: Iterable[TaskInfo]) -> Amounts:
    """The amounts that tasks request together."""
    total: Amounts = {}
    for task in tasks:
        add(total, task.requests, 1)
    return total


@dataclass(slots=True, eq=False)
class SubJob:
    """A part of a job that is placed together. A job without policies has one, which is the whole
    job."""

    job: SessionJob
    name: str
    """Unique in the job; :data:`DEFAULT_SUB_JOB` for the tasks of no policy."""
    minimum: int
    policy: SubGroupPolicy | None = None
    match: tuple[str, ...] = ()
    """The values of the policy's label keys that its tasks share."""
    index: int = 0
    """Order of sub-jobs where no plugin decides: their first matched value, if it is a number."""
    tasks: list[TaskInfo] = field(default_factory=list)
    census: Census = field(default_factory=Census)
    allocated_hyper_node: str = ""
    """Lowest hyper node that holds all its placed tasks; "" where nothing is placed yet."""
    reached_hyper_node: str = ""
    """The same, while its tasks are being placed, including those placed so far."""
    nominated_hyper_node: str = ""

    @property
    def topology(self) -> Topology | None:
        """The topology of its policy; tasks without a policy have that of the whole job."""
        return self.job.job.topology if self.policy is None else self.policy.topology

    @property
    def key(self) -> str:
        return f"{self.job.job.key}/{self.name}" if self.name else self.job.job.key

    @property
    def ready(self) -> bool:
        now = self.census
        return now.ready + now.pending_best_effort >= self.minimum

    @property
    def pipelined(self) -> bool:
        now = self.census
        return now.ready + now.waiting + now.pending_best_effort >= self.minimum


class SessionJob(JobInfo, gc=True):  # its tasks point back to it
    """``held``, ``waiting`` and ``best_effort`` (per group) follow the statuses of the tasks.

    Other than in Order, ``held`` does not count tasks that are leaving: Volcano's rules do not.
    """

    queue: QueueInfo | None = None
    """None where its queue does not exist."""
    tasks: list[TaskInfo] = msgspec.field(default_factory=list)
    """Index: tix."""
    census: Census = msgspec.field(default_factory=Census)
    by_role: dict[str, Census] = msgspec.field(default_factory=dict)
    """Role name -> counts of its tasks."""
    subs: dict[str, SubJob] = msgspec.field(default_factory=dict)
    backfilled: bool = True
    """Whether its best-effort tasks are left to the action backfill. Always so in Volcano. Under a
    policy without that action a worker places them like all others (docs/decisions/0040)."""
    allocated_hyper_node: str = ""
    """Lowest hyper node that holds all its placed tasks, "" where nothing is placed."""
    unschedulable: dict[str, int] = msgspec.field(default_factory=dict)
    """Why its first failed task in this session found no node: reason -> nodes."""
    failed_role: str = ""

    # --- helpers of the gang rules ------------------------------------------------------------

    @property
    def minimum(self) -> int:
        return self.job.groups[0].minimum

    @property
    def preemptable(self) -> bool:
        """Whether pods without an annotation or label of their own may be evicted for others; True
        where the job has neither."""
        for marks in (self.job.annotations, self.job.labels):
            for key, value in marks:
                if key == PREEMPTABLE:
                    return value.lower() == "true"
        return True

    @property
    def role_minima_total(self) -> int:
        return sum(minimum for _, minimum in self.job.role_minima)

    @property
    def roles_bypassed(self) -> bool:
        """Whether the job's minimum is below the sum of its roles' minima: Volcano then ignores the
        minima of roles."""
        return self.minimum < self.role_minima_total

    @property
    def is_ready(self) -> bool:
        now = self.census
        return now.ready + now.pending_best_effort >= self.minimum

    @property
    def is_pipelined(self) -> bool:
        now = self.census
        return now.ready + now.waiting + now.pending_best_effort >= self.minimum

    def roles_reach(self, present: Callable[[Census], int]) -> bool:
        """Whether every role with a minimum reaches it, counting ``present(census of the
        role)``."""
        if self.roles_bypassed:
            return True
        return all(
            present(self.by_role.get(role, _NOBODY)) >= minimum
            for role, minimum in self.job.role_minima
        )

    def subs_reach(self, reached: Callable[[SubJob], bool]) -> bool:
        """Whether each policy has the number of sub-jobs it needs for which ``reached`` holds."""
        good = Counter(s.policy.name for s in self.subs.values() if s.policy and reached(s))
        return all(good[policy.name] >= policy.minimum for policy in self.job.sub_groups)

    @property
    def has_sub_groups(self) -> bool:
        return bool(self.job.sub_groups)

    def pending_tasks(self) -> list[TaskInfo]:
        return [task for task in self.tasks if task.status is Status.PENDING]

    # --- changes ------------------------------------------------------------------------------

    def move(self, task: TaskInfo, status: Status) -> None:
        """Change a task's status and every count of the job, its role and sub-job."""
        self._count(task, -1)
        task.status = status
        self._count(task, +1)

    def _count(self, task: TaskInfo, by: int) -> None:
        self.census.count(task, by)
        task.sub.census.count(task, by)
        self.by_role[task.role.name].count(task, by)
        status, group = task.status, task.role.group
        bits = status._value_
        if bits & READY._value_:
            self._add(self.held, group, by)
        elif status is Status.PIPELINED:
            self._add(self.waiting, group, by)
            add(self.nominated, task.charged, by)
        elif status is Status.PENDING and task.backfilled:
            self._add(self.best_effort, group, by)
        if bits & OCCUPYING._value_:
            self.using += by
            add(self.allocated, task.charged, by)
        elif status is Status.PENDING:
            if not task.backfilled:
                self.pending += by
            add(self.requested, task.charged, by)
            if task.role.gated:
                add(self.gated, task.charged, by)
        elif bits & LOST._value_:
            self.failed += by

    def _add(self, counts: list[int], group: int, by: int) -> None:
        while group >= 0:
            counts[group] += by
            group = self.job.groups[group].parent


_NOBODY = Census()


def open_session_job(
    job: Job,
    *,
    queue: QueueInfo | None,
    classes: Mapping[int, TaskClass],
    states: Iterable[TaskState | Status] = (),
    rows: Iterable[int] = (),
    backfilled: bool = True,
) -> SessionJob:
    """A job with its tasks; ``states`` and ``rows`` by tix, missing ones are pending.

    ``backfilled``: whether its best-effort tasks are left to the action backfill.
    """
    groups = len(job.groups)
    session_job = SessionJob(
        job=job,
        qid=-1 if queue is None else queue.queue.qid,
        held=[0] * groups,
        waiting=[0] * groups,
        best_effort=[0] * groups,
        queue=queue,
        phase=job.phase,
        classes=tuple(classes[role.cid] for role in job.roles if role.count),
        backfilled=backfilled,
    )
    marks = dict(job.annotations)
    session_job.allocated_hyper_node = marks.get("volcano.sh/job-allocated-hypernode", "")
    at, on = list(states), list(rows)
    alike: dict[tuple[int, int], list[TaskInfo]] = {}
    for number, role in enumerate(job.roles):
        session_job.by_role.setdefault(role.name, Census())
        if not role.count:
            continue
        sub = _sub_job(session_job, role)
        for i in range(role.count):
            tix = role.first + i
            task = TaskInfo(
                job=session_job, tix=tix, role=role, cls=classes[role.cid], name=job.pod_name(tix)
            )
            task.created = role.created[i] if i < len(role.created) else job.created
            task.uid = role.uids[i] if i < len(role.uids) else task.key
            state = at[tix] if tix < len(at) else Status.PENDING
            task.status = state if isinstance(state, Status) else STATUS_OF[state]
            task.row = on[tix] if tix < len(on) else -1
            task.sub = sub
            sub.tasks.append(task)
            session_job.tasks.append(task)
            alike.setdefault((number, task.status._value_), []).append(task)
    session_job.tasks.sort(key=lambda task: task.tix)
    for tasks in alike.values():  # of one role, in one state: they count alike
        session_job._count(tasks[0], len(tasks))
    return session_job


def _sub_job(job: SessionJob, role: Role) -> SubJob:
    """The sub-job of a role's members: of the first policy that selects them and whose label keys
    they all have."""
    labels = dict(role.labels)
    for policy in job.job.sub_groups:
        values = tuple(labels.get(key, "") for key in policy.match_label_keys)
        if all(values) and (policy.selector is None or matches(policy.selector, labels)):
            name = "-".join((policy.name, *values))
            minimum = policy.size
            break
    else:
        policy, values, name = None, (), DEFAULT_SUB_JOB
        minimum = 1 if job.job.sub_groups else job.minimum
    sub = job.subs.get(name)
    if sub is None:
        index = int(values[0]) if values and _NUMBER.fullmatch(values[0]) else 0
        sub = job.subs[name] = SubJob(
            job=job, name=name, minimum=minimum, policy=policy, match=values, index=index
        )
    return sub
