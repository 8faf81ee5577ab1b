"""Victims that nobody needed: they could have stayed beside all that their statement placed.

preempt and reclaim of Volcano clear one node after the other, and stop when the task fits. So
somebody gets a place on each node that they cleared, and one victim there was in the way; one that
went before it may turn out not to have been. KAI's search gives back whoever still fits where it
was: a surplus member by itself, any other with all of its gang that left.

Judged by amounts and devices, where nothing else can have been in the way, and where no room
appeared while the turn was on its way.
"""

from __future__ import annotations

from collections.abc import Iterator

from laboratory.checker.evictions.eviction import CheckedVictim, Eviction
from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.job import CheckedJob
from laboratory.checker.state.policy import CheckedPolicy

ACTIONS = ("preempt", "reclaim")
TURN_SECONDS = 5.0
"""Room that appeared on a node within this time may not have been known to the worker."""

_OF_THE_NODE = frozenset({"selector", "affinity", "tolerations", "charges", "gpu_share"})
"""Constraints that hold whoever else is on the node, and those that its devices show."""


class NeededVictims:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books

    def judge(self, eviction: Eviction, policies: list[CheckedPolicy]) -> str:
        """Name a victim that could have stayed; "" if there is none. Called when all that the
        statement gives is placed or promised."""
        victims = [victim for victim in eviction.victims if victim.to < 0]
        if eviction.action not in ACTIONS or not policies or not victims:
            return ""
        if not all(policy.evicts_for_room(eviction.action) for policy in policies):
            return ""
        is_kai = all(policy.kai for policy in policies)
        surplus = self._of_kai if is_kai else self._on_cleared_nodes
        for victim in surplus(eviction, victims):
            where = self._books.nodes.names[victim.row]
            name = f"task {victim.jid}.{victim.tix} of {victim.job.key}"
            return f"{name} could have stayed on {where} beside all who were placed"
        return ""

    def _of_kai(self, eviction: Eviction, victims: list[CheckedVictim]) -> Iterator[CheckedVictim]:
        gets = eviction.gets
        for unit in _units(victims):
            rows = {victim.row for victim in unit}
            plain = all(self._is_plain(cid) for _, row, cid, _ in gets if row in rows)
            if plain and all(self._is_judged(victim, eviction.job) for victim in unit):
                self._count(len(unit))
                if self._fit_back(unit):
                    yield from unit

    def _on_cleared_nodes(
        self, eviction: Eviction, victims: list[CheckedVictim]
    ) -> Iterator[CheckedVictim]:
        gets = eviction.gets
        for row in dict.fromkeys(victim.row for victim in victims):
            on_row = [victim for victim in victims if victim.row == row]
            if not all(self._is_plain(cid) for _, at, cid, _ in gets if at == row):
                continue
            if not all(self._is_judged(victim, eviction.job) for victim in on_row):
                continue
            self._count(len(on_row))
            if all(self._fit_back([victim]) for victim in on_row):
                yield from on_row

    def _count(self, victims: int) -> None:
        self._books.findings.checked[Rule.VICTIM_NEEDED] += victims

    # --- one victim -------------------------------------------------------------------------------

    def _is_plain(self, cid: int) -> bool:
        """Whether a task of the class needs nothing of its node but amounts and devices."""
        rules = self._books.rules.get(cid, {})
        return rules.keys() <= _OF_THE_NODE and not self._books.nodes.has_things(cid)

    def _is_judged(self, victim: CheckedVictim, beneficiary: CheckedJob) -> bool:
        books, row = self._books, victim.row
        if not self._is_plain(victim.job.cids[victim.tix]):
            return False
        if books.nodes.relieved.get(row, 0.0) > books.t - TURN_SECONDS:
            return False
        facts = books.node_facts.get(row, {})
        if facts.get("taints") or facts.get("unschedulable"):
            return False
        return not self._is_bounded(victim.job, beneficiary)

    def _is_bounded(self, victim: CheckedJob, beneficiary: CheckedJob) -> bool:
        """Whether a bound of a queue may have been in the way: of one above both, or of any that
        is KAI's, where the victim would have to be placed anew."""
        queues, kai = self._books.queues, self._books.kai_queues
        shared = {*queues.branch(victim.qid)} & {*queues.branch(beneficiary.qid)}
        return any(map(queues.is_bounded, shared)) or any(
            map(kai.is_limited, kai.branch(victim.qid))
        )

    def _fit_back(self, unit: list[CheckedVictim]) -> bool:
        """Whether all of these could be on their nodes beside everybody who stays or comes."""
        nodes, devices = self._books.nodes, self._books.devices
        placed = [(victim.job.cids[victim.tix], victim.row) for victim in unit]
        for cid, row in placed:
            nodes.nominate(cid, row)
        fits = all(nodes.has_room(cid, row) for cid, row in placed)
        for cid, row in placed:
            nodes.end_nomination(cid, row)
        taken: dict[int, list[tuple[str, list[int]]]] = {}
        for victim in unit:
            taken.setdefault(victim.row, []).extend(victim.job.devices.get(victim.tix, ()))
        return fits and all(devices.spare(row, parts) for row, parts in taken.items())


def _units(victims: list[CheckedVictim]) -> list[list[CheckedVictim]]:
    """Victims that could have stayed independently of the others: each surplus member of a gang
    that keeps its minimum, else all of a job together."""
    units: list[list[CheckedVictim]] = []
    for jid in dict.fromkeys(victim.jid for victim in victims):
        of_job = [victim for victim in victims if victim.jid == jid]
        job = of_job[0].job
        groups = {above for victim in of_job for above in job.chain(job.group_of[victim.tix])}
        if all(job.held[group] >= job.groups[group][1] for group in groups):
            units += [[victim] for victim in of_job]
        else:
            units.append(of_job)
    return units
