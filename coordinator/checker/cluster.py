"""The cluster's side of a history: who was bound where, and how it ended (promise 1)."""

from __future__ import annotations

from typing import Any

from coordinator.checker.report import Findings

LIVE, STARTED, LEAVING, DONE, LOST = range(5)
"""What the cluster says of an incarnation it took; DONE succeeded, LOST failed."""

PHASES = ("live", "started", "releasing", "succeeded", "failed")

_KINDS = {"start": STARTED, "releasing": LEAVING, "succeeded": DONE, "failed": LOST, "lost": LOST}


LIFE = "~~"
"""Behind the uid of a task's job, before the number of an incarnation that is not the first."""


def _life(uid: str) -> int:
    tail = uid.partition(LIFE)[2]
    return int(tail) if tail.isdecimal() else 0


class Binding:
    """One incarnation of a task on the node that took it."""

    __slots__ = ("jid", "life", "line", "node", "phase", "t", "tix")

    def __init__(self, task: str, life: int, node: str, line: int, t: float) -> None:
        head, _, tail = task.partition(".")
        self.jid = int(head)
        self.tix = int(tail)
        self.life = life
        self.node = node
        self.line = line
        self.t = t
        self.phase = LIVE


class ClusterSide:
    """Feed it the cluster's events in file order."""

    def __init__(self, findings: Findings) -> None:
        self.bindings: dict[tuple[str, str], Binding] = {}
        self.events = 0
        self.twice: set[str] = set()
        self._findings = findings
        self._newest: dict[str, Binding] = {}
        """Of tasks that were bound once more after an eviction."""

    def feed(self, event: dict[str, Any]) -> None:
        self.events += 1
        kind = event["ev"]
        if kind == "bind":
            self._bind(event)
        elif kind != "delete":
            self._report(event, _KINDS[kind])

    def _bind(self, event: dict[str, Any]) -> None:
        columns = (event["tasks"], event["uids"], event["nodes"], event["answers"])
        for task, uid, node, answer in zip(*columns, strict=True):
            if answer not in ("OK", "ALREADY"):
                continue
            known = self.bindings.get((task, uid))
            if known is None:
                known = Binding(task, _life(uid), node, self._findings.line, event["t"])
                if known.life:
                    self._follow(task, uid, known)
                self.bindings[task, uid] = known
                if answer == "ALREADY":
                    self._findings.add(6, f"task {task} was on {node} already, but never bound")
            elif known.node != node or (answer == "OK" and known.phase >= DONE):
                self._double(
                    task,
                    f"task {task} (incarnation {uid}) was bound to {node}; it is "
                    f"{PHASES[known.phase]} on {known.node} since line {known.line}",
                )

    def _follow(self, task: str, uid: str, binding: Binding) -> None:
        """Another incarnation of a task: the one before it has ended."""
        before = self._newest.get(task) or self.bindings.get((task, uid.partition(LIFE)[0]))
        self._newest[task] = binding
        if before is not None and (before.phase < DONE or before.life >= binding.life):
            self._double(
                task,
                f"task {task} was bound to {binding.node} as incarnation {binding.life}; "
                f"incarnation {before.life} is {PHASES[before.phase]} on {before.node} since "
                f"line {before.line}",
            )

    def _report(self, event: dict[str, Any], phase: int) -> None:
        for task, uid, node in zip(event["tasks"], event["uids"], event["nodes"], strict=True):
            known = self.bindings.get((task, uid))
            if known is None:
                what = f"task {task} (incarnation {uid}) is {PHASES[phase]} on {node}"
                self._findings.add(6, f"{what} and was never bound")
            elif known.node != node or (phase == STARTED and known.phase >= STARTED):
                self._double(
                    task,
                    f"task {task} (incarnation {uid}) is {PHASES[phase]} on {node}; it was "
                    f"{PHASES[known.phase]} on {known.node} since line {known.line}",
                )
            elif known.phase >= DONE:
                what = f"task {task} (incarnation {uid}) is {PHASES[phase]} on {node}"
                self._findings.add(6, f"{what} and was {PHASES[known.phase]} before")
            else:
                known.phase = phase

    def _double(self, task: str, message: str) -> None:
        self.twice.add(task)
        self._findings.add(1, message)
