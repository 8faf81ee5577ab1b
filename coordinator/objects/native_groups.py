"""Rendering of Kubernetes' own PodGroups: their condition, as kube-scheduler words it.

``PodGroupInitiallyScheduled`` becomes True once and never goes back, so what is stored counts
before what holds now.
"""

from __future__ import annotations

from typing import Any

from coordinator.controllers.placed_groups import (
    condition_type,
    is_placed,
    placed_condition,
    stored_condition,
)
from coordinator.intake.documents.document import Document
from coordinator.intake.documents.index import Record
from coordinator.intake.documents.metadata import condition, written
from coordinator.jobs.state import JobState
from coordinator.objects.context import NOT_TRIED, ReadModel
from coordinator.objects.gangs import annotate_reason
from shard_worker.session_model.native_groups import WAITS, group_refusal

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
    present = None if state is None else initially_scheduled(read_model, state, document)
    # True is shown once it is stored: before that it could still go back.
    shown = stored if present is None or present["status"] == "True" else present
    value["status"] = {"conditions": [shown]} if shown is not None else {}
    annotate_reason(read_model, value, document.jid)
    return value


def initially_scheduled(read_model: ReadModel, state: JobState, document: Document) -> Json | None:
    """The condition that a group has now; None where nobody has found yet that there is no room.
    ``state``: of its job, or that of its tree."""
    key, now = document.key, read_model.core.order.now
    stored = stored_condition(document)
    if stored is not None and stored.get("status") == "True":
        return stored
    generation = _generation(document)
    story, why = read_model.stories.get(state.job.jid), read_model.why(state.job.jid)
    if is_placed(state, key, read_model.core.order.accounts.cluster.objects):
        since = None if story is None else story.placed_since
        return placed_condition(key.kind, now if since is None else since, generation)
    if why is None or why.reason in NOT_TRIED:
        return None
    since = None if story is None else story.waits_since
    refused = group_refusal(state.job)
    is_error = bool(refused) and not refused.startswith(WAITS)
    value = condition(
        condition_type(key.kind),
        False,
        reason=SCHEDULER_ERROR if is_error else UNSCHEDULABLE,
        message=refused or f"{why.reason}: {why.message}",
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
