"""Evictions as a history has them: who may go (promises 1, 6), and what has to stay (2, 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.checker.capacity import Nodes, Queues
from coordinator.checker.job import BOUND, RELEASING, RUNNING, STATES, SUCCEEDED, Job
from coordinator.checker.report import Findings

GANG, GUARANTEE = 1, 2
"""Bits of what a statement promises to leave whole."""


class Evictions:
    """``hold`` adds members to a group of a job and those above it."""

    def __init__(
        self,
        *,
        jobs: dict[int, Job],
        nodes: Nodes,
        queues: Queues,
        findings: Findings,
        hold: Callable[[Job, int, int], None],
    ) -> None:
        self.tasks = 0
        """Tasks that were evicted, each time they were."""
        self._jobs = jobs
        self._nodes = nodes
        self._queues = queues
        self._findings = findings
        self._hold = hold

    def happen(self, statement: dict[str, Any]) -> set[int]:
        """The victims of a statement begin to leave; returns their jobs."""
        groups: list[tuple[int, Job, int]] = []
        for jid, spec, cid, _, tasks, rows in statement.get("evict", ()):
            job = self._jobs.get(jid)
            if job is None:
                self._findings.add(6, f"tasks of job {jid} were evicted, which was never submitted")
                continue
            if job.gone or job.spec != spec:
                why = "its deletion" if job.gone else f"it had changed to {job.spec}"
                self._findings.add(6, f"job {jid} ({job.key}) as of {spec} was evicted after {why}")
            for tix, row in zip(tasks, rows, strict=True):
                if self._leave(jid, job, tix, (row, cid)):
                    groups.append((jid, job, job.group_of[tix]))
        self._guards(statement.get("guards", 0), groups)
        return {jid for jid, _, _ in groups}

    def _leave(self, jid: int, job: Job, tix: int, at: tuple[int, int]) -> bool:
        row, cid = at
        state = job.states[tix] if tix < len(job.states) else -1
        if state not in (BOUND, RUNNING) or (job.rows[tix], job.cids[tix]) != at:
            was = "never submitted" if state < 0 else f"{STATES[state]} on row {job.rows[tix]}"
            what = f"task {jid}.{tix} of {job.key} was evicted from row {row} (class {cid})"
            self._findings.add(6, f"{what}, but it was {was}")
            return False
        job.states[tix] = RELEASING
        job.changed[tix] = self._findings.line
        job.evicted.add(tix)
        self.tasks += 1
        self._nodes.release(cid, row)
        self._queues.leave(job.qid, self._nodes.requests(cid), 1)
        self._hold(job, job.group_of[tix], -1)
        return True

    def _guards(self, guards: int, groups: list[tuple[int, Job, int]]) -> None:
        for jid, job, group in groups if guards & GANG else ():
            for above in job.chain(group):
                held, minimum = job.held[above], job.groups[above][1]
                if 0 < held < minimum:
                    what = f"group {above} of job {jid} ({job.key}) was left with {held} members"
                    self._findings.add(3, f"{what} by an eviction, its minimum is {minimum}")
        for jid, job, _ in groups if guards & GUARANTEE else ():
            if robbed := self._queues.robbed(job.qid):
                self._findings.add(2, f"job {jid} ({job.key}) lost tasks: {robbed}")

    def members_after(self, job: Job, tix: int, state: int) -> int:
        """By how many its group grows as a task ends, or goes back to pending."""
        if tix not in job.evicted:
            return 0 if state == SUCCEEDED else -1
        job.evicted.discard(tix)
        if state == 0:
            job.lives[tix] = job.lives.get(tix, 0) + 1
        return 1 if state == SUCCEEDED else 0

    def adopted(self, job: Job, tix: int, state: int) -> None:
        """The cluster has a task elsewhere: what runs there was not evicted."""
        if tix in job.evicted and state != RELEASING:
            job.evicted.discard(tix)
            self._hold(job, job.group_of[tix], 1)
