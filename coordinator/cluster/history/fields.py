"""Table of the events of a history, from which ``docs/reference/history.md`` is made.

A test compares it with the events that runs write.
"""

from __future__ import annotations

from typing import NamedTuple


class EventFields(NamedTuple):
    """One kind of event: its own fields, each with its form; ``?`` marks an optional one."""

    kind: str
    meaning: str
    fields: dict[str, str]


HEAD = {
    "t": "time in seconds since 1970",
    "src": "`ledger` or `cluster`",
    "ev": "the kind of event",
    "n": "running number of the ledger's entry, or of the cluster's event, in this file",
    "seal?": "CRC-32 of this line without its seal, and of all lines before it; an earlier version "
    "wrote none",
}
LEDGER_HEAD = {
    "id": "id of the entry in the ledger's log",
    "writer": "the shard, or the part of the coordinator, that wrote the entry",
    "epoch": "epoch of that writer",
    "seq": "sequence number of the writer's batch; an `epoch` event has none",
    "more?": "number of events of the same entry that follow this one",
    "part?": "number of events of the same entry that precede this one",
}
_TASKS = {
    "tasks": "`[task id]`",
    "nodes": "`[name]`, one per task; empty for `delete`",
    "uids": "`[uid]`, one per task",
    "answers": "the true result of each bind; empty for other events",
    "durations?": "`[seconds]`, of simulated tasks",
    "codes?": "`[exit code]`",
    "devices?": "`[[name, [amount]]]`, one per task: devices written on the bound pod",
    "gpus?": "`[[group, [thousandths]]]`, one per task, from KAI's labels; an empty group is a "
    "whole GPU",
}

LEDGER_EVENTS = (
    EventFields(
        "class",
        "Task classes are stored.",
        {
            "classes": "`[{cid, requests: [[slot, amount, implied]], best_effort, things?: "
            "[[name, [amount], [implied]]], rules?: digest}]`",
            "rules?": "`{digest: constraints}`, for digests that are new in this file",
        },
    ),
    EventFields("class_gone", "Task classes are removed; a number may be reused.", {"cids": ""}),
    EventFields(
        "node",
        "Nodes are stored.",
        {
            "nodes": "`[{row, name, allocatable: [[slot, amount]], spec, devices?: "
            "[[name, [amount]]], facts?: {labels, taints, unschedulable}}]`; `facts` only if "
            "they changed"
        },
    ),
    EventFields("node_gone", "Nodes are removed.", {"rows": ""}),
    EventFields(
        "observe",
        "Usage by foreign pods changed.",
        {"nodes": "`[{row, used: [[slot, amount]], things?: [[name, [amount]]]}]`"},
    ),
    EventFields(
        "queue",
        "Queues are stored.",
        {
            "queues": "`[{qid, name, parent, capability: [[slot, amount]] or null, guarantee?: "
            "[[slot, amount]], deserved?: [[slot, amount]], reclaimable?: false, "
            "affinity?: {required, anti_required, ...}}]`"
        },
    ),
    EventFields("queue_gone", "Queues are removed.", {"qids": ""}),
    EventFields(
        "job",
        "Jobs are stored.",
        {
            "jobs": "`[{jid, qid, spec, key, uid, queue, groups: [[parent, minimum]], roles: "
            "[[cid, first, count, group, facts?]], priority?, named?: true, topology?: {tier, "
            "tier_name or label}}]`"
        },
    ),
    EventFields("job_gone", "Jobs are deleted; their tasks are being stopped.", {"jids": ""}),
    EventFields("job_forgotten", "The last tasks of deleted jobs have ended.", {"jids": ""}),
    EventFields(
        "object",
        "Other objects are stored or removed.",
        {
            "keys": "`[key]`",
            "gone": "`[bool]`, one per key",
            "values?": "`{key: facts}`, for objects that placement reads",
        },
    ),
    EventFields("policy", "A policy is in force from here on.", {"policy": "the file's mapping"}),
    EventFields(
        "partition",
        "Nodes are assigned to shards.",
        {
            "revision": "number of the partition",
            "shards": "`{shard: [row]}`",
            "moving": "`[[giver, taker, [row]]]`",
            "mode": "`none`, `soft` or `hard`",
        },
    ),
    EventFields(
        "commit",
        "Statements are accepted.",
        {
            "shard": "the worker's shard",
            "statements": "`[{jid, verdict, alloc: [[tix, row, cid, level]], tail?: number of the "
            "last allocations that are tail, nominate: [[tix, row, cid, level]], expiry?, dropped: "
            "[jid], evict?: [[jid, spec, cid, group, [tix], [row], guards, [new row]?, "
            "devices?]], reason?, devices?: [[tix, [[name, [amount]]]]]}]`",
        },
    ),
    EventFields(
        "refusal",
        "Statements are refused.",
        {"shard": "the worker's shard", "refused": "`[[jid, verdict]]`"},
    ),
    EventFields(
        "status", "Tasks changed their state.", {"items": "`[[state, jid, [tix], [row]]]`"}
    ),
    EventFields(
        "adopted",
        "Tasks that run without a statement are taken over.",
        {"items": "`[[state, jid, [tix], [row], cid, group, devices?]]`"},
    ),
    EventFields("expired", "Nominations of these jobs have expired.", {"jids": ""}),
    EventFields("epoch", "A writer has a new epoch.", {}),
)

CLUSTER_EVENTS = (
    *(
        EventFields(kind, meaning, _TASKS)
        for kind, meaning in (
            ("bind", "Tasks are bound, or refused: see `answers`."),
            ("start", "Tasks run."),
            ("releasing", "Tasks are being stopped."),
            ("succeeded", "Tasks ended well."),
            ("failed", "Tasks ended badly."),
            ("delete", "Tasks are to be deleted."),
            ("lost", "Tasks are gone without a report."),
            ("erased", "Ended tasks that the cluster no longer knows."),
        )
    ),
    EventFields(
        "acknowledged",
        "Users were told that these jobs are stored.",
        {"jobs": "`[[first jid, number of jobs]]`"},
    ),
    EventFields(
        "measured",
        "A metrics source reported the usage of nodes.",
        {
            "usage": "`{node: [percent of CPU, percent of memory]}`, -1 if unknown",
            "from": "the turns from this time on use these figures",
            "until": "until this time, or null: until the next such event",
        },
    ),
    EventFields("end", "The writer stopped in order; it may begin again.", {}),
)


def history_page(origin: str) -> str:
    """The page. ``origin``: its line on where it comes from."""
    lines = ["# The events of a history", "", origin, ""]
    lines += [
        "`quadrant demo --history FILE`, `up` and `chaos run` write a history: one JSON object per "
        "line. `quadrant chaos check FILE` checks it. A field with `?` is left out if it is empty. "
        "`jid`, `qid` and `cid` are the numbers of a job, a queue and a task class, `tix` is the "
        "number of a task in its job, `row` that of a node, `slot` that of a resource.",
        "",
        "Every event has:",
        "",
        *_table(HEAD),
        "",
        "Events of the ledger also have:",
        "",
        *_table(LEDGER_HEAD),
    ]
    for title, events in (("the ledger", LEDGER_EVENTS), ("the cluster", CLUSTER_EVENTS)):
        lines += ["", f"## Events of {title}", "", "| event | meaning | fields |", "|---|---|---|"]
        lines += [f"| `{e.kind}` | {e.meaning} | {_fields(e.fields)} |" for e in events]
    lines += ["", "The fields of tasks are columns of equal length:", "", *_table(_TASKS)]
    return "\n".join(lines) + "\n"


def _table(fields: dict[str, str]) -> list[str]:
    return [
        "| field | |",
        "|---|---|",
        *(f"| `{name}` | {form} |" for name, form in fields.items()),
    ]


def _fields(fields: dict[str, str]) -> str:
    if fields is _TASKS:
        return "fields of tasks"
    return "; ".join(f"`{name}`: {form}" if form else f"`{name}`" for name, form in fields.items())
