"""Nominations: owners, expiry, and precedence (promise 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.device_use import Taken
from laboratory.checker.state.job import CheckedJob

KEPT_FOR = 30.0
"""Seconds that a nomination may exist past its expiry. The leader ends expired ones at its next
step; a new leader has to find them first, which takes a sweep of a few seconds."""


@dataclass(slots=True)
class HeldNomination:
    places: list[tuple[int, int, Taken]]
    """(class, row, devices)"""
    priority: int
    due: float
    """When it expires, in seconds of time with a leader; 0: never."""
    line: int


class NominationChecks:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._held: dict[int, HeldNomination] = {}

    def hold(self, jid: int, job: CheckedJob, statement: dict[str, Any]) -> None:
        """Replace all nominations of a job by a statement's."""
        books, findings = self._books, self._books.findings
        places = []
        devices_of = dict(statement.get("devices", ()))
        for tix, row, cid, _ in statement["nominate"]:
            if row not in books.nodes.names:
                problem = f"task {jid}.{tix} was nominated to unknown row {row}"
                findings.add(Rule.TRANSITION, problem)
                continue
            if not books.nodes.known(cid):
                findings.add(Rule.TRANSITION, f"class {cid} was never submitted")
                continue
            devices = devices_of.get(tix, [])
            places.append((cid, row, devices))
            findings.checked[Rule.LEDGER_CAPACITY] += 1
            if broken := books.nodes.nominate(cid, row):
                problem = f"nomination of {jid}.{tix} of {job.key}: {broken}"
                findings.add(Rule.LEDGER_CAPACITY, problem)
            findings.checked[Rule.DEVICE_CAPACITY] += bool(devices)
            if broken := books.devices.nominate(row, devices):
                problem = f"nomination of {jid}.{tix} of {job.key}: {broken}"
                findings.add(Rule.DEVICE_CAPACITY, problem)
        if places:
            expiry = statement.get("expiry", 0.0)
            # In time with a leader: while nobody leads, nobody can end what has expired.
            due = books.lived + max(expiry - books.t, 0.0) if expiry else 0.0
            before = self._held.get(jid)
            if before is not None:
                places += before.places
            self._held[jid] = HeldNomination(places, job.priority, due, findings.line)
            job.promised, job.unpromised = [cid for cid, _, _ in places], None

    def hold_moves(self, statement: dict[str, Any]) -> None:
        """Take the promises of a statement for the jobs whose tasks move."""
        for jid, _, cid, _, tasks, _, *more in statement["evict"]:
            job = self._books.jobs.get(jid)
            if len(more) == 3 and job is not None:
                _, to, devices = more
                places = [[tix, row, cid, 0] for tix, row in zip(tasks, to, strict=True)]
                with_devices = [[tix, devices] for tix in tasks if devices]
                part = {
                    "nominate": places,
                    "devices": with_devices,
                    "expiry": statement.get("expiry", 0.0),
                }
                self.hold(jid, job, part)

    def dropped(self, jid: int, job: CheckedJob | None, ended: list[int]) -> None:
        """A statement of a job ends nominations: its own, and those of lower rank."""
        findings = self._books.findings
        if jid in self._held and jid not in ended:
            why = "was kept beside those of its next statement"
            self._broken(Rule.NOMINATION_END, jid, why)
            self.end(jid)
        for ended_jid in ended:
            nomination = self._held.get(ended_jid)
            if nomination is None:
                self._broken(Rule.NOMINATION_END, ended_jid, "was displaced after it had ended")
            elif ended_jid != jid and job is not None:
                findings.checked[Rule.NOMINATION_RANK] += 1
                if nomination.priority >= job.priority:
                    self._broken(
                        Rule.NOMINATION_RANK,
                        ended_jid,
                        f"of priority {nomination.priority} was displaced by job {jid} ({job.key}) "
                        f"of priority {job.priority}",
                    )
            self.end(ended_jid)

    def end(self, jid: int) -> None:
        nomination = self._held.pop(jid, None)
        if nomination is None:
            return
        findings, lived = self._books.findings, self._books.lived
        if (job := self._books.jobs.get(jid)) is not None:
            job.unpromised = self._books.t
        findings.checked[Rule.NOMINATION_END] += 1
        if nomination.due and lived > nomination.due + KEPT_FOR:
            findings.add_at(
                nomination.line,
                "commit",
                Rule.NOMINATION_END,
                f"nomination of job {jid} was kept for {lived - nomination.due:.0f} s after its "
                "time",
            )
        for cid, row, devices in nomination.places:
            self._books.relieve(row)
            self._books.nodes.end_nomination(cid, row)
            self._books.devices.end_nomination(row, devices)

    def settle(self) -> None:
        """Judge what is still open at the end of the history."""
        for jid in list(self._held):
            self.end(jid)

    def _broken(self, rule: Rule, jid: int, problem: str) -> None:
        job = self._books.jobs.get(jid)
        name = f"job {jid}" if job is None else f"job {jid} ({job.key})"
        self._books.findings.add(rule, f"nomination of {name} {problem}")
