"""The local cluster: kubelets that run every pod for as long as its annotation says.

A bound pod starts at once, runs ``duration / speedup`` seconds, is then releasing for ``grace``
real seconds, and has then succeeded and freed its node; with an exit code other than 0 it has
failed. A pod without duration runs until it is deleted. The cluster records what it was told and
judges nothing: whether a node holds too much is the checker's business.

Per task there is one tuple in one dict, and whatever falls due together is one entry in a queue, so
that tens of thousands of binds and reports pass in a second.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import islice

from coordinator.cluster.kubelets import REPORTS_AT_ONCE, ClusterEvent, EventKind
from coordinator.cluster.protocol import BindAnswer, BindAnswers, BindRequests, Report, Reports

_RUNNING, _RELEASING, _LOSING = range(3)
"""Phases of a live pod. LOSING is releasing that ends in failure."""

_Pod = tuple[str, str, float | None, int]
"""(uid, node, duration, phase)"""

_End = tuple[str, str] | None
"""(uid, node) of a task that ran; the node is "" once its end was acknowledged. None: deleted
before it was ever bound, whatever its uid."""

_LAST_REPORTS = (Report.SUCCEEDED, Report.FAILED)

_KINDS: dict[Report, EventKind] = {
    Report.STARTED: "start",
    Report.RELEASING: "releasing",
    Report.SUCCEEDED: "succeeded",
    Report.FAILED: "failed",
}


class LocalCluster:
    """Simulated kubelets; see :class:`coordinator.cluster.kubelets.Kubelets` for the calls."""

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
        self._runs: list[tuple[float, int, list[str]]] = []  # heap; the number breaks ties
        self._graces: deque[tuple[float, list[str]]] = deque()
        self._entered = 0
        self._reports: deque[tuple[int, str, str]] = deque()
        self._acknowledged = 0
        self._events: list[ClusterEvent] = []
        self._failing: set[str] = set()
        """Tasks on a node that will end with another exit code than 0."""

    def bind(self, requests: BindRequests, now: float) -> BindAnswers:
        """Put each task on its node unless it is somewhere already. Asking again is harmless."""
        columns = (requests.tasks, requests.uids, requests.nodes, requests.durations)
        if len({len(column) for column in columns}) > 1:
            raise ValueError("bind: tasks, uids, nodes and durations differ in length")
        codes = requests.exit_codes
        if codes and len(codes) != len(requests.tasks):
            raise ValueError("bind: tasks and exit codes differ in length")
        self.advance(now)
        answers: list[int] = []
        where: list[str] = []
        taken: list[str] = []
        for task, uid, node, duration in zip(*columns, strict=True):
            answer, at = self._judge(task, uid, node)
            if answer is BindAnswer.OK:
                self._live[task] = (uid, node, duration, _RUNNING)
                taken.append(task)
                if codes and codes[len(answers)]:
                    self._failing.add(task)
            answers.append(int(answer))
            where.append(at)
        if taken:
            self._starts.append((self._now, taken))
        self._event("bind", requests.tasks, requests.nodes, requests.uids, answers)
        return BindAnswers(answers=answers, where=where)

    def holds(self, task: str) -> bool:
        """Whether the task is on a node now."""
        return task in self._live

    def knows(self, task: str) -> bool:
        """Whether the task is on a node, or was."""
        return task in self._live or task in self._ended

    def delete(self, tasks: list[str], now: float) -> list[str]:
        """End these tasks: live ones release and fail; others can never be bound again. Returns
        those that never were."""
        self.advance(now)
        self._event("delete", tasks, [], [], [])
        leaving: list[str] = []
        never: list[str] = []
        for task in tasks:
            pod = self._live.get(task)
            if pod is None:
                if self._ended.setdefault(task, None) is None:
                    never.append(task)
            elif pod[3] == _RUNNING:
                self._live[task] = (pod[0], pod[1], None, _LOSING)
                leaving.append(task)
        if leaving:
            self._report(Report.RELEASING, leaving)
            self._graces.append((self._now + self._grace, leaving))
        return never

    def advance(self, now: float) -> None:
        """Fire what is due: first all starts, then all ends of runs, then all ends of grace.

        That keeps the order of each task's own reports, and makes one event of many.
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
        """A number this cluster never gave out acknowledges nothing (it is from another run)."""
        if after <= self._acknowledged + len(self._reports):
            while self._acknowledged < after:
                kind, task, _ = self._reports.popleft()
                self._acknowledged += 1
                end = self._ended[task] if kind in _LAST_REPORTS else None
                if end is not None:
                    self._ended[task] = (end[0], "")
        rows = list(islice(self._reports, limit))
        return Reports(
            last=self._acknowledged + len(rows),
            kinds=[row[0] for row in rows],
            tasks=[row[1] for row in rows],
            nodes=[row[2] for row in rows],
        )

    def drain(self) -> list[ClusterEvent]:
        events, self._events = self._events, []
        return events

    def _judge(self, task: str, uid: str, node: str) -> tuple[BindAnswer, str]:
        """An ended task still counts as on its node until its end is acknowledged: a binder that
        asks again must not take an end it has not heard of yet for a loss."""
        known: tuple[str, str] | None
        if (pod := self._live.get(task)) is not None:
            known = pod[:2]
        elif task in self._ended:
            known = self._ended[task]
            if known is not None and known[0] != uid:
                return BindAnswer.OK, node
        else:
            return BindAnswer.OK, node
        if known is None or known[0] != uid or not known[1]:
            return BindAnswer.GONE, ""
        return (BindAnswer.ALREADY if known[1] == node else BindAnswer.ELSEWHERE), known[1]

    def _fire_starts(self) -> None:
        started: list[str] = []
        while self._starts:  # due at their bind: never later than now, and before any delete
            at, tasks = self._starts.popleft()
            started += tasks
            ends: dict[float, list[str]] = {}
            for task in tasks:
                duration = self._live[task][2]
                if duration is not None:
                    ends.setdefault(at + duration / self._speedup, []).append(task)
            for due, group in ends.items():
                self._entered += 1
                heapq.heappush(self._runs, (due, self._entered, group))
        self._report(Report.STARTED, started)

    def _fire_runs(self) -> None:
        released: list[str] = []
        while self._runs and self._runs[0][0] <= self._now:
            due, _, tasks = heapq.heappop(self._runs)
            leaving = []
            for task in tasks:
                pod = self._live.get(task)
                if pod is None or pod[3] != _RUNNING:  # deleted while it ran
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
                failed = self._live[task][3] == _LOSING
                ended[Report.FAILED if failed else Report.SUCCEEDED].append(task)
        for kind, tasks in ended.items():
            if tasks:
                self._report(kind, tasks)
                for task in tasks:
                    self._ended[task] = self._live.pop(task)[:2]
                self._failing.difference_update(tasks)

    def _report(self, kind: Report, tasks: list[str]) -> None:
        pods = [self._live[task] for task in tasks]
        nodes = [pod[1] for pod in pods]
        code = int(kind)
        self._reports.extend([(code, task, pod[1]) for task, pod in zip(tasks, pods, strict=True)])
        self._event(_KINDS[kind], tasks, nodes, [pod[0] for pod in pods], [])

    def _event(
        self,
        kind: EventKind,
        tasks: list[str],
        nodes: list[str],
        uids: list[str],
        answers: list[int],
    ) -> None:
        names = [BindAnswer(answer).name for answer in answers]
        self._events.append(ClusterEvent(self._now, kind, tasks, nodes, uids, names))
