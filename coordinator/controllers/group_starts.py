"""When KAI's PodGroups started: the annotation that KAI writes at the first bind of a gang.

Its rules measure by it how long a gang has run without being disturbed, so it is a part of the
object: durable, and read by whoever leads next. A gang that lost all its pods and starts again gets
a new time. No I/O and no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.core.coordinator import Coordinator
from coordinator.intake.admission.result import Admission
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import KAI_POD_GROUP
from coordinator.intake.intake import Intake
from coordinator.jobs.state import JobState
from shared.manifests.kai.groups import LAST_START
from shared.messages.messages import StatusItem, TaskState
from shared.units.times import rfc3339

_HELD = (TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING)


class GroupStarts:
    def __init__(self, core: Coordinator) -> None:
        self._core = core
        self._running: set[int] = set()
        """Gangs that hold pods, and whose start is noted."""
        self._due: dict[str, float] = {}

    def recorded(self, items: Iterable[StatusItem], now: float) -> bool:
        """Take recorded states of tasks; True where a gang started."""
        groups = self._core.order.accounts.cluster.objects.kai_groups
        if not groups:
            return False
        began = False
        for item in items:
            state = self._core.order.jobs.get(item.jid)
            if state is None or state.job.kind != "PodGroup" or state.job.key not in groups:
                self._running.discard(item.jid)
            elif item.state is TaskState.BOUND and item.jid not in self._running:
                self._running.add(item.jid)
                # After a change of the leader: more pods of a gang that has run for long.
                if groups[state.job.key].last_start is None or _held(state) <= len(item.tasks):
                    self._due[state.job.key] = now
                    began = True
            elif not _held(state):
                self._running.discard(item.jid)
        return began

    def take(self) -> dict[str, float]:
        """``namespace/name`` of the PodGroups that started -> when. Each is returned once."""
        due, self._due = self._due, {}
        return due


def _held(state: JobState) -> int:
    return sum(map(state.states.count, _HELD))


def mark_started(intake: Intake, started: Mapping[str, float], now: float) -> Admission:
    """Write the annotation of these PodGroups, as far as they still exist."""
    items = []
    for path, at in started.items():
        document = intake.documents.get(Key(KAI_POD_GROUP.kind, *path.split("/", 1)))
        if document is not None and document.deleting is None:
            written = document.object()
            annotations = written["metadata"].get("annotations") or {}
            written["metadata"]["annotations"] = annotations | {LAST_START: rfc3339(at)}
            items.append(written)
    return intake.admit(items, now) if items else Admission()
