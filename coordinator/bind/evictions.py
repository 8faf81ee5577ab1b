"""Victims in the coordinator's books, from the eviction until their next incarnation may be placed.

The ledger evicts; the bind stream reports it in the ledger's order, and after a takeover the task
records do. From then on the books have the victim as releasing, too. When the cluster reports that
it failed (it was stopped), or that it never had it, the task returns to pending as a new
incarnation with a new uid, so that a late message about the old one cannot affect the new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from coordinator.bind.binder import BindPlan, adopt, read_reports
from coordinator.bind.devices_of_pod import PodDevices
from coordinator.bind.placements import Places
from coordinator.cluster.overdue import OverdueObstacle, OverduePod
from coordinator.cluster.protocol import (
    BindAnswer,
    BindAnswers,
    Reports,
    incarnation_of,
    incarnation_uid,
)
from coordinator.jobs.counters import CoordinatorTally
from coordinator.jobs.state import JobState, SchedulingStatus
from coordinator.order.order import Order
from shared.codec.packed import replace
from shared.ledger.entries.stored import Evicted, JobRecord, TaskRecord
from shared.messages.messages import ENDED, NOBODY, UNSUCCESSFUL, StatusItem, TaskState
from shared.model.model import Job

Task = tuple[int, int]
"""(jid, tix)"""

_BEFORE = (TaskState.PENDING, TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING)
"""States that the books may have for a victim that the ledger has as leaving: reports are under
way."""

_OF_INCARNATIONS = (TaskState.RUNNING, TaskState.RELEASING, *ENDED)
"""States that only the cluster's word brings: what it says is about one incarnation."""


class Victims:
    def __init__(
        self, order: Order, places: Places, tally: CoordinatorTally, devices: PodDevices
    ) -> None:
        """``devices``: of tasks that are adopted where the cluster has them."""
        self.devices = devices
        self._order = order
        self._places = places
        self._tally = tally
        self.overdue = OverdueVictims()
        self._incarnations: dict[str, int] = {}
        """Name in the cluster -> incarnation, of tasks that were evicted."""

    def uids(self, tasks: Iterable[Task]) -> list[str]:
        """The uids of these tasks' present incarnations; "" where the job is unknown."""
        return [self._uid(jid, tix) for jid, tix in tasks]

    def _uid(self, jid: int, tix: int) -> str:
        state = self._order.known(jid)
        return "" if state is None else uid_of(state, tix)

    # --- evictions ----------------------------------------------------------------------------

    def reported(self, evicts: Iterable[Evicted]) -> list[tuple[Evicted, list[int]]]:
        """Take evictions that the ledger recorded; returns for each the tasks to stop."""
        leaving_of: list[tuple[Evicted, list[int]]] = []
        reported_jobs: dict[int, None] = {}
        # From the bind stream alone, never from the preemptor's outcome. Stopping by the outcome
        # would be some milliseconds faster, and wrong where it is lost or comes after the victim is
        # back (decision 0028).
        for victims in evicts:
            reported_jobs[victims.by] = None
            state = self._order.known(victims.jid)
            if state is None:
                continue
            self._leave(state, victims)
            # Also those that are marked already: a redelivered entry means that the call to the
            # cluster may never have been made.
            leaving = [t for t in victims.tasks if t in state.evicted]
            if leaving:
                self._order.departures.ask_later(victims.jid, leaving)
                self._tally.evicted[rule_of(victims.reason)] += len(leaving)
                leaving_of.append((victims, leaving))
        for by in reported_jobs:
            self._order.go_on(self._order.spanning.evictions_reported(by))
        return leaving_of

    def _leave(self, state: JobState, victims: Evicted) -> None:
        """Mark as releasing the victims that have neither ended nor been marked already."""
        order, jid = self._order, victims.jid
        columns = zip(victims.tasks, victims.rows, victims.incarnations, strict=True)
        fresh = [
            (tix, row)
            for tix, row, incarnation in columns
            # A redelivered entry may name an incarnation that has ended since; the task may be
            # placed again, even on the same node.
            if state.incarnations.get(tix, 0) == incarnation and state.states[tix] in _BEFORE
        ]
        if fresh:
            tasks, rows = [tix for tix, _ in fresh], [row for _, row in fresh]
            self._places.moved(StatusItem(TaskState.RELEASING, jid, tasks, rows), tasks, rows)
            order.evict(state, tasks, rows)
        if victims.to and fresh and jid in order.jobs:
            order.promised_to_victims(state, dict(zip(victims.tasks, victims.to, strict=True)))
        waiting = order.jobs.get(victims.by)
        if waiting is not None and waiting.status is SchedulingStatus.NOMINATED:
            order.nominations.wait_for(waiting, victims.rows)

    # --- what is read from the ledger -----------------------------------------------------------

    def reread(self, state: JobState, tasks: Mapping[int, TaskRecord]) -> None:
        """Called before the books take the ledger's records of a job, which may have evicted tasks
        that they have as running."""
        for tix, task in tasks.items():
            if task.state == TaskState.RELEASING and state.states[tix] != TaskState.RELEASING:
                self._order.nominations.leaving(task.row)

    def unheard(
        self,
        records: Mapping[int, tuple[JobRecord, Mapping[int, TaskRecord]]],
        *,
        lost: Collection[int],
    ) -> set[int]:
        """For whom lost turns of these jobs evicted tasks that the books do not have as leaving, by
        the ledger's records. A shuffle (NOBODY) evicts in the name of any job. One whose own turn
        is out is left out: what is recorded may be that turn's, whose outcome would then wait for a
        word that had come already."""
        names = {
            task.by
            for jid, (_, tasks) in records.items()
            if (state := self._order.known(jid)) is not None
            for tix, task in tasks.items()
            if task.by >= 0 and state.states[tix] in _BEFORE
        }
        out = self._order.spanning.out_now
        return {by for by in names if by in lost or (NOBODY in lost and by not in out)}

    def marks(self, jids: Iterable[int]) -> dict[int, frozenset[int]]:
        """The members of these jobs that the books have as being evicted."""
        states = {jid: self._order.known(jid) for jid in jids}
        return {jid: frozenset(state.evicted) for jid, state in states.items() if state is not None}

    def known(self, state: JobState, tasks: Mapping[int, TaskRecord]) -> None:
        """Take the ledger's records of some tasks of a job: which are being evicted, and how often
        each was."""
        leaving = [t for t, task in tasks.items() if task.by >= 0]
        incarnations = {t: task.incarnation for t, task in tasks.items() if task.incarnation}
        if not (leaving or incarnations or state.evicted):
            return
        size = len(state.states)
        # The records are the truth here: what they do not show as leaving is not, whatever the
        # books had.
        stay = [t for t in state.evicted.intersection(tasks) if t not in leaving]
        self._order.accounts.leave(state, stay, leaving=False)
        fresh = [t for t in leaving if t not in state.evicted and t < size]
        self._order.accounts.leave(state, fresh, leaving=True)
        self.set_incarnations(
            state, {t: incarnation for t, incarnation in incarnations.items() if t < size}
        )
        self._order.requeue(state)

    def set_incarnations(self, state: JobState, incarnations: Mapping[int, int]) -> None:
        """Note the incarnations of these tasks, as the ledger counts them."""
        state.incarnations.update(incarnations)
        self._incarnations.update(
            (f"{state.job.jid}.{t}", incarnation) for t, incarnation in incarnations.items()
        )

    def forget(self, state: JobState) -> None:
        """Forget a job."""
        for tix in state.incarnations:
            self._incarnations.pop(f"{state.job.jid}.{tix}", None)

    # --- what the cluster says ------------------------------------------------------------------

    def read(self, reports: Reports, rows: Mapping[str, int]) -> list[StatusItem]:
        """Reports as ledger items, without those about earlier incarnations."""
        current = _current(reports, self._incarnations)
        items = read_reports(current, rows=rows, jobs=self._job, devices=self.devices.of)
        return self.ended(items)

    def elsewhere(
        self, plan: BindPlan, answers: BindAnswers, positions: list[int], rows: Mapping[str, int]
    ) -> list[StatusItem]:
        """Status items for tasks that the cluster runs on other nodes than requested."""
        devices = self.devices.of
        return adopt(plan, answers, positions, jobs=self._job, rows=rows, devices=devices)

    def _job(self, jid: int) -> Job | None:
        state = self._order.known(jid)
        return None if state is None else state.job

    def answered(self, plan: BindPlan, answers: BindAnswers) -> BindAnswers:
        """The cluster's answers to binds, with OVER for earlier incarnations: those binds did take
        effect although their first answer was lost, and their tasks were evicted since."""
        incarnations = self._incarnations
        if not incarnations:
            return answers
        columns = zip(plan.requests.tasks, plan.requests.uids, answers.answers, strict=True)
        over = BindAnswer.OVER
        # The seeded runs showed why: a bind whose answer was lost was asked again after its task
        # had been evicted and placed anew on the same node, and its answer ended the wrong
        # incarnation (decision 0028).
        judged = [
            a if incarnation_of(uid) >= incarnations.get(task, 0) else over
            for task, uid, a in columns
        ]
        return replace(answers, answers=[int(answer) for answer in judged])

    def ended(self, items: list[StatusItem]) -> list[StatusItem]:
        """Turn failures of evicted tasks into a return to pending, unless their job is being
        deleted. Every item names the incarnations that it is about."""
        changed: list[StatusItem] = []
        for item in items:
            state = self._order.jobs.get(item.jid) if item.state in UNSUCCESSFUL else None
            if state is None or state.evicted.isdisjoint(item.tasks):
                changed.append(self._named(item))
            else:
                changed += _divided(item, state)
        return changed

    def _named(self, item: StatusItem) -> StatusItem:
        """The item with the present incarnations of its tasks; as it is where all are first ones,
        which is nearly always so."""
        state = self._order.known(item.jid)
        if (
            state is None
            or not state.incarnations
            or item.state not in _OF_INCARNATIONS
            or item.cid >= 0
        ):
            return item
        return replace(
            item, incarnations=tuple(state.incarnations.get(tix, 0) for tix in item.tasks)
        )

    def current(self, items: list[StatusItem]) -> list[StatusItem]:
        """The items without what they say of incarnations that are over.

        A report may come twice, and a reconcile pass may say the same. Once the first is recorded,
        a victim, or a task that a policy of its Job begins anew, is pending as its next
        incarnation, or placed again, even on its old node: the second would end that one. Call it
        after the previous batch is applied and before this one is sent: no task becomes another
        incarnation in between.
        """
        current = [self._still(item) for item in items]
        return [item for item in current if item.tasks]

    def _still(self, item: StatusItem) -> StatusItem:
        victims = item.state is TaskState.PENDING
        if victims and not item.incarnations:
            return item  # a refused bind, or tasks that begin anew
        if not victims and (item.state not in _OF_INCARNATIONS or item.cid >= 0):
            return item
        state = self._order.known(item.jid)
        if state is None or not (victims or state.incarnations):
            return item
        # An item without incarnations was made when all its tasks were first ones.
        incarnations = item.incarnations or (0,) * len(item.tasks)
        remaining = [
            (tix, row, incarnation)
            for tix, row, incarnation in zip(item.tasks, item.rows, incarnations, strict=True)
            if state.incarnations.get(tix, 0) == incarnation
            and (tix in state.evicted or not victims)
        ]
        if len(remaining) == len(item.tasks):
            return item
        return replace(
            item,
            tasks=[tix for tix, _, _ in remaining],
            rows=[row for _, row, _ in remaining],
            incarnations=tuple(incarnation for _, _, incarnation in remaining),
        )

    def fresh(self, item: StatusItem, applied: list[int]) -> list[int]:
        """The tasks of a recorded item that were not evicted since: the ledger's log may report an
        eviction before the answer to an older request arrives."""
        if item.adopted or item.state not in (TaskState.BOUND, TaskState.RUNNING):
            return applied
        state = self._order.known(item.jid)
        if state is None or not state.evicted:
            return applied
        return [tix for tix in applied if tix not in state.evicted]

    def came_back(self, item: StatusItem, tasks: list[int]) -> None:
        """Note that these tasks are recorded as pending; Order knows it already."""
        if item.state is TaskState.PENDING:
            state = self._order.known(item.jid)
            if state is not None and state.incarnations:
                self.set_incarnations(
                    state, {t: state.incarnations[t] for t in tasks if t in state.incarnations}
                )


def uid_of(state: JobState, tix: int) -> str:
    return incarnation_uid(state.job.uid, state.incarnations.get(tix, 0))


def _current(reports: Reports, incarnations: Mapping[str, int]) -> Reports:
    """The reports without those about incarnations before these."""
    if not incarnations:
        return reports
    reported = reports.incarnations
    keep = [
        i for i, task in enumerate(reports.tasks) if reported.get(i, 0) >= incarnations.get(task, 0)
    ]
    if len(keep) == len(reports.tasks):
        return reports
    return replace(
        reports,
        kinds=[reports.kinds[i] for i in keep],
        tasks=[reports.tasks[i] for i in keep],
        nodes=[reports.nodes[i] for i in keep],
        incarnations={},
    )


def _divided(item: StatusItem, job: JobState) -> list[StatusItem]:
    """The item split in two: tasks that are being evicted, and the others."""
    evicted = job.evicted
    parts: list[StatusItem] = []
    for state in (TaskState.PENDING, item.state):
        members = [
            (t, r)
            for t, r in zip(item.tasks, item.rows, strict=True)
            if (t in evicted) is (state is TaskState.PENDING)
        ]
        if members:
            tasks, rows = [t for t, _ in members], [r for _, r in members]
            named = state is TaskState.PENDING or bool(job.incarnations)
            incarnations = tuple(job.incarnations.get(t, 0) for t in tasks) if named else ()
            part = replace(item, state=state, tasks=tasks, rows=rows, incarnations=incarnations)
            if state is TaskState.PENDING:  # with a class it would be an adoption
                part = replace(part, cid=-1, group=-1)
            parts.append(part)
    return parts


def rule_of(reason: str) -> str:
    """The action and its plugins, without the beneficiary: a metric label per beneficiary would be
    too many."""
    return reason.partition(": for ")[0]


_Sign = tuple[tuple[int, int], OverdueObstacle]


class OverdueVictims:
    """Victims that the cluster has on their nodes yet although they were to leave, by node."""

    def __init__(self) -> None:
        self._on: dict[int, list[OverduePod]] = {}
        """Row of a node -> its pods."""
        self._reported: set[_Sign] = set()

    def update(self, pods: Iterable[OverduePod], rows: Mapping[str, int]) -> list[OverduePod]:
        """Take all that are overdue now; returns those to report: new ones, and those that
        something else keeps than before. ``rows``: node name -> row."""
        self._on, signs, fresh = {}, set[_Sign](), list[OverduePod]()
        for pod in pods:
            self._on.setdefault(rows.get(pod.node, -1), []).append(pod)
            sign = pod.task, pod.obstacle
            signs.add(sign)
            if sign not in self._reported:
                fresh.append(pod)
        self._reported = signs
        return fresh

    def on(self, rows: Iterable[int]) -> list[OverduePod]:
        """Overdue pods on these nodes."""
        return [pod for row in rows for pod in self._on.get(row, ())]

    def rows(self) -> Iterable[int]:
        """The nodes that they are on."""
        return self._on.keys()

    def counts(self) -> Counter[OverdueObstacle]:
        return Counter(pod.obstacle for pods in self._on.values() for pod in pods)
