"""Whom a policy lets somebody evict, and for whom: judged by the policy, not by what was said.

In a tier every plugin that speaks about victims has to let a task go; the first tier that lets
anybody go decides (Volcano). The reason of a statement names the plugins that decided. Rules that
need shares of queues or clocks (drf, deserved shares, tdm, cdp, extenders) are not judged here:
they are taken to agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from coordinator.verification.checker.evictions.budgets import Budgets
from coordinator.verification.checker.report.rules import Rule
from coordinator.verification.checker.state.books import CheckerBooks
from coordinator.verification.checker.state.job import RUNNING, CheckedJob
from coordinator.verification.checker.state.policy import (
    BETWEEN_QUEUES,
    KNOWN,
    SHUFFLE,
    SPEAKS,
    WITHIN_QUEUE,
    CheckedPolicy,
)

GANG, GUARANTEE = 1, 2
"""Bits of what a statement promises to leave whole of a victim's."""

_REASON = re.compile(r"(?P<action>\w+)(?: \((?P<plugins>[^)]*)\))?(?:: for (?P<whom>.*))?")
_SYSTEM_NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class Victim:
    jid: int
    job: CheckedJob
    tix: int
    row: int
    guards: int = 0
    """What its statement promised to leave whole for it."""


@dataclass(slots=True)
class Eviction:
    """One statement that evicts. ``job``: for whom."""

    statement: dict[str, Any]
    job: CheckedJob
    shard: str
    victims: list[Victim] = field(default_factory=list)
    action: str = ""
    deciding: tuple[frozenset[str], ...] = ()
    """The plugins that decided, of each tier that did."""
    beneficiary: str = ""

    def __post_init__(self) -> None:
        match = _REASON.fullmatch(self.statement.get("reason", ""))
        if match is not None:
            self.action = match["action"]
            parts = (match["plugins"] or "").split("; ")
            self.deciding = tuple(frozenset(part.split(", ")) for part in parts if part)
            self.beneficiary = match["whom"] or ""

    @property
    def jid(self) -> int:
        jid: int = self.statement["jid"]
        return jid


class VictimChecks:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._findings = books.findings
        self._budgets = Budgets(books)

    def before(self, eviction: Eviction) -> None:
        """Nobody has left yet."""
        self._budgets.before(run[0] for run in eviction.statement["evict"])

    def judge(self, eviction: Eviction) -> None:
        """The victims have begun to leave, and nothing is placed yet."""
        policies = self._books.policies.of(eviction.shard)
        if not policies or not eviction.victims:
            return
        self._findings.checked[Rule.EVICTION_REASON] += 1
        if wrong := self._misnamed(eviction, policies):
            self._tell(Rule.EVICTION_REASON, eviction, wrong)
            return
        if eviction.action not in KNOWN:
            return
        for victim in eviction.victims:
            if wrong := self._unrelated(eviction, victim):
                self._tell(Rule.EVICTION_REASON, eviction, wrong)
        if eviction.action in SPEAKS:
            self._spared(eviction, policies)

    # --- for whom, and why ------------------------------------------------------------------------

    def _misnamed(self, eviction: Eviction, policies: list[CheckedPolicy]) -> str:
        """What of the reason cannot be; "" where nothing."""
        statement = eviction.statement
        if not eviction.action:
            return f"{statement.get('reason', '')!r} is no reason"
        if not any(eviction.action in policy.actions for policy in policies):
            return f"the policy has no action {eviction.action}"
        if eviction.action not in SPEAKS:
            return ""
        if not statement["alloc"] and not statement["nominate"]:
            return "nobody gets what they leave"
        tiers = [tier for policy in policies for tier in policy.tiers(eviction.action)]
        for plugins in eviction.deciding or (frozenset[str](),):
            if not plugins or not any(plugins <= tier for tier in tiers):
                named = ", ".join(sorted(plugins)) or "no plugin"
                return f"{named}: no tier of the policy decides that for {eviction.action}"
        return self._for_another(eviction)

    def _for_another(self, eviction: Eviction) -> str:
        """Is the statement's job the one that was said? Tasks are called by their job, unless they
        have names of their own; but who has another job's name is another job's."""
        beneficiary = eviction.beneficiary
        if beneficiary.startswith(eviction.job.key):
            return ""
        if not eviction.job.named:
            return f"it was said to be for {beneficiary or 'nobody'}"
        for job in self._books.jobs.values():
            if job is not eviction.job and (
                beneficiary == job.key or beneficiary.startswith(f"{job.key}-")
            ):
                return f"it was said to be for {beneficiary}"
        return ""

    def _unrelated(self, eviction: Eviction, victim: Victim) -> str:
        """Why the action never evicts this task for this job; "" where it may."""
        action, job, name = eviction.action, eviction.job, f"task {victim.jid}.{victim.tix}"
        if action == SHUFFLE:
            return "" if victim.job is job else f"{name} is of another job"
        if victim.job is job:
            return "" if action == "preempt" else f"{name} is its own"
        if not victim.job.role_of(victim.tix).preemptable:
            return f"{name} says that it is not preemptable"
        if action in WITHIN_QUEUE and victim.job.qid != job.qid:
            return f"{name} is of another queue, {action} evicts within one"
        if action in BETWEEN_QUEUES:
            if victim.job.qid == job.qid:
                return f"{name} is of the same queue, {action} evicts between queues"
            if not self._books.queues.reclaimable(victim.job.qid):
                return f"{name} is of a queue that gives nothing back"
        return ""

    # --- whom the policy spares -------------------------------------------------------------------

    def _spared(self, eviction: Eviction, policies: list[CheckedPolicy]) -> None:
        """Each victim was let go by a whole tier, one of those that were said to have decided."""
        tiers = [
            tier
            for policy in policies
            for tier in policy.tiers(eviction.action)
            if any(plugins <= tier for plugins in eviction.deciding)
        ]
        for victim in eviction.victims:
            refusals = [list(self._refusing(tier, eviction, victim)) for tier in tiers]
            self._count(tiers)
            if all(refusals) and refusals:
                rule, why = refusals[0][0]
                problem = f"task {victim.jid}.{victim.tix} of {victim.job.key}: {why}"
                self._tell(rule, eviction, problem)
            elif not _is_whole(victim):
                victim.job.spared = True  # a tier without the rule decided

    def _count(self, tiers: list[frozenset[str]]) -> None:
        speaking = frozenset[str]().union(*tiers)
        checked = self._findings.checked
        checked[Rule.EVICTION_POLICY] += 1
        checked[Rule.VICTIM_GANG] += "gang" in speaking
        checked[Rule.VICTIM_GUARANTEE] += bool(speaking & {"capacity", "proportion"})

    def _refusing(
        self, tier: frozenset[str], eviction: Eviction, victim: Victim
    ) -> Iterator[tuple[Rule, str]]:
        """Which plugins of a tier spare a victim, and why."""
        role, job = victim.job.role_of(victim.tix), eviction.job
        if "gang" in tier and not _is_whole(victim):
            yield Rule.VICTIM_GANG, "gang spares it: its gang is left in part"
        if "conformance" in tier and (role.system or victim.job.namespace == _SYSTEM_NAMESPACE):
            yield Rule.EVICTION_POLICY, "conformance spares it: it keeps the cluster alive"
        if "priority" in tier and victim.job is not job and victim.job.priority >= job.priority:
            numbers = f"{victim.job.priority} is not below {job.priority}"
            yield Rule.EVICTION_POLICY, f"priority spares it: {numbers}"
        if "pdb" in tier and (budget := self._budgets.exceeded(victim.jid, victim.tix)):
            yield Rule.EVICTION_POLICY, f"pdb spares it: {budget}"
        between = tier & {"capacity", "proportion"} and eviction.action in BETWEEN_QUEUES
        if between and (robbed := self._books.queues.robbed(victim.job.qid)):
            yield Rule.VICTIM_GUARANTEE, f"its queue keeps its guarantee: {robbed}"

    def _tell(self, rule: Rule, eviction: Eviction, problem: str) -> None:
        reason = eviction.statement.get("reason", "")
        message = f"eviction for job {eviction.jid} ({eviction.job.key}), {reason!r}: {problem}"
        self._findings.add(rule, message)


def _is_whole(victim: Victim) -> bool:
    """Is nothing left of each group of a victim, or the minimum? Members that have ended, or end by
    themselves, are no gang that an eviction could keep."""
    job = victim.job
    return all(
        not 0 < job.held[above] < job.groups[above][1] or not job.holds(above, RUNNING)
        for above in job.chain(job.group_of[victim.tix])
    )
