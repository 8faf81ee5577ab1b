"""The coordinator's state of one job: the state of each task, and what its next turn must place.

Task states are one byte each in a bytearray, so that a role of 100,000 tasks costs 100 kB and
finding its next pending task is a search in C.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from shard_worker.session_model.queue_totals import opens_gate, waits_for_entry
from shard_worker.session_model.workload import Amounts, JobInfo, add
from shared.codec.packed import replace
from shared.messages.messages import (
    ENDED,
    HOLDING,
    UNSUCCESSFUL,
    Group,
    Outcome,
    OutcomeCode,
    TaskRun,
    TaskState,
)
from shared.messages.reason import HoldReason, WaitReason
from shared.model.model import Job, Role, TaskClass
from shared.units.things import Things

Need = tuple[tuple[int, int], ...]
"""(class, count) pairs: what a job must get in its next turn. Jobs of equal need wait together."""

NO_TASKS: frozenset[int] = frozenset()
"""One for all jobs: an empty set takes 216 bytes, and most jobs have five."""
_NO_ROW = array("i", [-1])
_USING = (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING)


# A string, because each change of a job looks it up in counts and a string's hash is kept.
class SchedulingStatus(StrEnum):
    """The state of a job in the coordinator; exactly one at any time."""

    READY = "ready"  # in its queue, to be picked
    OPEN = "open"  # a turn is on its way
    NOMINATED = "nominated"  # pipelined: waits for the tasks that leave its nodes
    SETTLED = "settled"  # nothing left to place
    WAITING = "waiting"  # cannot be tried: ``reason`` says what is missing
    DONE = "done"  # every task succeeded or failed


@dataclass(frozen=True, slots=True)
class LastTurn:
    """The last turn that did not place everything it was for, as users see it."""

    code: OutcomeCode
    reasons: dict[str, int]
    """Reason -> number of nodes; each node counts once."""
    failed_role: str
    fitting: int
    """Tasks of the gang that would find a place if the rest of it had one."""
    conflicts_true: int
    conflicts_read: int
    shard: int
    """The shard that judged it; -1 where it was never sent."""
    epoch: str
    session: int
    at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class FailedEviction:
    """The last failed attempt to evict for the job, as users see it."""

    action: str
    refusals: dict[str, int]
    """Why tasks could not be evicted -> number of tasks."""
    at: float
    """Seconds since 1970."""
    beside: tuple[FailedEviction, ...] = ()
    """The last failed attempts by other actions, the latest first."""

    def then(self, action: str, refusals: dict[str, int], at: float) -> FailedEviction:
        """The record of the next failed attempt, following this one."""
        earlier = (FailedEviction(self.action, self.refusals, self.at), *self.beside)
        others = tuple(attempt for attempt in earlier if attempt.action != action)
        return FailedEviction(action, refusals, at, others)

    @property
    def considered(self) -> tuple[FailedEviction, ...]:
        """The attempts that had a victim to look at, or ended for another reason than that there
        was none: the latest first. This one where there is none."""
        return tuple(attempt for attempt in (self, *self.beside) if attempt.refusals) or (self,)


class TurnResults(msgspec.Struct, gc=False):
    """Turns of a job by result, and the ledger's refusals within them."""

    placed: int = 0
    nominated: int = 0
    infeasible: int = 0
    conflict_true: int = 0
    conflict_read: int = 0
    shards: int = 0
    """Bit mask: bit s is set where shard s had a turn."""
    unanswered: dict[str, int] = msgspec.field(default_factory=dict)
    """Decisions of the last turn that were made without the answer of another server: sentence ->
    number of questions."""


class JobState(msgspec.Struct, gc=False):
    """A job's specification, its counts for the plugins, and its state."""

    job: Job
    info: JobInfo
    states: bytearray
    status: SchedulingStatus = SchedulingStatus.WAITING
    reason: WaitReason = HoldReason.NONE
    """Why the job is not placed yet."""
    attempts: int = 0
    charge: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """(class, tasks) charged to its queue for the open turn or the nominations."""
    charged_beside: Amounts = msgspec.field(default_factory=dict)
    """Amounts charged with these that depend on the nodes, and are not of their classes."""
    nominated: dict[int, int] = msgspec.field(default_factory=dict)
    waits_for: frozenset[int] = NO_TASKS
    """Rows where a nominated job waits for leaving tasks."""
    line: Any = None
    """The line the job is in (:class:`coordinator.jobs.pending_order.Line`); None for none."""
    served: bool = False
    """True while its turn is open, comes back by itself, or brought it a promise: it stands in no
    line, and none of its queue that comes after it may pass for the first."""
    need: Need | None = None
    """Tasks for the next turn to place; None: recompute, because tasks have changed."""
    tried: frozenset[int] = NO_TASKS
    """Shards that found no place for it since capacity last changed (hard mode)."""
    releasing_nominations: bool = False
    """True while the release of its nominations is being recorded: no turn until it is."""
    refusals: int = 0
    """Refused binds of its tasks since the last accepted one."""
    conflicts: int = 0
    """Turns in a row that the ledger refused, or that were lost with their worker."""
    refused_by: str = ""
    """The node that refused the last of those binds, and its message."""
    stopping: frozenset[int] = NO_TASKS
    """Members that are being stopped because too few others are left: no turn until they ended."""
    returned: frozenset[int] = NO_TASKS
    """Tasks whose bind was refused before the outcome that placed them arrived."""
    refused: frozenset[int] = NO_TASKS
    """Tasks whose bind was refused under this leader: a late copy of the request may still reach
    the cluster and take effect. Without those that the cluster was asked to stop and will
    refuse."""
    tried_since: int = -1
    """Count of capacity changes when the first of its failed turns in a row opened: their workers
    may not have seen what was freed since. -1 for none."""
    lends: bool = False
    """Whether its last turn might exceed its queue's share."""
    stamp: int = 0
    """Rises when the job is queued anew, which voids older heap entries."""
    rows: array[int] = msgspec.field(default_factory=lambda: array("i"))
    """The node of each task by row (the last one, where it ended), -1 for none."""
    last: LastTurn | None = None
    """None where the last turn placed everything it was for, or there was none."""
    counted: bool = False
    """Whether it counts as one of its queue's jobs: not once it is done, or deleted."""
    unread: bool = False
    """True while the result of its last turn is unknown: no turn until the ledger was reread."""
    turn_results: TurnResults = msgspec.field(default_factory=TurnResults)
    failed_eviction: FailedEviction | None = None
    """The last failed attempt to evict for it; None where there was none."""
    evicted: frozenset[int] = NO_TASKS
    """Tasks that are being evicted: RELEASING, and no members of their gangs."""
    slow: bool | None = None
    """Whether allocating it needs a session; None: to be computed by the policy in force."""
    devices: dict[int, Things] = msgspec.field(default_factory=dict)
    """Tasks that take devices -> which ones, and how much of each."""
    started: dict[int, float] = msgspec.field(default_factory=dict)
    """tix -> seconds since 1970, of tasks that began to run under this leader; only where the
    policy evicts."""
    backfilled: bool = True
    """Whether the policy leaves best-effort tasks to the action backfill. Without that action
    allocate places them like all others, in the gang's own statement (docs/decisions/0040)."""
    incarnations: dict[int, int] = msgspec.field(default_factory=dict)
    """tix -> number of its evicted incarnations; tasks that were never evicted are left out."""
    evicted_on_request: dict[int, int] = msgspec.field(default_factory=dict)
    """tix -> the incarnation of which somebody was told, by this leader, that it is evicted."""

    def backfills(self, cls: TaskClass) -> bool:
        """Whether backfill places the job's tasks of this class; they count as present
        meanwhile."""
        return self.backfilled and cls.best_effort

    def is_stopped_by_us(self, tix: int) -> bool:
        """Whether a task that leaves its node does so because we evicted it or released its
        gang."""
        asked = self.evicted_on_request.get(tix) == self.incarnations.get(tix, 0)
        return asked or tix in self.evicted or tix in self.stopping

    @property
    def admitted(self) -> bool:
        """Whether enqueue has let it in; in Volcano it has no pods before."""
        return not waits_for_entry(self.info.phase)

    @property
    def in_part(self) -> bool:
        """Whether some of it runs, and members that its minimum needs found no place or ended; in
        Volcano the phase of its PodGroup is Unknown then."""
        members = self.info.held[0] + self.info.best_effort[0]
        if members >= self.job.groups[0].minimum or TaskState.RUNNING not in self.states:
            return False
        return self.last is not None or not self.unplaced

    @property
    def unplaced(self) -> bool:
        """Whether any task is pending, best-effort ones included."""
        return bool(self.info.pending or any(self.info.best_effort))

    @property
    def ended(self) -> bool:
        """Whether every task has ended, successfully or not. A PodGroup without pods waits for
        them: others create these, in Volcano after its admission."""
        if not self.states:
            return not self.job.is_group
        if self.states[0] not in ENDED:
            return False  # most that are asked: nothing is counted
        return sum(map(self.states.count, ENDED)) == len(self.states)

    def admitted_as_before(self, job: Job) -> Job:
        """The job as specified now, with the phase of its earlier admission."""
        if waits_for_entry(job.phase) and not waits_for_entry(self.info.phase):
            return replace(job, phase=self.info.phase)
        return job

    def expected(self, tasks: list[int]) -> list[int]:
        """The pending tasks among these whose outcome is still news. The bind of the others, its
        refusal, or even their end was recorded before the call that placed them returned."""
        states, returned = self.states, self.returned
        # Almost always so, and on the path of every placed task.
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

    def drop_zeros(self) -> None:
        """Make the counts of a job that has ended small: it may be kept for long."""
        info = self.info
        if not any(info.allocated.values()):
            info.allocated = {}
        if not any(info.requested.values()):
            info.requested = {}

    def inherit(self, before: JobState) -> None:
        """Take over the state of the same job under its earlier specification."""
        self.rows[: len(before.rows)] = before.rows
        self.last, self.turn_results = before.last, before.turn_results
        self.refused_by, self.refused = before.refused_by, before.refused
        stopping = [t for t in before.stopping if self.states[t] in HOLDING]
        self.stopping = frozenset(stopping) if stopping else NO_TASKS
        self.incarnations, self.started = before.incarnations, before.started
        self.devices = before.devices
        self.evicted_on_request = before.evicted_on_request

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
    """The state of a job whose tasks are in these states (None: all pending).

    ``backfilled``: see :attr:`JobState.backfilled`.
    """
    groups = len(job.groups)
    info = JobInfo(
        job=job, qid=qid, held=[0] * groups, waiting=[0] * groups, best_effort=[0] * groups
    )
    info.phase = job.phase
    info.classes = tuple(classes[role.cid] for role in job.roles)
    states = states or bytearray(job.tasks)
    if len(states) < job.tasks:
        states.extend(bytes(job.tasks - len(states)))
    rows = _NO_ROW * len(states)
    state = JobState(job=job, info=info, states=states, rows=rows, backfilled=backfilled)
    recount(state, classes)
    return state


def deleted_members(state: JobState, role: Role | None = None) -> int:
    """Pods of a PodGroup (of one role of it) that were deleted before they ended: FAILED for the
    gang, which has lost a member, but nobody's failure. A purged pod has no name any more."""
    roles = state.job.roles if role is None else (role,)
    return sum(
        not name and state.states[part.first + i] in UNSUCCESSFUL
        for part in roles
        if "" in part.names
        for i, name in enumerate(part.names)
    )


def recount(state: JobState, classes: dict[int, TaskClass]) -> None:
    """Recompute every count of ``state.info`` from the task states (after recovery or a new
    spec)."""
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
            add(info.requested, cls.charged, role.count)
            if role.gated:
                add(info.gated, cls.charged, role.count)
            continue
        part = by_state(state.states[role.first : role.first + role.count])
        pending = part.get(TaskState.PENDING, 0)
        failed = sum(part.get(end, 0) for end in UNSUCCESSFUL)
        count_group(info.held, job.groups, role.group, role.count - pending - failed)
        info.failed += failed
        if using := sum(part.get(s, 0) for s in _USING):
            info.using += using
            add(info.allocated, cls.charged, using)
        if state.backfills(cls):
            count_group(info.best_effort, job.groups, role.group, pending)
        else:
            info.pending += pending
        if pending:
            add(info.requested, cls.charged, pending)
            if role.gated:
                add(info.gated, cls.charged, pending)
    for tix in state.evicted:
        count_group(info.held, job.groups, job.role_of(tix).group, -1)


def by_state(states: bytearray) -> dict[int, int]:
    """Number of tasks in each state that has any."""
    return {state: states.count(state) for state in set(states)}


def count_group(counts: list[int], groups: tuple[Group, ...], group: int, delta: int) -> None:
    """Add to a group and all its ancestors."""
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
    """The roles with tasks that allocate still has to place, in the given order; first the
    best-effort ones, where allocate places them: they are the cheapest way to a minimum."""
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
    """Whether scheduling gates that others must remove keep its members from being placed."""
    return role.gated and not opens_gate(role)


def core_need(
    state: JobState,
    classes: dict[int, TaskClass],
    roles: list[Role],
    *,
    gangs: bool = True,
    in_order: bool = False,
) -> Need:
    """The least a turn must place: the members missing to the minima, or one elastic task.
    ``gangs``: the policy keeps gangs whole; else every task is elastic. ``in_order``: it must place
    the first tasks in the order of the roles, and ends where one of them finds no node (KAI).

    Members missing to a role's own minimum come first, then those missing to the job's from any
    role. Where pending tasks do not suffice, all there are. Of several the smallest count: a turn
    tries all in task order, and goes on after one that finds no node. A class of which nobody can
    say that it is larger stands beside them with 0, its own tasks counted among theirs.
    """
    if len(state.job.roles) == 1:
        role, pending = state.job.roles[0], state.info.pending
        least = max(1, *shortfall(state)) if gangs and pending > 1 else 1
        count = 0 if role.gated and gated(role) else min(least, pending)
        return ((role.cid, count),) if count else ()
    missing = shortfall(state) if gangs else [0] * len(state.job.groups)
    rest = missing[0]
    need: dict[int, int] = {}
    rest_of: list[tuple[Role, int]] = []
    ordered = order_roles(state, classes, roles)
    if not in_order:
        ordered.sort(key=lambda role: sum(n for _, n in classes[role.cid].charged))
    for role in ordered:
        missing_here = len(state.pending(role, missing[role.group])) if role.group else 0
        if missing_here:
            need[role.cid] = need.get(role.cid, 0) + missing_here
            missing[role.group] -= missing_here
            rest -= missing_here
        rest_of.append((role, missing_here))
    if not need:
        rest = max(rest, 1)
    chosen: list[int] = []
    for role, missing_here in rest_of:
        pending = len(state.pending(role, missing_here + max(rest, 0) + 1)) - missing_here
        more = min(pending, rest)
        cls = classes[role.cid]
        replaceable = None
        if not in_order:
            replaceable = next((cid for cid in chosen if not _at_least(cls, classes[cid])), None)
        if more > 0:
            need[role.cid] = need.get(role.cid, 0) + more
            rest -= more
            chosen.append(role.cid)
        if replaceable is not None and pending > more:
            # More of its members may come in the place of those, and ask for less of something.
            need[replaceable] += need.get(role.cid, 0)
            need[role.cid] = 0
    return tuple(sorted(need.items()))


def _at_least(cls: TaskClass, other: TaskClass) -> bool:
    """Whether a task of the class asks for as much as one of the other, of everything."""
    asks = dict(cls.charged)
    return all(asks.get(slot, 0) >= n for slot, n in other.charged)


def amounts(need: Need, classes: dict[int, TaskClass]) -> Amounts:
    """The least amounts of a need."""
    total: Amounts = {}
    for cid, count in need:
        if count:
            add(total, classes[cid].charged, count)
    if all(count for _, count in need):
        return total
    # Whichever of the classes it becomes: less than this of a slot it cannot be.
    tasks, asks = sum(count for _, count in need), [dict(classes[cid].charged) for cid, _ in need]
    return {slot: tasks * min(ask.get(slot, 0) for ask in asks) for slot in total}


def first_class(need: Need) -> int:
    """The class of a need of one task."""
    return next(cid for cid, count in need if count)


def task_runs(
    state: JobState,
    classes: dict[int, TaskClass],
    roles: list[Role],
    *,
    key: Callable[[Role], object],
    tail: int,
) -> list[TaskRun]:
    """The pending tasks a turn names: of each role as many as could be needed, plus the tail.

    Identical tasks of a role fail alike, so that the worker never needs more than the job's
    shortfall plus the tail. What a role's own minimum lacks comes before the surplus of others,
    which would take its room. ``key``: the roles are sorted by it, and those with equal keys get
    one rank.
    """
    missing = shortfall(state)
    most = max(*missing, 1) + tail
    needed: list[TaskRun] = []
    surplus: list[TaskRun] = []
    rank, last = 0, None
    for role in order_roles(state, classes, roles):
        if len(roles) > 1:
            best_effort = not state.backfilled and classes[role.cid].best_effort
            if (this := (best_effort, key(role))) != last:
                rank, last = rank + 1, this
        tasks = state.pending(role, most)
        first = min(missing[role.group], len(tasks)) if role.group else 0
        missing[role.group] -= first
        later = rank + len(roles)
        for runs, part, at in ((needed, tasks[:first], rank), (surplus, tasks[first:], later)):
            if part:
                runs.append(TaskRun(role.cid, role.group, role.name, part, at, role.first))
    return needed + surplus


def note_try(state: JobState, outcome: Outcome, *, shard: int, epoch: str, at: float) -> None:
    """Note a returned turn: from ``shard``, served under ``epoch``, at ``at`` (seconds since
    1970)."""
    results, code = state.turn_results, outcome.code
    results.shards |= 1 << shard
    results.conflict_true += outcome.conflicts_true
    results.conflict_read += outcome.conflicts_read
    results.unanswered = outcome.unanswered
    if code is OutcomeCode.NOMINATED:
        results.nominated += 1
        state.last = None
        return
    if code is OutcomeCode.PLACED:
        results.placed += 1
        if not outcome.reasons:
            state.last = None
            return
    elif code is OutcomeCode.INFEASIBLE:
        results.infeasible += 1
        if state.failed_eviction is not None and state.failed_eviction.refusals is outcome.reasons:
            return  # nobody could be evicted: what allocate found still holds
    elif code is not OutcomeCode.CONFLICT:
        return  # it says nothing about places: the job is read anew
    state.last = LastTurn(
        code=code,
        reasons=outcome.reasons,
        failed_role=outcome.failed_role,
        fitting=outcome.fitting,
        conflicts_true=outcome.conflicts_true,
        conflicts_read=outcome.conflicts_read,
        shard=shard,
        epoch=epoch,
        session=outcome.session,
        at=at,
    )
