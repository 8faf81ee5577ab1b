"""Parts of an explanation about the whole job: gang by role, the queue's figures, estimated
wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coordinator.core.coordinator import Coordinator
from coordinator.explain.queues.queue_tree import share_figures, tree_of
from coordinator.jobs.state import (
    FailedEviction,
    JobState,
    amounts,
    by_state,
    deleted_members,
)
from coordinator.jobs.wait_times import RecentWaits
from shard_worker.session_model.queue_totals import used
from shard_worker.session_model.workload import QueueInfo
from shared.messages.messages import ENDED, TaskState
from shared.policy.model import Dialect
from shared.units.amount_text import by_name, plural
from shared.units.times import rfc3339, span

RUNS = (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING)
SHOWN_DIGITS = 1
"""Decimals of the seconds of an estimate."""


def gang(state: JobState) -> list[dict[str, Any]]:
    """Each role: how many of its tasks exist, are pending, run, leave, have ended and were deleted
    before, and how many must start together."""
    minima = dict(state.job.role_minima)
    rows: dict[str, dict[str, Any]] = {}
    for role in state.job.roles:
        counts = by_state(state.states[role.first : role.first + role.count])
        row = rows.setdefault(
            role.name,
            {"role": role.name, "tasks": 0, "minimum": minima.get(role.name)}
            | dict.fromkeys(("pending", "running", "leaving", "ended", "deleted"), 0),
        )
        row["tasks"] += role.count
        row["pending"] += counts.get(TaskState.PENDING, 0)
        row["running"] += sum(counts.get(code, 0) for code in RUNS)
        row["leaving"] += counts.get(TaskState.RELEASING, 0)
        deleted = deleted_members(state, role)
        row["ended"] += sum(counts.get(code, 0) for code in ENDED) - deleted
        row["deleted"] += deleted
    return list(rows.values())


def quota(core: Coordinator, state: JobState, names: Sequence[str]) -> list[dict[str, Any]]:
    """The figures of the job's queue, then of its ancestors, in the resources that the job
    requests. A figure that is not set is missing."""
    accounts = core.order.accounts
    need = core.order.need_of(state) if state.info.pending else ()
    requested = amounts(need, accounts.classes)
    queues = []
    is_tree = core.order.session.policy.dialect is Dialect.KAI
    tree = tree_of(core) if is_tree else None
    at = core.order.lines.queues.get(state.info.qid)
    while at is not None:
        figures = _figures(core, at.info, requested, names)
        if tree is not None and at.info.queue.name in tree.books:
            figures |= share_figures(tree, at.info.queue.name, list(by_name(requested, names)))
        queues.append({"queue": at.info.queue.name} | figures)
        at = core.order.lines.queues.get(at.info.queue.parent)
    if queues:
        queues[0]["asks"] = by_name(requested, names)
    return queues


def _figures(
    core: Coordinator, info: QueueInfo, requested: Mapping[int, int], names: Sequence[str]
) -> dict[str, Any]:
    queue = info.queue
    amounts_of: dict[str, Mapping[int, float]] = {
        "allocated": used(info),
        "deserved": core.order.session.deserved(info, core.order.accounts.cluster),
        "guarantee": dict(queue.guarantee),
        "capability": dict(queue.capability or ()),
    }
    shown = {
        name: by_name({s: a for s, a in figures.items() if s in requested}, names)
        for name, figures in amounts_of.items()
    }
    return {name: figures for name, figures in shown.items() if figures or name == "allocated"}


def attempts(state: JobState) -> dict[str, int]:
    """The job's turns by result, and the statements that the ledger refused."""
    tries = state.turn_results
    return {
        "placed": tries.placed,
        "nominated": tries.nominated,
        "infeasible": tries.infeasible,
        "trueConflicts": tries.conflict_true,
        "readConflicts": tries.conflict_read,
        "shards": tries.shards.bit_count(),
    }


def victims(state: JobState) -> dict[str, Any] | None:
    """The possible victims of the last failed attempt to evict for the job, and why they were not
    evicted; ``others``: the same of the last attempts by other actions. None where no attempt
    failed, or no task is pending."""
    failed = state.failed_eviction
    if failed is None or not state.info.pending:
        return None
    last, *others = map(_victims_of, failed.considered)
    return {**last, "others": others} if others else last


def _victims_of(failed: FailedEviction) -> dict[str, Any]:
    """The possible victims of one attempt, and why they were not evicted."""
    worst = sorted(failed.refusals.items(), key=lambda item: (-item[1], item[0]))
    reasons = [{"why": reason, "tasks": count} for reason, count in worst]
    return {"action": failed.action, "considered": sum(failed.refusals.values()), "kept": reasons}


def preemption_delay(core: Coordinator, state: JobState, now: float) -> dict[str, str] | None:
    """Until when a PodGroup of KAI's has nobody evicted for it; None where it may, or is none."""
    group = core.order.accounts.cluster.objects.kai_groups.get(state.job.kai_group)
    if group is None:
        return None
    until = group.delayed_until(state.job.created)
    if not group.preemption_delay or until <= now:
        return None
    text = f"until then nobody is evicted for it (preemptionDelay {span(group.preemption_delay)})"
    return {"until": rfc3339(until), "message": text}


class RemainingWait(NamedTuple):
    """Percentiles in seconds, and the number of jobs that they rest on."""

    p50: float
    p90: float
    jobs: int


def remaining_wait(likes: RecentWaits, state: JobState, now: float) -> RemainingWait | None:
    """The expected remaining wait: of jobs of its sort that had waited as long already. None where
    too few are known."""
    waited = max(0.0, now - state.job.created)
    # Those that were placed sooner than this one has waited by now say nothing of what is left.
    waits = sorted(wait - waited for wait in likes.of(state) if wait > waited)
    if len(waits) < RecentWaits.ENOUGH:
        return None
    return RemainingWait(waits[len(waits) // 2], waits[len(waits) * 9 // 10], len(waits))


def estimate(likes: RecentWaits, state: JobState, now: float) -> dict[str, Any] | None:
    """The expected remaining wait, as :func:`remaining_wait`, as a user is shown it."""
    expected = remaining_wait(likes, state, now)
    if expected is None:
        return None
    return {
        "p50": round(expected.p50, SHOWN_DIGITS),
        "p90": round(expected.p90, SHOWN_DIGITS),
        "basis": f"{plural(expected.jobs, 'job')} like it in queue {state.job.queue}, "
        "that had waited as long",
    }
