"""Replays the ledger's side of a history.

The ledger's events are in the order of its changes, so that each can be judged when it is read.
This file dispatches events and tracks objects; statements, states and nominations have their own
files.
"""

from __future__ import annotations

from typing import Any

from laboratory.checker.evictions.evictions import Evictions
from laboratory.checker.ledger.nominations import NominationChecks
from laboratory.checker.ledger.presence import Presence
from laboratory.checker.ledger.repairs import RepairChecks
from laboratory.checker.ledger.statements import Statements
from laboratory.checker.ledger.states import States
from laboratory.checker.ledger.writers import COORDINATOR, LEADERS, Writers
from laboratory.checker.placement.outside_word import Refuses
from laboratory.checker.placement.placement import PlacementChecks
from laboratory.checker.report.report import Findings
from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks
from laboratory.checker.state.cluster import ClusterSide
from laboratory.checker.state.job import (
    BINDING,
    RELEASING,
    STATES,
    UNSUCCESSFUL,
    CheckedJob,
    RoleFacts,
)


class LedgerSide:
    """Feed it the ledger's events in file order."""

    def __init__(
        self, findings: Findings, cluster: ClusterSide, refuses: Refuses | None = None
    ) -> None:
        self.books = books = CheckerBooks(findings)
        self.jobs = books.jobs
        self.read_until = 0.0
        """Time of the latest ledger event."""
        self._findings = findings
        self._writers = Writers(books)
        self._nominations = NominationChecks(books)
        self._placement = placement = PlacementChecks(books, refuses)
        self.presence = Presence(books, cluster, placement)
        self._repairs = repairs = RepairChecks(books, cluster)
        self.evictions = evictions = Evictions(books, placement)
        self.statements = Statements(
            books,
            nominations=self._nominations,
            evictions=evictions,
            placement=placement,
            repairs=repairs,
        )
        self._states = states = States(
            books, cluster, evictions=evictions, placement=placement, repairs=repairs
        )
        self._rules: dict[str, dict[str, Any]] = {}
        """Digest -> requirements of classes."""
        self._row_of: dict[str, int] = {}
        self._jid_of: dict[str, int] = {}
        """UID of an object -> the job that it was stored as last."""
        self._handlers = {
            "class": self._classes,
            "class_gone": self._classes_gone,
            "node": self._nodes,
            "node_gone": self._nodes_gone,
            "observe": self._observe,
            "queue": self._put_queues,
            "queue_gone": self._queues_gone,
            "job": self._jobs,
            "job_gone": self._jobs_gone,
            "job_forgotten": self._jobs_forgotten,
            "object": self._objects,
            "policy": self._policy,
            "epoch": self._nothing,
            "partition": self._partition,
            "commit": self.statements.commit,
            "refusal": self.statements.refusal,
            "status": states.status,
            "adopted": states.adopted,
            "expired": self._expired,
        }

    def feed(self, event: dict[str, Any]) -> None:
        self.books.passes(event["t"])
        self.books.written = event["t"]
        if event["writer"] in LEADERS:
            if event["ev"] == "epoch" and event["writer"] == COORDINATOR:
                self.books.leads_anew()
                self._placement.outside.usage.forget(event["t"])
            self.books.led()
        self._writers.feed(event)
        self._handlers[event["ev"]](event)
        self.read_until = event["t"]
        self.presence.catch_up(event["t"])

    def measured(self, event: dict[str, Any]) -> None:
        """Take what a metrics source said of nodes."""
        self._placement.outside.usage.measured(event)

    def settle(self) -> None:
        """Judge what is still open at the end of the history."""
        self.presence.settle()
        self.statements.underway.settle()
        self._nominations.settle()
        self._repairs.settle()

    # --- objects --------------------------------------------------------------------------------

    def _nothing(self, event: dict[str, Any]) -> None:
        pass

    def _policy(self, event: dict[str, Any]) -> None:
        policies, rules = self.books.policies, event["policy"]
        if policies.newest is not None and policies.newest.metrics != rules.get("metrics"):
            self._placement.outside.usage.forget(event["t"])
        policies.put(rules, t=self.books.t)
        self._placement.policy_changed()

    def _objects(self, event: dict[str, Any]) -> None:
        for key, is_deleted in zip(event["keys"], event["gone"], strict=True):
            self._placement.replaced(key)
            if is_deleted:
                self.books.objects.pop(key, None)
                self.books.kai_queues.drop_object(key)
        values = event.get("values", {})
        self.evictions.victims.budgets.put(values)
        self.books.objects.update(values)
        for key, value in values.items():
            self.books.kai_queues.put_object(key, value, t=self.books.t)
        self._placement.objects_changed(values)

    def _classes(self, event: dict[str, Any]) -> None:
        self._rules.update(event.get("rules", {}))
        for item in event["classes"]:
            self.books.nodes.put_class(item["cid"], item["requests"], item.get("things", ()))
            if item["best_effort"]:
                self.books.best_effort.add(item["cid"])
            if "rules" in item:
                self._placement.put_rules(item["cid"], self._rules[item["rules"]])

    def _classes_gone(self, event: dict[str, Any]) -> None:
        for cid in event["cids"]:
            self.books.best_effort.discard(cid)
            self._placement.drop_rules(cid)

    def _nodes(self, event: dict[str, Any]) -> None:
        for item in event["nodes"]:
            row = self._row_of.setdefault(item["name"], item["row"])
            if row != item["row"]:
                message = f"node {item['name']} is row {item['row']}, it was row {row}"
                problem = f"{message}: what is still there counts for neither"
                self._findings.add(Rule.LEDGER_CAPACITY, problem)
            if row in self.books.nodes.gone:
                self.books.returned[row] = self.books.t
            if row in self.books.nodes.names:
                self.books.relieve(row)
            self.books.nodes.put_node(item["row"], item["name"], item["allocatable"])
            self.books.devices.declare(item["row"], item.get("devices", ()))
            if (facts := item.get("facts")) is not None:
                self._placement.put_facts(item["row"], facts)

    def _nodes_gone(self, event: dict[str, Any]) -> None:
        for row in event["rows"]:
            self.books.deleted[row] = self.books.t
            self.books.nodes.drop_node(row)
            self.books.devices.drop_node(row)

    def _observe(self, event: dict[str, Any]) -> None:
        for item in event["nodes"]:
            self.books.relieve(item["row"])
            self.books.nodes.observe(item["row"], item["used"], item.get("things", ()))

    def _put_queues(self, event: dict[str, Any]) -> None:
        for item in event["queues"]:
            self.books.kai_queues.name(item["qid"], item["name"])
            self.books.queues.put(
                item["qid"],
                item["parent"],
                item["capability"],
                item.get("guarantee", ()),
                reclaimable=item.get("reclaimable", True),
                deserved=item.get("deserved", ()),
                affinity=item.get("affinity"),
                t=event["t"],
            )

    def _queues_gone(self, event: dict[str, Any]) -> None:
        for qid in event["qids"]:
            if broken := self.books.queues.drop(qid):
                self._findings.add(Rule.TRANSITION, broken)

    def _partition(self, event: dict[str, Any]) -> None:
        self._findings.checked[Rule.BORDER] += 1
        for wrong in self.books.ownership.put(event):
            self._findings.add(Rule.BORDER, wrong)

    def _expired(self, event: dict[str, Any]) -> None:
        for jid in event["jids"]:
            self._nominations.end(jid)

    # --- jobs -----------------------------------------------------------------------------------

    def _jobs(self, event: dict[str, Any]) -> None:
        for item in event["jobs"]:
            job = self.jobs.get(item["jid"])
            if job is None:
                job = self.jobs[item["jid"]] = CheckedJob(item["key"], self._findings.line)
            elif job.spec != item["spec"]:
                self._nominations.end(item["jid"])
            self._is_the_same(job, item)
            self._move(job, item["qid"])
            job.spec, job.respecified = item["spec"], event["t"]
            job.priority = item.get("priority", 0)
            job.named = item.get("named", False)
            job.queue = item.get("queue", "")
            job.uids.add(item.get("uid", ""))
            job.topology = item.get("topology")
            self._set_groups(job, item["groups"])
            self._set_members(job, item["roles"], event["t"])
            self._placement.job_changed(job)
            self._repairs.anew(item["jid"])

    def _is_the_same(self, job: CheckedJob, item: dict[str, Any]) -> None:
        """Check that a number stays one job's, and an object is one job at a time."""
        jid, spec = item["jid"], item["spec"]
        if job.key != item["key"]:
            problem = f"job {jid} was {job.key}, and is {item['key']} now"
            self._findings.add(Rule.TRANSITION, problem)
        if spec < job.spec:
            problem = f"job {jid} ({job.key}) went from specification {job.spec} back to {spec}"
            self._findings.add(Rule.TRANSITION, problem)
        if uid := item.get("uid", ""):
            other = self._jid_of.get(uid, jid)
            if other != jid and not self.jobs[other].gone:
                problem = f"jobs {other} ({self.jobs[other].key}) and {jid} ({job.key})"
                self._findings.add(Rule.TRANSITION, f"{problem} are one object, {uid}")
            self._jid_of[uid] = jid

    def _move(self, job: CheckedJob, qid: int) -> None:
        """Move a job's usage to its new queue."""
        queue_changed = job.qid not in (-1, qid)
        if queue_changed:
            queues = self.books.queues
            for tix, state in enumerate(job.states):
                if BINDING <= state <= RELEASING:
                    requests = self.books.nodes.requests(job.cids[tix])
                    queues.charge(job.qid, requests, -1)
                    queues.charge(qid, requests, 1)
                    if state == RELEASING:
                        queues.leave(job.qid, requests, -1)
                        queues.leave(qid, requests, 1)
        job.qid = qid
        for tix in list(job.charges) if queue_changed else ():
            leaves = job.states[tix] == RELEASING
            self.books.leave_kai_queue(job, tix, releasing=leaves)
            self.books.enter_kai_queue(job, tix, releasing=leaves)

    def _set_groups(self, job: CheckedJob, groups: list[list[int]]) -> None:
        """Replace a job's groups. A group that is no longer listed keeps its members, without a
        minimum."""
        named = len(groups)
        job.groups = groups + [[parent, 0] for parent, _ in job.groups[named:]]
        grown = len(job.groups) - len(job.held)
        for column in (job.held, job.idle, job.best_effort):
            column.extend([0] * grown)
        job.shards += [None] * grown

    def _set_members(self, job: CheckedJob, roles: list[list[Any]], t: float) -> None:
        job.grow(max((role[1] + role[2] for role in roles), default=0), t)
        job.member = bytearray(len(job.states))
        job.roles = []
        waiting = [0] * len(job.groups)
        for cid, first, count, group, *facts in roles:
            job.member[first : first + count] = b"\1" * count
            job.group_of[first : first + count] = [group] * count
            # Also one without facts: a budget that selects everything counts its pods.
            job.roles.append(RoleFacts(first, count, facts[0] if facts else {}, cid))
            if cid in self.books.best_effort:
                job.cids[first : first + count] = [cid] * count
                ended = sum(job.states.count(s, first, first + count) for s in UNSUCCESSFUL)
                waiting[group] += count - ended
        for group, count in enumerate(waiting):
            if more := count - job.best_effort[group]:
                job.best_effort[group] = count
                job.hold(group, more)
                job.idles(group, more)

    def _jobs_gone(self, event: dict[str, Any]) -> None:
        for jid in event["jids"]:
            if jid in self.jobs:
                self.jobs[jid].gone, self.jobs[jid].gone_at = True, self._findings.line
                self._repairs.anew(jid)
            self._nominations.end(jid)

    def _jobs_forgotten(self, event: dict[str, Any]) -> None:
        """Promise 6: no job is forgotten while it holds a node."""
        for jid in event["jids"]:
            job = self.jobs.get(jid)
            if job is None or job.forgotten:
                continue
            job.forgotten = True
            self._findings.checked[Rule.TRANSITION] += 1
            holding = [tix for tix, s in enumerate(job.states) if BINDING <= s <= RELEASING]
            if not job.gone or holding:
                why = (
                    f"task {holding[0]} is {STATES[job.states[holding[0]]]}"
                    if holding
                    else "not deleted"
                )
                problem = f"job {jid} ({job.key}) was forgotten, but {why}"
                self._findings.add(Rule.TRANSITION, problem)
