"""Entries: objects before rendering. They are cheap to filter, and rendered only if needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.index import Record
from coordinator.intake.documents.kinds import (
    COMPOSITE_POD_GROUP,
    NATIVE_POD_GROUP,
    POD,
    POD_GROUP,
    unread,
)
from coordinator.intake.documents.labels import TASK_INDEX
from coordinator.intake.documents.metadata import written
from coordinator.objects.cluster import written_namespace, written_node, written_queue
from coordinator.objects.context import ReadModel, group_name, role_of
from coordinator.objects.gangs import job_group, mark_unread, written_group, written_job
from coordinator.objects.kai import written_kai_group, written_kai_queue
from coordinator.objects.native_groups import written_native_group
from coordinator.objects.pods import PodTask, job_pod, node_of, phase_of, task_of, written_pod
from shared.manifests.fields.metadata import TASK_SPEC

Json = dict[str, Any]
Render = Callable[[ReadModel, Record, int], Json]


def _as_written(read_model: ReadModel, record: Record, version: int) -> Json:
    value = written(record.document, version)
    status = value.get("status") or {}
    if unread(record.document.key.kind, read_model.registry.dialect) is not None:
        mark_unread(read_model, status, record.document.key.kind)
        value["status"] = status
    return value


_RENDER: dict[str, Render] = {
    "PodGroup": written_group,
    "Job": written_job,
    "Namespace": written_namespace,
    "Node": written_node,
    "Queue": written_queue,
    "KaiPodGroup": written_kai_group,
    "KaiQueue": written_kai_queue,
    NATIVE_POD_GROUP.kind: written_native_group,
    COMPOSITE_POD_GROUP.kind: written_native_group,
}


class ObjectEntry:
    """An object before rendering. ``version``: of its last change, by the user or the scheduler.
    Subclasses have a ``key``."""

    __slots__ = ("_object", "_read_model", "_version")

    key: Key

    def __init__(self, read_model: ReadModel, version: int) -> None:
        self._read_model = read_model
        self._version = version
        self._object: Json | None = None

    @property
    def version(self) -> str:
        """Its resourceVersion; "" if it has none."""
        return str(self._version)

    @property
    def size(self) -> int:
        """Bytes of JSON to parse for rendering; 0 if negligible."""
        return 0

    @property
    def labels(self) -> Mapping[str, str]:
        return {}

    @property
    def task(self) -> PodTask | None:
        """The task that a pod is; None for other objects."""
        return None

    def field(self, path: str) -> str:
        """The value of a field for selectors; "" if absent."""
        if path == "metadata.name":
            return self.key.name
        if path == "metadata.namespace":
            return self.key.namespace
        return field_of(self.object(), path)

    def object(self) -> Json:
        """The complete object; rendered once."""
        if self._object is None:
            self._object = self._render()
        return self._object

    def _render(self) -> Json:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ObjectPage:
    items: Iterator[ObjectEntry]
    next: str
    """Where the next page begins; "" after the last one."""
    remaining: int
    """Number of objects after this page, as far as it is known."""


class DocumentEntry(ObjectEntry):
    """An object that a user wrote."""

    __slots__ = ("_record", "key")

    def __init__(self, read_model: ReadModel, record: Record, version: int) -> None:
        super().__init__(read_model, version)
        self.key = record.document.key
        self._record = record

    @property
    def size(self) -> int:
        return len(self._record.document.body)

    @property
    def labels(self) -> Mapping[str, str]:
        value = self._record.document.object() if self._object is None else self._object
        return value["metadata"].get("labels") or {}

    def _render(self) -> Json:
        render = _RENDER.get(self.key.kind, _as_written)
        return render(self._read_model, self._record, self._version)


class PodEntry(DocumentEntry):
    """A pod that was submitted itself."""

    __slots__ = ("_task",)

    def __init__(self, read_model: ReadModel, record: Record, version: int, task: PodTask) -> None:
        super().__init__(read_model, record, version)
        self._task = task

    @property
    def task(self) -> PodTask:
        return self._task

    def field(self, path: str) -> str:
        value = _field_of_task(self._read_model, self._task, path)
        return super().field(path) if value is None else value

    def _render(self) -> Json:
        return written_pod(self._read_model, self._record, self._task, self._version)


class JobPodEntry(ObjectEntry):
    """A pod derived from a Job."""

    __slots__ = ("_job", "_role", "_roles", "_task", "key")

    def __init__(self, read_model: ReadModel, job: Document, tix: int, version: int) -> None:
        super().__init__(read_model, version)
        state = read_model.state(job.jid)
        assert state is not None, job.key
        self._role = role = role_of(state.job, tix)
        """Kept: others run before an entry is rendered, and the job may be purged meanwhile."""
        name = f"{job.key.name}-{role.name}-{role.start + tix - role.first}"
        self.key = Key(POD.kind, job.key.namespace, name)
        self._job = job
        self._task = task_of(read_model, job.jid, tix)
        self._roles = len(state.job.roles)
        """Number of roles, at least 1; their templates make up most of the Job's document."""

    @property
    def task(self) -> PodTask:
        return self._task

    @property
    def size(self) -> int:
        return len(self._job.body) // self._roles

    @property
    def labels(self) -> Mapping[str, str]:
        role = self._role
        index = {TASK_INDEX: str(role.start + self._task.tix - role.first), TASK_SPEC: role.name}
        return self._read_model.template(self._job, role.name).labels | dict(role.labels) | index

    def field(self, path: str) -> str:
        value = _field_of_task(self._read_model, self._task, path)
        return super().field(path) if value is None else value

    def _render(self) -> Json:
        return job_pod(
            self._read_model,
            self._job,
            self._task,
            role=self._role,
            name=self.key.name,
            version=self._version,
        )


class JobGroupEntry(ObjectEntry):
    """The PodGroup derived from a Job."""

    __slots__ = ("_job", "key")

    def __init__(self, read_model: ReadModel, job: Document, version: int) -> None:
        super().__init__(read_model, version)
        self.key = Key(POD_GROUP.kind, job.key.namespace, group_name(job))
        self._job = job

    def _render(self) -> Json:
        return job_group(self._read_model, self._job, self._version)


class RenderedEntry(ObjectEntry):
    """An object that is already rendered."""

    __slots__ = ("key",)

    def __init__(self, key: Key, value: Json) -> None:
        self.key = key
        self._object: Json = value

    @property
    def version(self) -> str:
        return str(self._object["metadata"].get("resourceVersion", ""))

    @property
    def labels(self) -> Mapping[str, str]:
        return self._object["metadata"].get("labels") or {}


# --- fields -------------------------------------------------------------------------------------


def _field_of_task(read_model: ReadModel, task: PodTask, path: str) -> str | None:
    """A field that is known without rendering the pod; None for the others."""
    if path == "status.phase":
        return phase_of(task)
    return node_of(read_model, task) if path == "spec.nodeName" else None


def field_of(value: Json, path: str) -> str:
    """The value of a field for selectors; "" if absent."""
    part: Any = value
    for name in path.split("."):
        part = part.get(name) if isinstance(part, dict) else None
    match part:
        case None:
            return "false" if path == "spec.unschedulable" else ""
        case bool():
            return "true" if part else "false"
        case dict():
            return str(part.get("component", ""))
        case _:
            return str(part)
