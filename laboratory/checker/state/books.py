"""The replayed state of the ledger, shared by all parts of the checker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from laboratory.checker.report.report import Findings
from laboratory.checker.report.rules import Rule
from laboratory.checker.state.capacity import Nodes
from laboratory.checker.state.cluster import ClusterBinding
from laboratory.checker.state.device_use import DeviceUse
from laboratory.checker.state.job import BINDING, NOWHERE, RUNNING, CheckedJob
from laboratory.checker.state.kai import CheckedKaiQueues
from laboratory.checker.state.ownership import RowOwnership
from laboratory.checker.state.policy import CheckedPolicies
from laboratory.checker.state.queues import Queues

Facts = dict[str, Any]

TURN_SECONDS = 2.0
"""For so long a turn may have been on its way."""
RECENT = 30.0
"""Seconds for which a worker may still judge by what was there before. A turn, its commit and the
report of a status take a few at most, even with a worker paused."""


@dataclass(slots=True)
class CheckerBooks:
    findings: Findings
    jobs: dict[int, CheckedJob] = field(default_factory=dict)
    nodes: Nodes = field(default_factory=Nodes)
    devices: DeviceUse = field(default_factory=DeviceUse)
    queues: Queues = field(default_factory=Queues)
    kai_queues: CheckedKaiQueues = field(default_factory=CheckedKaiQueues)
    """The queues of a KAI policy, by their own objects."""
    ownership: RowOwnership = field(default_factory=RowOwnership)
    policies: CheckedPolicies = field(default_factory=CheckedPolicies)
    best_effort: set[int] = field(default_factory=set)
    """Classes that request nothing but a pod slot."""
    rules: dict[int, Facts] = field(default_factory=dict)
    """Class -> its constraints beyond amounts; plain classes are absent."""
    node_facts: dict[int, Facts] = field(default_factory=dict)
    """Row -> labels, taints, unschedulable; plain nodes are absent."""
    objects: dict[str, Facts] = field(default_factory=dict)
    """Volumes, claims, devices and budgets, by their keys."""
    returned: dict[int, float] = field(default_factory=dict)
    """Row -> when its node, which had been deleted, was stored again."""
    deleted: dict[int, float] = field(default_factory=dict)
    """Row -> when its node was deleted."""
    t: float = 0.0
    """Time of the current event, in seconds since 1970."""
    written: float = 0.0
    """Time of the last ledger event by its own clock; the cluster may be ahead."""
    lived: float = 0.0
    """Seconds of the history with a leader; deadlines count in this time."""
    _led: float = 0.0
    """Value of ``lived`` when a leader last wrote."""

    def passes(self, t: float) -> None:
        """Advance the time."""
        if self.t and t > self.t:
            self.lived += t - self.t
        self.t = max(self.t, t)

    def led(self) -> None:
        """A leader is active now."""
        self._led = self.lived

    def leads_anew(self) -> None:
        """Another leader begins: the time since the last write of the one before does not count."""
        self.lived = self._led

    def may_be_away(self, row: int) -> bool:
        """Whether a worker may take the row's node for deleted: it is, or was until recently."""
        return row in self.nodes.gone or self.t - self.returned.get(row, -RECENT) < RECENT

    def may_be_there(self, row: int) -> bool:
        """Whether a worker may take the row's node for there: it is, or was until recently."""
        return row not in self.nodes.gone or self.t - self.deleted.get(row, -RECENT) < RECENT

    def labels_of(self, row: int) -> dict[str, str]:
        labels: dict[str, str] = self.node_facts.get(row, _NOTHING).get("labels", _NOTHING)
        return labels

    def task(self, jid: int, tix: int) -> str:
        return f"task {jid}.{tix} of {self.jobs[jid].key}"

    def came(self, binding: ClusterBinding, rule: Rule, problem: str) -> None:
        """Record a problem with a pod's binding on the cluster."""
        task = f"task {binding.jid}.{binding.tix}"
        message = f"{task} came to node {binding.node} on the cluster, {problem}"
        self.findings.add_at(binding.line, "bind", rule, message)

    def relieve(self, row: int) -> None:
        """Room may have appeared on a row."""
        self.nodes.relieved[row] = self.t

    # --- what tasks hold --------------------------------------------------------------------------

    def release(self, job: CheckedJob, tix: int, row: int) -> None:
        """A task begins to leave its node and queue."""
        cid = job.cids[tix]
        self.nodes.release(cid, row)
        self.devices.release(row, job.devices.get(tix, []))
        self.queues.leave(job.qid, self.nodes.requests(cid), 1)
        if tix in job.charges:
            self.kai_queues.leave(job.charges[tix], 1)

    def give_back(self, job: CheckedJob, tix: int, *, releasing: bool) -> None:
        """A task left its node."""
        cid = job.cids[tix]
        requests = self.nodes.requests(cid)
        self.nodes.free(cid, job.rows[tix], releasing=releasing)
        devices = job.devices.pop(tix, [])
        self.devices.free(job.rows[tix], devices, releasing=releasing)
        self.queues.charge(job.qid, requests, -1)
        self.leave_kai_queue(job, tix, releasing=releasing)
        if releasing:
            self.queues.leave(job.qid, requests, -1)

    def taken_lately(self, qid: int) -> list[tuple[int, int]]:
        """Requests of the queue's tasks that came to nodes while a turn may have been on its
        way."""
        return [
            request
            for job in self.jobs.values()
            if job.qid == qid
            for tix, since in enumerate(job.since)
            if since > self.t - TURN_SECONDS and BINDING <= job.states[tix] <= RUNNING
            for request in self.nodes.requests(job.cids[tix])
        ]

    def enter_kai_queue(self, job: CheckedJob, tix: int, *, releasing: bool = False) -> str:
        """Count a placed task in its queue under a KAI policy; returns the bound that is exceeded,
        "" if none."""
        policy = self.policies.newest
        if policy is None or not policy.kai:
            return ""
        requests = self.nodes.requests(job.cids[tix])
        charge = self.kai_queues.charge_of(job.qid, job.key, job.priority, requests)
        if charge is None:
            return ""
        job.charges[tix] = charge
        if releasing:
            self.kai_queues.leave(charge, 1)
        return self.kai_queues.take(charge)

    def leave_kai_queue(self, job: CheckedJob, tix: int, *, releasing: bool) -> None:
        """Take back what :meth:`enter_kai_queue` counted."""
        charge = job.charges.pop(tix, None)
        if charge is not None:
            self.kai_queues.give_back(charge)
            if releasing:
                self.kai_queues.leave(charge, -1)

    def put_on(self, job: CheckedJob, tix: int, row: int, *, since: float) -> None:
        """Put a task on a row; the previous row is remembered."""
        if job.rows[tix] != NOWHERE:
            before = (job.rows[tix], job.placed_as.get(tix, 0), job.since[tix])
            job.earlier.setdefault(tix, []).append(before)
        job.rows[tix], job.since[tix] = row, since
        if incarnation := job.incarnations.get(tix, 0):
            job.placed_as[tix] = incarnation
        job.changed[tix] = self.findings.line


_NOTHING: dict[str, Any] = {}
