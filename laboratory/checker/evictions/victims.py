"""Judges the victims of evictions by the policy, not by the reason that was given.

In a tier every plugin with a rule about victims has to allow the eviction; the first tier that
allows any victim decides (Volcano). A statement's reason names the plugins that decided. Rules that
need shares of queues or clocks (drf, deserved shares, tdm, cdp, extenders) are not judged here:
they are assumed to agree.
"""

from __future__ import annotations

from collections.abc import Iterator

from laboratory.checker.evictions.budgets import Budgets
from laboratory.checker.evictions.claims import QueueClaims
from laboratory.checker.evictions.eviction import CheckedVictim, Eviction
from laboratory.checker.evictions.kai_victims import ACTIONS as KAI_ACTIONS
from laboratory.checker.evictions.kai_victims import KaiVictims
from laboratory.checker.evictions.needed import NeededVictims
from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.job import RUNNING
from laboratory.checker.state.policy import (
    ASKED_FOR,
    BETWEEN_QUEUES,
    EVICT,
    KNOWN,
    RESTART,
    SHUFFLE,
    SPEAKS,
    WITHIN_QUEUE,
    CheckedPolicy,
)

GANG, GUARANTEE, REST = 1, 2, 4
"""Bits for what a statement promises to keep intact of a victim's job or queue; times REST the
members that may stay of a gang in part, because they have ended."""

_SYSTEM_NAMESPACE = "kube-system"


class VictimChecks:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._findings = books.findings
        self.budgets = Budgets(books)
        self._kai = KaiVictims(books)
        self._claims, self._needed = QueueClaims(books), NeededVictims(books)

    def before(self, eviction: Eviction) -> None:
        """Called before the victims begin to leave."""
        jids = (run[0] for run in eviction.statement["evict"])
        self.budgets.before(jids, requested=eviction.action == EVICT)

    def judge(self, eviction: Eviction) -> None:
        """Judge once the victims began to leave, before anything is placed."""
        # Every policy that the shard may have had: a new one reaches the workers one after the
        # other.
        policies = self._books.policies.of(eviction.shard)
        if not policies or not eviction.victims:
            return
        self._findings.checked[Rule.EVICTION_REASON] += 1
        if wrong := self._claims.exceeded(eviction, policies):
            self._report(Rule.RECLAIM_CLAIM, eviction, wrong)
        if eviction.action in KAI_ACTIONS and all(policy.kai for policy in policies):
            self._judge_of_kai(eviction, policies)
            return
        if wrong := self._misnamed(eviction, policies):
            self._report(Rule.EVICTION_REASON, eviction, wrong)
            return
        if eviction.action not in KNOWN:
            return
        for victim in eviction.victims:
            if wrong := self._unrelated(eviction, victim):
                self._report(Rule.EVICTION_REASON, eviction, wrong)
        if eviction.action in SPEAKS:
            self._spared(eviction, policies)
        elif eviction.action == RESTART:
            self._restarts(eviction)
        elif eviction.action in ASKED_FOR:
            self._whole_gangs(eviction, policies)
            if eviction.action == EVICT:
                self._within_budgets(eviction)

    def placed(self, eviction: Eviction) -> None:
        """Judge once the tasks of the statement are placed, or promised a place."""
        policies = self._books.policies.of(eviction.shard)
        if wrong := self._needed.judge(eviction, policies):
            self._report(Rule.VICTIM_NEEDED, eviction, wrong)

    def _judge_of_kai(self, eviction: Eviction, policies: list[CheckedPolicy]) -> None:
        checked = self._findings.checked
        checked[Rule.EVICTION_POLICY] += len(eviction.victims)
        checked[Rule.VICTIM_GANG] += len(eviction.victims)
        checked[Rule.MIN_RUNTIME] += len(eviction.victims)
        checked[Rule.RECLAIMED_SHARE] += eviction.action == "reclaim"
        if not any(eviction.action in policy.actions for policy in policies):
            wrong = f"the policy has no action {eviction.action}"
        else:
            wrong = self._kai.misnamed(eviction)
        if wrong:
            self._report(Rule.EVICTION_REASON, eviction, wrong)
        for rule, problem in self._kai.wrong(eviction, policies):
            self._report(rule, eviction, problem)

    def _within_budgets(self, eviction: Eviction) -> None:
        """Budgets hold whatever the policy, where a pod is evicted on request."""
        for victim in filter(lambda victim: victim.ran, eviction.victims):
            self._findings.checked[Rule.EVICTION_POLICY] += 1
            if budget := self.budgets.exceeded(victim.jid, victim.tix):
                problem = f"task {victim.jid}.{victim.tix} of {victim.job.key}: {budget}"
                self._report(Rule.EVICTION_POLICY, eviction, problem)

    def _restarts(self, eviction: Eviction) -> None:
        """Pods that are begun anew are made anew by their job, and leave its gang in part."""
        for victim in eviction.victims:
            victim.job.spared = True
            if victim.job.named:
                problem = f"task {victim.jid}.{victim.tix} of {victim.job.key}"
                message = f"{problem} was submitted by itself, and no job makes it anew"
                self._report(Rule.EVICTION_REASON, eviction, message)

    def _whole_gangs(self, eviction: Eviction, policies: list[CheckedPolicy]) -> None:
        """Check that evictions on request never leave a gang in part, even without a guard in the
        statement."""
        if not all(policy.keeps_gangs() for policy in policies):
            return
        for victim in eviction.victims:
            self._findings.checked[Rule.VICTIM_GANG] += 1
            if not _is_whole(victim):
                problem = f"task {victim.jid}.{victim.tix} of {victim.job.key}"
                message = f"{problem} left, and the rest of its gang did not"
                self._report(Rule.VICTIM_GANG, eviction, message)

    # --- for whom, and why ------------------------------------------------------------------------

    def _misnamed(self, eviction: Eviction, policies: list[CheckedPolicy]) -> str:
        """The contradiction in the statement's reason; "" if there is none."""
        statement = eviction.statement
        if not eviction.action:
            return f"{statement.get('reason', '')!r} is no reason"
        if eviction.action in ASKED_FOR:
            gets = statement["alloc"] or statement["nominate"]
            return "somebody gets what they leave" if gets else ""
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
        """The problem if the statement's job is not the one in its reason. Tasks are named after
        their job unless they have names of their own; a name of another job's task counts as that
        job's."""
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

    def _unrelated(self, eviction: Eviction, victim: CheckedVictim) -> str:
        """Why the action never evicts this task for this job; "" if it may."""
        action, job, name = eviction.action, eviction.job, f"task {victim.jid}.{victim.tix}"
        if action == SHUFFLE or action in ASKED_FOR:
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
        """Check that each victim was allowed by all plugins of a tier, one of those named as
        deciding."""
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
                self._report(rule, eviction, problem)
            elif not _is_whole(victim):
                victim.job.spared = True  # a tier without the rule decided

    def _count(self, tiers: list[frozenset[str]]) -> None:
        speaking = frozenset[str]().union(*tiers)
        checked = self._findings.checked
        checked[Rule.EVICTION_POLICY] += 1
        checked[Rule.VICTIM_GANG] += "gang" in speaking
        checked[Rule.VICTIM_GUARANTEE] += bool(speaking & {"capacity", "proportion"})

    def _refusing(
        self, tier: frozenset[str], eviction: Eviction, victim: CheckedVictim
    ) -> Iterator[tuple[Rule, str]]:
        """The plugins of a tier that spare a victim, with the reason."""
        role, job = victim.job.role_of(victim.tix), eviction.job
        if "gang" in tier and not _is_whole(victim):
            yield Rule.VICTIM_GANG, "gang spares it: its gang is left in part"
        if "conformance" in tier and (role.system or victim.job.namespace == _SYSTEM_NAMESPACE):
            yield Rule.EVICTION_POLICY, "conformance spares it: it keeps the cluster alive"
        if "priority" in tier and victim.job is not job and victim.job.priority >= job.priority:
            numbers = f"{victim.job.priority} is not below {job.priority}"
            yield Rule.EVICTION_POLICY, f"priority spares it: {numbers}"
        if "pdb" in tier and (budget := self.budgets.exceeded(victim.jid, victim.tix)):
            yield Rule.EVICTION_POLICY, f"pdb spares it: {budget}"
        between = tier & {"capacity", "proportion"} and eviction.action in BETWEEN_QUEUES
        # proportion asks of what the victim uses alone: a queue that is below its guarantee of cpu
        # gives up who uses none (seed 160213).
        uses = {slot for slot, _ in self._books.nodes.requests(victim.job.cids[victim.tix])}
        slots = None if "capacity" in tier else uses
        if between and (robbed := self._books.queues.robbed(victim.job.qid, slots)):
            yield Rule.VICTIM_GUARANTEE, f"its queue keeps its guarantee: {robbed}"

    def _report(self, rule: Rule, eviction: Eviction, problem: str) -> None:
        reason = eviction.statement.get("reason", "")
        message = f"eviction for job {eviction.jid} ({eviction.job.key}), {reason!r}: {problem}"
        self._findings.add(rule, message)


def _is_whole(victim: CheckedVictim) -> bool:
    """Whether each group of the victim keeps its minimum or nothing. Members that have ended, or
    end by themselves, are not counted as a gang to keep."""
    job = victim.job
    return all(
        not 0 < job.held[above] < job.groups[above][1] or not job.holds(above, RUNNING)
        for above in job.chain(job.group_of[victim.tix])
    )
