"""Bound of a reclaim in a KAI queue, as far as a history shows it.

A queue loses what it has beyond its share, or, to one within its quota, what it has beyond its own
quota. Shares depend on all that was asked for at the moment of the decision and are not known here.
But no queue is held to less than its quota, or its limit where that is lower. So whatever the
shares are: before the last that a reclaim takes, the queue has more than that of some resource.
Queues are compared just below the lowest one that is above both.
"""

from __future__ import annotations

from laboratory.checker.evictions.eviction import CheckedVictim, Eviction
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.job import PENDING, RELEASING, CheckedJob
from laboratory.checker.state.kai import Amounts
from laboratory.checker.state.policy import CheckedPolicy

PLUGIN = "proportion"
TURN_SECONDS = 2.0
"""For so long a turn may have been on its way: what ended by itself since then counted."""
NEW_SECONDS = 2.0
"""For so long a change of a queue may be in the ledger and not in the books of whoever decides."""
_RESOURCES = ("cpu", "memory", "gpu")
_UNLIMITED = -1


class KaiShares:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books

    def robbed(self, eviction: Eviction, policies: list[CheckedPolicy]) -> list[str]:
        """The queues that lose more than they may, with what they have left."""
        queues = self._books.kai_queues
        if eviction.action != "reclaim" or not policies:
            return []
        if any(policy.arguments(PLUGIN) is None for policy in policies):
            return []
        if self._books.t - queues.changed < NEW_SECONDS:
            return []
        flat = any(policy.flat for policy in policies)
        losing: dict[str, list[CheckedVictim]] = {}
        for victim in eviction.victims:
            name = self._leveled(eviction.job.qid, victim.job.qid, flat=flat)
            if name:
                losing.setdefault(name, []).append(victim)
        problems = (self._left(name, victims) for name, victims in losing.items())
        return [problem for problem in problems if problem]

    def _leveled(self, mine: int, theirs: int, *, flat: bool) -> str:
        """The victim's queue where the two branches of the tree part; "" where there is none."""
        queues = self._books.kai_queues
        branch = queues.branch(theirs)
        if flat:
            return branch[0] if branch else ""
        shared = set(queues.branch(mine))
        return next((name for name in reversed(branch) if name not in shared), "")

    def _left(self, name: str, victims: list[CheckedVictim]) -> str:
        """Explain how much too little the queue keeps; "" where it may lose that much, or where its
        GPUs are not known (pods that share one report it otherwise). Tasks that move stay in the
        queue."""
        queues = self._books.kai_queues
        jobs = [job for job in self._books.jobs.values() if name in queues.branch(job.qid)]
        if any(self._shares_gpus(job) for job in jobs):
            return ""
        stays = _sum(
            [
                queues.staying(name),
                *map(self._ended, jobs),
                *map(self._promised, jobs),
                *map(self._asked_for, jobs),
                *(self._amounts(victim.job, victim.tix) for victim in victims if victim.to >= 0),
            ]
        )
        bound = queues.least_bound(name)
        parts: dict[int, list[Amounts]] = {}
        for victim in (victim for victim in victims if victim.to < 0):
            parts.setdefault(victim.jid, []).append(self._amounts(victim.job, victim.tix))
        if not parts:
            return ""
        for amounts in parts.values():
            before = _sum([stays, *amounts])
            if any(_beyond(has, most) for has, most in zip(before, bound, strict=True)):
                return ""
        listed = ", ".join(
            f"{resource} {has} of {most}"
            for resource, has, most in zip(_RESOURCES, stays, bound, strict=True)
            if most != _UNLIMITED
        )
        return f"queue {name} keeps {listed or 'all it has: it is unlimited'}"

    def _promised(self, job: CheckedJob) -> Amounts:
        """Amounts promised to a job, also just before the turn. They count in its queue as in KAI's
        session, where allocate has come before."""
        if job.unpromised is not None and job.unpromised <= self._books.t - TURN_SECONDS:
            return _NONE
        return _sum([self._of_class(job, cid) for cid in job.promised])

    def _asked_for(self, job: CheckedJob) -> Amounts:
        """Amounts of tasks that may have been asked for in the turn that placed others of the job:
        while such a turn is out all of its tasks count in the queue."""
        since = self._books.t - TURN_SECONDS
        if all(at <= since for at in job.since):
            return _NONE
        waiting = (tix for tix, state in enumerate(job.states) if state == PENDING)
        classes = [job.role_of(tix).cid for tix in waiting if job.member[tix]]
        return _sum([self._of_class(job, cid) for cid in classes])

    def _amounts(self, job: CheckedJob, tix: int) -> Amounts:
        """Amounts of a task in its queues."""
        return self._of_class(job, job.cids[tix])

    def _of_class(self, job: CheckedJob, cid: int) -> Amounts:
        requests = self._books.nodes.requests(cid)
        charge = self._books.kai_queues.charge_of(job.qid, job.key, job.priority, requests)
        return _NONE if charge is None else charge[1]

    def _ended(self, job: CheckedJob) -> Amounts:
        """Amounts of the job's tasks that ended, or began to, by themselves while the turn was on
        its way."""
        since = self._books.t - TURN_SECONDS
        ended = (tix for tix, at in job.left.items() if at > since)
        return _sum([self._amounts(job, tix) for tix in ended if job.states[tix] >= RELEASING])

    def _shares_gpus(self, job: CheckedJob) -> bool:
        return any(not self._amounts(job, tix)[2] for tix in job.devices)


def _sum(amounts: list[Amounts]) -> Amounts:
    cpu, memory, gpu = (sum(column) for column in zip(*amounts, strict=True)) if amounts else _NONE
    return cpu, memory, gpu


_NONE = (0, 0, 0)


def _beyond(has: int, most: int) -> bool:
    return most != _UNLIMITED and has > most
