"""The timeline of a job: what happened to it and its tasks, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.jobs.state import JobState
from coordinator.objects.events import placed_text
from coordinator.objects.timeline import Audience, Happening, Story
from shared.messages.messages import UNSUCCESSFUL, TaskState
from shared.model.model import Job
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
    events: Iterable[Happening] = (),
) -> list[Entry]:
    """Story of a job, or of one task of it, oldest first.

    ``story``: what this coordinator saw, which is not durable. ``past``: what the history says of
    the time before it led. ``events``: what the policies of a Job did. Each entry: ``time`` and
    ``lastTime`` (RFC 3339), ``count``, ``reason`` (a word), ``message``, ``tasks`` (how many),
    ``names`` (of the first few), ``warning``."""
    job = state.job
    first = submitted(job.created, job.tasks, minimum_of(job), job.queue)
    entries = [(job.created, first), *((event.first, job_event(event)) for event in events)]
    for part in filter(None, (past, story)):
        entries += [(h.first, _happened(core, state, h)) for h in part.happenings if _of(h, tix)]
        for new_state, at, tasks in part.moments:
            if new_state in STATES and (tix < 0 or tix in tasks):
                entries += [(at, one) for one in _moments(state, new_state, at, tasks)]
    return [one for _, one in sorted(entries, key=lambda pair: pair[0])]


def _of(happening: Happening, tix: int) -> bool:
    """Whether it concerns this task, or the job as a whole."""
    if tix < 0 or happening.audience is not Audience.TASKS:
        return True
    return tix in happening.named()


def minimum_of(job: Job) -> int:
    """The tasks that must start together; 0 for pods whose PodGroup does not exist: until it does,
    their minimum is more than they can ever have."""
    return 0 if job.dangling else job.groups[0].minimum


def submitted(created: float, tasks: int, minimum: int, queue: str) -> Entry:
    least = f", at least {minimum} together" if minimum > 1 else ""
    return entry(created, "Submitted", f"{plural(tasks, 'task')}{least}, to queue {queue}")


def job_event(event: Happening) -> Entry:
    """Story entry of an action by a policy of a Job."""
    first = entry(event.first, event.reason, event.message)
    return first | {"lastTime": _time(event.last), "count": event.count, "warning": event.warning}


def _happened(core: Coordinator, state: JobState, happening: Happening) -> Entry:
    named = list(happening.named())
    text = placed_text(core, happening) if happening.placements else happening.message
    return job_event(happening) | {"message": text} | _tasks(state, named)


def _moments(
    state: JobState, new_state: TaskState, at: float, tasks: Sequence[int]
) -> Iterator[Entry]:
    """The starts or ends of some tasks. Pods that were deleted did not fail: they have no name."""
    deleted = {t for t in tasks if new_state is TaskState.FAILED and not state.job.pod_name(t)}
    if others := [t for t in tasks if t not in deleted]:
        yield _moment(state, new_state, at, others)
    if deleted:
        yield entry(at, "Deleted", f"{plural(len(deleted), 'pod')} deleted") | {
            "tasks": len(deleted)
        }


def _moment(state: JobState, new_state: TaskState, at: float, tasks: Sequence[int]) -> Entry:
    reason, words = STATES[new_state]
    moment = entry(at, reason, f"{plural(len(tasks), 'task')} {words}")
    return moment | {"warning": new_state in UNSUCCESSFUL} | _tasks(state, tasks)


def entry(at: float, reason: str, text: str) -> Entry:
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
