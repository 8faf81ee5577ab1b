"""Replays the evictions of a history: victims, beneficiaries, and remaining gangs."""

from __future__ import annotations

from typing import Any

from laboratory.checker.evictions.eviction import CheckedVictim, Eviction
from laboratory.checker.evictions.victims import (
    GANG,
    GUARANTEE,
    REST,
    VictimChecks,
)
from laboratory.checker.placement.placement import PlacementChecks
from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.job import (
    BOUND,
    RELEASING,
    RUNNING,
    STATES,
    SUCCEEDED,
    CheckedJob,
)


class Evictions:
    def __init__(self, books: CheckerBooks, placement: PlacementChecks) -> None:
        self.tasks = 0
        """Number of evictions so far."""
        self._books = books
        self._placement = placement
        self._findings = books.findings
        self.victims = VictimChecks(books)

    def happen(self, statement: dict[str, Any], job: CheckedJob, shard: str) -> Eviction:
        """Apply the evictions of a statement."""
        eviction = Eviction(statement, job, shard)
        self.victims.before(eviction)
        for jid, spec, cid, _, tasks, rows, guards, *moves in statement["evict"]:
            to = moves[0] if moves else [-1] * len(tasks)
            owner = self._books.jobs.get(jid)
            if owner is None:
                problem = f"tasks of job {jid} were evicted, which was never submitted"
                self._findings.add(Rule.TRANSITION, problem)
                continue
            if owner.gone or owner.spec != spec:
                why = "its deletion" if owner.gone else f"it had changed to {owner.spec}"
                problem = f"job {jid} ({owner.key}) as of {spec} was evicted after {why}"
                self._findings.add(Rule.TRANSITION, problem)
            for tix, row, new in zip(tasks, rows, to, strict=True):
                ran = tix < len(owner.states) and owner.states[tix] == RUNNING
                if self._leave(jid, owner, tix, (row, cid)):
                    eviction.victims.append(CheckedVictim(jid, owner, tix, row, guards, ran, new))
        # When all victims of the statement have left, as the script does: a gang that goes as a
        # whole is in part in between (decision 0028).
        self._guards(eviction)
        self.victims.judge(eviction)
        return eviction

    def placed(self, eviction: Eviction) -> None:
        """Judge what was left open until the statement's tasks were placed."""
        self.victims.placed(eviction)
        for victim in eviction.victims:
            self._books.relieve(victim.row)

    def _leave(self, jid: int, job: CheckedJob, tix: int, at: tuple[int, int]) -> bool:
        row, cid = at
        self._findings.checked[Rule.TRANSITION] += 1
        state = job.states[tix] if tix < len(job.states) else -1
        if state not in (BOUND, RUNNING) or (job.rows[tix], job.cids[tix]) != at:
            was = "never submitted" if state < 0 else f"{STATES[state]} on row {job.rows[tix]}"
            problem = f"task {jid}.{tix} of {job.key} was evicted from row {row} (class {cid})"
            self._findings.add(Rule.TRANSITION, f"{problem}, but it was {was}")
            return False
        job.states[tix] = RELEASING
        job.changed[tix] = self._findings.line
        job.evicted.add(tix)
        self.tasks += 1
        self._books.release(job, tix, row)
        self._placement.leaving(job, tix)
        job.hold(job.group_of[tix], -1)
        return True

    def _guards(self, eviction: Eviction) -> None:
        """Check what the statement itself promised to keep intact, for each victim."""
        for victim in (v for v in eviction.victims if v.guards & GANG):
            for above in victim.job.chain(victim.job.group_of[victim.tix]):
                members, minimum = victim.job.held[above], victim.job.groups[above][1]
                self._findings.checked[Rule.VICTIM_GANG] += 1
                if victim.guards // REST < members < minimum:
                    problem = f"group {above} of job {victim.jid} ({victim.job.key}) was left with"
                    message = (
                        f"{problem} {members} members by an eviction, its minimum is {minimum}"
                    )
                    self._findings.add(Rule.VICTIM_GANG, message)
        for victim in (v for v in eviction.victims if v.guards & GUARANTEE):
            self._findings.checked[Rule.VICTIM_GUARANTEE] += 1
            if robbed := self._books.queues.robbed(victim.job.qid):
                problem = f"job {victim.jid} ({victim.job.key}) lost tasks: {robbed}"
                self._findings.add(Rule.VICTIM_GUARANTEE, problem)

    # --- afterwards -------------------------------------------------------------------------------

    def members_after(self, job: CheckedJob, tix: int, state: int) -> int:
        """Change of its group's member count when a task ends, or becomes pending again."""
        if tix not in job.evicted:
            return 0 if state == SUCCEEDED else -1
        job.evicted.discard(tix)
        if state == 0:
            job.incarnations[tix] = job.incarnations.get(tix, 0) + 1
        return 1 if state == SUCCEEDED else 0

    def adopted(self, job: CheckedJob, tix: int, state: int) -> None:
        """The cluster has a task elsewhere: if it runs there, it was not evicted."""
        if tix in job.evicted and state != RELEASING:
            job.evicted.discard(tix)
            job.hold(job.group_of[tix], 1)
