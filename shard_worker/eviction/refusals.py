"""Why tasks were not evicted: counts by reason, for explanations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from shard_worker.framework.extension_points import Point
from shard_worker.framework.rules import Mask, Votes
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import EVICTABLE
from shared.messages.reason import Reason

if TYPE_CHECKING:
    from shard_worker.framework.session import Session
    from shard_worker.session_model.job import SessionJob

Test = Callable[[TaskInfo, TaskInfo], bool]
Tests = Sequence[tuple[str, Test]]
"""(reason, (victim, evictor) -> whether plugins are asked about it); the first failing test is the
reason."""

LEAVING = "leaving, or not there yet"
UNWILLING = "not preemptable, as they say"
ON_NODE: Tests = ((LEAVING, lambda victim, _: bool(victim.status & EVICTABLE)),)
WILLING: Tests = ((UNWILLING, lambda victim, _: victim.preemptable),)
"""The test of every action."""
OUT_OF_REACH = "on nodes that the task cannot use"
TOO_LITTLE = "may be evicted, but with them not all that it needs fits"


def may_go(tests: Tests, victim: TaskInfo, evictor: TaskInfo) -> bool:
    return all(test(victim, evictor) for _, test in tests)


def considered(
    ssn: Session, evictor: TaskInfo, rows: Mask, tests: Tests, point: Point[None, Votes]
) -> dict[str, int]:
    """Why running tasks are not evicted: reason -> tasks, each task once. Tasks of the evictor's
    own job are not counted.

    ``rows``: the nodes that evictions could clear for the evictor. ``point``: Preemptable or
    Reclaimable; its plugins are asked in the order in which they are combined, and if no tier
    allows a victim, the first tier's reasons are reported.
    """
    counts: dict[str, int] = {}
    candidates: list[TaskInfo] = []
    world = ssn.world
    for row in world.inhabited_rows():
        for victim in world.tasks_on(row):
            if victim.job is evictor.job:
                continue
            why = next((why for why, test in tests if not test(victim, evictor)), "")
            if not why and not rows[row]:
                why = OUT_OF_REACH
            if why:
                counts[why] = counts.get(why, 0) + 1
            else:
                candidates.append(victim)
    for why, count in _by_rule(ssn, evictor, candidates, point).items():
        counts[why] = counts.get(why, 0) + count
    return counts


def _by_rule(
    ssn: Session, evictor: TaskInfo, candidates: list[TaskInfo], point: Point[None, Votes]
) -> dict[str, int]:
    tiers: dict[int, list[tuple[str, Votes]]] = {}
    for hook in ssn.rules(point):
        tiers.setdefault(hook.tier, []).append((hook.plugin, hook.scalar))
    first: dict[str, int] | None = None
    for rules in tiers.values():
        counts: dict[str, int] = {}
        remaining = candidates
        for plugin, rule in rules:
            answer = rule(evictor, remaining, ssn.world)
            if answer is not None:
                named = set(answer)
                refused = sum(task not in named for task in remaining)
                if refused:
                    counts[f"kept by {plugin}"] = refused
                remaining = [task for task in remaining if task in named]
        if remaining:
            return {**counts, TOO_LITTLE: len(remaining)}
        first = counts if first is None else first
    return first or {}


def tell(ssn: Session, job: SessionJob, counts: dict[str, int]) -> None:
    """Record on the session why nobody was evicted for a job."""
    ssn.spared[job.job.jid] = counts
    if not job.unschedulable and job.job.jid not in ssn.skipped:
        ssn.skip(
            job,
            Reason.NOT_ENOUGH_RESOURCES,
            f"nobody makes way: {told(counts) or 'nobody is there'}",
        )


def told(counts: dict[str, int]) -> str:
    """The counts in one line, the most frequent reason first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{count} {why}" for why, count in ordered)
