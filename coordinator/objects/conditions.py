"""Conditions of PodGroups in Volcano's words.

Volcano's scheduler sets the condition of each type anew and takes none away: a gang that waited and
was placed has ``Unschedulable`` beside ``Scheduled``, each where it came first.
"""

from __future__ import annotations

from typing import Any

from coordinator.core.observer import EventReason
from coordinator.intake.documents.document import Key, make_uid
from coordinator.intake.documents.kinds import POD_GROUP
from coordinator.intake.documents.metadata import condition
from coordinator.jobs.state import JobState
from coordinator.objects.context import NOT_TRIED, UNKNOWN, ReadModel, phase
from coordinator.objects.timeline import Story
from shared.messages.reason import Reason

Json = dict[str, Any]

SCHEDULED = "Scheduled"
UNSCHEDULABLE = "Unschedulable"
READY = "tasks in gang are ready to be scheduled"
"""Reason of the condition ``Scheduled``, as in Volcano."""
_EVENTS = {
    UNSCHEDULABLE: EventReason.FAILED_SCHEDULING,
    SCHEDULED: EventReason.SCHEDULED,
}
"""Type of a condition -> reason of the event that comes with it."""


def lacks_minimum(state: JobState) -> bool:
    held = state.info.held[0]
    return not held or held < state.job.groups[0].minimum


def present_condition(read_model: ReadModel, state: JobState) -> Json | None:
    """The condition that holds now; None where nobody has found yet that the gang does not fit.
    A gang that holds a part of its members always has one."""
    story, why = read_model.stories.get(state.job.jid), read_model.why(state.job.jid)
    held, minimum = state.info.held[0], state.job.groups[0].minimum
    if not lacks_minimum(state):
        return _scheduled(state, story)
    is_tried = why is not None and why.reason not in NOT_TRIED
    if not is_tried and phase(state) != UNKNOWN:
        return None
    text = "" if why is None else f"{why.reason}: {why.message}"
    if held:
        missing = f"{minimum - held}/{len(state.states)} tasks in gang unschedulable"
        text = f"{missing}: {text}" if text else missing
    few = why is not None and why.reason is Reason.NOT_ENOUGH_TASKS
    return _unschedulable(state, text, None if story is None else story.waits_since, few=few)


def lasting_conditions(read_model: ReadModel, state: JobState, present: Json) -> list[Json]:
    """The condition that holds now, and one of the other type that held before."""
    story = read_model.stories.get(state.job.jid)
    if story is None:
        return [present]
    first = {
        type_: next((h.number for h in story.happenings if h.reason == reason), None)
        for type_, reason in _EVENTS.items()
    }
    if present["type"] == UNSCHEDULABLE and first[SCHEDULED] is not None:
        before = _scheduled(state, story)
    elif present["type"] == SCHEDULED and story.shortage is not None:
        text, since = story.shortage
        few = text.startswith(f"{Reason.NOT_ENOUGH_TASKS}: ")
        before = _unschedulable(state, text, since, few=few)
    else:
        return [present]
    # One that no event came with yet is the newest.
    return sorted((before, present), key=lambda c: first[c["type"]] or story.version)


def _scheduled(state: JobState, story: Story | None) -> Json:
    return _condition(state, SCHEDULED, READY, "", None if story is None else story.placed_since)


def _unschedulable(state: JobState, text: str, since: float | None, *, few: bool) -> Json:
    reason = Reason.NOT_ENOUGH_TASKS if few else Reason.NOT_ENOUGH_RESOURCES
    return _condition(state, UNSCHEDULABLE, reason, text, since)


def _condition(state: JobState, type_: str, reason: str, text: str, since: float | None) -> Json:
    """``transitionID`` is another one with each transition, as that of a session in Volcano."""
    key = Key(POD_GROUP.kind, state.job.namespace, state.job.name)
    transition = make_uid(key, since or 0.0, type_)
    value = condition(type_, True, reason=reason, message=text, at=since)
    return value | {"transitionID": transition}
