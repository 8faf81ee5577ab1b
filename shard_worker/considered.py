"""Whom an eviction was not asked of, and why: counts by reason, for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from shard_worker.rules import Mask, Votes
from shard_worker.tasks import EVICTABLE, TaskInfo

if TYPE_CHECKING:
    from shard_worker.session import Session
    from shard_worker.session_job import SessionJob

Test = Callable[[TaskInfo, TaskInfo], bool]
Tests = Sequence[tuple[str, Test]]
"""(why not, (victim, evictor) -> may rules be asked about it), the first failure counts."""

LEAVING = "leaving, or not there yet"
UNWILLING = "not preemptable, as they say"
ON_NODE: Tests = ((LEAVING, lambda victim, _: bool(victim.status & EVICTABLE)),)
WILLING: Tests = ((UNWILLING, lambda victim, _: victim.preemptable),)
"""What every action asks."""
OUT_OF_REACH = "on nodes that the task cannot use"
TOO_LITTLE = "may be evicted, but with them not all that it needs fits"


def may_go(tests: Tests, victim: TaskInfo, evictor: TaskInfo) -> bool:
    return all(test(victim, evictor) for _, test in tests)


def considered(
    ssn: Session, evictor: TaskInfo, rows: Mask, tests: Tests, point: str
) -> dict[str, int]:
    """Why the tasks that are on nodes do not make way: reason -> tasks, each task once. Of its own
    job nobody is counted.

    ``rows``: the nodes that evictions could clear for the evictor. ``point``: Preemptable or
    Reclaimable; its rules are asked in the order in which they are combined, and where no tier lets
    anybody go the first one's reasons are told."""
    found: dict[str, int] = {}
    left: list[TaskInfo] = []
    for row, there in ssn.world.resident.items():
        for victim in there:
            if victim.job is evictor.job:
                continue
            why = next((why for why, test in tests if not test(victim, evictor)), "")
            if not why and not rows[row]:
                why = OUT_OF_REACH
            if why:
                found[why] = found.get(why, 0) + 1
            else:
                left.append(victim)
    for why, count in _by_rule(ssn, evictor, left, point).items():
        found[why] = found.get(why, 0) + count
    return found


def _by_rule(
    ssn: Session, evictor: TaskInfo, candidates: list[TaskInfo], point: str
) -> dict[str, int]:
    tiers: dict[int, list[tuple[str, Votes]]] = {}
    for hook in ssn.hooks[point]:
        tiers.setdefault(hook.tier, []).append((hook.plugin, hook.scalar))
    first: dict[str, int] | None = None
    for rules in tiers.values():
        found: dict[str, int] = {}
        left = candidates
        for plugin, rule in rules:
            answer = rule(evictor, left, ssn.world)
            if answer is not None:
                named = set(answer)
                kept = sum(task not in named for task in left)
                if kept:
                    found[f"kept by {plugin}"] = kept
                left = [task for task in left if task in named]
        if left:
            return {**found, TOO_LITTLE: len(left)}
        first = found if first is None else first
    return first or {}


def tell(ssn: Session, job: SessionJob, found: dict[str, int]) -> None:
    """Note on the session why nobody was evicted for a job."""
    ssn.spared[job.job.jid] = found
    if not job.unschedulable and job.job.jid not in ssn.skipped:
        ssn.skip(job, "NotEnoughResources", f"nobody makes way: {told(found) or 'nobody is there'}")


def told(found: dict[str, int]) -> str:
    """In one line, the most frequent reason first."""
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{count} {why}" for why, count in ordered)
