"""The story of a job: everything that happened to it and its tasks, in order, from what is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from coordinator.core import Coordinator
from coordinator.jobs import JobState
from coordinator.objects.story import Happening, Story, Whom
from coordinator.wording import plural, some
from shared.messages import Level, TaskState

Entry = dict[str, Any]

NAMED = 5
"""Tasks of an entry that are named; the others are counted."""
LEVELS = {level.value: f"L{level.value}" for level in Level}
STATES = {
    TaskState.RUNNING: ("Started", "began to run"),
    TaskState.SUCCEEDED: ("Succeeded", "succeeded"),
    TaskState.FAILED: ("Failed", "failed"),
}


def story_of(core: Coordinator, state: JobState, story: Story | None, tix: int = -1) -> list[Entry]:
    """What happened to a job, or to one task of it, oldest first.

    Only what this coordinator saw: it is not durable. Each entry: ``time`` and ``lastTime``
    (RFC 3339), ``count``, ``reason`` (a word), ``message``, ``tasks`` (how many), ``names`` (of the
    first few), ``warning``."""
    told = [(state.job.created, _submitted(state))]
    if story is not None:
        told += [(h.first, _happened(core, state, h)) for h in story.happenings if _of(h, tix)]
        for what, at, tasks in story.moments:
            if what in STATES and (tix < 0 or tix in tasks):
                told.append((at, _moment(state, what, at, tasks)))
    return [entry for _, entry in sorted(told, key=lambda one: one[0])]


def _of(happening: Happening, tix: int) -> bool:
    """Is it about this task, or about the job as a whole?"""
    if tix < 0 or happening.whom is not Whom.TASKS:
        return True
    return tix in happening.named()


def _submitted(state: JobState) -> Entry:
    job, groups = state.job, state.job.groups
    least = f", at least {groups[0].minimum} together" if groups[0].minimum > 1 else ""
    text = f"{plural(job.tasks, 'task')}{least}, to queue {job.queue}"
    return _entry(job.created, "Submitted", text)


def _happened(core: Coordinator, state: JobState, happening: Happening) -> Entry:
    named = list(happening.named())
    text = _placed(core, happening) if happening.placements else happening.message
    made = _entry(happening.first, happening.reason, text)
    made |= {"lastTime": _time(happening.last), "count": happening.count}
    return made | {"warning": happening.warning} | _tasks(state, named)


def _placed(core: Coordinator, happening: Happening) -> str:
    """Where tasks were placed, and at which levels."""
    levels, nodes = Counter[int](), Counter[int]()
    for placement in happening.placements:
        levels.update(placement.levels)
        nodes.update(placement.rows)
    at = [core.names.get(row, f"row {row}") for row, _ in nodes.most_common()]
    counted = ", ".join(f"{count} {LEVELS[level]}" for level, count in sorted(levels.items()))
    tasks = plural(sum(levels.values()), "task")
    return f"{tasks} placed by shard-{happening.shard} ({counted}) on {some(at)}"


def _moment(state: JobState, what: TaskState, at: float, tasks: Sequence[int]) -> Entry:
    reason, words = STATES[what]
    made = _entry(at, reason, f"{plural(len(tasks), 'task')} {words}")
    return made | {"warning": what is TaskState.FAILED} | _tasks(state, tasks)


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
    known = [tix for tix in tasks[:NAMED] if tix < state.job.tasks]
    return {"tasks": len(tasks), "names": [state.job.pod_name(tix) for tix in known]}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
