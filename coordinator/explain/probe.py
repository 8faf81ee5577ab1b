"""The inquiries behind one explanation: the job's turn, and its turn under proposed changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.inquiry_client import Inquiries, InquiryUnanswered
from coordinator.explain.advice import more_quota
from coordinator.explain.hypothetical_turns import best_shards, draft_turn, here_turn, session_turn
from coordinator.explain.verdict import KEPT, larger_than_shards
from coordinator.jobs.pending_reasons import Why
from coordinator.jobs.state import JobState, LastTurn, SchedulingStatus, amounts
from shard_worker.inquiry.findings import InquiryFinding, PlacementScores
from shard_worker.inquiry.inquiry import Inquiry
from shared.codec.packed import replace
from shared.messages.messages import HOLDING, OutcomeCode, TaskState, Turn
from shared.messages.reason import Reason
from shared.messages.skips import written
from shared.model.model import Job
from shared.model.topology import Topology


@dataclass(frozen=True, slots=True)
class WorkerFindings:
    """The workers' findings."""

    finding: InquiryFinding | None = None
    shard: int = -1
    silent: str = ""
    """Why no worker answered."""
    changes: list[tuple[str, InquiryFinding]] = field(default_factory=list)
    """The finding for each proposed change of the job."""
    placement_scores: PlacementScores | None = None


async def look(
    core: Coordinator, inquiries: Inquiries, state: JobState, why: Why, names: Sequence[str]
) -> WorkerFindings:
    """Inquire about a waiting job. Where it finds no place, the result is stored as its last
    turn's, so that all answers give the same reason from then on."""
    asks = why.reason not in KEPT or why.reason is Reason.EXCEEDS_CAPABILITY
    if not asks or not state.unplaced or state.info.qid < 0:
        return WorkerFindings()
    turn, needed = draft_turn(core, state, core.order.accounts.classes)
    if not state.info.pending:
        turn = session_turn(core, state, turn, action="backfill")
    elif core.order.slow(state):
        turn = session_turn(core, state, turn)
    changed = _changes(core, state, turn, why, names)
    turns = [turn, *(changed_turn for _, changed_turn in changed), here_turn(core, state, turn)]
    inquiry = Inquiry(turns, [needed] * len(turns), funnels=True, apart=True)
    requested = amounts(tuple(needed.items()), core.order.accounts.classes)
    home = -1 if state.last is None else state.last.shard
    shards = best_shards(core, requested, home)
    try:
        if core.order.walls:
            answers = [(n, await inquiries.ask(n, inquiry)) for n in shards]
            if not answers:
                return WorkerFindings(silent="no shard has a worker")
        else:
            answers = [await inquiries.ask_any(shards, inquiry)]
    except InquiryUnanswered as error:
        return WorkerFindings(silent=str(error))
    all_found = [(shard, answer.findings) for shard, answer in answers]
    # The answer nearest to a placement counts: `OutcomeCode` is in that order.
    shard, findings = min(all_found, key=lambda item: (item[1][0].code, -_starts(item[1][0])))
    apart = larger_than_shards([f[0] for _, f in all_found]) if core.order.walls else ""
    _note(core, state, findings[0], shard, apart)
    labels = [label for label, _ in changed]
    placement_scores = [
        item for finding in findings[1 + len(labels) :] for item in finding.placement_scores
    ]
    return WorkerFindings(
        findings[0],
        shard,
        changes=list(zip(labels, findings[1:], strict=False)),
        placement_scores=placement_scores[0] if placement_scores else None,
    )


async def look_here(
    core: Coordinator, inquiries: Inquiries, state: JobState, tix: int
) -> tuple[PlacementScores, int] | None:
    """Why a placed task is on its node, and the shard that answered; None where it has no node or
    is leaving it, or no worker answers. ``tix`` -1: the first placed task."""
    if tix < 0:
        tix = next((t for t, now in enumerate(state.states) if now in HOLDING), -1)
    placed = tix >= 0 and state.states[tix] in HOLDING
    if not placed or state.states[tix] == TaskState.RELEASING or state.info.qid < 0:
        return None
    turn, _ = draft_turn(core, state, core.order.accounts.classes)
    own_shard = core.dispatcher.shard_of.get(state.rows[tix], -1)
    # A bit for each shard that had a turn of the job. If there was one alone, its worker tells own
    # nodes from others' as that turn did.
    by = state.turn_results.shards
    shard = by.bit_length() - 1 if by.bit_count() == 1 else own_shard
    try:
        inquiry = Inquiry([here_turn(core, state, turn, tix)], [{}])
        shard, answer = await inquiries.ask_any(best_shards(core, {}, shard), inquiry)
    except InquiryUnanswered:
        return None
    scores = answer.findings[0].placement_scores
    return (scores[0], shard) if scores else None


def _starts(finding: InquiryFinding) -> int:
    return finding.funnels[0].funnel.starts if finding.funnels else 0


def _note(
    core: Coordinator, state: JobState, finding: InquiryFinding, shard: int, apart: str
) -> None:
    """``apart``: the note, in hard mode, that no single shard could hold what all together
    could."""
    # Only what a turn would have noted as well: one judgement of a job, whoever asks (decision
    # 0036).
    if finding.code is not OutcomeCode.INFEASIBLE or not finding.reasons:
        return
    if state.status is SchedulingStatus.NOMINATED or state.job.jid not in core.order.jobs:
        return
    epoch = core.dispatcher.shards[shard].epoch
    last = LastTurn(
        code=finding.code,
        reasons={written(Reason.LARGER_THAN_SHARD, apart): 1} if apart else finding.reasons,
        failed_role=finding.funnels[0].role if finding.funnels else "",
        fitting=min(_starts(finding), finding.funnels[0].needed) if finding.funnels else 0,
        conflicts_true=0,
        conflicts_read=0,
        shard=shard,
        epoch=str(epoch) if epoch is not None else "",
        session=0 if state.last is None else state.last.session,
        at=core.order.now,
    )
    state.last = last
    # What holds back one of a line holds back all of it, and its first speaks for those that had
    # no turn.
    first = None if state.line is None else core.order.lines.first_of(state.line)
    if first is not None and first.last is None:
        first.last = last


# --- what would help ----------------------------------------------------------------------------


def _changes(
    core: Coordinator, state: JobState, turn: Turn, why: Why, names: Sequence[str]
) -> list[tuple[str, Turn]]:
    """Proposed changes that only a session can try: (change, turn)."""
    changes: list[tuple[str, Turn]] = []
    if not turn.world or not state.info.pending:
        return changes
    if why.reason is Reason.WAITING_FOR_QUOTA and why.short:
        short = {slot: round(amount) for slot, amount in why.short.items()}
        label = more_quota(why, state.job, names)
        changes.append((label, session_turn(core, state, turn, relief=short)))
    for label, job in _topologies(state.job):
        changes.append((label, session_turn(core, replace(state, job=job), turn)))
    return changes


def _topologies(job: Job) -> list[tuple[str, Job]]:
    """The job with domains one tier wider, and with soft topology; or on nodes of any label."""
    if job.topology_key:
        wherever = f"without schedulingConstraints.topology (key {job.topology_key})"
        return [(wherever, replace(job, topology_key=""))]
    rules = [job.topology, *(group.topology for group in job.sub_groups)]
    hard = [rule for rule in rules if rule is not None and rule.hard]
    if not hard:
        return []
    variants = [("topology as a wish (mode soft)", _with(job, soft=True))]
    tiers = {rule.highest_tier for rule in hard}
    if None not in tiers and not any(rule.highest_tier_name for rule in hard):
        wider = ", ".join(str(tier + 1) for tier in sorted(t for t in tiers if t is not None))
        variants.insert(0, (f"one tier wider (highestTierAllowed {wider})", _with(job, soft=False)))
    return variants


def _with(job: Job, *, soft: bool) -> Job:
    def changed(rule: Topology | None) -> Topology | None:
        if rule is None or not rule.hard:
            return rule
        if soft:
            return replace(rule, hard=False)
        return replace(rule, highest_tier=(rule.highest_tier or 0) + 1)

    groups = tuple(replace(group, topology=changed(group.topology)) for group in job.sub_groups)
    return replace(job, topology=changed(job.topology), sub_groups=groups)
