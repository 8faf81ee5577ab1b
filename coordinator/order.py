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
from collections import Counter

from coordinator.accounts import Accounts
from coordinator.jobs import (
    JobState,
    Need,
    Standing,
    amounts,
    core_need,
    open_job,
    progress,
    task_runs,
)
from coordinator.lines import PROBE_LIMIT_SECONDS, PROBE_SECONDS, Line, Lines, QueueState
from coordinator.nominations import Nominations
from coordinator.picking import Picking
from shard_worker.session import Session
from shard_worker.workload import QueueInfo
from shared.messages import ALLOCATE, Group, Outcome, OutcomeCode, TaskState, Turn
from shared.model import Job, Queue, Role

PENDING = "PendingEvaluation"
NOT_ENOUGH_TASKS = "NotEnoughTasks"

URGENT_ATTEMPTS = 3
"""So many times in a row a conflict loser goes to the front; then it waits in its line, so that a
refusal that repeats (a full queue) cannot spin."""


class Order:
    """See the module's text. Events come in as method calls; :meth:`next_turn` gives turns out."""

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
        """``walls``: shards see different nodes (hard mode), so each has to be tried before a job
        is infeasible. ``work_conserving``: when no queue within its share has a job that can be
        tried, free capacity goes to queues beyond their share, in queue order (our addition; off
        in replay)."""
        self.session = session
        self.window = window
        self.tail_limit = tail_limit
        self.walls = walls
        self.reachable: set[int] = set()
        """Shards that have a worker."""
        self.accounts = Accounts()
        self.queue_ids: dict[str, int] = {}
        self.jobs: dict[int, JobState] = {}
        self.lines = Lines(self.jobs, self.accounts.capacity, count_first=count_first)
        self.nominations = Nominations()
        self.picking = Picking(
            session, self.accounts, self.lines, self.jobs, work_conserving=work_conserving
        )
        self.open = 0
        self.stale: list[int] = []
        """Jobs whose truth must be read from the ledger before they can be tried again."""
        self.lapsed: list[int] = []
        """Jobs that gave up nominations which the ledger still holds."""
        self._orphans: dict[str, set[int]] = {}
        self._later: list[tuple[float, int, int]] = []
        """Heap of (when, jid, stamp): jobs whose bind was refused."""
        self._now = 0.0

    # --- the loop -----------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Open a session: shares are computed anew, queues dropped before may be tried again."""
        self._now = now
        if self.accounts.dirty:
            self.accounts.cluster.revision += 1
            self.accounts.dirty = False
        self.picking.begin(now)
        for jid in self.nominations.due(now, self.jobs):
            self._wake_nominated(jid)
        while self._later and self._later[0][0] <= now:
            _, jid, stamp = heapq.heappop(self._later)
            if jid in self.jobs and self.jobs[jid].stamp == stamp:
                self._enqueue(self.jobs[jid], "BindFailed", urgent=True)

    def next_turn(self) -> Turn | None:
        """The next turn in order, charged to its queue; None when nothing can be tried now."""
        if self.open >= self.window:
            return None
        while (urgent := self.lines.pop_urgent()) is not None:
            if need := self._need(urgent):  # else what it waited with has ended meanwhile
                return self._open_turn(urgent, need)
        picked = self.picking.next()
        return None if picked is None else self._open_turn(*picked)

    def next_due(self) -> float | None:
        """When :meth:`begin` should be called again though nothing happened, None where never."""
        due = [self.nominations.next_due(), self.lines.next_due()]
        due += [self._later[0][0]] if self._later else []
        return min((at for at in due if at is not None), default=None)

    # --- a turn opens -------------------------------------------------------------------------

    def _open_turn(self, state: JobState, need: Need) -> Turn:
        tail = self._tail(state, need)
        self.accounts.promise(state, [(need[0][0], tail)] if tail else list(need))
        self.lines.stand(state, Standing.OPEN, state.reason)
        state.stamp += 1
        state.returned.clear()  # binds refused before this turn say nothing about its outcome
        self.open += 1
        if state.tried_since < 0:
            state.tried_since = self.accounts.capacity.changes
        job, info = state.job, state.info
        groups = [
            Group(parent=g.parent, minimum=g.minimum, held=held + best)
            for g, held, best in zip(job.groups, info.held, info.best_effort, strict=True)
        ]
        return Turn(
            jid=job.jid,
            job_version=job.spec,
            qid=info.qid,
            priority=job.priority,
            groups=groups,
            runs=task_runs(state, self.accounts.classes, self._roles(job), tail=tail),
            total=job.tasks,
            tail=tail,
            attempt=state.attempts,
            nominated=dict(state.nominated),
        )

    def _tail(self, state: JobState, need: Need) -> int:
        """How many elastic tasks the turn may carry.

        None after a gang core and one for a job that is ready, as in Volcano, unless order would
        pick this very job again: then as many as its queue and the cluster can give."""
        if not self.session.job_ready(progress(state)):
            return 0
        if not self.lines.alone():
            return 1
        cid, limit = need[0][0], min(self.tail_limit, state.info.pending)
        while limit > 1:
            asked = ((cid, limit),)
            covered = self.accounts.capacity.covers(amounts(asked, self.accounts.classes))
            if covered and self.picking.allowed(self.accounts.queue(state), asked):
                break
            limit //= 2
        return max(1, limit)

    # --- outcomes -----------------------------------------------------------------------------

    def outcome(self, outcome: Outcome, *, shard: int = -1) -> None:
        """A turn came back: correct the charge, move the tasks, queue the rest again.

        ``shard``: the one it came back from, -1 where it was never sent."""
        for jid in outcome.displaced:
            self._displace(jid)
        state = self.jobs.get(outcome.jid)
        if state is None or state.standing is not Standing.OPEN:
            return
        self.open -= 1
        self.accounts.give_back(state)
        match outcome.code:
            case OutcomeCode.PLACED:
                self._placed(state, outcome, shard)
            case OutcomeCode.NOMINATED:
                self._nominate(state, outcome)
            case OutcomeCode.INFEASIBLE:
                self._infeasible(state, outcome, shard)
            case OutcomeCode.CONFLICT:
                self._conflict(state)
            case OutcomeCode.STALE | OutcomeCode.FENCED:
                self.lines.stand(state, Standing.WAITING, PENDING)
                self.stale.append(outcome.jid)

    def _placed(self, state: JobState, outcome: Outcome, shard: int) -> None:
        state.attempts = 0
        state.tried.clear()
        if not outcome.reasons:
            state.tried_since = -1
        self.nominations.drop(state)
        for placement in outcome.placements:
            if placement.kind == ALLOCATE:
                fresh = [t for t in placement.tasks if self.expects(state, t)]
                self.accounts.move(state, fresh, TaskState.BINDING)
        state.returned.clear()
        if outcome.reasons and state.info.pending:
            self._infeasible(state, outcome, shard)
        else:
            self._enqueue(state)
        self._settle(state)

    @staticmethod
    def expects(state: JobState, tix: int) -> bool:
        """Whether an outcome still tells something new of a task.

        Its bind, even its end, may have been recorded before the call that placed it returned.
        """
        return state.states[tix] == TaskState.PENDING and tix not in state.returned

    def _nominate(self, state: JobState, outcome: Outcome) -> None:
        """Hold what the gang was promised until the tasks in its way have left."""
        self.nominations.drop(state)
        self.lines.stand(state, Standing.NOMINATED, "WaitingForVictims")
        waits = self.nominations.add(state, outcome)
        self.accounts.promise(state, [(p.cid, len(p.tasks)) for p in outcome.placements])
        state.stamp += 1
        if waits:
            self.nominations.look_again(state, self._now)
        else:
            self._wake_nominated(state.job.jid)

    def _infeasible(self, state: JobState, outcome: Outcome, shard: int) -> None:
        state.attempts += 1
        state.tried.add(shard)
        elsewhere = self.walls and bool(self.reachable - state.tried)
        self._enqueue(state, _reason(outcome.reasons), urgent=elsewhere)
        if not elsewhere:
            state.tried.clear()
            self._hold_line(state)

    def _conflict(self, state: JobState) -> None:
        state.attempts += 1
        if state.attempts <= URGENT_ATTEMPTS:
            self._enqueue(state, urgent=True, keep=True)
            return
        self._enqueue(state, "RepeatedConflict")
        self._hold_line(state)

    def _hold_line(self, state: JobState) -> None:
        """Let the job's line wait for freed capacity, a little longer each time in a row."""
        since, state.tried_since = state.tried_since, -1
        if state.standing is not Standing.READY:
            return
        self.lines.queues[state.info.qid].lines[self._need(state)].hold(since=since, now=self._now)

    # --- nominations --------------------------------------------------------------------------

    def _displace(self, jid: int) -> None:
        """A job of higher priority took this one's nominations (in the ledger they are gone)."""
        state = self.jobs.get(jid)
        if state is None or not state.nominated:
            return
        self.nominations.drop(state)
        if state.standing is Standing.NOMINATED:
            self.accounts.give_back(state)
            self._enqueue(state, urgent=True)

    def _wake_nominated(self, jid: int) -> None:
        """What stood in the way has left: the job keeps its nominations and its turn is next."""
        state = self.jobs[jid]
        if state.standing is Standing.NOMINATED:
            state.attempts += 1
            self._enqueue(state, urgent=True, keep=True)

    # --- tasks --------------------------------------------------------------------------------

    def task_changed(self, jid: int, state: TaskState, tasks: list[int], rows: list[int]) -> None:
        """The ledger recorded a change of these tasks (``rows``: their nodes)."""
        job = self.jobs.get(jid)
        if job is None or job.info.qid < 0:
            return
        self.nominations.moved(job, state, tasks, rows)
        self.accounts.move(job, tasks, state)
        if state is TaskState.PENDING and job.standing is Standing.OPEN:
            job.returned.update(tasks)
        if state in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.PENDING):
            for woken in self.nominations.freed(rows, self.jobs):
                self._wake_nominated(woken)
            self._settle(job)

    def _settle(self, state: JobState) -> None:
        """After tasks ended: the job is done, or has members to place again."""
        if state.standing in (Standing.OPEN, Standing.NOMINATED):
            return
        states = state.states
        if states.count(TaskState.SUCCEEDED) + states.count(TaskState.FAILED) == len(states):
            self.lines.stand(state, Standing.DONE, "")
            state.stamp += 1
            self.accounts.retire(state)
        elif state.standing is Standing.SETTLED and state.info.pending:
            self._bind_failed(state)

    def _bind_failed(self, state: JobState) -> None:
        """Place refused members again, a little later each time: who refused may refuse again."""
        self._enqueue(state, "BindFailed")
        if state.standing is Standing.READY:
            wait = min(PROBE_SECONDS * 2 ** min(state.refusals, 10), PROBE_LIMIT_SECONDS)
            state.refusals += 1
            state.stamp += 1
            self.lines.stand(state, Standing.WAITING, "BindFailed")
            heapq.heappush(self._later, (self._now + wait, state.job.jid, state.stamp))

    # --- jobs ---------------------------------------------------------------------------------

    def put_job(self, job: Job, states: bytearray | None = None) -> None:
        """A new job or a new specification of one. ``states`` is given on recovery."""
        known = self.jobs.get(job.jid)
        if known is not None:
            self._replace(known, job)
            return
        qid = self.queue_ids.get(job.queue, -1)
        state = open_job(job, qid=qid, classes=self.accounts.classes, states=states)
        self.jobs[job.jid] = state
        self.lines.enter(state)
        if qid < 0:
            self.lines.stand(state, Standing.WAITING, "Misconfigured")
            self._orphans.setdefault(job.queue, set()).add(job.jid)
            return
        self.accounts.admit(state)
        self._enqueue(state)
        self._settle(state)

    def _replace(self, state: JobState, job: Job) -> None:
        """A changed job: counted anew. A turn that is out comes back and is counted as it fell."""
        was_open, stamp, charge = state.standing is Standing.OPEN, state.stamp, state.charge
        self._forget(state)  # the ledger ended its nominations with the new specification
        self.put_job(job, state.states)
        again = self.jobs[job.jid]
        again.stamp += stamp + 1
        again.lapsing, again.refusals = state.lapsing, state.refusals
        if was_open:
            again.returned, again.tried_since = state.returned, state.tried_since
            self.lines.stand(again, Standing.OPEN, again.reason)
            if again.info.qid >= 0:
                self.accounts.promise(again, charge)
            self.open += 1
        elif again.standing is Standing.READY:
            self._enqueue(again)

    def _forget(self, state: JobState) -> None:
        """Take a job out of every total, as if it had never been put."""
        if state.standing is Standing.OPEN:
            self.open -= 1
        self.lines.leave(state)
        del self.jobs[state.job.jid]
        if state.info.qid < 0:
            self._orphans.get(state.job.queue, set()).discard(state.job.jid)
            return
        self.accounts.give_back(state)
        self.nominations.drop(state)
        self.accounts.forget(state)

    def drop_job(self, jid: int) -> None:
        state = self.jobs.get(jid)
        if state is not None:
            self._forget(state)

    def resolve(self, jid: int, states: bytearray) -> None:
        """The ledger's truth about a job whose turn was lost: counted anew, tried again first."""
        state = self.jobs.get(jid)
        if state is None:
            return
        self._forget(state)
        self.put_job(state.job, states)
        again = self.jobs[jid]
        again.attempts, again.refusals = state.attempts + 1, state.refusals
        again.stamp += state.stamp + 1
        self.give_up_nominations(jid)  # those of the lost turn, which nobody told us about

    def give_up_nominations(self, jid: int) -> None:
        """Have the ledger forget what the job was promised. It gets no turn until that is recorded,
        so that a nomination it gets then cannot be meant."""
        self.lapsed.append(jid)
        state = self.jobs.get(jid)
        if state is None:
            return
        state.lapsing = True
        self.nominations.drop(state)
        if state.standing in (Standing.READY, Standing.NOMINATED):
            self._enqueue(state)

    def lapse_recorded(self, jids: list[int]) -> None:
        """The ledger holds no nominations of these jobs any more."""
        for jid in jids:
            state = self.jobs.get(jid)
            if state is not None and state.lapsing:
                state.lapsing = False
                if state.standing is Standing.WAITING:
                    self._enqueue(state, urgent=True)
        self.accounts.capacity.freed()

    def _enqueue(
        self,
        state: JobState,
        reason: str = PENDING,
        *,
        urgent: bool = False,
        keep: bool = False,
    ) -> None:
        """Put a job where its turn will find it, or note why it cannot have one.

        ``reason``: why it waits, told until its next turn. ``keep``: its nominations stay."""
        state.stamp += 1
        self.accounts.give_back(state)
        if state.nominated and not keep:
            self.lapsed.append(state.job.jid)
            state.lapsing = True
            self.nominations.drop(state)
        if not state.info.pending:
            if any(state.info.best_effort):
                self.lines.stand(state, Standing.WAITING, "BestEffortNotInThisVersion")
            else:
                self.lines.stand(state, Standing.SETTLED, "")
        elif state.job.dangling:
            self.lines.stand(state, Standing.WAITING, "Misconfigured")
        elif self.session.job_valid(state.info, self.accounts.cluster) is not None:
            self.lines.stand(state, Standing.WAITING, NOT_ENOUGH_TASKS)
        elif state.lapsing:
            self.lines.stand(state, Standing.WAITING, reason)
        else:
            self._line_up(state, reason, urgent=urgent)

    def _line_up(self, state: JobState, reason: str, *, urgent: bool) -> None:
        if urgent:
            self.lines.join_urgent(state, reason)
            return
        need, lines = self._need(state), self.lines.queues[state.info.qid].lines
        if need not in lines:
            lines[need] = Line(need=need, amounts=amounts(need, self.accounts.classes))
        key = self.session.job_key(state.info, self.accounts.cluster)
        self.lines.join(state, reason, line=lines[need], key=key)

    def _need(self, state: JobState) -> Need:
        if state.need is None:
            state.need = core_need(state, self.accounts.classes, self._roles(state.job))
        return state.need

    def _roles(self, job: Job) -> list[Role]:
        if len(job.roles) == 1:
            return list(job.roles)
        return sorted(job.roles, key=lambda role: (self.session.task_key(role), role.first))

    # --- queues -------------------------------------------------------------------------------

    def put_queue(self, queue: Queue) -> None:
        known = self.lines.queues.get(queue.qid)
        if known is not None:
            known.info.queue = queue
        else:
            state = QueueState(info=QueueInfo(queue=queue))
            self.lines.queues[queue.qid] = state
            self.accounts.cluster.queues[queue.qid] = state.info
            self.queue_ids[queue.name] = queue.qid
        self.accounts.dirty = True
        self.accounts.capacity.freed()
        for jid in sorted(self._orphans.pop(queue.name, ())):
            job = self.jobs[jid]
            self._forget(job)
            self.put_job(job.job, job.states)

    # --- another policy -----------------------------------------------------------------------

    def adopt(self, session: Session) -> None:
        """Judge and order by another session from now on; who waits is queued anew by its keys.

        Turns that are open and nominations stand: they come back as they fell. What was found
        infeasible may fit by the new rules, so nothing is held back any more.
        """
        self.session = session
        self.picking.adopt(session)
        for queue in self.lines.queues.values():
            queue.lines.clear()
        for state in list(self.jobs.values()):
            state.need = None  # the order of its roles may be another
            ready = state.standing is Standing.READY
            if ready and state.line is None:  # urgent, and stays where it is, unless invalid now
                ready = self.session.job_valid(state.info, self.accounts.cluster) is not None
            if ready or (state.standing is Standing.WAITING and state.reason == NOT_ENOUGH_TASKS):
                self._enqueue(state, state.reason if ready else PENDING)

    def look_again(self) -> None:
        """Hold back no line for what a worker found: there are workers now that know better."""
        for queue in self.lines.queues.values():
            for line in queue.lines.values():
                line.infeasible_at = -1

    # --- tell ---------------------------------------------------------------------------------

    def pending_reasons(self) -> Counter[str]:
        """Why jobs wait, counted."""
        return self.lines.reasons(self._now)

    def validate(self) -> None:
        """Raise AssertionError where the bookkeeping contradicts itself."""
        self.accounts.validate(self.jobs.values())
        opened = sum(state.standing is Standing.OPEN for state in self.jobs.values())
        assert opened == self.open, (opened, self.open)
        assert +self.lines.standings == Counter(state.standing for state in self.jobs.values())
        for state in self.jobs.values():
            assert (state.standing is Standing.NOMINATED) <= bool(state.nominated), state.job.key


def _reason(reasons: dict[str, int]) -> str:
    """The closed list's word for a worker's node counts (the largest count decides)."""
    if not reasons:
        return "NotEnoughResources"
    worst = max(reasons.items(), key=lambda item: (item[1], item[0]))[0]
    return "NotEnoughResources" if worst.startswith("Insufficient") else "NoMatchingNodes"
