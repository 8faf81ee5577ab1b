"""Judges accepted statements: placements, nominations and evictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from laboratory.checker.evictions.evictions import Evictions
from laboratory.checker.ledger.nominations import NominationChecks
from laboratory.checker.ledger.repairs import RepairChecks
from laboratory.checker.ledger.underway import Underway
from laboratory.checker.placement.placement import PlacementChecks
from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import TURN_SECONDS, CheckerBooks
from laboratory.checker.state.device_use import Taken
from laboratory.checker.state.job import BINDING, NOWHERE, PENDING, STATES, CheckedJob
from laboratory.checker.state.kai import GROUP
from laboratory.checker.state.kai_groups import in_part

_TRUE = ("FIT", "NOMINATION", "QUEUE", "RANK")
_ACCEPTED = ("COMMITTED", "RECHECKED")
_READ = ("JOB", "NODE", "TASK", "GANG", "DOMAIN")


class Statements:
    def __init__(
        self,
        books: CheckerBooks,
        *,
        nominations: NominationChecks,
        evictions: Evictions,
        placement: PlacementChecks,
        repairs: RepairChecks,
    ) -> None:
        self.levels = [0, 0, 0, 0, 0]
        self.verdicts: Counter[str] = Counter()
        self.partly: set[tuple[int, int]] = set()
        self.across: set[tuple[int, int]] = set()
        self.twice: set[str] = set()
        self.underway = Underway(books)
        self._books = books
        self._findings = books.findings
        self._nominations = nominations
        self._evictions = evictions
        self._placement = placement
        self._repairs = repairs

    def refusal(self, event: dict[str, Any]) -> None:
        for _, verdict in event["refused"]:
            self.verdicts["true"] += verdict in _TRUE
            self.verdicts["read"] += verdict in _READ

    def commit(self, event: dict[str, Any]) -> None:
        self._findings.checked[Rule.EPOCH] += 1
        if event["shard"] != event["writer"]:
            problem = f"{event['writer']} wrote the statements of shard {event['shard']}"
            self._findings.add(Rule.EPOCH, problem)
        for statement in event["statements"]:
            self.verdicts["committed"] += 1
            self.verdicts["rechecked"] += statement["verdict"] == "RECHECKED"
            job = self._books.jobs.get(statement["jid"])
            if job is None:
                problem = f"job {statement['jid']} was committed but never submitted"
                self._findings.add(Rule.TRANSITION, problem)
                continue
            self._accept(statement, job, event["shard"])

    def _accept(self, statement: dict[str, Any], job: CheckedJob, shard: str) -> None:
        jid, verdict = statement["jid"], statement["verdict"]
        if verdict not in _ACCEPTED:
            problem = f"a statement of job {jid} ({job.key}) took effect, refused as {verdict}"
            self._findings.add(Rule.ONE_EFFECT, problem)
        if job.gone:
            problem = f"job {jid} ({job.key}) was committed after its deletion"
            self._findings.add(Rule.TRANSITION, problem)
        self._nominations.dropped(jid, job, statement["dropped"])
        eviction = None
        if "evict" in statement:
            eviction = self._evictions.happen(statement, job, shard)
            for evicted in {victim.jid for victim in eviction.victims}:
                self._repairs.look(evicted)
            self._nominations.hold_moves(statement)
        alloc, tail = statement["alloc"], statement.get("tail", 0)
        self._within(shard, jid, job, alloc)
        self._within(shard, jid, job, statement["nominate"])
        # The core stands or falls together, so its gang is judged once it is whole; each task of
        # the tail is a step of its own.
        core = len(alloc) - tail
        for tix, row, devices in _devices(statement, alloc):
            job.give(tix, row, devices)
        before = self._in_part(job)
        self._allocate(jid, job, alloc[:core], shard)
        for operation in alloc[core:]:
            self._allocate(jid, job, [operation], shard)
        for name in self._in_part(job) - before:
            problem = f"job {jid} ({job.key}): {f'sub group {name}' if name else 'its tree'}"
            self._findings.add(Rule.GANG_WHOLE, f"{problem} has less than its minimum now")
        if alloc:
            self._placement.placed(jid, job, alloc, shard)
            self.underway.add(jid, job, alloc)
        self._nominations.hold(jid, job, statement)
        if eviction is not None:
            self._evictions.placed(eviction)
        self._in_its_queue(jid, job, statement)
        for *_, level in statement["nominate"]:
            self.levels[level] += 1
        self._repairs.look(jid)

    def _in_its_queue(self, jid: int, job: CheckedJob, statement: dict[str, Any]) -> None:
        """Check that what a job gets is charged to the queue that it names, and its PodGroup."""
        if not job.queue or not (statement["alloc"] or statement["nominate"]):
            return
        self._findings.checked[Rule.CHARGED_QUEUE] += 1
        charged = self._books.kai_queues.name_of(job.qid)
        group, changed = self._books.kai_queues.group_queue(job.key)
        if charged != job.queue:
            problem = f"job {jid} ({job.key}) names queue {job.queue}, and is charged to {charged}"
            self._findings.add(Rule.CHARGED_QUEUE, problem)
        elif job.named and group not in ("", charged) and changed < self._books.t - TURN_SECONDS:
            problem = f"the PodGroup of job {jid} ({job.key}) names queue {group}"
            self._findings.add(Rule.CHARGED_QUEUE, f"{problem}, the job is charged to {charged}")

    def _in_part(self, job: CheckedJob) -> frozenset[str]:
        """Groups of a KAI PodGroup's tree that hold less than they need."""
        policy, facts = self._books.policies.newest, self._books.objects.get(GROUP + job.key)
        if facts is None or policy is None or not policy.kai or not job.named:
            return frozenset()
        return in_part(job, facts, self._books.best_effort)

    def _within(self, shard: str, jid: int, job: CheckedJob, operations: list[list[int]]) -> None:
        self._findings.checked[Rule.BORDER] += len(operations)
        for row in self._books.ownership.foreign(shard, operations):
            problem = f"job {jid} ({job.key}) was placed by shard {shard} on node row {row}"
            self._findings.add(Rule.BORDER, f"{problem}, which was not its own")

    # --- allocations ------------------------------------------------------------------------------

    def _allocate(self, jid: int, job: CheckedJob, operations: list[list[int]], shard: str) -> None:
        books = self._books
        grown: Counter[int] = Counter()
        charged: Counter[int] = Counter()
        for tix, row, cid, level in operations:
            self.levels[level] += 1
            if not self._place(jid, job, tix, row, cid):
                continue
            charged[cid] += 1
            if cid in books.best_effort:
                job.idles(job.group_of[tix], -1)
            else:
                grown[job.group_of[tix]] += 1
            if broken := books.enter_kai_queue(job, tix):
                self._findings.add(Rule.QUEUE_TREE, f"task {jid}.{tix} of {job.key}: {broken}")
            if broken := books.nodes.take(cid, row):
                self._findings.add(Rule.LEDGER_CAPACITY, f"task {jid}.{tix} of {job.key}: {broken}")
            if tix in job.devices:
                self._findings.checked[Rule.DEVICE_CAPACITY] += 1
                if broken := books.devices.take(row, job.devices[tix]):
                    problem = f"task {jid}.{tix} of {job.key}: {broken}"
                    self._findings.add(Rule.DEVICE_CAPACITY, problem)
        self._count(len(operations))
        for cid, count in charged.items():
            if broken := books.queues.charge(job.qid, books.nodes.requests(cid), count):
                self._findings.add(Rule.QUEUE_CAPABILITY, f"job {jid} ({job.key}): {broken}")
        policies = books.policies.of(shard)
        whole = not policies or all(policy.keeps_gangs() for policy in policies)
        self._grow_gangs(jid, job, grown, kept=whole)

    def _count(self, operations: int) -> None:
        checked = self._findings.checked
        for rule in (Rule.BOUND_ONCE, Rule.TRANSITION, Rule.LEDGER_CAPACITY, Rule.QUEUE_CAPABILITY):
            checked[rule] += operations
        policy = self._books.policies.newest
        if policy is not None and policy.kai:
            checked[Rule.QUEUE_TREE] += operations

    def _place(self, jid: int, job: CheckedJob, tix: int, row: int, cid: int) -> bool:
        """Put a task on its node. False, with a finding, if task or node is unknown, or the task is
        not pending."""
        names = self._books.nodes.names
        if tix >= len(job.states) or not job.member[tix] or row not in names:
            problem = f"task {jid}.{tix} of {job.key} on node row {row}"
            message = f"{problem} was committed, but task or node was never submitted"
            self._findings.add(Rule.TRANSITION, message)
            return False
        state = job.states[tix]
        if state != PENDING:
            node_held = names[job.rows[tix]] if job.rows[tix] != NOWHERE else "no node"
            self.twice.add(f"{jid}.{tix}")
            self._findings.add(
                Rule.BOUND_ONCE,
                f"task {jid}.{tix} of {job.key} was committed to node "
                f"{names[row]} while {STATES[state]} on {node_held}",
            )
            return False
        self._expect(cid)
        if (own := job.role_of(tix).cid) not in (NOWHERE, cid):
            problem = f"task {jid}.{tix} of {job.key} was committed as one of class {cid}"
            self._findings.add(Rule.TRANSITION, f"{problem}, it is of class {own}")
        self._books.put_on(job, tix, row, since=self._books.written)
        job.states[tix], job.cids[tix] = BINDING, cid
        self._note_shard(jid, job, job.group_of[tix], row)
        return True

    def _expect(self, cid: int) -> None:
        """Register an unknown class as one without requests. Classes must be in the history before
        their first placement."""
        if not self._books.nodes.known(cid):
            self._books.nodes.put_class(cid, [])
            self._findings.add(Rule.TRANSITION, f"class {cid} was never submitted")

    def _note_shard(self, jid: int, job: CheckedJob, group: int, row: int) -> None:
        shard = self._books.ownership.owner.get(row)
        while group >= 0 and shard is not None:
            parent, minimum = job.groups[group]
            if job.shards[group] is None:
                job.shards[group] = shard
            elif job.shards[group] != shard and minimum > 1:
                self.across.add((jid, group))
            group = parent

    def _grow_gangs(self, jid: int, job: CheckedJob, grown: dict[int, int], *, kept: bool) -> None:
        """Promise 3: no gang, ancestors included, ends up between zero and its minimum. ``kept``:
        all policies that the shard may follow demand it."""
        if not grown:
            return
        before = list(job.held)
        for group, count in grown.items():
            job.hold(group, count)
        if not kept:
            return
        for group in {above for leaf in grown for above in job.chain(leaf)}:
            self._findings.checked[Rule.GANG_WHOLE] += 1
            minimum, old, new = job.groups[group][1], before[group], job.held[group]
            # Only the step into the open interval: a gang that a loss left short may be filled one
            # by one.
            if 0 < new < minimum and not 0 < old < minimum:
                self.partly.add((jid, group))
                self._findings.add(
                    Rule.GANG_WHOLE,
                    f"group {group} of job {jid} ({job.key}) was moved from {old} to {new} "
                    f"held members, its minimum is {minimum}",
                )


def _devices(statement: dict[str, Any], alloc: list[list[int]]) -> Iterator[tuple[int, int, Taken]]:
    """(task, row, devices) of the tasks that the statement places."""
    rows = {operation[0]: operation[1] for operation in alloc}
    for tix, devices in statement.get("devices", ()):
        if tix in rows:
            yield tix, rows[tix], devices
