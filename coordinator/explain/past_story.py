"""The story of a job before the present leader, from the history."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.cluster.history.job_past import (
    PastEvent,
    PastEviction,
    PastPlacement,
    PastStates,
)
from coordinator.core.coordinator import Coordinator
from coordinator.core.observer import EventReason
from coordinator.jobs.state import JobState
from coordinator.objects.story_texts import (
    REMEMBERED,
    evicted_text,
    evicting_text,
    nominated_text,
    stopped_text,
)
from coordinator.objects.timeline import Audience, Happening, Story
from coordinator.objects.wait_log import WaitLog, least_running
from shared.messages.messages import ALLOCATE, HOLDING, Placement, TaskState


def past_story(core: Coordinator, state: JobState, events: Sequence[PastEvent]) -> Story:
    """The story as a leader would have recorded it: what the ledger judged and the cluster said.
    Why the job waited in between is written down nowhere."""
    story, evicted = Story(state.job.tasks), set[int]()
    story.waits = past_waits(state, events)
    for event in events:
        match event:
            case PastPlacement():
                story.happenings.append(_placed(event))
            case PastEviction():
                story.happenings.append(_evicted(core, state, event))
                evicted.update(event.tasks if event.jid == state.job.jid else ())
            case PastStates() if event.state in REMEMBERED:
                story.remember(event.state, event.at, event.tasks)
            case PastStates() if event.state is TaskState.RELEASING:
                if stopped := evicted.intersection(event.tasks):
                    evicted -= stopped
                    text = stopped_text(len(stopped))
                    story.happenings.append(_happening(event.at, EventReason.EVICT, text))
            case PastStates():
                pass
    return story


def past_waits(state: JobState, events: Sequence[PastEvent]) -> WaitLog:
    """When its waits began and ended; their reasons are not in the history."""
    log, least = WaitLog(state.job.created), least_running(state)
    holding, running = set[int](), set[int]()
    for event in events:
        match event:
            case PastPlacement() if not event.is_nomination:
                holding.update(event.tasks)
                if len(holding) >= least:
                    log.gang_placed(event.at)
            case PastStates():
                if event.state in (TaskState.RUNNING, TaskState.SUCCEEDED):
                    running.update(event.tasks)
                elif event.state not in HOLDING:
                    holding.difference_update(event.tasks)
                    running.difference_update(event.tasks)
                log.tasks_changed(event.state, event.at, runs=len(running) >= least)
            case _:
                pass
    return log


def _placed(event: PastPlacement) -> Happening:
    if event.is_nomination:
        text = nominated_text(len(event.tasks), event.shard)
        return _happening(event.at, EventReason.NOMINATED, text, shard=event.shard)
    happening = _happening(event.at, EventReason.SCHEDULED, "", shard=event.shard)
    happening.audience = Audience.TASKS
    happening.placements = [Placement(-1, ALLOCATE, event.tasks, event.rows, event.levels)]
    return happening


def _evicted(core: Coordinator, state: JobState, event: PastEviction) -> Happening:
    victim, by = core.order.known(event.jid), core.order.known(event.by_jid)
    if event.jid != state.job.jid:
        name = f"job {event.jid}" if victim is None else victim.job.key
        text = evicting_text(len(event.tasks), name, event.reason)
        return _happening(event.at, EventReason.EVICTING, text)
    name = f"job {event.by_jid}" if by is None else by.job.key
    text = evicted_text("" if event.jid == event.by_jid else name, event.reason)
    happening = _happening(event.at, EventReason.EVICTED, text)
    happening.audience, happening.tasks = Audience.TASKS, event.tasks
    return happening


def _happening(at: float, reason: EventReason, text: str, *, shard: int = -1) -> Happening:
    return Happening(
        number=0,
        version=0,
        reason=reason,
        message=text,
        audience=Audience.JOB,
        warning=False,
        first=at,
        last=at,
        shard=shard,
    )
