"""The claim of a reclaiming queue, as far as a history shows it: nobody reclaims beyond its due.

Volcano's plugin capacity lets a queue reclaim for a task if the queue stays within what it deserves
of some resource that the task requests. A queue of KAI's stays, with all that the job gets, within
its fair share of every resource. That share depends on all demands of the moment, but it is never
more than the queue's limit, nor more than its quota if the queue has no weight for the rest.
"""

from __future__ import annotations

from laboratory.checker.evictions.eviction import Eviction
from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.job import CheckedJob
from laboratory.checker.state.policy import CheckedPolicy

_RESOURCES = ("cpu", "memory", "gpu")
_UNLIMITED = -1
_NEW_SECONDS = 2.0
"""For so long a change of a queue may be in the ledger and not in the books of whoever decides."""


class QueueClaims:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books

    def exceeded(self, eviction: Eviction, policies: list[CheckedPolicy]) -> str:
        """Explain why the job's queue may not reclaim for it; "" if it may, or if that is not
        known. Called when the victims have begun to leave, and nobody has their places yet."""
        cids = [cid for _, _, cid, _ in eviction.gets]
        if eviction.action != "reclaim" or not policies or not cids:
            return ""
        if all(policy.kai for policy in policies):
            return self._beyond_share(eviction.job, cids)
        if all(policy.bounds_reclaims() for policy in policies):
            return self._undeserved(eviction.job, cids)
        return ""

    def _undeserved(self, job: CheckedJob, cids: list[int]) -> str:
        """Volcano's bound, for one task alone: others of the job may have come to free nodes."""
        queues = self._books.queues
        if self._books.t - queues.changed < _NEW_SECONDS:
            return ""
        self._books.findings.checked[Rule.RECLAIM_CLAIM] += 1
        deserved, has = queues.deserved(job.qid), queues.staying(job.qid)
        for slot, amount in self._books.taken_lately(job.qid):
            has[slot] = has.get(slot, 0) - amount
        lacking = {
            slot: f"{has.get(slot, 0)} + {amount} of {deserved.get(slot, 0)}"
            for cid in cids
            for slot, amount in self._books.nodes.requests(cid)
        }
        within = any(
            has.get(slot, 0) + amount <= deserved.get(slot, 0)
            for cid in cids
            for slot, amount in self._books.nodes.requests(cid)
        )
        listed = "; ".join(f"slot {slot}: {amounts}" for slot, amounts in lacking.items())
        return "" if within else f"its queue has no claim: {listed} that it deserves"

    def _beyond_share(self, job: CheckedJob, cids: list[int]) -> str:
        """KAI's bound, for all that the job gets."""
        queues = self._books.kai_queues
        branch = queues.branch(job.qid)
        if not branch or self._books.t - queues.changed < _NEW_SECONDS:
            return ""
        self._books.findings.checked[Rule.RECLAIM_CLAIM] += 1
        asks = [self._amounts(job, list(self._books.nodes.requests(cid))) for cid in cids]
        late = self._amounts(job, self._books.taken_lately(job.qid))
        for at, resource in enumerate(_RESOURCES):
            asked = sum(amounts[at] for amounts in asks)
            has, most = (
                queues.staying(branch[0])[at] - late[at],
                queues.largest_share(branch[0])[at],
            )
            if asked and most != _UNLIMITED and has + asked > most:
                return (
                    f"queue {branch[0]} has no claim: it holds {has} of {resource} and asks for "
                    f"{asked}, its share is at most {most}"
                )
        return ""

    def _amounts(self, job: CheckedJob, requests: list[tuple[int, int]]) -> tuple[int, int, int]:
        queues = self._books.kai_queues
        charge = queues.charge_of(job.qid, job.key, job.priority, requests)
        return (0, 0, 0) if charge is None else charge[1]
