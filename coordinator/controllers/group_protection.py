"""Ends the deletion of Kubernetes' own PodGroups on the simulated cluster.

As by the finalizer ``scheduling.k8s.io/podgroup-protection`` of kube-controller-manager, a deleted
group stays until each of its pods has ended or is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.core.coordinator import Coordinator
from coordinator.intake.admission.deletion import release_group
from coordinator.intake.admission.registry import pack_task
from coordinator.intake.admission.result import Admission, merged
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import COMPOSITE_POD_GROUP, NATIVE_POD_GROUP
from coordinator.intake.intake import Intake
from shared.messages.messages import TaskState

_ENDED = (TaskState.SUCCEEDED, TaskState.FAILED)


class GroupProtection:
    def __init__(self, core: Coordinator, intake: Intake) -> None:
        self._core = core
        self._intake = intake
        self._deleted: set[Key] = set()

    def published(self, documents: Iterable[Document]) -> None:
        """Take documents that are new or changed; at the start all of them."""
        if not self._intake.is_observed:
            self._deleted.update(
                document.key
                for document in documents
                if document.deleting is not None and document.key.kind == NATIVE_POD_GROUP.kind
            )

    @property
    def watches(self) -> bool:
        return bool(self._deleted)

    @property
    def due(self) -> bool:
        return any(self._is_free(key) for key in self._deleted)

    def release(self, now: float) -> Admission:
        """Remove the groups that no pod needs any more."""
        free = [key for key in self._deleted if self._is_free(key)]
        self._deleted.difference_update(free)
        return merged(release_group(self._intake.registry, key, now) for key in free)

    def _is_free(self, key: Key) -> bool:
        registry = self._intake.registry
        document = registry.documents.get(key)
        job = None if document is None else registry.jobs.get(document.jid)
        if job is None:
            return True
        state = self._core.order.jobs.get(job.jid)
        for role in job.roles:
            if job.kind == COMPOSITE_POD_GROUP.kind and role.name != key.name:
                continue  # of another group of the tree
            for tix, name in enumerate(role.names, start=role.first):
                if not name:
                    continue
                if state is None or tix >= len(state.states):
                    return False  # it came just now
                if state.states[tix] not in _ENDED or pack_task(job.jid, tix) in registry.deleting:
                    return False
        return True
