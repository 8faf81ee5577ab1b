"""Rules for victims that KAI's actions keep whatever their plugins decide.

Judged from KAI's own objects. Fair shares are not: they depend on all that was asked for at that
moment.
"""

from __future__ import annotations

from collections.abc import Iterator

from laboratory.checker.evictions.eviction import CheckedVictim, Eviction
from laboratory.checker.evictions.kai_min_runtime import MinRuntimes
from laboratory.checker.evictions.kai_shares import KaiShares
from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.job import RUNNING
from laboratory.checker.state.kai import GROUP
from laboratory.checker.state.kai_groups import in_part
from laboratory.checker.state.policy import CheckedPolicy

STALE = "stalegangeviction"
ACTIONS = frozenset({"consolidation", "preempt", "reclaim", STALE})


class KaiVictims:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books
        self._min_runtimes = MinRuntimes(books)
        self._shares = KaiShares(books)

    def misnamed(self, eviction: Eviction) -> str:
        """Explain a wrong beneficiary of the eviction; "" where it is as the action says."""
        gets = eviction.statement["alloc"] or eviction.statement["nominate"]
        if eviction.action == STALE:
            return "somebody gets what they leave" if gets else ""
        if not gets:
            return "nobody gets what they leave"
        if not eviction.beneficiary.startswith(eviction.job.key):
            return f"it was said to be for {eviction.beneficiary or 'nobody'}"
        return ""

    def wrong(
        self, eviction: Eviction, policies: list[CheckedPolicy]
    ) -> Iterator[tuple[Rule, str]]:
        """Yield the violations of each victim. ``policies``: those that may have been in force."""
        for victim in eviction.victims:
            name = f"task {victim.jid}.{victim.tix} of {victim.job.key}"
            if why := self._forbidden(eviction, victim):
                yield Rule.EVICTION_POLICY, f"{name} {why}"
        if eviction.action == STALE:
            return
        for problem in self._shares.robbed(eviction, policies):
            yield Rule.RECLAIMED_SHARE, problem
        for jid in dict.fromkeys(victim.jid for victim in eviction.victims):
            victims = [victim for victim in eviction.victims if victim.jid == jid]
            if not self._whole(victims):
                problem = f"the gang of job {jid} ({victims[0].job.key}) was left in part"
                yield Rule.VICTIM_GANG, problem
            if broken := self._min_runtimes.broken(eviction, victims, policies):
                yield Rule.MIN_RUNTIME, f"job {jid} ({victims[0].job.key}): {broken}"

    def _forbidden(self, eviction: Eviction, victim: CheckedVictim) -> str:
        action, job = eviction.action, eviction.job
        if action == STALE:
            return "" if victim.job is job else "is of another job"
        if victim.job is job:
            return "is its own"
        if not self._books.kai_queues.preemptible(victim.job.key, victim.job.priority):
            return "may not be evicted by anybody"
        if action == "reclaim" and victim.job.qid == job.qid:
            return "is of the same queue, from which nothing is reclaimed"
        if action == "preempt" and victim.job.qid != job.qid:
            return "is of another queue, and preempt stays within one"
        if action == "preempt" and victim.job.priority >= job.priority:
            return f"is as important: {victim.job.priority} is not below {job.priority}"
        if action == "consolidation" and victim.to < 0:
            return "was promised no other place"
        return ""

    def _whole(self, victims: list[CheckedVictim]) -> bool:
        """Whether a gang is gone or keeps its minimum, with those of it that move. One that was in
        part before the eviction is no gang to keep."""
        job = victims[0].job
        moved_tasks = [victim.tix for victim in victims if victim.to >= 0]
        facts = self._books.objects.get(GROUP + job.key)
        if facts is not None and facts.get("sub_groups"):
            # Its other members have ended: nobody is left of whom a part could be missing.
            empty = not job.holds(0, RUNNING)
            return bool(moved_tasks) or empty or not in_part(job, facts, self._books.best_effort)
        for above in dict.fromkeys(a for v in victims for a in job.chain(job.group_of[v.tix])):
            evicted_count = sum(above in job.chain(job.group_of[victim.tix]) for victim in victims)
            remaining = job.held[above] + sum(
                above in job.chain(job.group_of[t]) for t in moved_tasks
            )
            minimum = job.groups[above][1]
            was_whole = job.held[above] + evicted_count >= minimum
            if was_whole and 0 < remaining < minimum and job.holds(above, RUNNING):
                return False
        return True
