"""The lookups that rendering needs, cached while one answer is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from coordinator.core.coordinator import Coordinator
from coordinator.core.reasons.fitting import fitting_tasks
from coordinator.core.reasons.reasons import why
from coordinator.intake.admission.registry import Registry
from coordinator.intake.documents.document import Document
from coordinator.intake.documents.index import KindIndex, Record
from coordinator.intake.documents.labels import JOB_NAME, JOB_NAMESPACE, QUEUE_LABEL
from coordinator.jobs.pending_reasons import Why
from coordinator.jobs.state import JobState, SchedulingStatus
from coordinator.objects.queue_trees import requested_below
from coordinator.objects.timeline import Story
from shard_worker.session_model.queue_totals import waits_for_entry
from shard_worker.session_model.workload import Amounts
from shared.manifests.fields.metadata import GROUP_NAME, QUEUE_NAME, TASK_SPEC
from shared.messages.messages import TaskState
from shared.messages.reason import Reason
from shared.model.model import Job, Role
from shared.policy.model import Dialect

UNKNOWN = "Unknown"
"""Volcano's phase of a gang that holds members, but fewer than its minimum."""
NOT_TRIED = frozenset((Reason.WAITING_FOR_TURN, Reason.PENDING_EVALUATION))
"""With these reasons nobody has found yet that the job does not fit: nothing may report it so."""


Shelves = Mapping[str, KindIndex]
QueueCounts = dict[str, Counter[str]]
"""Queue -> phase -> number of jobs."""
Json = dict[str, Any]


class Template(NamedTuple):
    """The fields that all pods of a Job's role share."""

    labels: dict[str, str]
    annotations: dict[str, str]
    spec: bytes


class ReadModel:
    """The state of the cluster while one answer is made; nothing may change meanwhile.

    ``deleted_jobs``: last states of deleted jobs. ``queues``: returns job counts, which may have
    been computed earlier; without it they are counted here.
    """

    def __init__(
        self,
        core: Coordinator,
        registry: Registry,
        shelves: Shelves,
        stories: Mapping[int, Story],
        *,
        deleted_jobs: Mapping[int, JobState] | None = None,
        queues: Callable[[], QueueCounts] | None = None,
    ) -> None:
        self.core = core
        self.registry = registry
        self.shelves = shelves
        self.stories = stories
        self.names = registry.slots.names
        self.of_kai = registry.dialect is Dialect.KAI
        """Whether objects are worded as KAI does, and not Volcano."""
        self._gone = deleted_jobs or {}
        self._whys: dict[int, Why | None] = {}
        self._fitting: dict[int, Set[int]] = {}
        self._templates: dict[tuple[int, str], Template] = {}
        self._queues = queues or (lambda: count_queues(core))
        self._counts: QueueCounts | None = None

    # --- jobs ---------------------------------------------------------------------------------

    def state(self, jid: int) -> JobState | None:
        """The scheduler's state of a job, also while the job is being deleted."""
        present = self.core.order.jobs.get(jid) or self.core.leaving.get(jid)
        return present or self._gone.get(jid)

    def why(self, jid: int) -> Why | None:
        """Why a job, or the rest of it, is pending; None if it is not."""
        if jid not in self._whys:
            state = self.core.order.jobs.get(jid)
            self._whys[jid] = why(self.core, state, names=self.names) if state else None
        return self._whys[jid]

    def is_fitting(self, jid: int, tix: int) -> bool:
        """Whether a task that waits would find a place if the rest of its gang had one."""
        state = self.core.order.jobs.get(jid)
        if state is None:
            return False
        if jid not in self._fitting:
            self._fitting[jid] = fitting_tasks(self.core, state, self.why(jid))
        return tix in self._fitting[jid]

    def moved(self, jid: int) -> int:
        """The version of a job's last change; 0 if unknown."""
        story = self.stories.get(jid)
        return 0 if story is None else story.version

    def task_state(self, jid: int, tix: int) -> tuple[TaskState, int]:
        """The state of a task, and the row of its node (-1: none)."""
        state = self.state(jid)
        if state is None or not 0 <= tix < len(state.states):
            return TaskState.PENDING, -1
        now = TaskState(state.states[tix])
        return now, -1 if now is TaskState.PENDING else state.rows[tix]

    def shard_of(self, row: int) -> str:
        shard = self.core.dispatcher.shard_of.get(row)
        return "" if shard is None else shard_name(shard)

    def groups_of(self, queue: str) -> Counter[str]:
        """Number of jobs of a queue, by phase."""
        if self._counts is None:
            self._counts = self._queues()
        return self._counts.get(queue) or Counter()

    def queue_id(self, kind: str, name: str) -> int:
        """The number of a queue; -1 where it does not count, or is of the other dialect."""
        if kind != self.registry.queue_kind:
            return -1
        return self.core.order.queue_ids.get(name, -1)

    @cached_property
    def requested(self) -> Mapping[str, Amounts]:
        """Amounts that each queue of the tree, with all below it, holds or requests."""
        return requested_below(self.core.order.accounts.cluster)

    @cached_property
    def children(self) -> Mapping[str, Sequence[str]]:
        """KAI's queues by the name of their parent."""
        queues = self.core.order.accounts.cluster.objects.kai_queues.values()
        names: dict[str, list[str]] = {}
        for queue in queues:
            names.setdefault(queue.parent, []).append(queue.name)
        return names

    # --- pods of Jobs -------------------------------------------------------------------------

    def record(self, kind: str, path: str) -> Record | None:
        return self.shelves[kind].records.get(path)

    def template(self, document: Document, role: str) -> Template:
        """The template of a Job's role."""
        template = self._templates.get((document.jid, role))
        if template is None:
            body: Json = document.object()
            for i, task in enumerate(body["spec"]["tasks"]):
                name = task.get("name") or f"default{i}"
                parsed = _template(document, body, name, task)
                self._templates[document.jid, name] = parsed
            template = self._templates[document.jid, role]
        return template


def _template(document: Document, body: Json, role: str, task: Json) -> Template:
    metadata = task["template"].get("metadata") or {}
    queue = body["spec"].get("queue") or "default"
    ours = {
        JOB_NAME: document.key.name,
        JOB_NAMESPACE: document.key.namespace,
        QUEUE_LABEL: queue,
        TASK_SPEC: role,
    }
    named = {GROUP_NAME: group_name(document), QUEUE_NAME: queue, TASK_SPEC: role}
    return Template(
        labels=(metadata.get("labels") or {}) | ours,
        annotations=(metadata.get("annotations") or {}) | named,
        spec=orjson.dumps(task["template"].get("spec") or {}),
    )


def group_name(document: Document) -> str:
    """The name of a Job's PodGroup, formed as in Volcano."""
    return f"{document.key.name}-{document.uid}"


def shard_name(shard: int) -> str:
    return f"shard-{shard}"


def split_pod_name(job: Job, name: str) -> int:
    """The task index of a Job's pod; -1 if no pod has this name."""
    if not name.startswith(f"{job.name}-"):
        return -1
    role_name, _, index = name[len(job.name) + 1 :].rpartition("-")
    if not index.isascii() or not index.isdigit() or str(int(index)) != index:
        return -1
    for role in job.roles:
        i = int(index) - role.start
        if role.name == role_name and 0 <= i < role.count:
            return role.first + i
    return -1


def role_of(job: Job, tix: int) -> Role:
    return job.roles[0] if len(job.roles) == 1 else job.role_of(tix)


def count_queues(core: Coordinator) -> QueueCounts:
    """Count the jobs of each queue by phase; visits every job."""
    counts: QueueCounts = {}
    for state in core.order.jobs.values():
        counts.setdefault(state.job.queue, Counter())[phase(state)] += 1
    return counts


def phase(state: JobState) -> str:
    """The phase of the job's PodGroup, in Volcano's words."""
    members, minimum = state.info.held[0], state.job.groups[0].minimum
    if state.status is SchedulingStatus.DONE:
        return "Completed"
    if members and members >= minimum:
        return "Running"
    if members:
        return UNKNOWN
    # Who was admitted stays so, also while it waits: its controller has made its pods.
    nowhere = state.info.qid < 0  # no queue of its name
    return "Pending" if nowhere or waits_for_entry(state.info.phase) else "Inqueue"
