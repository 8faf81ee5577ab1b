"""Changes of task states, and tasks adopted from the cluster."""

from __future__ import annotations

from typing import Any

from laboratory.checker.evictions.evictions import Evictions
from laboratory.checker.ledger.repairs import RepairChecks
from laboratory.checker.placement.placement import PlacementChecks
from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.cluster import ClusterSide
from laboratory.checker.state.device_use import Taken
from laboratory.checker.state.job import (
    BINDING,
    BOUND,
    ENDED,
    FAILED,
    LOST,
    PENDING,
    RELEASING,
    RUNNING,
    STATES,
    SUCCEEDED,
    UNSUCCESSFUL,
    CheckedJob,
)

_NUMBERS = {name: number for number, name in enumerate(STATES)}
_FROM = {
    PENDING: (BINDING,),
    BOUND: (BINDING,),
    RUNNING: (BINDING, BOUND),
    RELEASING: (BINDING, BOUND, RUNNING),
    SUCCEEDED: (BINDING, BOUND, RUNNING, RELEASING),
    FAILED: (PENDING, BINDING, BOUND, RUNNING, RELEASING),
    LOST: (BINDING, BOUND, RUNNING, RELEASING),
}
"""State -> states from which it may be reached."""

_ENDS = (PENDING, SUCCEEDED, *UNSUCCESSFUL)


class States:
    def __init__(
        self,
        books: CheckerBooks,
        cluster: ClusterSide,
        *,
        evictions: Evictions,
        placement: PlacementChecks,
        repairs: RepairChecks,
    ) -> None:
        self._books = books
        self._cluster = cluster
        self._findings = books.findings
        self._evictions = evictions
        self._placement = placement
        self._repairs = repairs

    def status(self, event: dict[str, Any]) -> None:
        for name, jid, tasks, rows in event["items"]:
            job, state = self._books.jobs.get(jid), _NUMBERS[name]
            if job is None:
                problem = f"job {jid} got state {name} but was never submitted"
                self._findings.add(Rule.TRANSITION, problem)
                continue
            if job.forgotten:
                problem = f"job {jid} ({job.key}) got state {name}, but is forgotten"
                self._findings.add(Rule.TRANSITION, problem)
            self._findings.checked[Rule.TRANSITION] += len(tasks)
            for tix, row in zip(tasks, rows, strict=True):
                self._change(jid, job, tix, row, state)
            self._repairs.look(jid)

    def _change(self, jid: int, job: CheckedJob, tix: int, row: int, state: int) -> None:
        if tix >= len(job.states):
            problem = f"task {jid}.{tix} of {job.key} was never submitted"
            self._findings.add(Rule.TRANSITION, problem)
            return
        old = job.states[tix]
        begun_anew = state == PENDING and old in ENDED
        may = old in _FROM[state] or (state == PENDING and tix in job.evicted)
        may = may or (begun_anew and self._may_begin_anew(job, tix))
        if not may or (old != PENDING and job.rows[tix] != row):
            self._findings.add(
                Rule.TRANSITION,
                f"task {jid}.{tix} of {job.key} went from {STATES[old]} on row {job.rows[tix]} "
                f"to {STATES[state]} on row {row}",
            )
            return
        if old in (BOUND, RUNNING) and state >= RELEASING:
            job.left[tix] = self._books.t
        job.states[tix] = state
        job.changed[tix] = self._findings.line
        if state in (BOUND, RUNNING):
            self._bound_there(jid, job, tix, state)
        if state == RUNNING:
            self._runs(jid, job, tix)
        asks_nothing = job.cids[tix] in self._books.best_effort
        if asks_nothing and state in UNSUCCESSFUL:  # it counts as being there until it fails
            job.best_effort[job.group_of[tix]] -= 1
        if begun_anew:
            self._begin_anew(jid, job, tix, old)
        elif old == PENDING:  # deleted before it was placed: it holds nothing
            if asks_nothing:
                job.hold(job.group_of[tix], -1)
                job.idles(job.group_of[tix], -1)
        elif state == RELEASING:
            self._books.release(job, tix, row)
            self._books.relieve(row)
            self._placement.leaving(job, tix)
        elif state in _ENDS:
            self._free(jid, job, tix, old, state)

    def _bound_there(self, jid: int, job: CheckedJob, tix: int, state: int) -> None:
        """Check that the cluster took the task before the ledger recorded it: what the cluster does
        is in the file before anybody hears of it."""
        if not self._cluster.events:
            return
        node, incarnation = self._books.nodes.names[job.rows[tix]], job.incarnations.get(tix, 0)
        self._findings.checked[Rule.ACCOUNT] += 1
        if not self._cluster.took(f"{jid}.{tix}", node, incarnation, starts=state == RUNNING):
            problem = f"task {jid}.{tix} of {job.key} is {STATES[state]} on {node} in the ledger"
            did = "started" if state == RUNNING else "bound"
            self._findings.add(Rule.ACCOUNT, f"{problem}, before the cluster {did} it there")

    def _runs(self, jid: int, job: CheckedJob, tix: int) -> None:
        """Note when a task began to run. Whoever decides heard of it after the cluster's event, and
        maybe before the ledger's."""
        node, incarnation = self._books.nodes.names[job.rows[tix]], job.incarnations.get(tix, 0)
        binding = self._cluster.live(f"{jid}.{tix}", node, incarnation)
        if binding is not None and binding.began is not None:
            job.began[tix] = binding.began
        else:
            job.began.pop(tix, None)

    def _may_begin_anew(self, job: CheckedJob, tix: int) -> bool:
        """Whether a policy may have an ended task begin anew: nobody makes a pod anew that was
        submitted by itself, that was removed, or whose job was deleted."""
        return not (job.gone or job.named) and bool(job.member[tix])

    def _begin_anew(self, jid: int, job: CheckedJob, tix: int, old: int) -> None:
        """The next incarnation of an ended task is pending."""
        self._ended(jid, job, tix, PENDING)
        incarnation, group = job.incarnations.get(tix, 0), job.group_of[tix]
        job.restarted.add((tix, incarnation))
        job.incarnations[tix] = incarnation + 1
        waits = job.cids[tix] in self._books.best_effort  # that counts while it is pending
        job.hold(group, waits - (old == SUCCEEDED))
        if waits:
            job.idles(group, 1)
            job.best_effort[group] += old in UNSUCCESSFUL

    def _free(self, jid: int, job: CheckedJob, tix: int, old: int, state: int) -> None:
        """Free the node of a task."""
        self._ended(jid, job, tix, state)
        self._placement.freed(jid, job, tix, leaving=old == RELEASING)
        if old != RELEASING:
            self._books.relieve(job.rows[tix])
        self._books.give_back(job, tix, releasing=old == RELEASING)
        more = self._evictions.members_after(job, tix, state)
        waits = state == PENDING and job.cids[tix] in self._books.best_effort  # that counts, too
        job.hold(job.group_of[tix], more + waits)
        if waits:
            job.idles(job.group_of[tix], 1)

    def _ended(self, jid: int, job: CheckedJob, tix: int, state: int) -> None:
        """Promise 6: a task that the ledger frees has already ended in the cluster."""
        self._findings.checked[Rule.FREED] += 1
        node, incarnation = self._books.nodes.names[job.rows[tix]], job.incarnations.get(tix, 0)
        binding = self._cluster.live(f"{jid}.{tix}", node, incarnation)
        if binding is not None:
            self._findings.add(
                Rule.FREED,
                f"task {jid}.{tix} of {job.key} is {STATES[state]} and its room on {binding.node} "
                f"free, but the cluster has it {binding.phase_name} since line {binding.line}",
            )

    # --- tasks that the cluster has elsewhere -----------------------------------------------------

    def adopted(self, event: dict[str, Any]) -> None:
        """The ledger followed the cluster: an excess on a node came from outside."""
        for name, jid, tasks, rows, cid, group, *devices in event["items"]:
            job = self._books.jobs.get(jid)
            if job is None:
                problem = f"job {jid} was adopted but never submitted"
                self._findings.add(Rule.TRANSITION, problem)
                continue
            self._findings.checked[Rule.TRANSITION] += len(tasks)
            for tix, row in zip(tasks, rows, strict=True):
                self._adopt(jid, job, tix, row, (_NUMBERS[name], cid, group))
                if devices and tix in job.adopted and job.rows[tix] == row:
                    self._found_devices(job, tix, devices[0])
            self._repairs.look(jid)

    def _found_devices(self, job: CheckedJob, tix: int, devices: Taken) -> None:
        job.give(tix, job.rows[tix], devices)
        self._books.devices.take(job.rows[tix], devices)
        if job.states[tix] == RELEASING:
            self._books.devices.release(job.rows[tix], devices)

    def _adopt(
        self, jid: int, job: CheckedJob, tix: int, row: int, now: tuple[int, int, int]
    ) -> None:
        state, cid, group = now
        books = self._books
        old = job.states[tix] if tix < len(job.states) else FAILED
        if old > RELEASING or row not in books.nodes.names:
            why = "had ended" if old > RELEASING else "there is no such row"
            problem = f"task {jid}.{tix} of {job.key} was adopted on row {row}"
            self._findings.add(Rule.TRANSITION, f"{problem}, but {why}")
            return
        if old == PENDING:
            job.cids[tix], job.group_of[tix] = cid, group
            if cid in books.best_effort:
                job.idles(group, -1)
            else:
                job.hold(group, 1)
        else:
            self._evictions.adopted(job, tix, state)
            self._placement.freed(jid, job, tix, leaving=old == RELEASING)
            books.relieve(job.rows[tix])
            books.give_back(job, tix, releasing=old == RELEASING)
        books.put_on(job, tix, row, since=0.0)
        job.states[tix] = state
        job.adopted.add(tix)
        books.nodes.take(job.cids[tix], row)
        books.queues.charge(job.qid, books.nodes.requests(job.cids[tix]), 1)
        books.enter_kai_queue(job, tix)  # the ledger followed the cluster, whatever the bounds
        self._placement.appeared(jid, job, tix)
        if state == RELEASING:
            books.release(job, tix, row)
            self._placement.leaving(job, tix)
