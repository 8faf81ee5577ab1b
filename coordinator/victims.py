"""Victims in the coordinator's books, from the word of their eviction until they may come back.

The ledger evicts; word of it comes with the bind stream, in its order, and after a takeover with
the records of the tasks. From then on a victim is leaving here, too. When the cluster says that it
failed (it was stopped) or that it never had it, the task goes back to pending: another incarnation,
with another uid, so that nothing late that was meant for one is done to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coordinator.binder import BindPlan, read_reports
from coordinator.cluster.protocol import BindAnswer, BindAnswers, Reports, incarnation, life_of
from coordinator.jobs import JobState, Standing
from coordinator.order import Order
from coordinator.places import Places
from coordinator.tally import Tally
from shared.ledger.protocol import Evicted, TaskRecord
from shared.messages import StatusItem, TaskState

Task = tuple[int, int]
"""(jid, tix)"""

_BEFORE = (TaskState.PENDING, TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING)
"""What the books may have of a victim that the ledger has as leaving: answers are on their way."""


class Victims:
    def __init__(self, order: Order, places: Places, tally: Tally) -> None:
        self._order = order
        self._places = places
        self._tally = tally
        self._lives: dict[str, int] = {}
        """Name in the cluster -> incarnation, of tasks that were evicted."""

    def uids(self, tasks: Iterable[Task]) -> list[str]:
        """The incarnations of these tasks as the cluster knows them; "" where the job is not known
        any more."""
        return [self._uid(jid, tix) for jid, tix in tasks]

    def _uid(self, jid: int, tix: int) -> str:
        state = self._order.known(jid)
        return "" if state is None else uid_of(state, tix)

    # --- evictions ----------------------------------------------------------------------------

    def told(self, evicts: Iterable[Evicted]) -> list[tuple[Evicted, list[int]]]:
        """The ledger evicted these; returns those of each that are leaving: to be stopped."""
        found: list[tuple[Evicted, list[int]]] = []
        for victims in evicts:
            state = self._order.known(victims.jid)
            if state is None:
                continue
            self._leave(state, victims)
            leaving = [t for t in victims.tasks if t in state.evicted]
            if leaving:
                self._order.departures.ask_later(victims.jid, leaving)
                self._tally.evicted[rule_of(victims.reason)] += len(leaving)
                found.append((victims, leaving))
        return found

    def _leave(self, state: JobState, victims: Evicted) -> None:
        """Those that the books do not have as leaving yet, nor as ended, begin to leave."""
        order, jid = self._order, victims.jid
        columns = zip(victims.tasks, victims.rows, victims.lives, strict=True)
        fresh = [
            (tix, row)
            for tix, row, life in columns
            if state.lives.get(tix, 0) == life and state.states[tix] in _BEFORE
        ]
        if fresh:
            tasks, rows = [tix for tix, _ in fresh], [row for _, row in fresh]
            self._places.moved(StatusItem(TaskState.RELEASING, jid, tasks, rows), tasks, rows)
            order.evict(state, tasks, rows)
        waiting = order.jobs.get(victims.by)
        if waiting is not None and waiting.standing is Standing.NOMINATED:
            order.nominations.wait_for(waiting, victims.rows)

    # --- what is read from the ledger -----------------------------------------------------------

    def reread(self, state: JobState, tasks: Mapping[int, TaskRecord]) -> None:
        """The books are about to take over what the ledger says of a job: it may have evicted what
        they have as running."""
        for tix, task in tasks.items():
            if task.state == TaskState.RELEASING and state.states[tix] != TaskState.RELEASING:
                self._order.nominations.leaving(task.row)

    def known(self, state: JobState, tasks: Mapping[int, TaskRecord]) -> None:
        """What the ledger's records say of some tasks of a job, whose states are known."""
        leaving = [t for t, task in tasks.items() if task.by >= 0]
        lives = {t: task.life for t, task in tasks.items() if task.life}
        if not (leaving or lives or state.evicted):
            return
        size = len(state.states)
        stay = [t for t in state.evicted.intersection(tasks) if t not in leaving]
        self._order.accounts.leave(state, stay, leaving=False)
        fresh = [t for t in leaving if t not in state.evicted and t < size]
        self._order.accounts.leave(state, fresh, leaving=True)
        self.lived(state, {t: life for t, life in lives.items() if t < size})
        self._order.requeue(state)

    def lived(self, state: JobState, lives: Mapping[int, int]) -> None:
        """So many incarnations of these tasks were evicted."""
        state.lives.update(lives)
        self._lives.update((f"{state.job.jid}.{t}", life) for t, life in lives.items())

    def forget(self, state: JobState) -> None:
        """The job is gone."""
        for tix in state.lives:
            self._lives.pop(f"{state.job.jid}.{tix}", None)

    # --- what the cluster says ------------------------------------------------------------------

    def read(self, reports: Reports, rows: Mapping[str, int]) -> list[StatusItem]:
        """Reports as ledger items, without those about earlier incarnations."""
        return self.ended(read_reports(_current(reports, self._lives), rows=rows))

    def answered(self, plan: BindPlan, answers: BindAnswers) -> BindAnswers:
        """The cluster's answers to binds, OVER for those of earlier incarnations: asked again for
        want of an answer, they came to something after all, which was evicted."""
        lives = self._lives
        if not lives:
            return answers
        asked = zip(plan.requests.tasks, plan.requests.uids, answers.answers, strict=True)
        over = BindAnswer.OVER
        judged = [a if life_of(uid) >= lives.get(task, 0) else over for task, uid, a in asked]
        return replace(answers, answers=[int(answer) for answer in judged])

    def ended(self, items: list[StatusItem]) -> list[StatusItem]:
        """What was evicted and is said to have failed goes back to pending, unless its job goes."""
        found: list[StatusItem] = []
        for item in items:
            state = self._order.jobs.get(item.jid) if item.state is TaskState.FAILED else None
            if state is None or state.evicted.isdisjoint(item.tasks):
                found.append(item)
            else:
                found += _divided(item, state.evicted)
        return found

    def fresh(self, item: StatusItem, applied: list[int]) -> list[int]:
        """Of what was recorded, without what the books have as evicted since: word of the eviction
        was quicker than the answer to what came before it."""
        if item.adopted or item.state not in (TaskState.BOUND, TaskState.RUNNING):
            return applied
        state = self._order.known(item.jid)
        if state is None or not state.evicted:
            return applied
        return [tix for tix in applied if tix not in state.evicted]

    def came_back(self, item: StatusItem, tasks: list[int]) -> None:
        """Recorded, and known to Order: these tasks are pending."""
        if item.state is TaskState.PENDING:
            state = self._order.known(item.jid)
            if state is not None and state.lives:
                self.lived(state, {t: state.lives[t] for t in tasks if t in state.lives})


def uid_of(state: JobState, tix: int) -> str:
    return incarnation(state.job.uid, state.lives.get(tix, 0))


def _current(reports: Reports, lives: Mapping[str, int]) -> Reports:
    """Without what is about incarnations before these."""
    if not lives:
        return reports
    told = reports.lives
    keep = [i for i, task in enumerate(reports.tasks) if told.get(i, 0) >= lives.get(task, 0)]
    if len(keep) == len(reports.tasks):
        return reports
    return replace(
        reports,
        kinds=[reports.kinds[i] for i in keep],
        tasks=[reports.tasks[i] for i in keep],
        nodes=[reports.nodes[i] for i in keep],
        lives={},
    )


def _divided(item: StatusItem, evicted: set[int]) -> list[StatusItem]:
    """The same item in two: of tasks that are being evicted, and of others."""
    parts: list[StatusItem] = []
    for state in (TaskState.PENDING, TaskState.FAILED):
        own = [
            (t, r)
            for t, r in zip(item.tasks, item.rows, strict=True)
            if (t in evicted) is (state is TaskState.PENDING)
        ]
        if own:
            tasks, rows = [t for t, _ in own], [r for _, r in own]
            parts.append(replace(item, state=state, tasks=tasks, rows=rows))
    return parts


def rule_of(reason: str) -> str:
    """The action and its rules; for whom it was is for people, and would be a count for each."""
    return reason.partition(": for ")[0]
