"""Judgement of a chaos run by its history and by the facts that the run itself recorded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from coordinator.supervisor.supervisor import COORDINATORS, START_SECONDS
from laboratory.chaos.evidence import Evidence, read_evidence
from laboratory.chaos.faults import InjectedFault, role_of
from laboratory.chaos.plan import LEADER, LEDGER, RAY, STANDBY
from laboratory.chaos.report import ChaosReport
from laboratory.chaos.timeline import ChaosTimeline
from laboratory.checker.check import check

LOST_WITHIN_SECONDS = max(START_SECONDS.values()) + 10.0
"""How long a fault explains deaths: a process hit during its start is noticed and restarted only
when its start times out."""


def judge_history(
    report: ChaosReport, history: Path, *, seed: int, closed: bool = True
) -> Evidence:
    """Have the checker read a history. ``closed``: of a run that had to finish everything."""
    result = check(history, closed=closed)
    report.tasks_bound += result.summary.tasks_bound
    for violation in result.violations:
        report.violation(promise=violation.promise, message=str(violation), seed=seed)
    report.violated += sum(result.broken.values()) - len(result.violations)  # not kept
    evidence = read_evidence(history)
    for message in evidence.void:
        report.violation(promise=4, message=message, seed=seed)
    return evidence


def judge_roles(
    report: ChaosReport,
    deaths: Iterable[tuple[float, str]],
    struck: Iterable[InjectedFault],
    *,
    seed: int,
) -> None:
    """Check that every process that died was a fault's victim, or its Ray head was."""
    for at, role in deaths:
        if not any(explains(fault, at, role) for fault in struck):
            message = f"the {role} process was lost at {at:.1f}, and nobody had struck it"
            report.violation(promise=0, message=message, seed=seed)


def tell_recoveries(
    report: ChaosReport,
    timeline: ChaosTimeline,
    struck: Iterable[InjectedFault],
    evidence: Evidence,
) -> None:
    for fault in struck:
        report.fault(fault.blow.name)
        seconds = evidence.recovery(fault)
        if seconds is not None:
            report.recovered(role_of(fault), seconds)
            text = f"{fault.victim} works again, {seconds:.2f} s after the {fault.blow.kind}"
            timeline.insert(fault.at + seconds, text)


def explains(struck: InjectedFault, at: float, role: str) -> bool:
    """Whether a fault may be the reason that a role's process was seen dead at this time."""
    blamed = {role, RAY, LEDGER} if role in COORDINATORS else {role}
    target = struck.blow.target
    hit = target in blamed or (target in (LEADER, STANDBY) and role in COORDINATORS)
    return hit and struck.at <= at <= struck.over + LOST_WITHIN_SECONDS
