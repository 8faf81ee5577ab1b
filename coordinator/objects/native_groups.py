"""Rendering of Kubernetes' own PodGroups: their condition, as kube-scheduler words it.

``PodGroupInitiallyScheduled`` becomes True once and never goes back, so what is stored counts
before what holds now.
"""

from __future__ import annotations

from typing import Any

from coordinator.controllers.placed_groups import (
    INITIALLY_SCHEDULED,
    is_placed,
    placed_condition,
    stored_condition,
)
from coordinator.intake.documents.document import Document
from coordinator.intake.documents.index import Record
from coordinator.intake.documents.kinds import NATIVE_POD_GROUP
from coordinator.intake.documents.metadata import condition, written
from coordinator.jobs.state import JobState
from coordinator.objects.context import NOT_TRIED, ReadModel
from coordinator.objects.gangs import annotate_reason
from shard_worker.session_model.native_groups import mixed_members

Json = dict[str, Any]

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
"""kube-scheduler's reason, of pods too, for a group that it does not try."""
_COMPARED = ("status", "reason", "message", "observedGeneration")


def written_native_group(read_model: ReadModel, record: Record, version: int) -> Json:
    document = record.document
    value = written(document, version)
    state = read_model.state(document.jid)
    stored = stored_condition(document)
    present = None if state is None else initially_scheduled(read_model, state)
    # True is shown once it is stored: before that it could still go back.
    shown = stored if present is None or present["status"] == "True" else present
    value["status"] = {"conditions": [shown]} if shown is not None else {}
    annotate_reason(read_model, value, document.jid)
    return value


def initially_scheduled(read_model: ReadModel, state: JobState) -> Json | None:
    """The condition that holds now; None where nobody has found yet that there is no room."""
    record = read_model.record(NATIVE_POD_GROUP.kind, state.job.key)
    if record is None:
        return None
    stored, now = stored_condition(record.document), read_model.core.order.now
    if stored is not None and stored.get("status") == "True":
        return stored
    generation = _generation(record.document)
    story, why = read_model.stories.get(state.job.jid), read_model.why(state.job.jid)
    if is_placed(state):
        since = None if story is None else story.placed_since
        return placed_condition(now if since is None else since, generation)
    if why is None or why.reason in NOT_TRIED:
        return None
    since = None if story is None else story.waits_since
    mixed = mixed_members(state.job)
    value = condition(
        INITIALLY_SCHEDULED,
        False,
        reason=SCHEDULER_ERROR if mixed else UNSCHEDULABLE,
        message=mixed or f"{why.reason}: {why.message}",
        at=now if since is None else since,
    )
    return value | {"observedGeneration": generation}


def is_same(stored: Json, present: Json) -> bool:
    """Whether a write would change nothing but times."""
    return all(stored.get(part) == present.get(part) for part in _COMPARED)


def _generation(document: Document) -> int:
    """The generation of the group; on a watched cluster the API server's."""
    generation = document.object()["metadata"].get("generation")
    return generation if isinstance(generation, int) else document.generation
