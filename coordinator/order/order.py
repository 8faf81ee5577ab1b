"""Order: which job's turn it is. The pure half of Volcano's allocate that runs over global totals.

Volcano's loop pops a queue, drops it where it is overused, pops a job, allocates it and pushes
both back. Here the same loop emits a *turn* instead of allocating, charges it to the queue at
once, and corrects the charge when the outcome returns; up to ``window`` turns are open at a
time. With ``window=1`` the sequence of turns is Volcano's.

Three things keep a pick cheap with 100,000 jobs waiting:

* Jobs of one queue that need the same (so many tasks of such classes) stand in one *line*, best
  first. What holds back the first of a line (capacity, share) holds back the rest, so a blocked
  line is skipped as a whole and no job is popped only to be put back.
* Counting before trying: a line whose need exceeds what the cluster can give now or soon is
  blocked without a turn.
* A line that a worker found infeasible is tried again when capacity was freed, not by a timer;
  it then waits a little longer each time, so that a stream of small releases does not become
  a stream of hopeless turns.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from coordinator.jobs.pending_reasons import of_counts
from coordinator.jobs.state import (
    NO_TASKS,
    FailedEviction,
    JobState,
    Need,
    SchedulingStatus,
    amounts,
    first_class,
    task_runs,
)
from coordinator.jobs.table import BACKFILL
from coordinator.order.aging import RESERVE
from coordinator.order.one_task import OneTask
from coordinator.order.selection import Picking
from coordinator.order.session_turns import Sessions
from coordinator.order.stale_gangs import STALE
from shard_worker.framework.session import Session
from shard_worker.framework.sort_keys import Key
from shared.codec.packed import replace
from shared.messages.messages import ALLOCATE, Group, Outcome, OutcomeCode, TaskRun, Turn
from shared.messages.reason import HoldReason, Reason
from shared.model.model import Role, WorldObject

URGENT_ATTEMPTS = 3
"""A job that loses conflicts goes to the front at most this many times in a row; then it waits in
its line, so that a refusal that repeats (a full queue) cannot spin."""

PLUGIN_SECONDS, PLUGIN_ASKS = 1.0, 256
"""How often, and about how many jobs, plugins that raised are asked again after a change of
capacity: a rule may have raised because of how full the cluster was."""

ALLOCATING = "allocate"
NO_REVISION = -1
"""Stands for no revision of the totals: wait for the pause alone, whatever changes."""
_SAYS_NOTHING_OF_PLACES = (OutcomeCode.INFEASIBLE, OutcomeCode.CONFLICT)


class Order(Sessions):
    """See the module. Events come in as method calls; :meth:`next_turn` returns the turns to
    send."""

    def __init__(
        self,
        session: Session,
        *,
        window: int = 1,
        tail_limit: int = 256,
        work_conserving: bool = True,
        count_first: bool = True,
        walls: bool = False,
    ) -> None:
        """``walls``: shards see different nodes (hard mode), so that a job is infeasible only after
        each of them was tried. ``work_conserving``: when no queue within its share has a job that
        can be tried, free capacity goes to queues beyond their share, in queue order (not in
        Volcano; off in replay)."""
        super().__init__(session, count_first=count_first)
        self.window = window
        self.tail_limit = tail_limit
        self.walls = walls
        self._like: OneTask | None = None
        """The parts of the last flat turn; None where they are of no use to another."""
        self._holds = 0
        """Callers that let no turn open for now."""
        self._asked_plugins = 0, 0.0
        """The capacity's changes, and the time, when plugins that raised were last asked again."""
        self.reachable: set[int] = set()
        """Shards that have a live worker."""
        self.traced: set[int] = set()
        """Jobs whose turns somebody follows: their workers report each step."""
        self.picking = Picking(
            session, self.accounts, self.lines, self.jobs, work_conserving=work_conserving
        )

    # --- the loop -----------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Open a session: recompute the shares, allow skipped queues and jobs to be tried again."""
        self.now = now
        self.contexts.led(now)
        self.accounts.begin(now)
        self.picking.begin(now)
        self.departures.begin(now)
        for jid in self.nominations.due(now, self.jobs):
            self._wake_nominated(jid)
        while self._later and self._later[0][0] <= now:
            _, jid, stamp = heapq.heappop(self._later)
            if jid in self.jobs and self.jobs[jid].stamp == stamp:
                self._enqueue(self.jobs[jid], HoldReason.BIND_FAILED, urgent=True)
        if self.session.guarded:
            self._ask_plugins_again()
        self.repair_due()
        if self.admission.waiting:
            self.admit_waiting()

    def _ask_plugins_again(self) -> None:
        """After a change of capacity, ask once more about some jobs of which a plugin raised."""
        changes, (last_changes, at) = self.accounts.capacity.changes, self._asked_plugins
        if changes == last_changes or self.now < at + PLUGIN_SECONDS:
            return
        self._asked_plugins = changes, self.now
        raised = self.lines.outside()[Reason.PLUGIN_ERROR]
        if not raised:
            return
        waiting = (state for state in self.jobs.values() if state.reason is Reason.PLUGIN_ERROR)
        for state in islice(
            (s for s in waiting if s.status is SchedulingStatus.WAITING), PLUGIN_ASKS
        ):
            self._enqueue(state, Reason.PENDING_EVALUATION)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Open no turn inside the block: the books do not have yet what is on the nodes."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    @property
    def is_held(self) -> bool:
        return self._holds > 0

    def next_turn(self) -> Turn | None:
        """The next turn in order, charged to its queue; None where nothing can be tried now."""
        # One window for all shards. It bounds the share gap between equal queues to the window
        # times the largest job, and is Volcano's loop exactly at 1; 256 a shard because a call and
        # a commit cost the same whatever they carry (decision 0012).
        if self.is_held or self.open >= self.window:
            return None
        while (urgent := self.lines.pop_urgent()) is not None:
            if not (self.allocates or urgent.nominated):  # only what was promised is bound
                self._enqueue(urgent, urgent.reason)
                continue
            need = self._need(urgent)  # nothing where what it waited with has ended meanwhile
            # Its charge was given back while it waited, and others may have what it was picked for:
            # a worker would find no quota, and what ends then without a placement wakes nobody.
            if need and not urgent.nominated and not self.picking.admits(urgent, need):
                self._enqueue(urgent, Reason.WAITING_FOR_QUOTA)
                self.picking.changed(self.accounts.queue(urgent))
                continue
            if need and (turn := self._open_turn(urgent, need)) is not None:
                return turn
        while self.allocates and (picked := self.picking.next()) is not None:
            if (turn := self._open_turn(*picked)) is not None:
                return turn
        return self._further_turn() if self.further or self.aging.bound else None

    def _further_turn(self) -> Turn | None:
        """A turn of another action: backfill, then the evicting actions, then a reservation."""
        stale = self.stale_gangs.next(self.jobs, self.accounts.cluster, self.now)
        if stale and (turn := self._open_turn(stale, (), action=STALE)) is not None:
            return turn
        # In this order (decision 0029): backfill comes after allocate, and room that is free before
        # room that is made (decision 0034).
        while (filling := self.next_to_fill()) is not None:
            if (turn := self._open_turn(filling, (), action=BACKFILL)) is not None:
                return turn
        while (contender := self.next_contender()) is not None:
            state, action = contender
            if (turn := self._open_turn(state, self._need(state), action=action)) is not None:
                return turn
        keep = self.next_to_keep_for() if self.aging.bound else None
        return None if keep is None else self._open_turn(keep, self._need(keep), action=RESERVE)

    def put_object(self, value: WorldObject) -> None:
        """Add or update an object that rules read."""
        self.spanning.put_object(value)
        self.accounts.put_object(value)
        self.contention.ask_anew(value)

    def drop_object(self, value: WorldObject) -> None:
        self.spanning.drop_object(value)
        self.accounts.drop_object(value)

    def next_due(self) -> float | None:
        """When to call :meth:`begin` again although nothing happened; None for never."""
        due = [self.nominations.next_due(), self.lines.next_due(), self.departures.next_due()]
        due += [self.parking.next_due(), self.gangs.next_due(), self.admission.next_due()]
        due += [self.contention.next_due(self.now), self.stale_gangs.next_due()]
        due += [self.late_groups.next_due()]
        due += [self._later[0][0]] if self._later else []
        return min((at for at in due if at is not None), default=None)

    def adopt(self, session: Session) -> None:
        """Switch to the session of another policy; see :meth:`Sessions.adopt`."""
        self._like = None
        self.picking.adopt(session)
        super().adopt(session)

    # --- a turn opens -------------------------------------------------------------------------

    def _open_turn(self, state: JobState, need: Need, *, action: str = ALLOCATING) -> Turn | None:
        """Open a turn of the job; None where it must wait for another open turn."""
        world, keys = b"", None
        self.picking.changed(self.accounts.queue(state))
        slow = action != ALLOCATING or self.slow(state)
        like = None if slow else self._like
        if like is not None and not like.serves(state, need):
            like = None
        if slow or (like is None and self._session_decides(state, need)):
            world, keys = self.contexts.of(
                state, action, self.session, waits=lambda keys: self._must_wait(state, keys, action)
            )
            if not world:
                if action == BACKFILL:
                    self.filled(state, failed=True)
                return None
        state.lends = action == ALLOCATING and bool(world) and self.picking.lends(state, need)
        if like is not None:
            tail, runs, groups = 0, like.runs, like.groups
        else:
            tail = self._tail(state, need) if action == ALLOCATING else 0
            runs, groups = self._task_runs(state, action, tail), _groups(state)
            if not world:
                runs = self._admitted_runs(state, need, runs)
                self._like = None
                one = state.job.tasks == 1 and not tail and not state.nominated
                if one and not self.accounts.depends_on_node(need):
                    self._like = OneTask(state.job, state.info.progress(), need, runs, groups)
        self.accounts.promise(state, [(first_class(need), tail)] if tail else list(need))
        self.lines.set_status(state, SchedulingStatus.OPEN, state.reason)
        # Voids the job's entries in every heap: they are never searched for, only skipped when they
        # come to the top.
        state.stamp += 1
        state.returned = NO_TASKS  # binds refused before this turn say nothing about its outcome
        self.open += 1
        if keys is not None:
            self.go_out(state, action, keys)
        # From the opening of the first failed turn in a row: what was freed after that its workers
        # may not have seen, so it has to wake the line.
        if state.tried_since < 0:
            state.tried_since = self.accounts.capacity.changes
        job = state.job
        return Turn(
            jid=job.jid,
            job_version=job.spec,
            qid=state.info.qid,
            priority=job.priority,
            groups=groups,
            runs=runs,
            total=job.tasks,
            tail=tail,
            attempt=state.attempts if action == ALLOCATING else self.contention.attempts(job.jid),
            nominated=self.nominations.binding(state),
            action=action,
            world=world,
            traced=job.jid in self.traced,
            lends=state.lends,
        )

    def _task_runs(self, state: JobState, action: str, tail: int) -> list[TaskRun]:
        """The tasks that the turn may place; without the action allocate those with a promise."""
        roles, key = self._roles(state), self._task_order(state)
        if len(roles) > 1:
            roles.sort(key=key)
        runs = task_runs(state, self.accounts.classes, roles, key=key, tail=tail)
        if self.allocates or action != ALLOCATING:
            return runs
        tasks = [[tix for tix in run.tasks if tix in state.nominated] for run in runs]
        return [replace(run, tasks=left) for run, left in zip(runs, tasks, strict=True) if left]

    def _task_order(self, state: JobState) -> Callable[[Role], tuple[Key, bool]]:
        """The key of task order; among equals those whose places are promised already go first, so
        that what was made free for one member is not taken by another."""
        promised = {state.job.role_of(tix).first for tix in state.nominated}
        key = self.session.role_key
        return lambda role: (key(state.info, role), role.first not in promised)

    def _session_decides(self, state: JobState, need: Need) -> bool:
        """Whether only a session, which asks task by task and node by node, can tell what of the
        job its queue may have."""
        return self._queue_chooses(state, need) or self._node_decides(state, need)

    def _node_decides(self, state: JobState, need: Need) -> bool:
        """Whether the queue may have the job's tasks on some nodes and not on others."""
        most, queue = self.accounts.most(state, need), self.accounts.queue(state)
        return most is not None and not self.picking.admits_amounts(queue, most)

    def _queue_chooses(self, state: JobState, need: Need) -> bool:
        """Whether the queue may have each of the job's tasks and not all together; where a turn
        ends at the first task that is refused (KAI), whether it may not have all."""
        if len({role.cid for role in state.job.roles}) == 1 or state.nominated:
            return False
        runs = self._task_runs(state, ALLOCATING, 0)
        if self.session.flat.goes_on:
            runs = self._admitted_runs(state, need, runs)
        most: Need = tuple((run.cid, len(run.tasks)) for run in runs)
        return not self._may_have(state, need, most)

    def _admitted_runs(self, state: JobState, need: Need, runs: list[TaskRun]) -> list[TaskRun]:
        """Without those of which the queue may not have a single task: in Volcano, too, they are
        passed over. What has promises was admitted with them."""
        if len({run.cid for run in runs}) == 1 or state.nominated:
            return runs
        return [run for run in runs if self._may_have(state, need, ((run.cid, 1),))]

    def _may_have(self, state: JobState, need: Need, tasks: Need) -> bool:
        """Whether the queue admits these tasks of a job that it was picked for: within its share,
        if what the job needs is, else within its capability."""
        queue, picking = self.accounts.queue(state), self.picking
        if picking.allowed(queue, need):
            return picking.allowed(queue, tasks)
        return picking.within(queue, tasks)

    def tried(self, turn: Turn) -> Collection[int]:
        """Shards that found no place for this turn's job."""
        evicts = turn.jid in self.contention.out
        return self.contention.tried(turn.jid) if evicts else self.jobs[turn.jid].tried

    def _must_wait(self, state: JobState, keys: list[str], action: str) -> bool:
        """Let the job wait for an open turn that touches one of these keys; False where there is
        none. ``action``: of the turn that the job would have."""
        stamp = state.stamp
        state.stamp += 1
        if not self.spanning.busy(keys, state):
            state.stamp = stamp
            return False
        if action != ALLOCATING:
            self.put_off(state)
        self.lines.set_status(state, SchedulingStatus.WAITING, state.reason, comes_back=True)
        return True

    def _tail(self, state: JobState, need: Need) -> int:
        """How many elastic tasks the turn may carry.

        0 before the gang is ready, and one for a ready job, as in Volcano; unless only this job
        waits: then as many as its queue and the cluster admit, by halving from ``tail_limit``.
        """
        if not self.session.job_ready(state.info.progress()):
            return 0
        if not self.lines.alone():
            return 1
        queue, cid = self.accounts.queue(state), first_class(need)
        limit = min(self.tail_limit, state.info.pending)
        while limit > 1:
            need_of_limit = ((cid, limit),)
            total = amounts(need_of_limit, self.accounts.classes)
            most = self.accounts.most(state, need_of_limit) or total
            if self.accounts.capacity.covers(total) and self.picking.admits_amounts(queue, most):
                break
            limit //= 2
        return max(1, limit)

    # --- outcomes -----------------------------------------------------------------------------

    def outcome(self, outcome: Outcome, *, shard: int = -1) -> None:
        """Take a returned turn: correct the charge, move the tasks, queue the remaining ones again.

        ``shard`` is the one that it returned from, -1 where it was never sent.
        """
        for jid in outcome.displaced:
            self._displace(jid)
        if outcome.moved:
            self.spanning.accepted(outcome.jid, outcome.moved, evicts=bool(outcome.evictions))
            self.accounts.capacity.freed()  # what came may be what others wait to be beside
        is_answer = outcome.code not in (OutcomeCode.STALE, OutcomeCode.FENCED)
        # A turn without an answer is closed by :meth:`resolve`.
        action = self.came_back(outcome.jid) if is_answer else ALLOCATING
        state = self.known(outcome.jid)
        if state is None or state.status is not SchedulingStatus.OPEN:
            return
        if outcome.jid not in self.jobs:
            self._late(state, outcome)
            return
        # Before the outcome is judged: what follows may queue the job again, and must find its
        # queue without the turn's charge.
        self.open -= 1
        if state.charged_beside:
            # Charged at most, it may have kept others out that its node leaves room for.
            self.accounts.capacity.freed()
        self.accounts.give_back(state)
        gates = self.accounts.gates.begin(state, outcome.ungated)
        if action == STALE or (action != ALLOCATING and outcome.code in _SAYS_NOTHING_OF_PLACES):
            self._failed_attempt(state, outcome, action, shard)
            self._settle_members(state)
            return
        match outcome.code:
            case OutcomeCode.INFEASIBLE if gates:
                # Not held back with its line: it goes on as soon as its gates are stored as gone.
                self.lines.set_status(state, SchedulingStatus.WAITING, Reason.GATED)
            case OutcomeCode.PLACED:
                self._placed(state, outcome, shard)
            case OutcomeCode.NOMINATED:
                self._nominate(state, outcome, action)
            case OutcomeCode.INFEASIBLE:
                if not self._refused_within(state, outcome):
                    self._infeasible(state, outcome, shard)
            case OutcomeCode.CONFLICT:
                self._conflict(state)
            case OutcomeCode.STALE | OutcomeCode.FENCED:
                # Nobody knows what the ledger has of it: no turn before its records are reread.
                waits = Reason.PENDING_EVALUATION
                self.lines.set_status(state, SchedulingStatus.WAITING, waits, comes_back=True)
                state.unread = True
                self.stale.append(outcome.jid)
        self._settle_members(state)

    def binds_alike(self, outcome: Outcome) -> tuple[int, int] | None:
        """The queue and class of an outcome that does no more than bind the one task of its job;
        None for any other outcome."""
        jid, placements = outcome.jid, outcome.placements
        state = self.jobs.get(jid)
        if (
            state is None
            or state.status is not SchedulingStatus.OPEN
            or outcome.code is not OutcomeCode.PLACED
            or outcome.reasons
            or outcome.displaced
            or outcome.moved
            or outcome.ungated
            or len(placements) != 1
            or placements[0].kind != ALLOCATE
            or placements[0].tasks != [0]
            or placements[0].devices
            or jid in self.spanning.out_now
            or jid in self.departures.members
        ):
            return None
        return self.accounts.binds_alike(state)

    def bind_run(self, run: Sequence[JobState]) -> None:
        """As :meth:`outcome` of each, of jobs that :meth:`binds_alike` calls alike."""
        self.open -= len(run)
        for state in run:
            self._forget_attempts(state)
            state.tried_since = -1
            state.stamp += 1
        self.accounts.begin_bind_run(run)
        self.lines.settle(run)

    def _forget_attempts(self, state: JobState) -> None:
        """Start anew after a turn that placed tasks of the job."""
        state.attempts = state.conflicts = 0
        state.tried = NO_TASKS
        if self.further:
            self.contention.forget(state.job.jid)
        if self.aging.jid == state.job.jid:
            self.aging.over(state.job.jid)

    def gates_removed(self, jid: int, tasks: list[int]) -> None:
        """Note that the gates of these tasks are stored as removed, or could not be removed."""
        self.accounts.gates.over(jid, tasks)
        self.accounts.capacity.freed()
        state = self.jobs.get(jid)
        if state and state.status is SchedulingStatus.WAITING and state.reason is Reason.GATED:
            self._enqueue(state)

    def _failed_attempt(self, state: JobState, outcome: Outcome, action: str, shard: int) -> None:
        """Take a failed attempt of backfill or of an evicting action. Allocate's last result stays
        valid."""
        jid, is_infeasible = state.job.jid, outcome.code is OutcomeCode.INFEASIBLE
        if action == BACKFILL:
            self.filled(state, failed=is_infeasible)
        elif action == STALE:
            pass  # it is looked at again
        elif action == RESERVE:
            self.aging.chosen(jid, (row for p in outcome.placements for row in p.rows))
        elif is_infeasible:
            reasons, before = outcome.reasons, state.failed_eviction
            make = before.then if before is not None else FailedEviction
            state.failed_eviction = make(action, reasons, self.now)
            tried = self.contention.tried(jid) | {shard}
            elsewhere = self.walls and bool(self.reachable - tried)
            revision = self.accounts.cluster.revision
            self.contention.failed(
                jid, shard=shard, elsewhere=elsewhere, now=self.now, revision=revision
            )
        else:
            self.contention.refused(jid, now=self.now)
        self._enqueue(state, state.reason or Reason.PENDING_EVALUATION)
        if action == BACKFILL and is_infeasible and state.status is SchedulingStatus.WAITING:
            self.lines.set_status(state, SchedulingStatus.WAITING, of_counts(outcome.reasons))

    def _placed(self, state: JobState, outcome: Outcome, shard: int) -> None:
        self._forget_attempts(state)
        # Else it was placed in part, and for the rest the failed turns before this one still count.
        if not outcome.reasons:
            state.tried_since = -1
        self.nominations.drop(state)
        self.accounts.begin_binds(state, outcome)
        if outcome.reasons and state.info.pending and len(state.job.roles) == 1:
            self._infeasible(state, outcome, shard)
        else:
            # One role has no node: members of others may have one, and the next turn tries them.
            self._enqueue(state)
        self._settle(state)

    def _nominate(self, state: JobState, outcome: Outcome, action: str) -> None:
        """Charge the nominated places, and let the job wait until tasks in its way have left."""
        before = dict(state.nominated)
        self.nominations.drop(state)
        self.lines.set_status(state, SchedulingStatus.NOMINATED, Reason.WAITING_FOR_VICTIMS)
        waits = self.nominations.add(state, outcome)
        self.accounts.promise(state, [(p.cid, len(p.tasks)) for p in outcome.placements])
        state.stamp += 1
        if outcome.evictions:
            self.contention.evicted_for(state.job.jid, now=self.now)
        elif action == ALLOCATING or waits:
            self.contention.promised(state.job.jid)
        else:  # nobody has to leave for it: allocate has its chance, and a pause comes after that
            self.contention.skip(state.job.jid, now=self.now, revision=NO_REVISION)
        # The last: woken for these places it could not take them (a plugin lets too few of a gang
        # be promised), and would ask for them for ever.
        if waits or outcome.evictions or state.nominated == before:
            # Word of those that have to leave may be on its way.
            self.nominations.look_again(state, self.now)
        else:
            self._wake_nominated(state.job.jid)

    def _refused_within(self, state: JobState, outcome: Outcome) -> bool:
        """Whether only the share of its queue held the job back, beyond which it is tried next."""
        why = of_counts(outcome.reasons)
        if state.lends or why is not Reason.WAITING_FOR_QUOTA:
            return False
        if not self.picking.refused_within(state.job.jid):
            return False
        self._enqueue(state, why)
        return True

    def _infeasible(self, state: JobState, outcome: Outcome, shard: int) -> None:
        state.attempts += 1
        state.tried |= {shard}
        self.to_fill(state)
        # In soft mode one look sees all nodes, own and others'; behind walls each shard has to say
        # no.
        elsewhere = self.walls and bool(self.reachable - state.tried)
        self._enqueue(state, of_counts(outcome.reasons), urgent=elsewhere)
        if not elsewhere:
            state.tried = NO_TASKS
            self._hold_line(state)

    def _conflict(self, state: JobState) -> None:
        """Queue a job that lost a conflict: at the front without a pause, later in its line, and
        finally parked, because a refusal that repeats may have another cause."""
        state.attempts += 1
        state.conflicts += 1
        # A loser of a conflict only needs fresh rows, so it goes first and without a pause; waiting
        # for room, as an infeasible job does, would make it slow for nothing (decision 0022).
        if state.attempts <= URGENT_ATTEMPTS:
            self._enqueue(state, urgent=True, keep=True)
            return
        self._enqueue(state, Reason.REPEATED_CONFLICT)
        self._hold_line(state)

    def _hold_line(self, state: JobState) -> None:
        """Block the job's line until capacity is freed; each block in a row lasts a little
        longer."""
        since, state.tried_since = state.tried_since, -1
        if state.status is not SchedulingStatus.READY:
            return
        self.lines.hold(state.line, since=since, now=self.now)


def _groups(state: JobState) -> list[Group]:
    """The gangs of a job, with the members that each has."""
    info = state.info
    return [
        Group(parent=g.parent, minimum=g.minimum, held=members + best)
        for g, members, best in zip(state.job.groups, info.held, info.best_effort, strict=True)
    ]
