"""Times on KAI's PodGroups: when a gang started, since when it is below its minimum, and when it
was last evicted.

KAI's rules measure by them how long a gang has run undisturbed, how long it may stay broken, and
when it may have others evicted again. So they are annotations of the object: durable, and read by
whoever leads next. No I/O and no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.core.coordinator import Coordinator
from coordinator.intake.admission.result import Admission
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import KAI_POD_GROUP
from coordinator.intake.intake import Intake
from coordinator.jobs.state import JobState
from shared.manifests.kai.groups import LAST_EVICTION, LAST_START, STALE_SINCE
from shared.messages.messages import StatusItem, TaskState
from shared.model.kai import KaiPodGroup
from shared.units.times import rfc3339

_HELD = (TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING)

Stamps = dict[str, float | None]
"""Annotation -> seconds since 1970; None: it is removed."""


class GroupStamps:
    def __init__(self, core: Coordinator) -> None:
        self._core = core
        self._running: set[int] = set()
        """Gangs that hold pods, and whose start is noted."""
        self._due: dict[str, Stamps] = {}

    @property
    def watches(self) -> bool:
        """Whether gangs may become broken, or whole, without a record of a task."""
        return self._core.order.stale_gangs.on

    def recorded(self, items: Iterable[StatusItem], now: float) -> bool:
        """Take recorded states of tasks; True where there is something to write."""
        groups = self._core.order.accounts.cluster.objects.kai_groups
        if not groups:
            return False
        for item in items:
            state = self._core.order.jobs.get(item.jid)
            if state is None or state.job.kind != "PodGroup" or state.job.key not in groups:
                self._running.discard(item.jid)
                continue
            # Written when the pods have left: the record of that comes to every leader.
            if item.state is TaskState.PENDING and item.incarnations:
                self._write(state, LAST_EVICTION, now)
            self._note_start(state, item, groups[state.job.key], now)
        return bool(self._due)

    def _note_start(
        self, state: JobState, item: StatusItem, group: KaiPodGroup, now: float
    ) -> None:
        """A gang that lost all its pods and starts again gets a new time."""
        if item.state is TaskState.BOUND and item.jid not in self._running:
            self._running.add(item.jid)
            # After a change of the leader: more pods of a gang that has run for long.
            if group.last_start is None or _held(state) <= len(item.tasks):
                self._write(state, LAST_START, now)
        elif not _held(state):
            self._running.discard(item.jid)

    def _write(self, state: JobState, annotation: str, at: float | None) -> None:
        self._due.setdefault(state.job.key, {})[annotation] = at

    def take(self) -> dict[str, Stamps]:
        """``namespace/name`` of PodGroups -> what to write on them. Each is returned once."""
        order = self._core.order
        for jid, since in order.stale_gangs.take_changes().items():
            state = order.jobs.get(jid)
            if state is not None and state.job.kind == "PodGroup":
                self._write(state, STALE_SINCE, since)
        due, self._due = self._due, {}
        return due


def _held(state: JobState) -> int:
    return sum(map(state.states.count, _HELD))


def write_stamps(intake: Intake, stamps: Mapping[str, Stamps], now: float) -> Admission:
    """Write the annotations of these PodGroups, as far as they still exist."""
    items = []
    for path, of_group in stamps.items():
        document = intake.documents.get(Key(KAI_POD_GROUP.kind, *path.split("/", 1)))
        if document is None or document.deleting is not None:
            continue
        written = document.object()
        before = written["metadata"].get("annotations") or {}
        times = {name: rfc3339(at) for name, at in of_group.items() if at is not None}
        after = {name: text for name, text in before.items() if name not in of_group} | times
        if after != before:
            written["metadata"]["annotations"] = after
            items.append(written)
    return intake.admit(items, now) if items else Admission()
