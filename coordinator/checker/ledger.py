"""The ledger's side of a history, played again: promises 1 to 3 and 5, half of 4 and of 6.

The ledger's events are in the order in which its changes happened, so that each can be judged when
it is read.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from coordinator.checker.borders import Borders
from coordinator.checker.capacity import Nodes, Queues
from coordinator.checker.evictions import Evictions
from coordinator.checker.job import (
    BINDING,
    BOUND,
    FAILED,
    NOWHERE,
    PENDING,
    RELEASING,
    RUNNING,
    STATES,
    SUCCEEDED,
    Job,
)
from coordinator.checker.repairs import Repairs
from coordinator.checker.report import Findings

_NUMBERS = {name: number for number, name in enumerate(STATES)}
_FROM = {
    PENDING: (BINDING,),
    BOUND: (BINDING,),
    RUNNING: (BINDING, BOUND),
    RELEASING: (BINDING, BOUND, RUNNING),
    SUCCEEDED: (BINDING, BOUND, RUNNING, RELEASING),
    FAILED: (PENDING, BINDING, BOUND, RUNNING, RELEASING),
}
"""From which states a task may come to each."""

_TRUE = ("FIT", "NOMINATION", "QUEUE", "RANK")
_READ = ("JOB", "NODE", "TASK", "GANG", "DOMAIN")


class LedgerSide:
    """Feed it the ledger's events in file order."""

    def __init__(self, findings: Findings) -> None:
        self.jobs: dict[int, Job] = {}
        self.nodes = Nodes()
        self.levels = [0, 0, 0, 0, 0]
        self.verdicts: Counter[str] = Counter()
        self.partly: set[tuple[int, int]] = set()
        self.across: set[tuple[int, int]] = set()
        self.twice: set[str] = set()
        self._findings = findings
        self._queues = Queues()
        self._repairs = Repairs(findings)
        self.evictions = Evictions(
            jobs=self.jobs,
            nodes=self.nodes,
            queues=self._queues,
            findings=findings,
            hold=self._hold,
        )
        self._t = 0.0
        self._best_effort: set[int] = set()
        self._nominations: dict[int, list[tuple[int, int]]] = {}  # jid -> [(cid, row)]
        self._row_of: dict[str, int] = {}
        self._borders = Borders()
        self._effects: dict[tuple[str, str, int], str] = {}
        self._last = (-1, -1)
        self._more = False
        self._handlers = {
            "class": self._classes,
            "node": self._nodes,
            "node_gone": self._nodes_gone,
            "observe": self._observe,
            "queue": self._put_queues,
            "queue_gone": self._queues_gone,
            "job": self._jobs,
            "job_gone": self._jobs_gone,
            "job_forgotten": self._jobs_forgotten,
            "object": self._nothing,
            "epoch": self._nothing,
            "partition": self._partition,
            "commit": self._commit,
            "refusal": self._refusal,
            "status": self._status,
            "adopted": self._adopted,
            "lapsed": self._lapsed,
        }

    def feed(self, event: dict[str, Any]) -> None:
        self._once(event)
        self._t = event["t"]
        self._handlers[event["ev"]](event)

    def settle(self) -> None:
        """The history ends."""
        self._repairs.settle(self._t)

    def _once(self, event: dict[str, Any]) -> None:
        """Promise 5: one request, one effect; and an entry of the log happens once."""
        milliseconds, _, number = event["id"].partition("-")
        at = (int(milliseconds), int(number or 0))
        if at < self._last or (at == self._last and not self._more):
            self._findings.add(5, f"log entry {event['id']} takes effect again")
        self._last, self._more = at, "more" in event
        if "seq" in event:
            request = (event["writer"], event["epoch"], event["seq"])
            first = self._effects.setdefault(request, event["id"])
            if first != event["id"]:
                writer, epoch, sequence = request
                self._findings.add(
                    5,
                    f"request {sequence} of {writer} (epoch {epoch}) took effect as {first} "
                    f"and again as {event['id']}",
                )

    # --- objects --------------------------------------------------------------------------------

    def _nothing(self, event: dict[str, Any]) -> None:
        pass

    def _classes(self, event: dict[str, Any]) -> None:
        for item in event["classes"]:
            self.nodes.put_class(item["cid"], item["requests"])
            if item["best_effort"]:
                self._best_effort.add(item["cid"])

    def _nodes(self, event: dict[str, Any]) -> None:
        for item in event["nodes"]:
            row = self._row_of.setdefault(item["name"], item["row"])
            if row != item["row"]:
                message = f"node {item['name']} is row {item['row']}, it was row {row}"
                self._findings.add(2, f"{message}: what is still there counts for neither")
            self.nodes.put_node(item["row"], item["name"], item["allocatable"])

    def _nodes_gone(self, event: dict[str, Any]) -> None:
        for row in event["rows"]:
            self.nodes.drop_node(row)

    def _observe(self, event: dict[str, Any]) -> None:
        for item in event["nodes"]:
            self.nodes.observe(item["row"], item["used"])

    def _put_queues(self, event: dict[str, Any]) -> None:
        for item in event["queues"]:
            kept = item.get("guarantee", ())
            self._queues.put(item["qid"], item["parent"], item["capability"], kept)

    def _partition(self, event: dict[str, Any]) -> None:
        for wrong in self._borders.put(event):
            self._findings.add(4, wrong)

    def _jobs(self, event: dict[str, Any]) -> None:
        for item in event["jobs"]:
            job = self.jobs.get(item["jid"])
            if job is None:
                job = self.jobs[item["jid"]] = Job(item["key"], self._findings.line)
            elif job.spec != item["spec"]:
                self._end_nomination(item["jid"])
            self._move(job, item["qid"])
            job.spec = item["spec"]
            self._set_groups(job, item["groups"])
            self._set_members(job, item["roles"], event["t"])

    def _move(self, job: Job, qid: int) -> None:
        """What a job uses counts for the queue that it is in now."""
        if job.qid not in (-1, qid):
            for tix, state in enumerate(job.states):
                if BINDING <= state <= RELEASING:
                    requests = self.nodes.requests(job.cids[tix])
                    self._queues.charge(job.qid, requests, -1)
                    self._queues.charge(qid, requests, 1)
                    if state == RELEASING:
                        self._queues.leave(job.qid, requests, -1)
                        self._queues.leave(qid, requests, 1)
        job.qid = qid

    def _set_groups(self, job: Job, groups: list[list[int]]) -> None:
        """A group that is no longer named keeps its members, without a minimum."""
        named = len(groups)
        job.groups = groups + [[parent, 0] for parent, _ in job.groups[named:]]
        grown = len(job.groups) - len(job.held)
        job.held += [0] * grown
        job.best_effort += [0] * grown
        job.shards += [None] * grown

    def _set_members(self, job: Job, roles: list[list[int]], t: float) -> None:
        job.grow(max((first + count for _, first, count, _ in roles), default=0), t)
        job.member = bytearray(len(job.states))
        waiting = [0] * len(job.groups)
        for cid, first, count, group in roles:
            job.member[first : first + count] = b"\1" * count
            job.group_of[first : first + count] = [group] * count
            if cid in self._best_effort:
                job.cids[first : first + count] = [cid] * count
                waiting[group] += count - job.states.count(FAILED, first, first + count)
        for group, count in enumerate(waiting):
            if more := count - job.best_effort[group]:
                job.best_effort[group] = count
                self._hold(job, group, more)

    def _jobs_gone(self, event: dict[str, Any]) -> None:
        for jid in event["jids"]:
            if jid in self.jobs:
                self.jobs[jid].gone = True
            self._end_nomination(jid)

    def _jobs_forgotten(self, event: dict[str, Any]) -> None:
        """Promise 6: nothing is forgotten that still holds a node."""
        for jid in event["jids"]:
            job = self.jobs.get(jid)
            if job is None or job.forgotten:
                continue
            job.forgotten = True
            held = [tix for tix, s in enumerate(job.states) if BINDING <= s <= RELEASING]
            if not job.gone or held:
                why = f"task {held[0]} is {STATES[job.states[held[0]]]}" if held else "not deleted"
                self._findings.add(6, f"job {jid} ({job.key}) was forgotten, but {why}")

    def _queues_gone(self, event: dict[str, Any]) -> None:
        for qid in event["qids"]:
            if broken := self._queues.drop(qid):
                self._findings.add(6, broken)

    # --- statements -----------------------------------------------------------------------------

    def _refusal(self, event: dict[str, Any]) -> None:
        for _, verdict in event["refused"]:
            self.verdicts["true"] += verdict in _TRUE
            self.verdicts["read"] += verdict in _READ

    def _commit(self, event: dict[str, Any]) -> None:
        for statement in event["statements"]:
            self.verdicts["committed"] += 1
            self.verdicts["rechecked"] += statement["verdict"] == "RECHECKED"
            jid = statement["jid"]
            job = self.jobs.get(jid)
            if job is None:
                self._findings.add(6, f"job {jid} was committed but never submitted")
                continue
            if job.gone:
                self._findings.add(6, f"job {jid} ({job.key}) was committed after its deletion")
            self._end_nomination(jid)
            for other in statement["dropped"]:
                self._end_nomination(other)
            for victim in self.evictions.happen(statement):
                self._repairs.moved(victim, self.jobs[victim], self._t)
            alloc = statement["alloc"]
            for row in self._borders.foreign(event["shard"], alloc + statement["nominate"]):
                what = (
                    f"job {jid} ({job.key}) was placed by shard {event['shard']} on node row {row}"
                )
                self._findings.add(4, f"{what}, which was not its own")
            core = len(alloc) - statement.get("tail", 0)
            self._allocate(jid, job, alloc[:core])
            for operation in alloc[core:]:
                self._allocate(jid, job, [operation])
            if statement["nominate"]:
                self._nominate(jid, job, statement["nominate"])

    def _allocate(self, jid: int, job: Job, operations: list[list[int]]) -> None:
        """Operations that are judged together: a core, or one of the tail."""
        classes: dict[int, int] = {}
        grown: dict[int, int] = {}
        for tix, row, cid, level in operations:
            self.levels[level] += 1
            if not self._place(jid, job, tix, row, cid):
                continue
            if broken := self.nodes.take(cid, row):
                self._findings.add(2, f"task {jid}.{tix} of {job.key}: {broken}")
            classes[cid] = classes.get(cid, 0) + 1
            if cid not in self._best_effort:
                group = job.group_of[tix]
                grown[group] = grown.get(group, 0) + 1
        for cid, count in classes.items():
            if broken := self._queues.charge(job.qid, self.nodes.requests(cid), count):
                self._findings.add(2, f"job {jid} ({job.key}): {broken}")
        self._grow_gangs(jid, job, grown)

    def _place(self, jid: int, job: Job, tix: int, row: int, cid: int) -> bool:
        """Promise 1 in the ledger: only a pending task is committed, and promise 6: one we know."""
        if tix >= len(job.states) or not job.member[tix] or row not in self.nodes.names:
            what = f"task {jid}.{tix} of {job.key} on node row {row}"
            self._findings.add(6, f"{what} was committed, but task or node was never submitted")
            return False
        state = job.states[tix]
        if state != PENDING:
            held = self.nodes.names[job.rows[tix]] if job.rows[tix] != NOWHERE else "no node"
            self.twice.add(f"{jid}.{tix}")
            self._findings.add(
                1,
                f"task {jid}.{tix} of {job.key} was committed to node "
                f"{self.nodes.names[row]} while {STATES[state]} on {held}",
            )
            return False
        if job.rows[tix] != NOWHERE:
            job.earlier.setdefault(tix, []).append(job.rows[tix])
        job.states[tix], job.rows[tix], job.cids[tix] = BINDING, row, cid
        job.changed[tix] = self._findings.line
        self._note_shard(jid, job, job.group_of[tix], row)
        return True

    def _note_shard(self, jid: int, job: Job, group: int, row: int) -> None:
        shard = self._borders.owner.get(row)
        while group >= 0 and shard is not None:
            parent, minimum = job.groups[group]
            if job.shards[group] is None:
                job.shards[group] = shard
            elif job.shards[group] != shard and minimum > 1:
                self.across.add((jid, group))
            group = parent

    def _grow_gangs(self, jid: int, job: Job, grown: dict[int, int]) -> None:
        """Promise 3: no gang, parents included, is moved to between nothing and its minimum."""
        before = list(job.held)
        for group, count in grown.items():
            self._hold(job, group, count)
        self._repairs.moved(jid, job, self._t)
        for group in {above for leaf in grown for above in job.chain(leaf)}:
            minimum, old, new = job.groups[group][1], before[group], job.held[group]
            if 0 < new < minimum and not 0 < old < minimum:
                self.partly.add((jid, group))
                self._findings.add(
                    3,
                    f"group {group} of job {jid} ({job.key}) was moved from {old} to {new} "
                    f"held members, its minimum is {minimum}",
                )

    def _hold(self, job: Job, group: int, count: int) -> None:
        while group >= 0:
            job.held[group] += count
            group = job.groups[group][0]

    def _nominate(self, jid: int, job: Job, operations: list[list[int]]) -> None:
        kept = self._nominations.setdefault(jid, [])
        for tix, row, cid, level in operations:
            self.levels[level] += 1
            if row not in self.nodes.names:
                self._findings.add(6, f"task {jid}.{tix} was nominated to unknown row {row}")
                continue
            kept.append((cid, row))
            if broken := self.nodes.nominate(cid, row):
                self._findings.add(2, f"nomination of {jid}.{tix} of {job.key}: {broken}")

    def _end_nomination(self, jid: int) -> None:
        for cid, row in self._nominations.pop(jid, ()):
            self.nodes.end_nomination(cid, row)

    def _lapsed(self, event: dict[str, Any]) -> None:
        for jid in event["jids"]:
            self._end_nomination(jid)

    # --- what became of tasks -------------------------------------------------------------------

    def _status(self, event: dict[str, Any]) -> None:
        for name, jid, tasks, rows in event["items"]:
            job, state = self.jobs.get(jid), _NUMBERS[name]
            if job is None:
                self._findings.add(6, f"job {jid} got state {name} but was never submitted")
                continue
            if job.forgotten:
                self._findings.add(6, f"job {jid} ({job.key}) got state {name}, but is forgotten")
            for tix, row in zip(tasks, rows, strict=True):
                self._change(jid, job, tix, row, state)

    def _adopted(self, event: dict[str, Any]) -> None:
        """The ledger followed the cluster: what is too much on a node came from outside."""
        for name, jid, tasks, rows, cid, group in event["items"]:
            job = self.jobs.get(jid)
            if job is None:
                self._findings.add(6, f"job {jid} was adopted but never submitted")
                continue
            for tix, row in zip(tasks, rows, strict=True):
                self._adopt(jid, job, tix, row, (_NUMBERS[name], cid, group))

    def _adopt(self, jid: int, job: Job, tix: int, row: int, now: tuple[int, int, int]) -> None:
        state, cid, group = now
        old = job.states[tix] if tix < len(job.states) else FAILED
        if old > RELEASING or row not in self.nodes.names:
            why = "had ended" if old > RELEASING else "there is no such row"
            what = f"task {jid}.{tix} of {job.key} was adopted on row {row}"
            self._findings.add(6, f"{what}, but {why}")
            return
        if old == PENDING:
            job.cids[tix], job.group_of[tix] = cid, group
            self._hold(job, group, cid not in self._best_effort)
        else:
            self.evictions.adopted(job, tix, state)
            self._give_back(job, tix, old)
        if job.rows[tix] != NOWHERE:
            job.earlier.setdefault(tix, []).append(job.rows[tix])
        job.states[tix], job.rows[tix] = state, row
        job.changed[tix] = self._findings.line
        self.nodes.take(job.cids[tix], row)
        self._queues.charge(job.qid, self.nodes.requests(job.cids[tix]), 1)
        if state == RELEASING:
            self._release(job, tix, row)

    def _change(self, jid: int, job: Job, tix: int, row: int, state: int) -> None:
        if tix >= len(job.states):
            self._findings.add(6, f"task {jid}.{tix} of {job.key} was never submitted")
            return
        old = job.states[tix]
        may = old in _FROM[state] or (state == PENDING and tix in job.evicted)
        if not may or (old != PENDING and job.rows[tix] != row):
            self._findings.add(
                6,
                f"task {jid}.{tix} of {job.key} went from {STATES[old]} on row {job.rows[tix]} "
                f"to {STATES[state]} on row {row}",
            )
            return
        job.states[tix] = state
        job.changed[tix] = self._findings.line
        asks_nothing = job.cids[tix] in self._best_effort  # it counts as being there until it fails
        if asks_nothing and state == FAILED:
            job.best_effort[job.group_of[tix]] -= 1
        if old == PENDING:  # deleted before it was placed: it holds nothing
            if asks_nothing:
                self._hold(job, job.group_of[tix], -1)
            return
        if state == RELEASING:
            self._release(job, tix, row)
        elif state in (PENDING, SUCCEEDED, FAILED):
            evicted = tix in job.evicted
            self._give_back(job, tix, old)
            more = self.evictions.members_after(job, tix, state)
            waits = state == PENDING and job.cids[tix] in self._best_effort  # that counts, too
            self._hold(job, job.group_of[tix], more + waits)
            if state == PENDING and not evicted:
                self._repairs.refused(jid, job, job.group_of[tix], self._t)
            else:
                self._repairs.moved(jid, job, self._t)

    def _release(self, job: Job, tix: int, row: int) -> None:
        cid = job.cids[tix]
        self.nodes.release(cid, row)
        self._queues.leave(job.qid, self.nodes.requests(cid), 1)

    def _give_back(self, job: Job, tix: int, old: int) -> None:
        """A task leaves the node that it was on in its old state."""
        cid = job.cids[tix]
        requests = self.nodes.requests(cid)
        self.nodes.free(cid, job.rows[tix], releasing=old == RELEASING)
        self._queues.charge(job.qid, requests, -1)
        if old == RELEASING:
            self._queues.leave(job.qid, requests, -1)
