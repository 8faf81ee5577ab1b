"""A plan as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.explain.plan import Plan, Planned, PlanVerdict
from coordinator.explain.queues.queue_position import holders
from coordinator.intake.documents.kinds import BY_KIND
from shard_worker.inquiry.findings import InquiryFinding
from shared.messages.messages import ALLOCATE
from shared.messages.reason import Reason
from shared.units.amount_text import by_name, plural

_OF_TURNS = (Reason.WAITING_FOR_QUOTA, Reason.PENDING_EVALUATION)
"""Reasons of jobs without a finding that depend on what the others take."""
API_VERSION = "quadrant.dev/v1alpha1"
NODES = 20
"""Most nodes listed per job."""
NOTE = "feasible at this revision, not a reservation: others may take the room first"


def report(core: Coordinator, plan: Plan, *, total: int) -> dict[str, Any]:
    """``total``: objects in the list."""
    contended, evicting, hopeful = _contended(core, plan), _evicting(plan), _hopeful(plan)
    jobs = [
        _job(core, planned, plan)
        | {"certain": planned.job.jid not in contended | evicting | hopeful}
        for planned in plan.jobs
    ]
    raced = [
        job for job, planned in zip(jobs, plan.jobs, strict=True) if planned.job.jid in contended
    ]
    refused = [
        {"kind": r.kind, "name": r.name, "field": r.field, "value": r.value, "message": r.message}
        | ({"more": list(map(asdict, r.more))} if r.more else {})
        for r in plan.admission.refused
    ]
    counts = Counter(planned.verdict.value for planned in plan.jobs)
    return {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "revision": plan.revision or None,
        "note": NOTE,
        "verdict": _worst(counts, refused=bool(refused)),
        "totals": {
            "objects": total,
            "unchanged": plan.admission.unchanged,
            "refused": len(refused),
            "jobs": len(jobs),
            **{word: counts[word] for word in ("now", "later", "waits", "never")},
            "tasks": sum(planned.job.tasks for planned in plan.jobs),
            "tasksNow": sum(job["tasks"]["now"] for job in jobs),
        },
        "jobs": jobs,
        "refused": refused,
        "notices": [
            {"kind": n.kind, "name": n.name, "message": n.message, "count": n.count}
            for n in plan.admission.notices
        ],
        "others": [*_others(plan), *_race(raced), *_evictions(evicting, hopeful)],
    }


def _contended(core: Coordinator, plan: Plan) -> set[int]:
    """The jobs whose result depends on who commits first.

    One shard does one turn after the other, as a plan does. Several place jobs of the plan at the
    same time, and the ledger takes what comes first: then only a job that is alone, or that never
    has room, is certain."""
    shards = sum(shard.epoch is not None for shard in core.dispatcher.shards.values())
    looking = {
        planned.job.jid
        for planned in plan.jobs
        if planned.verdict is not PlanVerdict.NEVER
        and (planned.finding is not None or (planned.why and planned.why.reason in _OF_TURNS))
    }
    return looking if shards > 1 and len(looking) > 1 else set()


def _hopeful(plan: Plan) -> set[int]:
    """The jobs that may come to run on what evictions free beyond the places that they are for:
    who comes first then, the victims or these, depends on when each pod ends."""
    if not any(planned.finding is not None and planned.finding.evictions for planned in plan.jobs):
        return set()
    return {
        planned.job.jid
        for planned in plan.jobs
        if planned.verdict is not PlanVerdict.NEVER
        and (finding := planned.finding) is not None
        and sum(len(placement.tasks) for placement in finding.placements) < planned.job.tasks
    }


def _evicting(plan: Plan) -> set[int]:
    """The jobs for which others would be evicted, where there are several: a service tries some of
    them at once, and whom one evicts depends on which of the others' victims have left."""
    jids = {
        planned.job.jid
        for planned in plan.jobs
        if planned.finding is not None and planned.finding.evictions
    }
    return jids if len(jids) > 1 else set()


def _evictions(evicting: set[int], hopeful: set[int]) -> Iterator[str]:
    """Remarks on what is not known beforehand where tasks are evicted."""
    if evicting:
        yield (
            f"{len(evicting)} of these jobs evict at the same time: whom each of them evicts is "
            "known when it has happened"
        )
    if hopeful:
        yield (
            f"{plural(len(hopeful), 'job')} of these may get what the evictions free beyond the "
            "places that they are for"
        )


def _race(raced: list[dict[str, Any]]) -> list[str]:
    """A remark where jobs of the plan compete for room, and it is not known which gets it."""
    if all(job["tasks"]["now"] == job["tasks"]["total"] for job in raced):
        return []
    return [
        f"several shards place {len(raced)} of these jobs at the same time: which of them gets "
        "the room that all want is known when it has happened"
    ]


def _worst(counts: Counter[str], *, refused: bool) -> str:
    if refused or counts["never"]:
        return "never"
    return "waits" if counts["waits"] or counts["later"] else "now"


def _others(plan: Plan) -> list[str]:
    """Notes on other objects of the list: stored by an apply, but not considered by the plan."""
    admission, remarks = plan.admission, []
    for word, objects in (("node", admission.nodes), ("hypernode", admission.hyper_nodes)):
        if objects:
            count = len(objects)
            remarks.append(f"{count} {word}{'s' if count > 1 else ''}: not counted as room here")
    return remarks


def _job(core: Coordinator, planned: Planned, plan: Plan) -> dict[str, Any]:
    job, finding = planned.job, planned.finding
    now: Counter[int] = Counter()
    later: Counter[int] = Counter()
    levels: Counter[str] = Counter()
    for placement in finding.placements if finding is not None else ():
        (now if placement.kind == ALLOCATE else later).update(placement.rows)
        levels.update(f"L{level}" for level in placement.levels)
    entry: dict[str, Any] = {
        "kind": BY_KIND[job.kind].written,
        "namespace": job.namespace,
        "name": job.name,
        "queue": job.queue,
        "change": "configured" if planned.exists else "created",
        "verdict": planned.verdict.value,
        "tasks": {
            "total": job.tasks,
            "minimum": job.groups[0].minimum,
            "now": now.total(),
            "later": later.total(),
        },
        "levels": dict(sorted(levels.items())),
        "shard": planned.shard if finding is not None and finding.placements else None,
        "nodes": _nodes(core, now or later),
        "nodesInAll": len(now or later),
        "waitingInQueue": _waiting(core, job.queue),
    }
    if later:
        entry["after"] = _after(core, later)
    if finding is not None and finding.evictions:
        entry["evicts"] = _victims(core, finding)
        entry["evictedBy"] = finding.evicted_by
    if finding is not None and finding.displaced:
        entry["displaces"] = [
            core.order.jobs[jid].job.key for jid in finding.displaced if jid in core.order.jobs
        ]
    if planned.why is not None:
        entry |= _why(planned, plan)
    return entry


def _why(planned: Planned, plan: Plan) -> dict[str, Any]:
    why = planned.why
    assert why is not None
    entry = {
        "reason": why.reason.value,
        "message": why.message,
        "requested": by_name(why.requested, plan.names),
        "available": by_name(why.available, plan.names),
        "short": by_name(why.short, plan.names),
    }
    if planned.silent:
        entry["incomplete"] = planned.silent
    return entry


def _nodes(core: Coordinator, rows: Counter[int]) -> list[dict[str, Any]]:
    return [
        {"node": core.names.get(row, f"row {row}"), "tasks": count}
        for row, count in rows.most_common(NODES)
    ]


def _victims(core: Coordinator, finding: InquiryFinding) -> list[dict[str, Any]]:
    """The jobs with tasks that would be evicted, and how many of these; ``moved``: of those, how
    many are promised another node."""
    tasks: Counter[int] = Counter()
    moved_tasks: Counter[int] = Counter()
    for run in finding.evictions:
        tasks[run.jid] += len(run.tasks)
        moved_tasks[run.jid] += len(run.to)
    return [
        {"job": state.job.key, "tasks": count, "moved": moved_tasks[jid]}
        for jid, count in tasks.items()
        if (state := core.order.known(jid)) is not None
    ]


def _after(core: Coordinator, rows: Counter[int]) -> list[str]:
    """The jobs that leave the nodes first."""
    leaving = holders(core, [row for row, _ in rows.most_common(NODES)])
    return sorted({key for holder in leaving.values() for key in holder.leaving})


def _waiting(core: Coordinator, queue: str) -> int:
    """Number of jobs that wait in the queue already; some may be tried first."""
    qid = core.order.queue_ids.get(queue)
    return 0 if qid is None else core.order.lines.queues[qid].waiting
