"""Keeps with each of Kubernetes' own PodGroups that it was placed once: its condition never goes
back, also where another leader finds fewer pods. On a watched cluster the API server keeps it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from coordinator.core.coordinator import Coordinator
from coordinator.intake.admission.result import Admission, merged
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.group_trees import group_keys, sub_group_of
from coordinator.intake.documents.metadata import condition
from coordinator.intake.intake import Intake
from coordinator.jobs.state import JobState
from shard_worker.dialects.kai.service.gangs import is_satisfied
from shared.messages.messages import StatusItem, TaskState
from shared.model.groups import COMPOSITE, NATIVE_KINDS
from shared.model.objects import ClusterObjects

Json = dict[str, Any]
INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
SCHEDULED = "Scheduled"
_ON_NODES = (TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING, TaskState.SUCCEEDED)


class PlacedGroups:
    def __init__(self, core: Coordinator, intake: Intake) -> None:
        self._core = core
        self._intake = intake
        self._due: dict[Key, int] = {}

    def restored(self) -> None:
        """At the start: a leader before this one may have ended between bind and condition."""
        if not self._intake.is_observed:
            for state in self._core.order.jobs.values():
                self._look(state)

    def recorded(self, items: Iterable[StatusItem]) -> bool:
        """Take recorded states of tasks; True where there is something to keep."""
        if self._intake.is_observed:
            return False
        for item in items:
            if item.state in _ON_NODES and (state := self._core.order.jobs.get(item.jid)):
                self._look(state)
        return bool(self._due)

    def _look(self, state: JobState) -> None:
        job, objects = state.job, self._core.order.accounts.cluster.objects
        for key in group_keys(job) if job.kind in NATIVE_KINDS else ():
            document = self._intake.documents.get(key)
            is_kept = document is not None and condition_type(key.kind) in (document.state or {})
            if not is_kept and is_placed(state, key, objects):
                self._due[key] = job.jid

    def take(self) -> dict[Key, int]:
        """Groups that were placed, with their jobs. Each is returned once."""
        due, self._due = self._due, {}
        return due


def keep_placed(intake: Intake, placed: dict[Key, int], now: float) -> Admission:
    """Keep the condition with these groups, as far as they still exist and lack it."""
    notes = []
    for key, jid in placed.items():
        document = intake.documents.get(key)
        if document is not None and stored_condition(document) is None:
            shown = placed_condition(key.kind, now, document.generation)
            state = {condition_type(key.kind): shown}
            notes.append(intake.note(key, jid, state))
    return merged(notes)


def condition_type(kind: str) -> str:
    """The type of the condition that a group of this kind has."""
    return "CompositePodGroupInitiallyScheduled" if kind == COMPOSITE else INITIALLY_SCHEDULED


def stored_condition(document: Document) -> Json | None:
    """The condition that is kept with the group; on a watched cluster the API server's."""
    name = condition_type(document.key.kind)
    if (kept := (document.state or {}).get(name)) is not None:
        return dict(kept)
    conditions = (document.object().get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c.get("type") == name), None)


def is_placed(state: JobState, key: Key, objects: ClusterObjects) -> bool:
    """Whether as many members of the group, or of those below it, as start together have been
    bound."""
    job = state.job
    if job.kind != COMPOSITE:
        return sum(map(state.states.count, _ON_NODES)) >= job.groups[0].minimum
    group, held = objects.kai_groups.get(job.kai_group), Counter[str]()
    for role in job.roles:
        part = state.states[role.first : role.first + role.count]
        held[role.name] += sum(map(part.count, _ON_NODES))
    return group is not None and is_satisfied(group, sub_group_of(job, key), held)


def placed_condition(kind: str, at: float, generation: int) -> Json:
    value = condition(condition_type(kind), True, reason=SCHEDULED, message="", at=at)
    return value | {"message": "", "observedGeneration": generation}
