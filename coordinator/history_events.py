"""The events of a history: what each entry of the ledger's log and each act of the cluster becomes.

One event is one JSON object on one line, and carries lists where it speaks of many things.

Every event has ``t`` (seconds since 1970), ``src`` and ``ev``. Events of the ledger have the ``id``
of their log entry, its ``writer``, ``epoch`` and ``seq``; an entry that becomes several events has
``more`` (how many follow) on all but the last. Their kinds::

    class      classes: [{cid, requests: [[slot, amount, implied]], best_effort}]
    node       nodes: [{row, name, allocatable: [[slot, amount]], spec}]
    node_gone  rows
    observe    nodes: [{row, used: [[slot, amount]]}]
    queue      queues: [{qid, name, parent, capability: [[slot, amount]] or null,
                         guarantee: [[slot, amount]] (where it has any)}]
    queue_gone qids
    job        jobs: [{jid, qid, spec, key, uid, groups: [[parent, minimum]],
                       roles: [[cid, first, count, group]]}]
    job_gone   jids
    job_forgotten  jids (gone, and the last of their tasks too)
    object     keys, gone: [bool]
    partition  revision, shards: {shard: [row]}, moving: [[giver, taker, [row]]], mode
    commit     shard, statements: [{jid, verdict, alloc: [[tix, row, cid, level]], tail (how many
               of the last of them are tail), nominate: [[tix, row, cid, level]], dropped: [jid],
               evict: [[jid, spec, cid, group, [tix], [row]]], guards, reason (where it evicts)}]
    refusal    shard, refused: [[jid, verdict]]
    status     items: [[state, jid, [tix], [row]]]
    adopted    items: [[state, jid, [tix], [row], cid, group]]
    lapsed     jids
    epoch      (nothing more)

Events of the cluster have ``n`` (a running number), and ``tasks``, ``nodes``, ``uids``, ``answers``
as parallel columns; kinds: bind, start, releasing, succeeded, failed, delete, lost
(gone without a report).
"""

from __future__ import annotations

from itertools import groupby, repeat
from typing import Any

from coordinator.cluster.kubelets import ClusterEvent
from shared.ledger.protocol import (
    CommitEntry,
    Committed,
    DropJob,
    DropNode,
    DropQueue,
    EpochEntry,
    IntakeEntry,
    LogEntry,
    Observe,
    PurgeJob,
    PutClass,
    PutJob,
    PutNode,
    PutObject,
    PutPartition,
    PutQueue,
    StatusEntry,
)
from shared.messages import ALLOCATE, NOMINATE, Run
from shared.slots import PODS
from shared.specs import decode_job, decode_node, decode_queue

Event = dict[str, Any]


def ledger_events(entry: LogEntry) -> list[Event]:
    """The events of one log entry, in order; at least one, so that its id is in the history."""
    match entry:
        case CommitEntry():
            bodies = _commit(entry)
        case StatusEntry():
            bodies = _status(entry)
        case IntakeEntry():
            bodies = _intake(entry)
        case EpochEntry():
            bodies = [{"ev": "epoch"}]
    head = {"t": time_of(entry.id), "src": "ledger", "id": entry.id, "writer": entry.writer}
    head["epoch"] = str(entry.epoch)
    if not isinstance(entry, EpochEntry):
        head["seq"] = entry.sequence
    last = len(bodies) - 1
    return [
        {**head, **body, "more": last - i} if i < last else {**head, **body}
        for i, body in enumerate(bodies)
    ]


def cluster_event(event: ClusterEvent, number: int) -> Event:
    made: Event = {
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
        made["durations"] = event.durations
    if any(event.exit_codes):
        made["codes"] = event.exit_codes
    return made


def time_of(log_id: str) -> float:
    """Stream ids begin with the server's clock in milliseconds."""
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
    if committed.evictions:
        statement["evict"] = [
            [run.jid, run.job_version, run.cid, run.group, run.tasks, run.rows]
            for run in committed.evictions
        ]
        statement |= {"guards": committed.guards, "reason": committed.reason}
    return statement


def _rows(runs: list[Run], kind: int) -> list[tuple[int, int, int, int]]:
    rows: list[tuple[int, int, int, int]] = []
    for run in runs:
        if run.kind == kind:
            rows.extend(zip(run.tasks, run.rows, repeat(run.cid), run.levels))
    return rows


def _status(entry: StatusEntry) -> list[Event]:
    events: list[Event] = []
    if entry.items or not entry.lapsed:
        told = [item for item in entry.items if not item.adopted]
        adopted = [item for item in entry.items if item.adopted]
        if adopted:
            rows = [[i.state.name, i.jid, i.tasks, i.rows, i.cid, i.group] for i in adopted]
            events.append({"ev": "adopted", "items": rows})
        if told or not adopted:
            items = [[item.state.name, item.jid, item.tasks, item.rows] for item in told]
            events.append({"ev": "status", "items": items})
    if entry.lapsed:
        events.append({"ev": "lapsed", "jids": entry.lapsed})
    return events


def _intake(entry: IntakeEntry) -> list[Event]:
    """Neighbours of one kind share an event; the order of kinds stays as it was."""
    events = [_objects(list(same)) for _, same in groupby(entry.ops, type)]
    if entry.dropped:
        events.append({"ev": "lapsed", "jids": entry.dropped})
    return events or [{"ev": "object", "keys": [], "gone": []}]


def _objects(ops: list[Any]) -> Event:
    match ops[0]:
        case PutClass():
            return {"ev": "class", "classes": [_class(op) for op in ops]}
        case PutNode():
            return {"ev": "node", "nodes": [_node(op) for op in ops]}
        case DropNode():
            return {"ev": "node_gone", "rows": [op.row for op in ops]}
        case Observe():
            return {"ev": "observe", "nodes": [{"row": op.row, "used": op.used} for op in ops]}
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
            gone = [op.spec is None for op in ops]
            return {"ev": "object", "keys": [op.key for op in ops], "gone": gone}
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


def _class(op: PutClass) -> Event:
    best_effort = all(slot == PODS for slot, _, _ in op.requests)
    return {"cid": op.cid, "requests": op.requests, "best_effort": best_effort}


def _node(op: PutNode) -> Event:
    name = decode_node(op.spec).name
    return {"row": op.row, "name": name, "allocatable": op.allocatable, "spec": op.spec_version}


def _queue(op: PutQueue) -> Event:
    name = decode_queue(op.spec).name
    told = {"qid": op.qid, "name": name, "parent": op.parent, "capability": op.capability}
    return told | {"guarantee": op.guarantee} if op.guarantee else told


def _job(op: PutJob) -> Event:
    job = decode_job(op.spec)
    return {
        "jid": op.jid,
        "qid": op.qid,
        "spec": op.spec_version,
        "key": job.key,
        "uid": job.uid,
        "groups": [(group.parent, group.minimum) for group in op.groups],
        "roles": [(role.cid, role.first, role.count, role.group) for role in job.roles],
    }
