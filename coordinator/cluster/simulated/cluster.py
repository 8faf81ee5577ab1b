"""The local cluster: kubelets that run every pod for the duration in its annotation.

A bound pod starts at once, runs ``duration / speedup`` seconds, is releasing for ``grace`` real
seconds, and then has succeeded and frees its node; with a nonzero exit code it has failed. A pod
without duration runs until it is deleted.

The cluster records what it was told and judges nothing: overfull nodes are for the checker to find.
Each task is one tuple in one dict, and everything due at the same time is one queue entry, so that
it handles tens of thousands of binds and reports per second.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import islice

from coordinator.cluster.events import ClusterEvent, EventKind
from coordinator.cluster.protocol import (
    BindAnswer,
    BindAnswers,
    BindRequests,
    ClusterTimeout,
    Foreign,
    Listed,
    Phase,
    Report,
    Reports,
    incarnation_of,
)
from coordinator.cluster.simulated.kubelets import REPORTS_AT_ONCE
from coordinator.cluster.simulated.memory import UNREPORTED, Memory

_RUNNING, _RELEASING, _LOSING = range(3)
"""Phases of a live pod. LOSING is releasing that ends in failure."""

_Pod = tuple[str, str, float | None, int]
"""(uid, node, duration, phase)"""

_End = tuple[str, str, bool] | None
"""(uid, node, success) of a task's last incarnation that ran. The node is "" once its end was
acknowledged, and NEVER if no end was reported (deleted before its bind, or lost). None: deleted
before any bind, whatever its uid."""

_PHASES = {_RUNNING: Phase.RUNNING, _RELEASING: Phase.RELEASING, _LOSING: Phase.RELEASING}

LISTED_AT_ONCE = 2000
"""Tasks per part of a listing; reading one takes a few milliseconds."""

_LAST_REPORTS = (Report.SUCCEEDED, Report.FAILED)

_KINDS: dict[Report, EventKind] = {
    Report.STARTED: "start",
    Report.RELEASING: "releasing",
    Report.SUCCEEDED: "succeeded",
    Report.FAILED: "failed",
}


class LocalCluster:
    """Simulated kubelets; see :class:`coordinator.cluster.simulated.kubelets.Kubelets` for the
    calls."""

    def __init__(self, *, speedup: float = 1.0, grace: float = 0.05) -> None:
        if not speedup > 0:
            raise ValueError(f"speedup: {speedup} is not above 0; give how much faster pods run")
        if not grace >= 0:
            raise ValueError(f"grace: {grace} is below 0; give seconds a pod takes to end")
        self._speedup = speedup
        self._grace = grace
        self._now = float("-inf")
        self._live: dict[str, _Pod] = {}
        self._ended: dict[str, _End] = {}
        self._starts: deque[tuple[float, list[str]]] = deque()
        self._runs: list[tuple[float, int, list[tuple[str, str]]]] = []
        """Heap of (due, number that breaks ties, (task, uid) of each): a task that was evicted and
        runs again does not end when its former incarnation would have."""
        self._graces: deque[tuple[float, list[str]]] = deque()
        self._entered = 0
        self._reports: deque[tuple[int, str, str, str]] = deque()
        """(kind, task, node, uid)"""
        self._acknowledged = 0
        self._events: list[ClusterEvent] = []
        self._foreign: Foreign = {}
        self._list: list[str] = []
        """The tasks of the latest listing."""
        self._lists = 0
        self._highest, self._counted = -1, 0
        """Highest job number of tasks that are no longer live; number of tasks examined for it."""
        self._failing: set[str] = set()
        """Tasks on a node that will end with a nonzero exit code."""

    def restore(self, memory: Memory) -> None:
        """Restore the state of a killed process; call it before anything else."""
        self._ended.update(memory.ended)
        self._reports.extend(memory.reports)
        leaving: list[tuple[float, str]] = []
        for task, pod in memory.pods.items():
            phase, duration = _RUNNING, pod.duration
            due = None if duration is None else pod.bound + duration / self._speedup
            if pod.deleted is not None:
                phase, due = _LOSING, pod.deleted
            elif pod.releasing:
                phase = _LOSING if pod.failing else _RELEASING
            elif not pod.started:
                self._starts.append((pod.bound, [task]))
                due = None  # follows from its start
            if pod.failing:
                self._failing.add(task)
            if due is not None and phase != _RUNNING:
                leaving.append((due + self._grace, task))
            elif due is not None:
                self._entered += 1
                self._runs.append((due, self._entered, [(task, pod.uid)]))
            self._live[task] = (pod.uid, pod.node, duration if phase == _RUNNING else None, phase)
        heapq.heapify(self._runs)
        self._graces.extend((due, [task]) for due, task in sorted(leaving))

    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        """Put each task on its node unless it is on one already. A retry is harmless."""
        columns = (requests.tasks, requests.uids, requests.nodes, requests.durations)
        if len({len(column) for column in columns}) > 1:
            raise ValueError("bind: tasks, uids, nodes and durations differ in length")
        codes = requests.exit_codes
        if codes and len(codes) != len(requests.tasks):
            raise ValueError("bind: tasks and exit codes differ in length")
        self.advance(now)
        answers: list[int] = []
        where: list[str] = []
        accepted: list[str] = []
        for task, uid, node, duration in zip(*columns, strict=True):
            answer, at = self._judge(task, uid, node)
            if answer is BindAnswer.OK:
                self._live[task] = (uid, node, duration, _RUNNING)
                accepted.append(task)
                if codes and codes[len(answers)]:
                    self._failing.add(task)
            answers.append(int(answer))
            where.append(at)
        if accepted:
            self._starts.append((self._now, accepted))
        self._event(
            "bind", requests.tasks, requests.nodes, requests.uids, answers, requests=requests
        )
        return BindAnswers(answers=answers, where=where)

    def holds(self, task: str) -> bool:
        """Whether the task is on a node."""
        return task in self._live

    def knows(self, task: str) -> bool:
        """Whether the task is or was on a node."""
        return task in self._live or task in self._ended

    def delete(self, tasks: list[str], now: float, uids: list[str] | None = None) -> list[str]:
        """End these tasks: live ones are released and fail; others can never be bound again.
        Returns those of which no end was or will be reported: never bound, or lost. ``uids``: only
        these incarnations."""
        self.advance(now)
        self._event("delete", tasks, [], uids or [], [])
        leaving: list[str] = []
        never: list[str] = []
        for task, uid in zip(tasks, uids or [""] * len(tasks), strict=True):
            pod = self._live.get(task)
            if pod is None:
                if self._never(task, uid):
                    never.append(task)
            elif pod[3] == _RUNNING and uid in ("", pod[0]):
                self._live[task] = (pod[0], pod[1], None, _LOSING)
                leaving.append(task)
        if leaving:
            self._report(Report.RELEASING, leaving)
            self._graces.append((self._now + self._grace, leaving))
        return never

    def _never(self, task: str, uid: str) -> bool:
        """Whether a task that is not live has no reported end as this incarnation ("": any), as it
        was never bound or was lost. The incarnation will not be accepted from now on."""
        end = self._ended.get(task)
        if end is None:
            self._ended[task] = (
                (uid, UNREPORTED, False) if uid and task not in self._ended else None
            )
            return True
        if uid and incarnation_of(end[0]) < incarnation_of(uid):
            self._ended[task] = (uid, UNREPORTED, False)
            return True
        return end[1] == UNREPORTED and uid in ("", end[0])

    def advance(self, now: float) -> None:
        """Process what is due: first all starts, then ends of runs, then ends of grace periods.
        This keeps the order of each task's reports, and batches them into few events.
        """
        self._now = max(self._now, now)
        if self._starts:
            self._fire_starts()
        if self._runs and self._runs[0][0] <= self._now:
            self._fire_runs()
        if self._graces and self._graces[0][0] <= self._now:
            self._fire_graces()

    def next_due(self) -> float | None:
        heads = [queue[0][0] for queue in (self._starts, self._runs, self._graces) if queue]
        return min(heads) if heads else None

    def reports(self, after: int, limit: int = REPORTS_AT_ONCE) -> Reports:
        """Reports after number ``after``, which acknowledges those up to it. A number that this
        cluster never gave out (from another run) acknowledges nothing."""
        if after <= self._acknowledged + len(self._reports):
            while self._acknowledged < after:
                kind, task, _, uid = self._reports.popleft()
                self._acknowledged += 1
                end = self._ended.get(task) if kind in _LAST_REPORTS else None
                if end is not None and end[0] == uid and end[1] != UNREPORTED:
                    self._ended[task] = (uid, "", end[2])
        rows = list(islice(self._reports, limit))
        incarnations = {
            i: incarnation for i, row in enumerate(rows) if (incarnation := incarnation_of(row[3]))
        }
        return Reports(
            last=self._acknowledged + len(rows),
            kinds=[row[0] for row in rows],
            tasks=[row[1] for row in rows],
            nodes=[row[2] for row in rows],
            incarnations=incarnations,
        )

    # --- what is asked ----------------------------------------------------------------------------

    def listing(self, token: str) -> Listed:
        """One part of a listing. Raises ClusterTimeout for a token of another listing, or of an
        earlier process."""
        number, _, start = token.partition(":")
        if not token:
            self._lists += 1
            # Only what is reported still is looked through, not all that ever ended.
            last = dict.fromkeys(task for kind, task, *_ in self._reports if kind in _LAST_REPORTS)
            self._list = [*self._live, *(t for t in last if _unheard(self._ended.get(t)))]
        elif number != str(self._lists):
            raise ClusterTimeout("another listing was begun since")
        first = int(start or 0)
        part = self._list[first : first + LISTED_AT_ONCE]
        first += len(part)
        more = f"{self._lists}:{first}" if first < len(self._list) else ""
        return self._listed(part, more, highest=-1 if token else self._highest_job())

    def _highest_job(self) -> int:
        ended = islice(self._ended, self._counted, None)
        self._highest = max([self._highest, *map(_job_number, ended)])
        self._counted = len(self._ended)
        return max([self._highest, *map(_job_number, self._live)])

    def look(self, tasks: list[str]) -> Listed:
        """The current state of these tasks."""
        return self._listed(tasks, "", every=True)

    def _listed(
        self, tasks: list[str], token: str, *, every: bool = False, highest: int = -1
    ) -> Listed:
        """``every``: include tasks that are unknown, or no longer known."""
        rows: list[tuple[str, str, str, int]] = []
        for task in tasks:
            if (pod := self._live.get(task)) is not None:
                rows.append((task, pod[0], pod[1], _PHASES[pod[3]]))
            elif (end := self._ended.get(task)) is not None and end[1] != UNREPORTED:
                phase = Phase.SUCCEEDED if end[2] else Phase.FAILED
                rows.append((task, end[0], end[1], phase))
            elif every:
                rows.append((task, "", "", Phase.UNKNOWN))
        return Listed(
            tasks=[row[0] for row in rows],
            uids=[row[1] for row in rows],
            nodes=[row[2] for row in rows],
            phases=[int(row[3]) for row in rows],
            token=token,
            highest=highest,
        )

    def foreign(self) -> Foreign:
        return {node: dict(used) for node, used in self._foreign.items() if used}

    # --- what others do ---------------------------------------------------------------------------

    def occupy(self, node: str, used: dict[str, int]) -> None:
        """Set the usage of a node by other schedulers, in slot units."""
        self._foreign[node] = dict(used)

    def lose(self, tasks: list[str], now: float) -> None:
        """Remove these live tasks without a report, as if somebody deleted them or their machine
        died. Only the fact that they are gone is remembered."""
        self.advance(now)
        lost = [self._live.pop(task) for task in tasks]
        ends = ((pod[0], UNREPORTED, False) for pod in lost)
        self._ended.update(zip(tasks, ends, strict=True))
        self._failing.difference_update(tasks)
        nodes, uids = [pod[1] for pod in lost], [pod[0] for pod in lost]
        self._event("lost", tasks, nodes, uids, [])

    def drain(self) -> list[ClusterEvent]:
        events, self._events = self._events, []
        return events

    def _judge(self, task: str, uid: str, node: str) -> tuple[BindAnswer, str]:
        """Answer to a bind. An ended task counts as on its node until its end is acknowledged: a
        binder that retries must not take an end it has not been told of for a loss."""
        if (pod := self._live.get(task)) is not None:
            if pod[0] != uid:
                return BindAnswer.GONE, ""
            at = pod[1]
        elif task in self._ended:
            end = self._ended[task]
            if end is None:
                return BindAnswer.GONE, ""
            if end[0] != uid:
                over = incarnation_of(end[0]) > incarnation_of(uid)
                return (BindAnswer.GONE, "") if over else (BindAnswer.OK, node)
            at = end[1]
            if not at or at == UNREPORTED:
                return (BindAnswer.SUCCEEDED if end[2] else BindAnswer.GONE), ""
        else:
            return BindAnswer.OK, node
        return (BindAnswer.ALREADY if at == node else BindAnswer.ELSEWHERE), at

    def _fire_starts(self) -> None:
        started: list[str] = []
        while self._starts:  # due at their bind: never later than now, and before any delete
            at, tasks = self._starts.popleft()
            started += tasks
            ends: dict[float, list[tuple[str, str]]] = {}
            for task in tasks:
                uid, _, duration, _ = self._live[task]
                if duration is not None:
                    ends.setdefault(at + duration / self._speedup, []).append((task, uid))
            for due, group in ends.items():
                self._entered += 1
                heapq.heappush(self._runs, (due, self._entered, group))
        self._report(Report.STARTED, started)

    def _fire_runs(self) -> None:
        released: list[str] = []
        while self._runs and self._runs[0][0] <= self._now:
            due, _, tasks = heapq.heappop(self._runs)
            leaving = []
            for task, uid in tasks:
                pod = self._live.get(task)
                if pod is None or pod[0] != uid or pod[3] != _RUNNING:  # deleted while it ran
                    continue
                ends = _LOSING if task in self._failing else _RELEASING
                self._live[task] = (pod[0], pod[1], None, ends)
                leaving.append(task)
            if leaving:
                self._graces.append((due + self._grace, leaving))
                released += leaving
        if released:
            self._report(Report.RELEASING, released)

    def _fire_graces(self) -> None:
        ended: dict[Report, list[str]] = {Report.SUCCEEDED: [], Report.FAILED: []}
        while self._graces and self._graces[0][0] <= self._now:
            for task in self._graces.popleft()[1]:
                if task not in self._live:  # lost while it left
                    continue
                failed = self._live[task][3] == _LOSING
                ended[Report.FAILED if failed else Report.SUCCEEDED].append(task)
        for kind, tasks in ended.items():
            if tasks:
                self._report(kind, tasks)
                for task in tasks:
                    uid, node, *_ = self._live.pop(task)
                    self._ended[task] = (uid, node, kind is Report.SUCCEEDED)
                self._failing.difference_update(tasks)

    def _report(self, kind: Report, tasks: list[str]) -> None:
        pods = [self._live[task] for task in tasks]
        nodes = [pod[1] for pod in pods]
        code = int(kind)
        pairs = zip(tasks, pods, strict=True)
        self._reports.extend([(code, task, pod[1], pod[0]) for task, pod in pairs])
        self._event(_KINDS[kind], tasks, nodes, [pod[0] for pod in pods], [])

    def _event(
        self,
        kind: EventKind,
        tasks: list[str],
        nodes: list[str],
        uids: list[str],
        answers: list[int],
        *,
        requests: BindRequests | None = None,
    ) -> None:
        names = [BindAnswer(answer).name for answer in answers]
        durations = requests.durations if requests else []
        codes = requests.exit_codes if requests else []
        self._events.append(
            ClusterEvent(self._now, kind, tasks, nodes, uids, names, durations, codes)
        )


def _unheard(end: _End) -> bool:
    """Whether it ended, with reports that are not all acknowledged."""
    return end is not None and end[1] not in ("", UNREPORTED)


def _job_number(task: str) -> int:
    """The jid of a task name; -1 if the name is not one of ours."""
    number = task.partition(".")[0]
    return int(number) if number.isdecimal() else -1
