"""The results of a job's turns, kept for explanations of why it waits."""

from __future__ import annotations

from coordinator.jobs.state import JobState, LastTurn
from shared.messages.messages import Outcome, OutcomeCode


def note_try(state: JobState, outcome: Outcome, *, shard: int, epoch: str, at: float) -> None:
    """Note a returned turn: from ``shard``, served under ``epoch``, at ``at`` (seconds since
    1970)."""
    results, code = state.turn_results, outcome.code
    results.shards |= 1 << shard
    results.conflict_true += outcome.conflicts_true
    results.conflict_read += outcome.conflicts_read
    results.unanswered = outcome.unanswered
    if code is OutcomeCode.NOMINATED:
        results.nominated += 1
        state.last = None
        return
    if code is OutcomeCode.PLACED:
        results.placed += 1
        if not outcome.reasons:
            state.last = None
            return
    elif code is OutcomeCode.INFEASIBLE:
        results.infeasible += 1
        if state.failed_eviction is not None and state.failed_eviction.refusals is outcome.reasons:
            return  # nobody could be evicted: what allocate found still holds
    elif code is not OutcomeCode.CONFLICT:
        return  # it says nothing about places: the job is read anew
    state.last = LastTurn(
        code=code,
        reasons=outcome.reasons,
        failed_role=outcome.failed_role,
        conflicts_true=outcome.conflicts_true,
        conflicts_read=outcome.conflicts_read,
        shard=shard,
        epoch=epoch,
        session=outcome.session,
        at=at,
    )
