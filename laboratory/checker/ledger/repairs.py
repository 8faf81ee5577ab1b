"""Promise 3 over time: a partial gang, whatever its cause, is repaired or released in time.

The only exceptions are by intent: members that ran and failed, or that the user removed, are for
the job's policies. Under a policy without backfill, pending best-effort members do not count, since
nobody would place them.
"""

from __future__ import annotations

from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.cluster import ClusterSide
from laboratory.checker.state.job import FAILED, RELEASING, CheckedJob

WITHIN = 120.0
"""Seconds of time with a leader. A gang is released after 30 by default; its members take time to
end, and the cluster may have to be asked repeatedly."""


class RepairChecks:
    """Groups that hold members, but fewer than their minimum."""

    def __init__(self, books: CheckerBooks, cluster: ClusterSide) -> None:
        self._books = books
        self._cluster = cluster
        self._short: dict[tuple[int, int], tuple[float, int]] = {}
        """(jid, group) -> (since when, line)."""

    def look(self, jid: int) -> None:
        """Check the groups of a job whose members changed."""
        job = self._books.jobs[jid]
        for group, (_, minimum) in enumerate(job.groups):
            if minimum > 1:
                self._judge(jid, job, group, minimum)

    def anew(self, jid: int) -> None:
        """Restart the deadlines of a job that was changed."""
        for key in [key for key in self._short if key[0] == jid]:
            del self._short[key]
        self.look(jid)

    def settle(self) -> None:
        """Judge what is still open at the end of the history."""
        for key in list(self._short):
            self._end(key)

    def _judge(self, jid: int, job: CheckedJob, group: int, minimum: int) -> None:
        key = (jid, group)
        policy = self._books.policies.newest
        whole = policy is None or policy.keeps_gangs()
        short = whole and 0 < self._there(job, group) < minimum and not job.gone
        # A group whose members have all ended is no gang that keeps nodes from others.
        if short and job.holds(group, RELEASING):
            self._short.setdefault(key, (self._books.lived, self._books.findings.line))
        elif key in self._short:
            self._end(key)
        else:
            self._books.findings.checked[Rule.GANG_REPAIRED] += 1

    def _there(self, job: CheckedJob, group: int) -> int:
        policy = self._books.policies.newest
        placed = job.held[group] - job.idle[group]
        if policy is not None and not policy.places_best_effort():
            return placed
        return job.held[group] if placed else 0

    def _end(self, key: tuple[int, int]) -> None:
        since, line = self._short.pop(key)
        jid, group = key
        job, findings = self._books.jobs[jid], self._books.findings
        findings.checked[Rule.GANG_REPAIRED] += 1
        seconds = self._books.lived - since
        if seconds > WITHIN and not job.gone and not self._meant(jid, job):
            findings.add_at(
                line,
                "status",
                Rule.GANG_REPAIRED,
                f"group {group} of job {jid} ({job.key}) fell below its minimum of "
                f"{job.groups[group][1]} and was neither repaired nor released for "
                f"{seconds:.0f} s",
            )

    def _meant(self, jid: int, job: CheckedJob) -> bool:
        """Whether members failed by themselves, or were removed by the user or a policy."""
        if job.spared or not all(job.member):
            return True
        failed = [tix for tix, state in enumerate(job.states) if state == FAILED]
        return any(self._cluster.failed_alone(f"{jid}.{tix}") for tix in failed)
