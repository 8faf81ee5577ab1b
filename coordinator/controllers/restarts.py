"""Which pods of a Job an action begins anew, and which of them have not begun anew yet.

The document of the Job says so as incarnations: task -> the number of incarnations that have to be
over. That is durable before the first pod is touched, and the tasks' own records count the
incarnations that are over, so that a leader that follows neither forgets a restart nor does it
twice. A pod that was evicted once more often than that was evicted by somebody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from coordinator.controllers.job_rules import JobStates, Ruling, has_part, part_of, ranges_of
from shared.manifests.volcano.policies import (
    POD_EVICTED,
    POD_FAILED,
    POD_PENDING,
    RESTART_PARTITION,
    RESTART_POD,
    TASK_COMPLETED,
)
from shared.messages.messages import ENDED, UNSUCCESSFUL, TaskState

RESTARTING = "Restarting"
"""Phase of a Job while pods of it have still to begin anew."""

Incarnations = Mapping[int, int]
"""Task -> number of its incarnations that were evicted or begun anew."""

_RESTARTED = (TaskState.BOUND, TaskState.RUNNING, *ENDED)
"""States of pods that are begun anew. What is on its way to a node has not begun; what is on its
way out of one is made anew in any case."""

_TRIGGERS = {
    POD_FAILED: UNSUCCESSFUL,
    TASK_COMPLETED: (TaskState.SUCCEEDED,),
    POD_PENDING: (TaskState.BOUND,),
    POD_EVICTED: (),  # it is made anew already
}
"""Event -> states of the pods that it is about."""


def incarnations(state: Mapping[str, Any]) -> dict[int, int]:
    """Incarnations of tasks in the state of a Job's document."""
    return {int(tix): incarnation for tix, incarnation in (state.get("incarnations") or {}).items()}


def after(ruling: Ruling, live: JobStates, before: Incarnations) -> dict[int, int]:
    """The incarnations to reach when the ruling is carried out."""
    first, end = ranges_of(live.job)[ruling.role]
    reached = dict(before)
    # Evictions of the role are what the ruling answers, if they are its event.
    reached |= {
        tix: incarnation for tix, incarnation in live.incarnations.items() if first <= tix < end
    }
    return reached | {
        tix: live.incarnations.get(tix, 0) + 1 for tix in targets(ruling, live, before)
    }


def targets(ruling: Ruling, live: JobStates, before: Incarnations) -> list[int]:
    """The pods that the ruling begins anew, as far as there is something to begin anew."""
    first, end = ranges_of(live.job)[ruling.role]
    causes = [tix for tix in range(first, end) if _is_cause(ruling.event, live, tix, before)]
    if ruling.action == RESTART_PARTITION:
        parts = {part_of(live.job, tix) for tix in causes}
        tasks = [tix for tix in range(first, end) if part_of(live.job, tix) in parts]
    else:
        tasks = causes if ruling.action == RESTART_POD else list(range(first, end))
    evicted = live.evicted
    return [tix for tix in tasks if live.states[tix] in _RESTARTED and tix not in evicted]


def _is_cause(event: str, live: JobStates, tix: int, before: Incarnations) -> bool:
    if event == POD_EVICTED:
        return live.incarnations.get(tix, 0) > before.get(tix, 0)
    return live.states[tix] in _TRIGGERS[event]


def behind(live: JobStates, wanted: Incarnations) -> Iterator[int]:
    """Tasks that have still to begin anew."""
    size = len(live.states)
    for tix, incarnation in wanted.items():
        if tix < size and live.incarnations.get(tix, 0) < incarnation and live.states[tix]:
            yield tix


def carried_out(ruling: Ruling, live: JobStates) -> bool:
    """Whether the role has what the action begins anew: as in Volcano, nothing follows from
    RestartPartition for a task without partitions."""
    return ruling.action != RESTART_PARTITION or has_part(live.job, ruling.role)
