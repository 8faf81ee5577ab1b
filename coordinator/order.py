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
from collections import Counter, deque
from dataclasses import dataclass, field

from coordinator.accounts import Accounts
from coordinator.jobs import (
    JobState,
    Need,
    Standing,
    amounts,
    core_need,
    count_group,
    open_job,
    progress,
    task_runs,
)
from shard_worker.session import Session
from shard_worker.workload import Amounts, QueueInfo
from shared.messages import ALLOCATE, Group, Level, Outcome, OutcomeCode, TaskState, Turn
from shared.model import Job, Queue, Requests, Role

PROBE_SECONDS = 0.02
"""How long an infeasible line waits at least before freed capacity wakes it; doubles each time."""

PROBE_LIMIT_SECONDS = 1.0
"""The longest such wait: freed capacity is never ignored for longer."""

NOMINATED_SECONDS = 1.0
"""A nominated job looks again after this long even if no release on its nodes was seen (what stood
in its way may be nothing that we release); doubles each time."""

URGENT_ATTEMPTS = 3
"""So many times in a row a conflict loser goes to the front; then it waits in its line, so that a
refusal that repeats (a full queue) cannot spin."""

LineKey = tuple[float, ...]
Entry = tuple[LineKey, float, int, int]
"""(job key, created, jid, stamp): the order of a line. An entry whose stamp is not the job's is
void."""


@dataclass(slots=True)
class Line:
    """Jobs of one queue with the same need, best first."""

    need: Need
    amounts: Amounts
    heap: list[Entry] = field(default_factory=list)
    infeasible_at: int = -1
    """A worker found it infeasible, and had seen this many capacity changes; -1 where none did."""
    not_before: float = 0.0
    wait: float = PROBE_SECONDS
    reasons: Counter[str] = field(default_factory=Counter)
    """Jobs that stand in it, by the reason each has of its own."""


@dataclass(slots=True)
class QueueState:
    info: QueueInfo
    lines: dict[Need, Line] = field(default_factory=dict)


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
        places: int = 1,
    ) -> None:
        """``places``: how many shards see different nodes (hard mode), each to be tried before a
        job is infeasible. ``work_conserving``: when no queue within its share has a job that can
        be tried, free capacity goes to queues beyond their share, in queue order (our addition;
        off in replay)."""
        self.session = session
        self.window = window
        self.tail_limit = tail_limit
        self.work_conserving = work_conserving
        self.count_first = count_first
        self.places = places
        self.accounts = Accounts()
        self.queues: dict[int, QueueState] = {}
        self.queue_ids: dict[str, int] = {}
        self.jobs: dict[int, JobState] = {}
        self.open = 0
        self.stale: list[int] = []
        """Jobs whose truth must be read from the ledger before they can be tried again."""
        self.lapsed: list[int] = []
        """Jobs that gave up nominations which the ledger still holds."""
        self.standings: Counter[Standing] = Counter()
        """Jobs by where they stand."""
        self._reasons: Counter[str] = Counter()
        """Jobs outside the lines, by why they wait."""
        self._urgent: deque[tuple[int, int]] = deque()
        self._orphans: dict[str, set[int]] = {}
        self._waiting_rows: dict[int, set[int]] = {}
        self._leaving: Counter[int] = Counter()
        """Tasks that are leaving, by node: what a nomination on it waits for."""
        self._look_again: list[tuple[float, int, int]] = []
        self._now = 0.0
        self._closed: set[int] = set()
        self._blocked: set[tuple[int, Need]] = set()
        self._over_share: set[tuple[int, Need]] = set()

    # --- the loop -----------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Open a session: shares are computed anew, queues dropped before may be tried again."""
        self._now = now
        if self.accounts.dirty:
            self.accounts.cluster.revision += 1
            self.accounts.dirty = False
        self._closed.clear()
        self._blocked.clear()
        self._over_share.clear()
        while self._look_again and self._look_again[0][0] <= now:
            _, jid, stamp = heapq.heappop(self._look_again)
            if jid in self.jobs and self.jobs[jid].stamp == stamp:
                self._wake_nominated(jid)

    def next_turn(self) -> Turn | None:
        """The next turn in order, charged to its queue; None when nothing can be tried now."""
        if self.open >= self.window:
            return None
        urgent = self._pop_urgent()
        if urgent is not None:
            return self._open_turn(urgent, self._need(urgent))
        while (picked := self._pick()) is not None:
            queue, line, state = picked
            if self._allowed(queue.info, line.need):
                return self._open_turn(state, line.need)
            self._stand(state, Standing.READY, "WaitingForQuota", line)
            self._over_share.add((queue.info.queue.qid, line.need))
        return self._borrow() if self.work_conserving else None

    def next_due(self) -> float | None:
        """When :meth:`begin` should be called again though nothing happened, None where never."""
        due = [self._look_again[0][0]] if self._look_again else []
        due += [
            line.not_before
            for queue in self.queues.values()
            for line in queue.lines.values()
            if 0 <= line.infeasible_at < self.accounts.capacity.changes
        ]
        return min(due, default=None)

    def _pop_urgent(self) -> JobState | None:
        """Conflict losers and nominated jobs whose way is free: their share was judged before."""
        while self._urgent:
            jid, stamp = self._urgent.popleft()
            state = self.jobs.get(jid)
            if state is not None and state.stamp == stamp and state.standing is Standing.READY:
                return state
        return None

    def _pick(self) -> tuple[QueueState, Line, JobState] | None:
        """The first job of the first queue that is not overused and not held back."""
        cluster = self.accounts.cluster
        while (queue := self._best_queue()) is not None:
            if not self.session.overused(queue.info, cluster):
                found = self._best_line(queue)
                if found is not None:
                    return queue, found[0], self.jobs[found[1][2]]
            self._closed.add(queue.info.queue.qid)
        return None

    def _best_queue(self) -> QueueState | None:
        best: QueueState | None = None
        best_key: tuple[tuple[float, ...], str] | None = None
        for qid, queue in self.queues.items():
            if not queue.lines or qid in self._closed:
                continue
            key = self._queue_key(queue)
            if best_key is None or key < best_key:
                best, best_key = queue, key
        return best

    def _queue_key(self, queue: QueueState) -> tuple[tuple[float, ...], str]:
        key = self.session.queue_key(queue.info, self.accounts.cluster)
        return (key, queue.info.queue.name)

    def _best_line(self, queue: QueueState) -> tuple[Line, Entry] | None:
        """The line whose first job is first in order, of those that are not held back."""
        qid = queue.info.queue.qid
        best: tuple[Line, Entry] | None = None
        for need, line in list(queue.lines.items()):
            if (qid, need) in self._blocked or (qid, need) in self._over_share:
                continue
            top = self._top(queue, line)
            if top is None:
                continue
            if self._held_back(line):
                self._blocked.add((qid, need))
            elif best is None or top < best[1]:
                best = (line, top)
        return best

    def _top(self, queue: QueueState, line: Line) -> Entry | None:
        """The first entry of a line that still stands; an empty line disappears."""
        while line.heap:
            entry = line.heap[0]
            state = self.jobs.get(entry[2])
            if state is not None and state.stamp == entry[3] and state.standing is Standing.READY:
                return entry
            heapq.heappop(line.heap)
        del queue.lines[line.need]
        return None

    def _held_back(self, line: Line) -> bool:
        capacity = self.accounts.capacity
        if line.infeasible_at == capacity.changes:
            return True
        if line.infeasible_at >= 0 and self._now < line.not_before:
            return True
        return self.count_first and not capacity.covers(line.amounts)

    def _allowed(self, queue: QueueInfo, need: Need) -> bool:
        """Whether queue share and capability let all of the need pass.

        Volcano asks Allocatable for one task after the other with the share growing; as the rule
        only ever compares a growing sum, asking once for the sum is the same.
        """
        asked: Requests = tuple(sorted(amounts(need, self.accounts.classes).items()))
        if not self.session.allocatable(queue, asked, self.accounts.cluster):
            return False
        return self._within_capability(queue, asked)

    def _within_capability(self, queue: QueueInfo, asked: Requests) -> bool:
        capability = queue.queue.capability
        if capability is None:
            return True
        limits, used, leaving = dict(capability), queue.allocated, queue.releasing
        return all(
            slot not in limits or used.get(slot, 0) + leaving.get(slot, 0) + amount <= limits[slot]
            for slot, amount in asked
        )

    def _borrow(self) -> Turn | None:
        """Work conservation: what no queue may have within its share goes by queue order."""
        held = [
            (self._queue_key(self.queues[qid]), qid)
            for qid in {qid for qid, _ in self._over_share} | self._closed
        ]
        for _, qid in sorted(held):
            queue = self.queues[qid]
            if not queue.info.queue.open:
                continue
            for need, line in list(queue.lines.items()):
                top = self._top(queue, line)
                if top is None or (qid, need) in self._blocked or self._held_back(line):
                    continue
                if self._within_capability(queue.info, tuple(line.amounts.items())):
                    return self._open_turn(self.jobs[top[2]], need)
        return None

    # --- a turn opens -------------------------------------------------------------------------

    def _open_turn(self, state: JobState, need: Need) -> Turn:
        tail = self._tail(state, need)
        self.accounts.promise(state, [(need[0][0], tail)] if tail else list(need))
        self._stand(state, Standing.OPEN, state.reason)
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
        others = sum(
            len(line.heap) for queue in self.queues.values() for line in queue.lines.values()
        )
        if others > 1 or self._urgent:
            return 1
        cid, limit = need[0][0], min(self.tail_limit, state.info.pending)
        while limit > 1:
            asked = ((cid, limit),)
            covered = self.accounts.capacity.covers(amounts(asked, self.accounts.classes))
            if covered and self._allowed(self.accounts.queue(state), asked):
                break
            limit //= 2
        return max(1, limit)

    # --- outcomes -----------------------------------------------------------------------------

    def outcome(self, outcome: Outcome) -> None:
        """A turn came back: correct the charge, move the tasks, queue the rest again."""
        for jid in outcome.displaced:
            self._displace(jid)
        state = self.jobs.get(outcome.jid)
        if state is None or state.standing is not Standing.OPEN:
            return
        self.open -= 1
        self.accounts.give_back(state)
        match outcome.code:
            case OutcomeCode.PLACED:
                self._placed(state, outcome)
            case OutcomeCode.NOMINATED:
                self._nominate(state, outcome)
            case OutcomeCode.INFEASIBLE:
                self._infeasible(state, outcome)
            case OutcomeCode.CONFLICT:
                self._conflict(state)
            case OutcomeCode.STALE | OutcomeCode.FENCED:
                self._stand(state, Standing.WAITING, "PendingEvaluation")
                self.stale.append(outcome.jid)

    def _placed(self, state: JobState, outcome: Outcome) -> None:
        state.attempts = 0
        if not outcome.reasons:
            state.tried_since = -1
        self._drop_nominations(state)
        for placement in outcome.placements:
            if placement.kind == ALLOCATE:
                fresh = [t for t in placement.tasks if self.expects(state, t)]
                self.accounts.move(state, fresh, TaskState.BINDING)
        state.returned.clear()
        if outcome.reasons and state.info.pending:
            self._infeasible(state, outcome)
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
        self._drop_nominations(state)
        self._stand(state, Standing.NOMINATED, "WaitingForVictims")
        for p in outcome.placements:
            for tix, row, level in zip(p.tasks, p.rows, p.levels, strict=True):
                state.nominated[tix] = row
                if level >= Level.FUTURE_OWN and self._leaving[row] > 0:
                    state.waits_for.add(row)
        self._count_waiting(state, +1)
        self.accounts.promise(state, [(p.cid, len(p.tasks)) for p in outcome.placements])
        for row in state.waits_for:
            self._waiting_rows.setdefault(row, set()).add(state.job.jid)
        state.stamp += 1
        if not state.waits_for:  # they left before the nomination was known here
            self._wake_nominated(state.job.jid)
            return
        due = self._now + NOMINATED_SECONDS * 2 ** min(state.attempts, 4)
        heapq.heappush(self._look_again, (due, state.job.jid, state.stamp))

    def _infeasible(self, state: JobState, outcome: Outcome) -> None:
        state.attempts += 1
        elsewhere = state.attempts < self.places
        self._enqueue(state, _reason(outcome.reasons), urgent=elsewhere)
        if not elsewhere:
            self._hold_line(state)
            if self.places > 1:
                state.attempts = 0

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
        line = self.queues[state.info.qid].lines[self._need(state)]
        line.infeasible_at = since
        line.not_before = self._now + line.wait
        line.wait = min(line.wait * 2, PROBE_LIMIT_SECONDS)

    # --- nominations --------------------------------------------------------------------------

    def _drop_nominations(self, state: JobState) -> None:
        if not state.nominated:
            return
        self._count_waiting(state, -1)
        for row in state.waits_for:
            waiting = self._waiting_rows.get(row)
            if waiting is not None:
                waiting.discard(state.job.jid)
                if not waiting:
                    del self._waiting_rows[row]
        state.nominated, state.waits_for = {}, set()

    def _count_waiting(self, state: JobState, sign: int) -> None:
        for tix in state.nominated:
            role = state.job.role_of(tix)
            count_group(state.info.waiting, state.job.groups, role.group, sign)

    def _displace(self, jid: int) -> None:
        """A job of higher priority took this one's nominations (in the ledger they are gone)."""
        state = self.jobs.get(jid)
        if state is None or not state.nominated:
            return
        self._drop_nominations(state)
        if state.standing is Standing.NOMINATED:
            self.accounts.give_back(state)
            self._enqueue(state, urgent=True)

    def _wake_nominated(self, jid: int) -> None:
        """What stood in the way has left: the job keeps its nominations and its turn is next."""
        state = self.jobs[jid]
        if state.standing is Standing.NOMINATED:
            state.attempts += 1
            self._enqueue(state, urgent=True, keep=True)

    def _wake_rows(self, rows: list[int]) -> None:
        """Nominated jobs that waited for one of these nodes: those with no other to wait for go."""
        if not self._waiting_rows:
            return
        for row in sorted(set(rows)):
            for jid in sorted(self._waiting_rows.pop(row, ())):
                state = self.jobs[jid]
                state.waits_for.discard(row)
                if not state.waits_for:
                    self._wake_nominated(jid)

    # --- tasks --------------------------------------------------------------------------------

    def task_changed(self, jid: int, state: TaskState, tasks: list[int], rows: list[int]) -> None:
        """The ledger recorded a change of these tasks (``rows``: their nodes)."""
        job = self.jobs.get(jid)
        if job is None or job.info.qid < 0:
            return
        self._count_leaving(job, state, tasks, rows)
        self.accounts.move(job, tasks, state)
        if state is TaskState.PENDING and job.standing is Standing.OPEN:
            job.returned.update(tasks)
        if state in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.PENDING):
            self._wake_rows(rows)
            self._settle(job)

    def recovered_leaving(self, row: int) -> None:
        """Recovery: a task on this node was already leaving."""
        self._leaving[row] += 1

    def _count_leaving(
        self, job: JobState, new: TaskState, tasks: list[int], rows: list[int]
    ) -> None:
        for tix, row in zip(tasks, rows, strict=True):
            before = job.states[tix]
            if new is TaskState.RELEASING and before != TaskState.RELEASING:
                self._leaving[row] += 1
            elif new is not TaskState.RELEASING and before == TaskState.RELEASING:
                self._leaving[row] -= 1

    def _settle(self, state: JobState) -> None:
        """After tasks ended: the job is done, or has members to place again."""
        if state.standing in (Standing.OPEN, Standing.NOMINATED):
            return
        states = state.states
        if states.count(TaskState.SUCCEEDED) + states.count(TaskState.FAILED) == len(states):
            self._stand(state, Standing.DONE, "")
            state.stamp += 1
            self.accounts.retire(state)
        elif state.standing is Standing.SETTLED and state.info.pending:
            self._enqueue(state, "BindFailed")

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
        self.standings[state.standing] += 1
        if qid < 0:
            self._stand(state, Standing.WAITING, "Misconfigured")
            self._orphans.setdefault(job.queue, set()).add(job.jid)
            return
        self.accounts.admit(state)
        self._enqueue(state)
        self._settle(state)

    def _replace(self, state: JobState, job: Job) -> None:
        """A changed job: counted anew. A turn that is out comes back and is counted as it fell."""
        was_open, stamp = state.standing is Standing.OPEN, state.stamp
        if state.nominated and not was_open:
            self.lapsed.append(job.jid)
        self._forget(state)
        self.put_job(job, state.states)
        again = self.jobs[job.jid]
        again.stamp += stamp + 1
        if was_open:
            self._stand(again, Standing.OPEN, again.reason)
            self.open += 1
        elif again.standing is Standing.READY:
            self._enqueue(again)

    def _forget(self, state: JobState) -> None:
        """Take a job out of every total, as if it had never been put."""
        if state.standing is Standing.OPEN:
            self.open -= 1
        self._stand(state, Standing.WAITING, "")
        self.standings[Standing.WAITING] -= 1
        del self.jobs[state.job.jid]
        if state.info.qid < 0:
            self._orphans.get(state.job.queue, set()).discard(state.job.jid)
            return
        self.accounts.give_back(state)
        self._drop_nominations(state)
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
        if state.nominated:
            self.lapsed.append(jid)
        self._forget(state)
        self.put_job(state.job, states)
        again = self.jobs[jid]
        again.attempts = state.attempts + 1
        again.stamp += state.stamp + 1
        if again.standing is Standing.READY:
            self._enqueue(again, urgent=True)

    def _enqueue(
        self,
        state: JobState,
        reason: str = "PendingEvaluation",
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
            self._drop_nominations(state)
        if not state.info.pending:
            if any(state.info.best_effort):
                self._stand(state, Standing.WAITING, "BestEffortNotInThisVersion")
            else:
                self._stand(state, Standing.SETTLED, "")
        elif state.job.dangling:
            self._stand(state, Standing.WAITING, "Misconfigured")
        elif self.session.job_valid(state.info, self.accounts.cluster) is not None:
            self._stand(state, Standing.WAITING, "NotEnoughTasks")
        else:
            self._line_up(state, reason, urgent=urgent)

    def _line_up(self, state: JobState, reason: str, *, urgent: bool) -> None:
        if urgent:
            self._stand(state, Standing.READY, reason)
            self._urgent.append((state.job.jid, state.stamp))
            return
        need, queue = self._need(state), self.queues[state.info.qid]
        line = queue.lines.get(need)
        if line is None:
            line = Line(need=need, amounts=amounts(need, self.accounts.classes))
            queue.lines[need] = line
        self._stand(state, Standing.READY, reason, line)
        key = self.session.job_key(state.info, self.accounts.cluster)
        heapq.heappush(line.heap, (key, state.job.created, state.job.jid, state.stamp))

    def _stand(
        self, state: JobState, standing: Standing, reason: str, line: Line | None = None
    ) -> None:
        """Move a job to where it stands now, with the reason it is told by."""
        before = self._reasons if state.line is None else state.line.reasons
        before[state.reason] -= 1
        (self._reasons if line is None else line.reasons)[reason] += 1
        self.standings[state.standing] -= 1
        self.standings[standing] += 1
        state.standing, state.reason, state.line = standing, reason, line

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
        known = self.queues.get(queue.qid)
        if known is not None:
            known.info.queue = queue
        else:
            state = QueueState(info=QueueInfo(queue=queue))
            self.queues[queue.qid] = state
            self.accounts.cluster.queues[queue.qid] = state.info
            self.queue_ids[queue.name] = queue.qid
        self.accounts.dirty = True
        for jid in sorted(self._orphans.pop(queue.name, ())):
            job = self.jobs[jid]
            self._forget(job)
            self.put_job(job.job, job.states)

    # --- tell ---------------------------------------------------------------------------------

    def pending_reasons(self) -> Counter[str]:
        """Why jobs wait, counted. Jobs of a line that is held back wait for resources."""
        reasons = Counter(self._reasons)
        for queue in self.queues.values():
            for line in queue.lines.values():
                if self._held_back(line):
                    reasons["NotEnoughResources"] += line.reasons.total()
                else:
                    reasons.update(line.reasons)
        del reasons[""]
        return +reasons

    def validate(self) -> None:
        """Raise AssertionError where the bookkeeping contradicts itself."""
        self.accounts.validate(self.jobs.values())
        opened = sum(state.standing is Standing.OPEN for state in self.jobs.values())
        assert opened == self.open, (opened, self.open)
        assert +self.standings == Counter(state.standing for state in self.jobs.values())
        for state in self.jobs.values():
            assert (state.standing is Standing.NOMINATED) <= bool(state.nominated), state.job.key


def _reason(reasons: dict[str, int]) -> str:
    """The closed list's word for a worker's node counts (the largest count decides)."""
    if not reasons:
        return "NotEnoughResources"
    worst = max(reasons.items(), key=lambda item: (item[1], item[0]))[0]
    return "NotEnoughResources" if worst.startswith("Insufficient") else "NoMatchingNodes"
