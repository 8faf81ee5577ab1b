"""The coordinator as a state machine: events in as calls, instructions out as values.

It composes Order, Dispatch and the bookkeeping of binds, and does no I/O: the service executes the
instructions against Ray, the ledger and the cluster, the seeded run against queues in memory.

========================  =====================================================================
event                     what follows
========================  =====================================================================
``admitted``              objects are durable: they join Order
``worker_up``             a worker serves a shard under an epoch
``turns_returned``        outcomes of a call
``worker_lost``           its epoch is revoked: its open turns are reread from the ledger
``reread``                the ledger's records of those jobs: their turns are placed again
``recorded``              the ledger recorded new states of tasks
``repartition``           nodes came, or a shard has too much: what to store
``partition_stored``      the stored partition is durable
``followed``              the log position that a worker has read
``step``                  turns that may go out now
========================  =====================================================================
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from coordinator.bind.binder import BindPlan, BindResult, judge_answers, taken_by
from coordinator.bind.devices_of_pod import PodDevices
from coordinator.bind.evictions import Victims
from coordinator.bind.placements import Places
from coordinator.bind.quarantine import Quarantines, RefusedBind
from coordinator.cluster.protocol import BindAnswers
from coordinator.core.foreign_use import Use
from coordinator.core.observer import EventReason, Observer, Unobserved
from coordinator.core.queues_of_pool import QueuesOfPool
from coordinator.core.shuffle import Shuffling
from coordinator.core.status import status
from coordinator.core.traces import Traces
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.dispatch.instructions import (
    Fail,
    Instruction,
    Purge,
    Regroup,
    ReleaseNominations,
    RemoveGates,
    Repartition,
    Reread,
    Stop,
    StoreQuarantines,
    StoreReservations,
    StoreUsage,
    failures,
)
from coordinator.dispatch.sharding import MOVES_PER_MINUTE, ClusterPartition
from coordinator.intake.changes import Changes
from coordinator.jobs.counters import CoordinatorTally
from coordinator.jobs.state import JobState, SchedulingStatus, amounts, note_try
from coordinator.order.order import Order
from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import PutPartition
from shared.ledger.entries.snapshot import Nomination
from shared.ledger.entries.stored import BindEntry, JobRecord, TaskRecord
from shared.messages.messages import (
    HOLDING,
    NOBODY,
    Epoch,
    Outcome,
    OutcomeCode,
    StatusItem,
    Turn,
)
from shared.model.kai import KaiTopology
from shared.model.model import Job, Node
from shared.records.quarantine import Quarantine

MOST_LOOKS = 20_000
"""Looks at queues in one step, which would hold the event loop for longer otherwise. With 39 queues
or fewer one step fills the window."""
PICK_LOOKS = 200
"""A pick costs as much as a look at each queue with jobs in line, and never more than this many:
their order is kept from one pick to the next."""
CONTEXT_LOOKS = 6
"""The context of a turn that needs a session has every queue with its totals, at 3 us each: 250
backfill turns once took 0.7 s in one callback after 1,000 queues were made."""


class Coordinator:
    def __init__(
        self,
        order: Order,
        dispatcher: Dispatcher,
        *,
        mode: str = "",
        moves_per_minute: int = MOVES_PER_MINUTE,
    ) -> None:
        """``mode``: how workers treat nodes of other shards (none, soft, hard); published with the
        partition. ``moves_per_minute``: cap on nodes that change shards for balance."""
        self.order = order
        self.dispatcher = dispatcher
        order.accounts.capacity.overfull = dispatcher.overfull
        self.tally = CoordinatorTally()
        self.observer: Observer = Unobserved()
        self.traces = Traces(order.traced)
        self.partition = cluster_partition = ClusterPartition(
            dispatcher,
            order.accounts,
            mode=mode,
            moves_per_minute=moves_per_minute,
            pool=order.session.eligibility.pool,
            on_moved=self._nodes_moved,
        )
        self.nodes, self.hyper_nodes = cluster_partition.nodes, cluster_partition.hyper_nodes
        self.names, self.rows = cluster_partition.names, cluster_partition.rows
        self.queues = QueuesOfPool(order)
        self.quarantines = Quarantines()
        self.places = Places(order, dispatcher)
        devices = PodDevices(self.nodes, lambda: order.accounts.cluster.names)
        self.victims = Victims(order, self.places, self.tally, devices)
        self.shuffling = Shuffling(order, dispatcher)
        self.observed: dict[int, dict[int | str, Use]] = {}
        """Usage by foreign pods, as the ledger has it: row -> slot or thing -> amount."""
        self.unfinished = False
        """Whether the last step left turns to the next one, which is due at once."""
        self._lost: set[int] = set()
        """Shards whose worker was lost and has no successor yet."""
        self._unread: list[int] = []
        self._fenced: dict[int, list[int]] = {}
        """Shard -> jobs of turns whose batch was refused as a whole. The refusal is final only once
        the epoch is revoked: until then the lease may be renewed, and a copy of the request arrive
        late."""

    # --- objects ------------------------------------------------------------------------------

    def admitted(self, changes: Changes, states: dict[int, bytearray] | None = None) -> None:
        """Take objects that are durable. ``states`` has the task states of recovered jobs, by
        jid."""
        self.order.accounts.classes.update(changes.classes)
        for row in changes.nodes_gone:
            self.partition.drop_node(row)
            self.quarantines.gone(row)
        for node in changes.nodes:
            self.partition.put_node(node)
        if changes.hyper_nodes or changes.hyper_nodes_gone:
            self.partition.put_hyper_nodes(changes.hyper_nodes, gone=changes.hyper_nodes_gone)
            self.order.put_tiers(self.partition.tiers)
        self.queues.put(changes.queues, changes.objects)
        for value in changes.objects:
            if isinstance(value, KaiTopology):
                self.partition.put_topology(value)
        for value in changes.objects_gone:
            self.order.drop_object(value)
            if isinstance(value, KaiTopology):
                self.partition.drop_topology(value.name)
        for jid in changes.jobs_gone:
            self.order.drop_job(jid)
            self.dispatcher.forget(jid)
        self.order.put_jobs(changes.jobs, states)
        if changes.tasks_gone:
            self.order.drop_members(changes.tasks_gone)
        for jid in changes.jobs_purged:
            if (state := self.leaving.get(jid)) is not None:
                self.victims.forget(state)
            self.order.purged(jid)
        for qid in changes.queues_gone:
            self.queues.drop(qid)

    def restore_gone_nodes(self, nodes: Iterable[Node]) -> None:
        """Note the names of deleted nodes, which the ledger has (recovery)."""
        for node in nodes:
            self.partition.name(node)

    # --- the partition ------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """The revision of the newest partition that was handed out."""
        return self.partition.handover.revision

    def restore_partition(self, partition: PutPartition, *, at: str = "0") -> None:
        """Restore the ledger's partition as of this log entry; see
        :meth:`ClusterPartition.restore`."""
        self.partition.restore(partition, at=at)

    def repartition(self, now: float = 0.0) -> Repartition | None:
        """See :meth:`ClusterPartition.repartition`."""
        return self.partition.repartition(now)

    def partition_stored(self, at: str) -> None:
        """Note that the new partition is durable, in the log before ``at``. Jobs that no shard
        could place are tried again, because they may fit now."""
        self.partition.stored(at)
        self.order.accounts.capacity.freed()

    def followed(self, shard: int, epoch: Epoch, position: str) -> None:
        """Note the log position that the worker under this epoch has read."""
        self.dispatcher.followed(shard, epoch, position)

    def _nodes_moved(self, moves: list[tuple[int, int]]) -> None:
        self.tally.nodes_moved += len(moves)
        for shard in sorted({shard for pair in moves for shard in pair}):
            self.observer.shard_changed(shard, EventReason.SHARD_REBALANCED)

    # --- turns --------------------------------------------------------------------------------

    def step(self, now: float) -> list[Instruction]:
        """Open turns that may go out now, and return all instructions that are due. With very many
        queues only some turns: see :attr:`unfinished`."""
        order = self.order
        out: list[Instruction] = []
        self.shuffling.step(now)
        self.unfinished = False
        if self.dispatcher.ready():
            order.begin(now)
            for turn in self._next_turns():
                need = amounts(tuple(order.jobs[turn.jid].charge), order.accounts.classes)
                shard = self.dispatcher.route(turn, need, tried=order.tried(turn))
                if turn.traced:
                    self.traces.opened(turn, shard)
            out += self.dispatcher.send(now)
        if self.traces.followers:
            self.traces.stepped(now)
        out += self.partition.step()
        stale, expired = order.take_requests()
        if stale or self._unread:
            out.append(Reread(sorted({*stale, *self._unread})))
            self._unread = []
        if expired:
            out.append(ReleaseNominations(sorted(set(expired))))
        if marks := self.quarantines.changes(now, self.nodes):
            out.append(StoreQuarantines(marks))
        out += order_records(order)
        return out + departures(order, self.victims, now)

    def _next_turns(self) -> Iterator[Turn]:
        """Open the turns of one step: all, or as many as :data:`MOST_LOOKS` allows."""
        queues = self.order.lines.queues
        pick = max(1, min(PICK_LOOKS, sum(bool(queue.lines) for queue in queues.values())))
        left = MOST_LOOKS
        while left > 0:
            if (turn := self.order.next_turn()) is None:
                return
            yield turn
            left -= pick + (CONTEXT_LOOKS * len(queues) if turn.world else 0)
        self.unfinished = True

    def observe(self, observer: Observer) -> None:
        """Report to this observer from now on; there is one at a time."""
        self.observer = observer
        self.order.moved = self.order.admission.admitted = observer.job_moved

    @property
    def leaving(self) -> dict[int, JobState]:
        """Deleted jobs that are not purged yet, by jid."""
        return self.order.departures.jobs

    def stopped(
        self, tasks: list[tuple[int, int]], uids: list[str], never: list[tuple[int, int]]
    ) -> list[StatusItem]:
        """Note that the cluster was asked to stop these incarnations of tasks. Returns what to
        record of those that the cluster ``never`` had and never will: they failed."""
        both = zip(tasks, uids, self.victims.uids(tasks), strict=True)
        still = {task for task, uid_stopped, uid in both if uid_stopped == uid}
        self.order.departures.stopped(sorted(still))
        never = [task for task in never if task in still]
        jobs = {jid: self.order.known(jid) for jid, _ in never}
        states = {jid: state for jid, state in jobs.items() if state is not None}
        holding = [(j, t) for j, t in never if j in states and states[j].states[t] in HOLDING]
        return self.victims.ended(failures(holding, states, lambda j, t: states[j].rows[t]))

    def evicted(self, entries: Iterable[BindEntry]) -> tuple[list[tuple[int, int]], list[str]]:
        """Start the evictions that the bind stream reports. Returns the tasks (jid, tix) to stop
        and the uids of their present incarnations."""
        stop: list[tuple[int, int]] = []
        for victims, tasks in self.victims.reported(e for entry in entries for e in entry.evicts):
            self.observer.evicted(victims.jid, tasks, victims.by, victims.reason)
            self.order.contention.was_evicted(victims.jid, now=self.order.now)
            stop += [(victims.jid, tix) for tix in tasks]
        return stop, self.victims.uids(stop)

    def failed(self, items: list[StatusItem]) -> None:
        """Note that the failures which a ``Fail`` named are recorded."""
        self.order.departures.failed((item.jid, tix) for item in items for tix in item.tasks)

    def turns_returned(
        self,
        shard: int,
        call: int,
        outcomes: list[Outcome],
        *,
        now: float | None = None,
        more: bool = False,
    ) -> None:
        """Take the outcomes of a call. Outcomes of a call that was given up are ignored: its jobs
        were reread. A turn without an outcome is reread, as if its worker were lost. A fenced one
        stays open until :meth:`worker_lost`, which must follow.

        ``now`` (seconds since 1970): count how long the placed tasks had waited.
        ``more``: others of the same call follow; a worker lost before them loses their turns.
        """
        tally = self.tally.of(shard)
        # shuffling answers with several outcomes of one turn: that turn ends with the last part
        only = {outcome.jid for outcome in outcomes} - {NOBODY} if more else None
        expected = {turn.jid for turn in self.dispatcher.returned(shard, call, only=only)}
        judged, lost = tally.judged
        run: list[tuple[tuple[int, int], Outcome]] = []
        for outcome in outcomes:
            if outcome.jid != NOBODY and outcome.jid not in expected:
                continue
            if (alike := self.order.binds_alike(outcome)) and not self.traces.followers:
                expected.discard(outcome.jid)
                run.append((alike, outcome))
                continue
            self._take_run(shard, run, now)
            if outcome.jid == NOBODY:
                self.shuffling.outcome(outcome)
            else:
                expected.discard(outcome.jid)
                self._take(shard, outcome, now)
        self._take_run(shard, run, now)
        if NOBODY in expected:
            expected.discard(NOBODY)
            self.shuffling.came_back()
        tally.turns_lost += len(expected)
        self._unread += expected
        now_judged, now_lost = tally.judged
        self.dispatcher.judged(shard, call, statements=now_judged - judged, lost=now_lost - lost)

    def _take_run(
        self, shard: int, run: list[tuple[tuple[int, int], Outcome]], now: float | None
    ) -> None:
        """Take outcomes that do no more than bind the one task of their job, each beside its queue
        and class: as :meth:`_take` of each, but a total moves once. ``run`` is empty afterwards."""
        at, epoch = self.order.now if now is None else now, self.dispatcher.shards[shard].served
        alike: defaultdict[tuple[int, int], list[Outcome]] = defaultdict(list)
        for key, outcome in run:
            alike[key].append(outcome)
        for (_, cid), outcomes in alike.items():
            states = [self.order.jobs[outcome.jid] for outcome in outcomes]
            self.places.placed_run(cid, states, [o.placements[0].rows[0] for o in outcomes])
            if now is not None:
                self.tally.waits.placed_run(states, now=now)
            self.order.bind_run(states)
        for _, outcome in run:
            self.tally.of(shard).count(outcome)
            note_try(self.order.jobs[outcome.jid], outcome, shard=shard, epoch=epoch, at=at)
            self.observer.outcome(shard, outcome)
        run.clear()

    def _take(self, shard: int, outcome: Outcome, now: float | None) -> None:
        """Take the outcome of a turn, of which nothing more is to come."""
        at, epoch = self.order.now if now is None else now, self.dispatcher.shards[shard].served
        self.tally.of(shard).count(outcome)
        if self.traces.followers:
            self.traces.returned(shard, outcome)
        if outcome.code is OutcomeCode.FENCED:
            self._fenced.setdefault(shard, []).append(outcome.jid)
            return
        state, placed, recorded = self.places.placed(outcome)
        if state is not None and placed and now is not None:
            first = state.info.held[0] <= recorded
            self.tally.waits.placed(state, placed, first=first, now=now)
        self.order.outcome(outcome, shard=shard)
        if state := self.order.jobs.get(outcome.jid):
            note_try(state, outcome, shard=shard, epoch=epoch, at=at)
        self.observer.outcome(shard, outcome)

    # --- workers ------------------------------------------------------------------------------

    def worker_up(self, shard: int, epoch: Epoch) -> None:
        again = shard in self._lost or bool(self.dispatcher.shards[shard].refused)
        self._lost.discard(shard)
        self.dispatcher.up(shard, epoch)
        self.order.reachable.add(shard)
        self.order.accounts.capacity.freed()
        if again:
            self.observer.shard_changed(shard, EventReason.SHARD_RECOVERED)

    def worker_lost(self, shard: int, *, planned: bool = False) -> None:
        """Note that a shard's worker is gone. Its epoch must be revoked before a reread counts: the
        service claims a new one first, then executes the :class:`Reread` of the next step.
        ``planned``: given up on purpose, not lost."""
        sent, unsent = self.dispatcher.down(shard)
        self.order.reachable.discard(shard)
        if not planned:
            self.tally.workers_lost += 1
            self._lost.add(shard)
            self.observer.shard_changed(shard, EventReason.SHARD_LOST)
        self.shuffling.lost(shard, sent=any(turn.jid == NOBODY for turn in sent))
        self.tally.of(shard).turns_lost += len(sent)
        self._unread += [*(turn.jid for turn in sent), *self._fenced.pop(shard, ())]
        for turn in unsent:
            # Nothing was sent, so nothing can have been committed: as if it had been fenced.
            fenced = Outcome(jid=turn.jid, code=OutcomeCode.FENCED, placements=[], reasons={})
            self.order.outcome(fenced)

    def reread(self, truth: dict[int, tuple[JobRecord, dict[int, TaskRecord]]]) -> int:
        """Take the ledger's records of jobs whose turns were lost. Returns the number of tasks that
        were placed without a reported outcome. Raises Deposed: see :meth:`Places.all_let_in`."""
        self.places.all_let_in(truth)
        unknown = 0
        for jid, (_, tasks) in truth.items():
            state = self.order.known(jid)
            if state is None:
                continue
            unknown += self.places.reread(state, tasks)
            self.victims.reread(state, tasks)
            states = bytearray(len(state.states))
            for tix, task in tasks.items():
                states[tix] = task.state
            self.order.resolve(jid, states)
            if (again := self.order.known(jid)) is not None:
                self.places.rows_of(again, tasks)
                self.victims.known(again, tasks)
        return unknown

    # --- tasks --------------------------------------------------------------------------------

    def stray_nominations(self, nominations: Mapping[int, Nomination], now: float) -> None:
        """Release nominations in the ledger that no job here relies on: their outcome was lost with
        its worker, or they have expired."""
        for jid, nomination in nominations.items():
            state = self.order.jobs.get(jid)
            if state is not None and (
                state.status is SchedulingStatus.OPEN or self.order.takes_up(state, nomination, now)
            ):
                continue
            if state is None or not state.nominated or nomination.expiry <= now:
                self.order.give_up_nominations(jid)

    def recorded(self, items: list[StatusItem], applied: list[list[int]]) -> None:
        """Take recorded state changes; ``applied`` lists the tasks that each item changed."""
        order = self.order
        for item, changed in zip(items, applied, strict=True):
            if len(changed) == len(item.tasks) and order.only_proceeds(item):
                self.observer.recorded(item, changed, item.rows)
                continue
            tasks, rows = self.victims.fresh(item, changed), item.rows
            if not tasks:
                continue
            if len(tasks) != len(item.tasks):
                at = dict(zip(item.tasks, item.rows, strict=True))
                rows = [at[t] for t in tasks]
            if not item.adopted:
                self.places.moved(item, tasks, rows)
                if item.restarts:
                    order.restarted(item.jid, tasks)
                else:
                    order.task_changed(item.jid, item.state, tasks, rows)
                self.victims.came_back(item, tasks)
            elif (job := order.known(item.jid)) is not None:
                self.places.adopted(job, tasks, rows, devices=item.devices)
                order.adopted(job, item.state, tasks, rows)
            self.observer.recorded(item, tasks, rows)
            state = order.jobs.get(item.jid)
            if state is not None and state.status is SchedulingStatus.DONE:
                self.dispatcher.forget(item.jid)

    def job(self, jid: int) -> Job | None:
        """The job; None where it is unknown or deleted."""
        state = self.order.jobs.get(jid)
        return None if state is None else state.job

    def bind_answered(self, plan: BindPlan, answers: BindAnswers, now: float) -> BindResult:
        """Take up the cluster's answers to binds. Returns what to record."""
        answers = self.victims.answered(plan, answers)
        result = judge_answers(plan, answers)
        result = replace(result, items=self.victims.ended(result.items))
        if result.elsewhere:
            self.tally.repaired["elsewhere"] += len(result.elsewhere)
            result.items.extend(self.victims.elsewhere(plan, answers, result.elsewhere, self.rows))
        self.quarantines.took(taken_by(plan, answers, self.quarantines.suspects))
        self._refused(result.refused, now)
        return result

    def _refused(self, refusals: Iterable[RefusedBind], now: float) -> None:
        """Count refused binds against their nodes, and note with each job who refused it."""
        for refusal in refusals:
            self.quarantines.refused(refusal.row, refusal.reason, now)
            if (state := self.order.jobs.get(refusal.jid)) is not None:
                reason_text = f": {refusal.reason}" if refusal.reason else ""
                state.refused_by = f"node {self.names.get(refusal.row, refusal.row)}{reason_text}"

    def next_due(self) -> float | None:
        """When to step again although nothing happened; None for never."""
        order, quarantine = self.order.next_due(), self.quarantines.next_due()
        due = [order, quarantine, self.shuffling.next_due(), self.dispatcher.next_due()]
        return min((at for at in due if at is not None), default=None)

    def left_out(self, marks: Mapping[int, Quarantine | None]) -> None:
        """Note that the quarantines a :class:`StoreQuarantines` named are durable."""
        self.quarantines.stored(marks)
        for row, quarantine in marks.items():
            if row in self.names:
                self.observer.node_changed(self.names[row], quarantine)
        if None in marks.values():
            self.order.accounts.capacity.freed()

    def validate(self) -> None:
        """Raise AssertionError where a job waits for an outcome that can never arrive."""
        self.order.validate()
        self.dispatcher.validate()
        on_the_way = {turn.jid for turn in self.dispatcher.turns()}
        on_the_way |= {*self._unread, *self.order.stale}
        on_the_way |= {*chain.from_iterable(self._fenced.values())}
        for jid, state in [*self.order.jobs.items(), *self.leaving.items()]:
            assert state.status is not SchedulingStatus.OPEN or jid in on_the_way, state.job.key

    # --- tell ---------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Counts for progress displays: jobs, tasks, shards, conflicts and pending reasons."""
        reasons = self.order.pending_reasons()
        return status(self.order, self.dispatcher, self.tally, reasons=reasons)


def departures(order: Order, victims: Victims, now: float) -> list[Instruction]:
    """Instructions for deleted jobs and members."""
    order.departures.begin(now)
    due = order.departures.take()
    out: list[Instruction] = []
    if due.stop:
        out.append(Stop(due.stop, victims.uids(due.stop)))
    if due.fail:
        out.append(Fail(failures(due.fail, order.jobs)))
    if due.purge_jobs or due.purge_members:
        out.append(Purge(due.purge_jobs, due.purge_members))
    return out


def order_records(order: Order) -> list[Instruction]:
    """Instructions for what has changed since they were last given out."""
    out: list[Instruction] = []
    if reservations := order.aging.changes():
        out.append(StoreReservations(reservations))
    if usage := order.picking.usage.changes():
        out.append(StoreUsage(usage))
    if gates := order.accounts.gates.take():
        out.append(RemoveGates(gates))
    if moves := order.late_groups.take(order.jobs, order.now):
        out.append(Regroup(moves.move, moves.apart, moves.expired))
    return out
