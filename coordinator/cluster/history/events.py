"""The events of a history: what each entry of the ledger's log and each act of the cluster becomes.

One event is one JSON object on one line; its lists have an entry for each of the event's objects.
The table of kinds and fields is :mod:`coordinator.cluster.history.fields`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, repeat
from typing import Any

from coordinator.cluster.events import ClusterEvent, ReportedUsage
from coordinator.cluster.history.facts import (
    Facts,
    digest,
    facts,
    node_facts,
    object_facts,
    requirements,
    role_facts,
    topology_facts,
)
from shared.ledger.entries.intake_batch import (
    DropClass,
    DropJob,
    DropNode,
    DropQueue,
    Observe,
    PurgeJob,
    PutClass,
    PutJob,
    PutNode,
    PutObject,
    PutPartition,
    PutQueue,
)
from shared.ledger.entries.log import (
    CommitEntry,
    Committed,
    EpochEntry,
    IntakeEntry,
    LogEntry,
    StatusEntry,
)
from shared.ledger.gang_minimum import minimum_of_members
from shared.messages.messages import ALLOCATE, NOMINATE, Run, StatusItem
from shared.model.model import Job, Role
from shared.records.specs import POLICY_KEY, decode_class, decode_node, decode_policy, decode_queue
from shared.records.specs_jobs import decode_job
from shared.units.slots import PODS

Event = dict[str, Any]

_NO_FACTS = digest({})


class LedgerEvents:
    """Makes events of log entries. It remembers the requirements and node facts already written, so
    that each is in the file once (once more after a restart of the process)."""

    def __init__(self, *, number: int = 0, resumed: bool = False) -> None:
        """``number``: that of the last entry before. ``resumed``: the file has earlier events that
        this object does not know."""
        self._number = number
        self._resumed = resumed
        self._rules: set[str] = set()
        self._facts: dict[int, str] = {}

    def of(self, entry: LogEntry, *, at: float | None = None) -> list[Event]:
        """The events of one entry, in order; at least one, so that its id is in the history.
        ``at``: its time, if the ledger's ids contain none (in a seeded run)."""
        match entry:
            case CommitEntry():
                bodies = _commit(entry)
            case StatusEntry():
                bodies = _status(entry)
            case IntakeEntry():
                bodies = self._intake(entry)
            case EpochEntry():
                bodies = [{"ev": "epoch"}]
        self._number += 1
        head = {
            "t": time_of(entry.id) if at is None else at,
            "src": "ledger",
            "n": self._number,
            "id": entry.id,
        }
        head |= {"writer": entry.writer, "epoch": str(entry.epoch)}
        if not isinstance(entry, EpochEntry):
            head["seq"] = entry.sequence
        return [
            {**head, **body, **part} for body, part in zip(bodies, _parts(len(bodies)), strict=True)
        ]

    # --- objects --------------------------------------------------------------------------------

    def _intake(self, entry: IntakeEntry) -> list[Event]:
        """Consecutive operations of one kind share an event; the order of kinds is kept."""
        events = [self._objects(list(same)) for _, same in groupby(entry.ops, _kind)]
        if entry.dropped:
            events.append({"ev": "expired", "jids": entry.dropped})
        return events or [{"ev": "object", "keys": [], "gone": []}]

    def _objects(self, ops: list[Any]) -> Event:
        match ops[0]:
            case PutClass():
                return self._classes(ops)
            case PutNode():
                return {"ev": "node", "nodes": [self._node(op) for op in ops]}
            case PutObject() if ops[-1].key == POLICY_KEY and ops[-1].spec is not None:
                return {"ev": "policy", "policy": decode_policy(ops[-1].spec)}
            case _:
                return _objects(ops)

    def _classes(self, ops: list[PutClass]) -> Event:
        rules: dict[str, Facts] = {}
        classes = []
        for op in ops:
            best_effort = not op.things and all(slot == PODS for slot, _, _ in op.requests)
            item: Event = {"cid": op.cid, "requests": op.requests, "best_effort": best_effort}
            if op.things:
                item["things"] = [(ask.name, ask.amounts, ask.offers) for ask in op.things]
            if rules_of_class := requirements(decode_class(op.spec)):
                item["rules"] = mark = digest(rules_of_class)
                if mark not in self._rules:
                    self._rules.add(mark)
                    rules[mark] = rules_of_class
            classes.append(item)
        event: Event = {"ev": "class", "classes": classes}
        return event | {"rules": rules} if rules else event

    def _node(self, op: PutNode) -> Event:
        node = decode_node(op.spec)
        item: Event = {"row": op.row, "name": node.name, "allocatable": op.allocatable}
        item["spec"] = op.spec_version
        if op.things:
            item["devices"] = op.things
        facts = node_facts(node)
        mark = digest(facts)
        # After a restart nothing is known of what the file has: each node's facts are written once
        # more, never left out.
        if mark != self._facts.get(op.row, "" if self._resumed else _NO_FACTS):
            self._facts[op.row] = mark
            item["facts"] = facts
        return item


def _parts(count: int) -> Iterator[Event]:
    for i in range(count):
        more = {"more": count - 1 - i} if i < count - 1 else {}
        yield {**more, "part": i} if i else more


def acknowledged_event(t: float, jobs: list[tuple[int, int]], number: int) -> Event:
    """Users were told that these jobs are stored: (first jid, number of jobs)."""
    return {"t": t, "src": "cluster", "n": number, "ev": "acknowledged", "jobs": jobs}


def measured_event(t: float, measured: ReportedUsage, number: int) -> Event:
    """A metrics source said how busy nodes are."""
    usage = {
        node: (u.get("cpu", -1.0), u.get("memory", -1.0)) for node, u in measured.usage.items()
    }
    period = {"from": measured.begins, "until": measured.ends}
    return {"t": t, "src": "cluster", "n": number, "ev": "measured", **period, "usage": usage}


def end_event(t: float, number: int) -> Event:
    """The writer stops in order here: deadlines of what is open count up to this time."""
    return {"t": t, "src": "cluster", "n": number, "ev": "end"}


def cluster_event(event: ClusterEvent, number: int) -> Event:
    record: Event = {
        "t": event.t,
        "src": "cluster",
        "n": number,
        "ev": event.kind,
        "tasks": event.tasks,
        "nodes": event.nodes,
        "uids": event.uids,
        "answers": event.answers,
    }
    if event.durations:
        record["durations"] = event.durations
    if any(event.exit_codes):
        record["codes"] = event.exit_codes
    if event.devices:
        record["devices"] = event.devices
    if event.gpus:
        record["gpus"] = event.gpus
    return record


def time_of(log_id: str) -> float:
    """The time of a log entry. Stream ids begin with the server's clock in milliseconds."""
    return int(log_id.partition("-")[0]) / 1000


def _commit(entry: CommitEntry) -> list[Event]:
    events: list[Event] = []
    if entry.accepted:
        statements = [_statement(committed) for committed in entry.accepted]
        events.append({"ev": "commit", "shard": entry.writer, "statements": statements})
    if entry.refused or not events:
        refused = [[jid, verdict.name] for jid, verdict in entry.refused]
        events.append({"ev": "refusal", "shard": entry.writer, "refused": refused})
    return events


def _statement(committed: Committed) -> Event:
    core, tail = _rows(committed.core, ALLOCATE), _rows(committed.tail, ALLOCATE)
    statement: Event = {
        "jid": committed.jid,
        "verdict": committed.verdict.name,
        "alloc": core + tail,
        "nominate": _rows(committed.core, NOMINATE) + _rows(committed.tail, NOMINATE),
        "dropped": committed.dropped,
    }
    if tail:
        statement["tail"] = len(tail)
    if statement["nominate"] and committed.expiry:
        statement["expiry"] = committed.expiry
    if committed.evictions:
        statement["evict"] = [
            [
                *(run.jid, run.job_version, run.cid, run.group, run.tasks, run.rows, run.guards),
                *([run.to, run.devices] if run.to else []),
            ]
            for run in committed.evictions
        ]
        statement["reason"] = committed.reason
    devices = [
        (tix, run.devices)
        for run in (*committed.core, *committed.tail)
        if run.devices
        for tix in run.tasks
    ]
    if devices:
        statement["devices"] = devices
    return statement


def _rows(runs: list[Run], kind: int) -> list[tuple[int, int, int, int]]:
    rows: list[tuple[int, int, int, int]] = []
    for run in runs:
        if run.kind == kind:
            rows.extend(zip(run.tasks, run.rows, repeat(run.cid), run.levels))
    return rows


def _status(entry: StatusEntry) -> list[Event]:
    events: list[Event] = []
    if entry.items or not entry.expired:
        plain = [item for item in entry.items if not item.adopted]
        adopted = [item for item in entry.items if item.adopted]
        if adopted:
            events.append({"ev": "adopted", "items": [_adopted(item) for item in adopted]})
        if plain or not adopted:
            items = [[item.state.name, item.jid, item.tasks, item.rows] for item in plain]
            events.append({"ev": "status", "items": items})
    if entry.expired:
        events.append({"ev": "expired", "jids": entry.expired})
    return events


def _adopted(item: StatusItem) -> list[Any]:
    adopted = [item.state.name, item.jid, item.tasks, item.rows, item.cid, item.group]
    return [*adopted, item.devices] if item.devices else adopted


def _kind(op: Any) -> tuple[type, bool]:
    """Grouping key of an operation. The policy gets an event of its own, unlike other objects."""
    return type(op), isinstance(op, PutObject) and op.key == POLICY_KEY


def _objects(ops: list[Any]) -> Event:
    match ops[0]:
        case DropClass():
            return {"ev": "class_gone", "cids": [op.cid for op in ops]}
        case DropNode():
            return {"ev": "node_gone", "rows": [op.row for op in ops]}
        case Observe():
            return {"ev": "observe", "nodes": [_observed(op) for op in ops]}
        case PutQueue():
            return {"ev": "queue", "queues": [_queue(op) for op in ops]}
        case PutJob():
            return {"ev": "job", "jobs": [_job(op) for op in ops]}
        case DropQueue():
            return {"ev": "queue_gone", "qids": [op.qid for op in ops]}
        case DropJob():
            return {"ev": "job_gone", "jids": [op.jid for op in ops]}
        case PurgeJob():
            return {"ev": "job_forgotten", "jids": [op.jid for op in ops]}
        case PutObject():
            return _kept(ops)
        case PutPartition():  # each replaces the one before
            return _partition(ops[-1])
        case other:
            raise TypeError(f"history: no event for intake operation {type(other).__name__}")


def _partition(op: PutPartition) -> Event:
    return {
        "ev": "partition",
        "revision": op.revision,
        "shards": {str(shard): rows for shard, rows in op.shards.items()},
        "moving": [(move.giver, move.taker, move.rows) for move in op.moving],
        "mode": op.mode,
    }


def _kept(ops: list[PutObject]) -> Event:
    deleted = [op.spec is None for op in ops]
    event: Event = {"ev": "object", "keys": [op.key for op in ops], "gone": deleted}
    facts_of = {op.key: object_facts(op.key, op.spec) for op in ops if op.spec is not None}
    values = {key: value for key, value in facts_of.items() if value is not None}
    return event | {"values": values} if values else event


def _observed(op: Observe) -> Event:
    event: Event = {"row": op.row, "used": op.used}
    return event | {"things": op.things} if op.things else event


def _queue(op: PutQueue) -> Event:
    queue = decode_queue(op.spec)
    event: Event = {"qid": op.qid, "name": queue.name, "parent": op.parent}
    event["capability"] = op.capability
    if op.guarantee:
        event["guarantee"] = op.guarantee
    if queue.deserved:
        event["deserved"] = queue.deserved
    if not queue.reclaimable:
        event["reclaimable"] = False
    if queue.affinity is not None:
        event["affinity"] = facts(queue.affinity)
    return event


def _job(op: PutJob) -> Event:
    job = decode_job(op.spec)
    event = {
        "jid": op.jid,
        "qid": op.qid,
        "spec": op.spec_version,
        "key": job.key,
        "uid": job.uid,
        "queue": job.queue,
        "groups": [(group.parent, minimum_of_members(group.minimum)) for group in op.groups],
        "roles": [_role(job, role) for role in job.roles],
    }
    if job.priority:
        event["priority"] = job.priority
    if any(role.names for role in job.roles):
        event["named"] = True
    if (topology := topology_facts(job)) is not None:
        event["topology"] = topology
    return event


def _role(job: Job, role: Role) -> tuple[Any, ...]:
    facts = role_facts(job, role)
    place = (role.cid, role.first, role.count, role.group)
    return (*place, facts) if facts else place
