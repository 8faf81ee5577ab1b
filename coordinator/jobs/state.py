"""One job as the coordinator follows it: the state of each task, and what a turn would need.

Task states are one byte each in a bytearray, so that a role of 100,000 tasks costs 100 kB and
finding its next pending task is a search in C."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from shard_worker.session_model.queue_totals import waits_for_entry
from shard_worker.session_model.workload import Amounts, JobInfo, Progress, add
from shared.messages.messages import HOLDING, UNSUCCESSFUL, Group, OutcomeCode, TaskRun, TaskState
from shared.messages.reason import Hold, WaitReason
from shared.model.model import Job, Role, TaskClass

Need = tuple[tuple[int, int], ...]
"""(class, how many) pairs: what a job must get in its next turn. Jobs of equal need wait
together."""

_NO_ROW = array("i", [-1])
_USING = (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING)


class Standing(Enum):
    """Where a job stands in the coordinator. Exactly one at any time."""

    READY = "ready"  # in its queue, to be picked
    OPEN = "open"  # a turn is on its way
    NOMINATED = "nominated"  # pipelined: waits for the tasks that leave its nodes
    SETTLED = "settled"  # nothing left to place
    WAITING = "waiting"  # cannot be tried: ``reason`` says what is missing
    DONE = "done"  # every task succeeded or failed


@dataclass(frozen=True, slots=True)
class LastTry:
    """The last turn that did not place everything it was for, as users see it."""

    code: OutcomeCode
    reasons: dict[str, int]
    """Reason -> number of nodes, exclusive."""
    failed_role: str
    conflicts_true: int
    conflicts_read: int
    shard: int
    """-1 where it was never sent."""
    epoch: str
    session: int
    at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class InVain:
    """The last failed attempt to evict for the job, as users see it."""

    action: str
    refusals: dict[str, int]
    """Why tasks did not make way -> how many."""
    at: float
    """Seconds since 1970."""
    looked: InVain | None = None
    """Where nobody could be looked at: the last one of another action that looked at somebody."""

    def then(self, action: str, refusals: dict[str, int], at: float) -> InVain:
        """The one that follows this one."""
        looked = self if self.refusals else self.looked
        supersedes = looked is None or refusals or looked.action == action
        return InVain(action, refusals, at, None if supersedes else looked)


@dataclass(slots=True)
class Tries:
    """Turns of a job by what came of them, and the refusals by the ledger within them."""

    placed: int = 0
    nominated: int = 0
    infeasible: int = 0
    conflict_true: int = 0
    conflict_read: int = 0
    shards: int = 0
    """Bit s is set where shard s had a turn."""


@dataclass(slots=True)
class JobState:
    """A job's specification, its bookkeeping for the plugins, and where it stands."""

    job: Job
    info: JobInfo
    states: bytearray
    standing: Standing = Standing.WAITING
    reason: WaitReason = Hold.NONE
    """Why it is not placed yet."""
    attempts: int = 0
    charge: list[tuple[int, int]] = field(default_factory=list)
    """(cid, tasks) charged to its queue for the open turn or the nominations."""
    nominated: dict[int, int] = field(default_factory=dict)
    waits_for: set[int] = field(default_factory=set)
    """Rows whose leaving tasks a nominated job waits for."""
    line: Any = None
    """The line it stands in (:class:`coordinator.order.order.Line`), None where in none."""
    need: Need | None = None
    """What its next turn must place; None = to be computed anew (its tasks moved)."""
    tried: set[int] = field(default_factory=set)
    """Shards that found no place for it since capacity last changed (hard mode)."""
    lapsing: bool = False
    """The ledger is being told that it holds no nominations: no turn until it knows."""
    refusals: int = 0
    """Binds of its tasks that the cluster refused since it last took one."""
    conflicts: int = 0
    """Turns in a row that the ledger refused, or that were lost with their worker."""
    refused_by: str = ""
    """The node that refused the last of those binds, with what it said."""
    stopping: set[int] = field(default_factory=set)
    """Members that are being stopped because too few others are left: no turn until they ended."""
    returned: set[int] = field(default_factory=set)
    """Tasks whose bind was refused while the outcome that placed them was still on its way."""
    refused: set[int] = field(default_factory=set)
    """Tasks whose bind was refused since we lead: the cluster may get that request once more, late,
    and carry it out. Without those that it was told to end, and will not take any more."""
    tried_since: int = -1
    """The count of capacity changes when the first of its futile turns in a row opened: what was
    freed since then, their workers may not have seen. -1 where none was futile."""
    stamp: int = 0
    """Moves when the job is queued anew: older heap entries are void."""
    rows: array[int] = field(default_factory=lambda: array("i"))
    """The node of each task (its last one, where it ended), -1 where it has none."""
    last: LastTry | None = None
    """None where its last turn placed all it was to, or it had none."""
    counted: bool = False
    """Whether it counts as one of its queue's jobs: not once it is done, or deleted."""
    unread: bool = False
    """What its last turn did is not known yet: no turn until the ledger was read."""
    tries: Tries = field(default_factory=Tries)
    in_vain: InVain | None = None
    """None where nobody was looked at for it."""
    evicted: set[int] = field(default_factory=set)
    """Tasks that have to leave their nodes for others: RELEASING, and no members of their gangs."""
    slow: bool | None = None
    """Does it need a session over an excerpt? None = to be found out (by the policy in force)."""
    started: dict[int, float] = field(default_factory=dict)
    """tix -> seconds since 1970, of tasks that began to run here; only where the policy evicts."""
    backfilled: bool = True
    """Does the policy leave tasks that ask for nothing to the action backfill? Without that action
    allocate places them like all others, in the gang's own statement (docs/decisions/0040)."""
    lives: dict[int, int] = field(default_factory=dict)
    """tix -> how many of its incarnations were evicted; tasks that never were are left out."""

    def backfills(self, cls: TaskClass) -> bool:
        """Does backfill place the job's tasks of this class? Then they count as there meanwhile."""
        return self.backfilled and cls.best_effort

    @property
    def unplaced(self) -> bool:
        """Is any task pending, those that ask for nothing among them?"""
        return bool(self.info.pending or any(self.info.best_effort))

    def let_in_still(self, job: Job) -> Job:
        """The job as it is specified now, with the admission that it had before."""
        if waits_for_entry(job.phase) and not waits_for_entry(self.info.phase):
            return replace(job, phase=self.info.phase)
        return job

    def expected(self, tasks: list[int]) -> list[int]:
        """The pending tasks whose outcome is still news. The bind of the others, or even their end,
        was recorded before the call that placed them returned."""
        states, returned = self.states, self.returned
        if not returned:
            return [t for t in tasks if not states[t]]
        return [t for t in tasks if not states[t] and t not in returned]

    def put_rows(self, tasks: Sequence[int], rows: Sequence[int]) -> None:
        """Note the nodes that these tasks are on."""
        at = self.rows
        for tix, row in zip(tasks, rows, strict=True):
            at[tix] = row

    def clear_rows(self, tasks: Sequence[int]) -> None:
        """Note that these tasks are on no node."""
        at = self.rows
        for tix in tasks:
            at[tix] = -1

    def inherit(self, before: JobState) -> None:
        """Take over what is known of the same job under an earlier specification."""
        self.rows[: len(before.rows)] = before.rows
        self.last, self.tries = before.last, before.tries
        self.refused_by, self.refused = before.refused_by, before.refused
        self.stopping = {t for t in before.stopping if self.states[t] in HOLDING}
        self.lives, self.started = before.lives, before.started

    def pending(self, role: Role, limit: int) -> list[int]:
        """The first ``limit`` pending tasks of a role."""
        tasks: list[int] = []
        at, end = role.first, role.first + role.count
        while len(tasks) < limit:
            at = self.states.find(TaskState.PENDING, at, end)
            if at < 0:
                break
            tasks.append(at)
            at += 1
        return tasks


def open_job(
    job: Job,
    *,
    qid: int,
    classes: dict[int, TaskClass],
    states: bytearray | None = None,
    backfilled: bool = True,
) -> JobState:
    """Bookkeeping for a job whose tasks stand as ``states`` says (all pending where None).

    ``backfilled``: see :attr:`JobState.backfilled`."""
    groups = len(job.groups)
    info = JobInfo(
        job=job, qid=qid, held=[0] * groups, waiting=[0] * groups, best_effort=[0] * groups
    )
    info.phase = job.phase
    state = JobState(
        job=job, info=info, states=states or bytearray(job.tasks), backfilled=backfilled
    )
    if len(state.states) < job.tasks:
        state.states.extend(bytes(job.tasks - len(state.states)))
    state.rows = _NO_ROW * len(state.states)
    recount(state, classes)
    return state


def recount(state: JobState, classes: dict[int, TaskClass]) -> None:
    """Derive every count of ``state.info`` from the task states (after recovery or a new spec)."""
    info, job = state.info, state.job
    groups = len(job.groups)
    info.held, info.best_effort = [0] * groups, [0] * groups
    info.waiting = info.waiting if len(info.waiting) == groups else [0] * groups
    info.pending = info.failed = info.using = 0
    info.allocated, info.requested, info.gated = {}, {}, {}
    fresh = not any(state.states)
    for role in job.roles:
        cls = classes[role.cid]
        if fresh and not state.backfills(cls):
            info.pending += role.count
            add(info.requested, cls.requests, role.count)
            if role.gated:
                add(info.gated, cls.requests, role.count)
            continue
        part = by_state(state.states[role.first : role.first + role.count])
        pending = part.get(TaskState.PENDING, 0)
        failed = sum(part.get(end, 0) for end in UNSUCCESSFUL)
        count_group(info.held, job.groups, role.group, role.count - pending - failed)
        info.failed += failed
        if using := sum(part.get(s, 0) for s in _USING):
            info.using += using
            add(info.allocated, cls.requests, using)
        if state.backfills(cls):
            count_group(info.best_effort, job.groups, role.group, pending)
        else:
            info.pending += pending
        if pending:
            add(info.requested, cls.requests, pending)
            if role.gated:
                add(info.gated, cls.requests, pending)
    for tix in state.evicted:
        count_group(info.held, job.groups, job.role_of(tix).group, -1)


def by_state(states: bytearray) -> dict[int, int]:
    """How many tasks are in each state, those in which there are any."""
    return {state: states.count(state) for state in set(states)}


def count_group(counts: list[int], groups: tuple[Group, ...], group: int, delta: int) -> None:
    """Add to a group and every ancestor of it."""
    while group >= 0:
        counts[group] += delta
        group = groups[group].parent


def shortfall(state: JobState) -> list[int]:
    """Per group, how many members are missing to its minimum."""
    info = state.info
    return [
        max(0, g.minimum - members - best)
        for g, members, best in zip(state.job.groups, info.held, info.best_effort, strict=True)
    ]


def order_roles(state: JobState, classes: dict[int, TaskClass], roles: list[Role]) -> list[Role]:
    """The roles of which allocate still has something to place, in the order given; first those
    that ask for nothing, where allocate places them: they are the cheapest way to a minimum."""
    placeable = [
        role
        for role in roles
        if not state.backfills(classes[role.cid])
        and not (role.gated and gated(role))
        and state.states.find(TaskState.PENDING, role.first, role.first + role.count) >= 0
    ]
    if state.backfilled:
        return placeable
    return sorted(placeable, key=lambda role: not classes[role.cid].best_effort)


def gated(role: Role) -> bool:
    """Do scheduling gates that others have to take away keep its members from being placed?"""
    return role.gated and not role.own_gate


def core_need(state: JobState, classes: dict[int, TaskClass], roles: list[Role]) -> Need:
    """The least a turn must place: the members missing to the minima, or one elastic task.

    Members missing to a role's own minimum come first, then those missing to the job's from any
    role in task order. Where pending tasks do not suffice, all there are.
    """
    missing = shortfall(state)
    if len(state.job.roles) == 1:
        least = max(*missing, 1)
        role = state.job.roles[0]
        count = 0 if role.gated and gated(role) else min(least, state.info.pending)
        return ((state.job.roles[0].cid, count),) if count else ()
    rest = missing[0]
    need: dict[int, int] = {}
    rest_of: list[tuple[Role, int]] = []
    for role in order_roles(state, classes, roles):
        available = len(state.pending(role, missing[role.group] if role.group else rest))
        missing_here = min(available, missing[role.group]) if role.group else 0
        if missing_here:
            need[role.cid] = need.get(role.cid, 0) + missing_here
            rest -= missing_here
        rest_of.append((role, missing_here))
    for role, missing_here in rest_of:
        if rest <= 0:
            break
        more = min(len(state.pending(role, missing_here + rest)) - missing_here, rest)
        if more > 0:
            need[role.cid] = need.get(role.cid, 0) + more
            rest -= more
    if not need and rest_of:
        need[rest_of[0][0].cid] = 1
    return tuple(sorted(need.items()))


def amounts(need: Need, classes: dict[int, TaskClass]) -> Amounts:
    total: Amounts = {}
    for cid, count in need:
        add(total, classes[cid].requests, count)
    return total


def task_runs(
    state: JobState, classes: dict[int, TaskClass], roles: list[Role], *, tail: int
) -> list[TaskRun]:
    """The pending tasks a turn names: of each role as many as could be needed, plus the tail.

    Identical tasks of a role fail alike, so more than the job is short of plus the tail is
    never looked at by the worker.
    """
    most = max(*shortfall(state), 1) + tail
    return [
        TaskRun(cid=role.cid, group=role.group, role=role.name, tasks=state.pending(role, most))
        for role in order_roles(state, classes, roles)
    ]


def progress(state: JobState) -> Progress:
    """The figures that JobReady looks at."""
    info, groups = state.info, state.job.groups
    return Progress(
        parent=[g.parent for g in groups],
        minimum=[g.minimum for g in groups],
        held=list(info.held),
        waiting=list(info.waiting),
        best_effort=list(info.best_effort),
    )
