"""Promise 3 over time: a gang that a refused bind left short is repaired or released in time."""

from __future__ import annotations

from coordinator.checker.job import Job
from coordinator.checker.report import Findings

WITHIN = 120.0
"""Seconds. A gang is released after 30 unless a setting says otherwise; its members take their time
to end, and the cluster may have to be told more than once."""


class Repairs:
    """Groups that hold members, but fewer than their minimum, since a bind was refused."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._short: dict[tuple[int, int], tuple[float, int, Job]] = {}
        """(jid, group) -> since when, line, job."""

    def refused(self, jid: int, job: Job, group: int, t: float) -> None:
        """A member of the group went back to pending."""
        for above in job.chain(group):
            if _is_short(job, above):
                self._short.setdefault((jid, above), (t, self._findings.line, job))

    def moved(self, jid: int, job: Job, t: float) -> None:
        """Members of the job came or went."""
        if self._short:
            for group in range(len(job.groups)):
                if (jid, group) in self._short and (job.gone or not _is_short(job, group)):
                    self._end((jid, group), t)

    def settle(self, t: float) -> None:
        """The history ends."""
        for key in list(self._short):
            self._end(key, t)

    def _end(self, key: tuple[int, int], t: float) -> None:
        since, line, job = self._short.pop(key)
        if t - since > WITHIN and not job.gone:
            jid, group = key
            self._findings.add_at(
                line,
                "status",
                3,
                f"group {group} of job {jid} ({job.key}) fell below its minimum of "
                f"{job.groups[group][1]} and was neither repaired nor released for "
                f"{t - since:.0f} s",
            )


def _is_short(job: Job, group: int) -> bool:
    return 0 < job.held[group] < job.groups[group][1]
