"""The part of a plan about jobs for which others would be evicted.

As in Order, it comes after all that idle room takes: each job that still starves has a turn of each
evicting action of the policy, until one of them makes room. The actions judge by the totals as they
are once the jobs of the plan are stored and those with a place have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator.core.coordinator import Coordinator
from coordinator.explain.hypothetical_turns import evicting_turns
from coordinator.explain.plan import PlanVerdict
from coordinator.explain.plan_drawing import PlanCandidate, PlanDrawing
from coordinator.explain.plan_order import plan_totals
from coordinator.jobs.pending_reasons import cut
from coordinator.jobs.state import amounts
from shard_worker.inquiry.findings import InquiryFinding
from shard_worker.session_model.queue_totals import charge
from shard_worker.session_model.workload import ClusterInfo
from shared.codec.packed import replace
from shared.messages.messages import OutcomeCode
from shared.model.model import TaskClass
from shared.slices import Steps

MOST = 32
"""Jobs of one plan whose evictions are foreseen: each search looks at running tasks, and keeps its
worker from its turns."""
TOO_MANY = f"tasks may be evicted for it: a plan looks into that for {MOST} jobs at most"
UNKNOWN = "whether tasks would be evicted for it is not known"


@dataclass(frozen=True, slots=True)
class PlannedTotals:
    """The totals that the evicting actions of a plan judge by."""

    cluster: ClusterInfo
    classes: Mapping[int, TaskClass]


def evicting(
    core: Coordinator, drawn: PlanDrawing, candidates: Sequence[PlanCandidate]
) -> Steps[list[PlanCandidate]]:
    """The evicting turns of the jobs that found no place, in the order in which they come: by queue
    order, then job order. Several of one job stand side by side."""
    if not core.order.contention.actions:
        return []
    jobs = drawn.parts(candidates)
    cluster = plan_totals(core.order.accounts.cluster, jobs, drawn.classes)
    waiting = []
    for candidate in candidates:
        queue, finding = cluster.queues[candidate.queue.queue.qid], candidate.planned.finding
        for placement in finding.placements if finding is not None else ():
            requests = amounts(((placement.cid, len(placement.tasks)),), drawn.classes)
            charge(queue, requests.items(), 1)
        if candidate.planned.verdict is PlanVerdict.WAITS and finding is not None:
            waiting.append((candidate, drawn.state(candidate.planned.job, candidate.queue)))
    session = core.order.session
    waiting.sort(
        key=lambda pair: (
            session.queue_key(cluster.queues[pair[1].info.qid], cluster),
            pair[0].queue.queue.name,
            session.job_key(pair[1].info, cluster),
            pair[0].planned.job.created,
            pair[0].planned.job.jid,
        )
    )
    turns: list[PlanCandidate] = []
    for candidate, state in waiting[:MOST]:
        yield
        plan_turns = evicting_turns(
            core, state, drawn.classes, PlannedTotals(cluster, drawn.classes)
        )
        turns += [replace(candidate, turn=turn) for turn in plan_turns]
    for candidate, _ in waiting[MOST:]:
        _remark(candidate, TOO_MANY)
    return turns


def take(
    drawn: PlanDrawing, turns: Sequence[PlanCandidate], findings: list[InquiryFinding], shard: int
) -> list[PlanCandidate]:
    """Take a worker's findings about evicting turns; returns the turns of jobs that still wait."""
    served: set[int] = set()
    for candidate, finding in zip(turns, findings, strict=False):
        if finding.code in (OutcomeCode.PLACED, OutcomeCode.NOMINATED):
            drawn.take(candidate, [(shard, finding)])
            served.add(candidate.planned.job.jid)
    return [candidate for candidate in turns if candidate.planned.job.jid not in served]


def unanswered(turns: Sequence[PlanCandidate], error: str) -> None:
    """Say of these jobs that nobody looked whether tasks would be evicted for them."""
    for candidate in {turn.planned.job.jid: turn for turn in turns}.values():
        candidate.planned.silent = error
        _remark(candidate, f"{UNKNOWN} ({error}); plan again in a moment")


def _remark(candidate: PlanCandidate, text: str) -> None:
    why = candidate.planned.why
    if why is not None:
        candidate.planned.why = replace(why, message=cut(f"{why.message}; {text}"))
