"""The timeline of a job: what happened to it and its tasks, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.jobs.state import JobState
from coordinator.objects.events import placed_text
from coordinator.objects.timeline import Audience, Happening, Story
from shared.messages.messages import UNSUCCESSFUL, TaskState
from shared.units.amount_text import plural
from shared.units.times import rfc3339

Entry = dict[str, Any]

NAMED = 5
"""Tasks named per entry; the others are counted."""
STATES = {
    TaskState.RUNNING: ("Started", "began to run"),
    TaskState.SUCCEEDED: ("Succeeded", "succeeded"),
    TaskState.FAILED: ("Failed", "failed"),
    TaskState.LOST: ("Lost", "vanished from the cluster"),
}


def story_of(
    core: Coordinator,
    state: JobState,
    story: Story | None,
    tix: int = -1,
    *,
    past: Story | None = None,
) -> list[Entry]:
    """Story of a job, or of one task of it, oldest first.

    ``story``: what this coordinator saw, which is not durable. ``past``: what the history says of
    the time before it led. Each entry: ``time`` and ``lastTime`` (RFC 3339), ``count``, ``reason``
    (a word), ``message``, ``tasks`` (how many), ``names`` (of the first few), ``warning``."""
    entries = [(state.job.created, _submitted(state))]
    for part in filter(None, (past, story)):
        entries += [(h.first, _happened(core, state, h)) for h in part.happenings if _of(h, tix)]
        for new_state, at, tasks in part.moments:
            if new_state in STATES and (tix < 0 or tix in tasks):
                entries += [(at, entry) for entry in _moments(state, new_state, at, tasks)]
    return [entry for _, entry in sorted(entries, key=lambda pair: pair[0])]


def _of(happening: Happening, tix: int) -> bool:
    """Whether it concerns this task, or the job as a whole."""
    if tix < 0 or happening.audience is not Audience.TASKS:
        return True
    return tix in happening.named()


def _submitted(state: JobState) -> Entry:
    job, groups = state.job, state.job.groups
    least = f", at least {groups[0].minimum} together" if groups[0].minimum > 1 else ""
    text = f"{plural(job.tasks, 'task')}{least}, to queue {job.queue}"
    return _entry(job.created, "Submitted", text)


def _happened(core: Coordinator, state: JobState, happening: Happening) -> Entry:
    named = list(happening.named())
    text = placed_text(core, happening) if happening.placements else happening.message
    entry = _entry(happening.first, happening.reason, text)
    entry |= {"lastTime": _time(happening.last), "count": happening.count}
    return entry | {"warning": happening.warning} | _tasks(state, named)


def _moments(
    state: JobState, new_state: TaskState, at: float, tasks: Sequence[int]
) -> Iterator[Entry]:
    """The starts or ends of some tasks. Pods that were deleted did not fail: they have no name."""
    deleted = {t for t in tasks if new_state is TaskState.FAILED and not state.job.pod_name(t)}
    if others := [t for t in tasks if t not in deleted]:
        yield _moment(state, new_state, at, others)
    if deleted:
        yield _entry(at, "Deleted", f"{plural(len(deleted), 'pod')} deleted") | {
            "tasks": len(deleted)
        }


def _moment(state: JobState, new_state: TaskState, at: float, tasks: Sequence[int]) -> Entry:
    reason, words = STATES[new_state]
    entry = _entry(at, reason, f"{plural(len(tasks), 'task')} {words}")
    return entry | {"warning": new_state in UNSUCCESSFUL} | _tasks(state, tasks)


def _entry(at: float, reason: str, text: str) -> Entry:
    return {
        "time": _time(at),
        "lastTime": _time(at),
        "count": 1,
        "reason": reason,
        "message": text,
        "warning": False,
        "tasks": 0,
        "names": [],
    }


def _tasks(state: JobState, tasks: Sequence[int]) -> Entry:
    existing = [tix for tix in tasks[:NAMED] if tix < state.job.tasks]
    return {"tasks": len(tasks), "names": [state.job.pod_name(tix) for tix in existing]}


def _time(at: float) -> str:
    return rfc3339(at, "milliseconds")
