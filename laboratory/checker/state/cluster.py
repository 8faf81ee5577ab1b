"""The cluster's side of a history: binds, and the ends of tasks (promises 1 and 6)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from laboratory.checker.report.report import Findings
from laboratory.checker.report.rules import Rule
from laboratory.checker.state.device_use import Taken

LIVE, STARTED, LEAVING, DONE, LOST = range(5)
"""The cluster's state of an incarnation that it accepted. DONE succeeded, LOST failed or
vanished."""

PHASES = ("live", "started", "releasing", "succeeded", "failed")

_KINDS = {"start": STARTED, "releasing": LEAVING, "succeeded": DONE, "failed": LOST, "lost": LOST}


CLOCKS_DIFFER = 0.2
"""Seconds by which clocks of one machine may differ, or one that was set anew."""

LIFE = "~~"
"""Separates the uid of a task's job from the number of an incarnation after the first."""


@dataclass(slots=True, eq=False)
class ClusterBinding:
    """An incarnation of a task on the node that accepted it."""

    jid: int
    tix: int
    job_uid: str
    incarnation: int
    node: str
    line: int
    t: float
    began: float | None = None
    """When it started; None: not yet, or nothing was said of it."""
    devices: Taken | None = None
    """Devices that its pod names; None: it names none."""
    gpus: Taken | None = None
    """(group of KAI's, parts) by KAI's own marks on the pod, "" for GPUs that it has whole; None:
    nothing is known of that."""
    phase: int = LIVE
    late: bool = False
    """The node had refused it before: a duplicated request arrived late."""
    meant: bool = False
    """It was asked to end, or vanished: its end is not a failure of its own."""
    erased: bool = False
    """It ended, and its object is gone: who did not look before cannot know how."""

    @property
    def phase_name(self) -> str:
        return PHASES[self.phase]


class ClusterSide:
    """Feed it the cluster's events in file order."""

    def __init__(self, findings: Findings) -> None:
        self.bindings: dict[tuple[str, str], ClusterBinding] = {}
        self.events = 0
        self.ended = False
        """Whether the last event says that the writer stopped in order."""
        self.twice: set[str] = set()
        self.acknowledged: list[tuple[float, int, int, int]] = []
        """(time, line, first jid, number of jobs)"""
        self.moves: deque[tuple[float, ClusterBinding, int]] = deque()
        """(time, binding, +1 start or -1 end), until consumed."""
        self._findings = findings
        self._newest: dict[str, ClusterBinding] = {}
        """Task -> its latest accepted incarnation."""
        self._refused: set[tuple[str, str]] = set()
        """(task, uid) that a node refused at least once."""
        self._number = 0
        self._t = 0.0

    def feed(self, event: dict[str, Any]) -> None:
        if event["ev"] == "measured":  # says nothing of tasks: a record without others has no side
            return self._in_a_row(event["n"])
        self.events += 1
        self._in_a_row(event["n"])
        self._in_time(event["t"])
        kind = event["ev"]
        self.ended = kind == "end"
        if kind == "bind":
            self._bind(event)
        elif kind == "delete":
            self._delete(event)
        elif kind == "erased":
            self._erase(event)
        elif kind == "acknowledged":
            line = self._findings.line
            self.acknowledged += [(event["t"], line, first, many) for first, many in event["jobs"]]
        elif not self.ended:
            self._report(event, _KINDS[kind])

    def _in_a_row(self, number: int) -> None:
        self._findings.checked[Rule.NUMBERING] += 1
        if number != self._number + 1:
            gap = f"event {number} of the cluster follows event {self._number}"
            self._findings.add(Rule.NUMBERING, gap)
        self._number = number

    def _in_time(self, t: float) -> None:
        self._findings.checked[Rule.NUMBERING] += 1
        if t < self._t - CLOCKS_DIFFER:
            self._findings.add(
                Rule.NUMBERING, f"it is {self._t - t:.1f} s older than one before it"
            )
        self._t = max(self._t, t)

    # --- what others ask --------------------------------------------------------------------------

    def live(self, task: str, node: str, incarnation: int) -> ClusterBinding | None:
        """The task's incarnation ``incarnation``, if this node still has it. None if it ended, is
        elsewhere, or came by a late request that the node had refused before."""
        binding = self._newest.get(task)
        if binding is None or binding.phase >= DONE or binding.node != node or binding.late:
            return None
        # The file may have the ledger's entries later than what the cluster did because of them:
        # the next incarnation on the same node is no sign that the one before lives.
        if binding.incarnation > incarnation:
            return None
        return binding

    def took(self, task: str, node: str, incarnation: int, *, starts: bool) -> bool:
        """Whether the node has accepted this incarnation of the task, or started it."""
        binding = self._newest.get(task)
        if binding is None or binding.incarnation != incarnation:
            return binding is not None and binding.incarnation > incarnation
        return binding.node == node and (not starts or binding.phase >= STARTED)

    def failed_alone(self, task: str) -> bool:
        """Whether it ran and failed without being asked to end."""
        binding = self._newest.get(task)
        return binding is not None and binding.phase == LOST and not binding.meant

    # --- events -----------------------------------------------------------------------------------

    def _bind(self, event: dict[str, Any]) -> None:
        columns = (event["tasks"], event["uids"], event["nodes"], event["answers"])
        self._findings.checked[Rule.BOUND_ONCE] += len(event["tasks"])
        nothing = [None] * len(event["tasks"])
        device_report = event.get("devices", nothing), event.get("gpus", nothing)
        for task, uid, node, answer, devices, gpus in zip(*columns, *device_report, strict=True):
            if answer not in ("OK", "ALREADY"):
                self._refused.add((task, uid))
                continue
            binding = self.bindings.get((task, uid))
            if binding is None:
                accepted = self._take(task, uid, node, event["t"])
                accepted.devices, accepted.gpus = devices, gpus
                if answer == "ALREADY":
                    message = f"task {task} was on {node} already, but never bound"
                    self._findings.add(Rule.ACCOUNT, message)
            # ALREADY of a binding that has ended is no second one: the end is known to the cluster,
            # and not yet to whoever asks.
            elif binding.node != node or (answer == "OK" and binding.phase >= DONE):
                self._double(
                    task,
                    f"task {task} (incarnation {uid}) was bound to {node}; it is "
                    f"{binding.phase_name} on {binding.node} since line {binding.line}",
                )

    def _take(self, task: str, uid: str, node: str, t: float) -> ClusterBinding:
        jid, _, tix = task.partition(".")
        job_uid, _, number = uid.partition(LIFE)
        incarnation = int(number) if number.isdecimal() else 0
        line = self._findings.line
        binding = ClusterBinding(int(jid), int(tix), job_uid, incarnation, node, line, t)
        # The node had refused an earlier copy of this request: the ledger may have placed the task
        # elsewhere since.
        binding.late = (task, uid) in self._refused
        before = self._newest.get(task)
        if before is not None:
            self._follow(task, binding, before)
        self._newest[task] = self.bindings[task, uid] = binding
        self.moves.append((t, binding, 1))
        return binding

    def _follow(self, task: str, binding: ClusterBinding, before: ClusterBinding) -> None:
        """A new incarnation of a task is accepted: the one before must have ended."""
        if binding.incarnation and (
            before.phase < DONE or before.incarnation >= binding.incarnation
        ):
            self._double(
                task,
                f"task {task} was bound to {binding.node} as incarnation {binding.incarnation}; "
                f"incarnation {before.incarnation} is {before.phase_name} on {before.node} since "
                f"line {before.line}",
            )

    def _delete(self, event: dict[str, Any]) -> None:
        uids = event["uids"] or [""] * len(event["tasks"])
        for task, uid in zip(event["tasks"], uids, strict=True):
            binding = self.bindings.get((task, uid)) if uid else self._newest.get(task)
            if binding is not None and binding.phase < LEAVING:
                binding.meant = True

    def _erase(self, event: dict[str, Any]) -> None:
        for task, uid in zip(event["tasks"], event["uids"], strict=True):
            if (binding := self.bindings.get((task, uid))) is not None:
                binding.erased = True

    def _report(self, event: dict[str, Any], phase: int) -> None:
        vanished = event["ev"] == "lost"
        for task, uid, node in zip(event["tasks"], event["uids"], event["nodes"], strict=True):
            binding = self.bindings.get((task, uid))
            if binding is None:
                problem = f"task {task} (incarnation {uid}) is {PHASES[phase]} on {node}"
                self._findings.add(Rule.ACCOUNT, f"{problem} and was never bound")
            elif binding.node != node or (phase == STARTED and binding.phase >= STARTED):
                self._double(
                    task,
                    f"task {task} (incarnation {uid}) is {PHASES[phase]} on {node}; it was "
                    f"{binding.phase_name} on {binding.node} since line {binding.line}",
                )
            elif binding.phase >= DONE:
                problem = f"task {task} (incarnation {uid}) is {PHASES[phase]} on {node}"
                self._findings.add(Rule.ACCOUNT, f"{problem} and was {binding.phase_name} before")
            else:
                binding.phase = phase
                binding.meant |= vanished
                if phase == STARTED:
                    binding.began = event["t"]
                if phase >= DONE:
                    self.moves.append((event["t"], binding, -1))

    def _double(self, task: str, message: str) -> None:
        self.twice.add(task)
        self._findings.add(Rule.BOUND_ONCE, message)
