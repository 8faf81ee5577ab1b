"""Events: what happened to jobs, as Kubernetes Events about Jobs, PodGroups and pods.

No events are stored. A happening records a job and lists of its tasks; when a client reads, it
becomes one event: about the pod where it concerns one task alone, else about the gang as it was
submitted (Job or PodGroup). A gang of 100 is placed, refused or evicted by one decision, and told
in one line; where each of its pods is, the pods say. Who asks about one pod alone gets the same as
events of that pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from coordinator.core.coordinator import Coordinator
from coordinator.core.observer import EventReason
from coordinator.intake.documents.document import Document, Key, make_uid, pod_uid
from coordinator.intake.documents.kinds import BY_KIND, EVENT
from coordinator.intake.documents.metadata import virtual
from coordinator.jobs.state import JobState
from coordinator.objects.context import ReadModel, split_pod_name
from coordinator.objects.entries import ObjectEntry
from coordinator.objects.kai import own_pool
from coordinator.objects.pods import PodTask
from coordinator.objects.timeline import Audience, Happening, Stories, Story
from shared.codec.packed import replace
from shared.messages.messages import Level, TaskState
from shared.messages.reason import Reason
from shared.units.amount_text import plural, some

Json = dict[str, Any]
COMPONENT = "quadrant"
NOTE = 1024
"""Maximum characters of a message."""
NAMED = 5
"""Pods that the message of a gang names."""

_CLUSTER = -1
"""Stands in for a jid in events of shards and queues."""
_LETTER = {
    "Pod": "p",
    "PodGroup": "g",
    "KaiPodGroup": "g",
    "NativePodGroup": "n",
    "CompositePodGroup": "c",
    "Job": "j",
}
LEVELS = {level.value: f"L{level.value}" for level in Level}
_OF_WAITING = frozenset(
    (EventReason.FAILED_SCHEDULING, EventReason.UNSCHEDULABLE, EventReason.NOT_READY)
)


@dataclass(frozen=True, slots=True)
class ClusterHappening:
    """A happening of a cluster object, or of a Job whatever its incarnation."""

    about: Key
    happening: Happening


class EventPosition(NamedTuple):
    """A position in the list of all events: job, number of the happening."""

    jid: int
    number: int

    def __str__(self) -> str:
        return f"{self.jid}.{self.number}"

    @classmethod
    def parse(cls, text: str) -> EventPosition:
        jid, number = map(int, text.split("."))
        return cls(jid, number)


FIRST = EventPosition(_CLUSTER, 0)


class EventEntry(ObjectEntry):
    __slots__ = ("_about", "_happening", "_jid", "_tix")

    def __init__(
        self, read_model: ReadModel, about: Key, happening: Happening, jid: int, tix: int = -1
    ) -> None:
        super().__init__(read_model, happening.version)
        self._about = about
        self._happening = happening
        self._jid = jid
        self._tix = tix

    @property
    def key(self) -> Key:  # type: ignore[override]  # made when it is read: few of many are
        """The name is unique: it contains the object, its job, and the happening's number."""
        about = self._about
        whose = "c" if self._jid == _CLUSTER else f"{_LETTER[about.kind]}{self._jid:x}"
        name = f"{about.name}.{whose}.{self._happening.number:x}"
        return Key(EVENT.kind, about.namespace or "default", name)

    @property
    def about(self) -> Key:
        return self._about

    def field(self, path: str) -> str:
        about, happening = self._about, self._happening
        match path:
            case "metadata.name":
                return self.key.name
            case "metadata.namespace":
                return self.key.namespace
            case "involvedObject.kind":
                return BY_KIND[about.kind].written
            case "involvedObject.name":
                return about.name
            case "involvedObject.namespace":
                return about.namespace
            case "involvedObject.uid":
                return self._uid()
            case "involvedObject.apiVersion":
                return BY_KIND[about.kind].api_version
            case "involvedObject.resourceVersion" | "involvedObject.fieldPath":
                return ""
            case "reason":
                return happening.reason
            case "type":
                return "Warning" if happening.warning else "Normal"
            case "source" | "reportingComponent":
                return COMPONENT
            case _:
                return ""

    def _uid(self) -> str:
        about, read_model = self._about, self._read_model
        record = read_model.record(about.kind, about.path)
        if record is not None:
            return record.document.uid
        if self._jid == _CLUSTER:
            return make_uid(about, 0.0)
        job = _job_document(read_model, self._jid)
        if job is None:
            return ""
        if about.kind == "Pod":
            return pod_uid(about, job)
        return Document(about, b"", job.created).uid

    def _render(self) -> Json:
        h, about = self._happening, self._about
        value = virtual(
            EVENT, self.key, h.version, created=h.first, uid=make_uid(self.key, h.first)
        )
        created = value["metadata"]["creationTimestamp"]
        last = virtual(EVENT, self.key, 0, created=h.last, uid="")["metadata"]["creationTimestamp"]
        return value | {
            "involvedObject": {
                "apiVersion": BY_KIND[about.kind].api_version,
                "kind": BY_KIND[about.kind].written,
                "name": about.name,
                **({"namespace": about.namespace} if about.namespace else {}),
                "uid": self._uid(),
            },
            "reason": h.reason,
            "message": self._message()[:NOTE],
            "type": "Warning" if h.warning else "Normal",
            "count": h.count,
            "firstTimestamp": created,
            "lastTimestamp": last,
            "eventTime": None,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": f"shard-{h.shard}" if h.shard >= 0 else "",
        }

    def _message(self) -> str:
        h = self._happening
        if h.audience is not Audience.TASKS:
            return self._reason_now() or h.message
        if self._tix < 0:
            return self._of_several()
        place = h.place_of(self._tix)
        if place is None:
            return h.message
        row, _ = place
        node, pod = self._read_model.core.names.get(row, f"row {row}"), self._about.path
        if self._read_model.of_kai:
            pool = own_pool(self._read_model)
            return f"Successfully assigned pod {pod} to node {node} at node-pool {pool}"
        return f"Successfully assigned {pod} to {node}"

    def _of_several(self) -> str:
        """The message where it concerns several tasks of a gang."""
        h, state = self._happening, self._read_model.state(self._jid)
        if h.placements:
            return placed_text(self._read_model.core, h)
        if state is None:
            return h.message
        pods = [state.job.pod_name(tix) for tix in h.named() if tix < state.job.tasks]
        return f"{h.message} ({some(pods, NAMED)})"

    def _reason_now(self) -> str:
        """The sentence of a job that still waits for the reason of this event: its amounts are
        those that conditions and explanations show, not those of the first attempt."""
        if self._happening.reason not in _OF_WAITING:
            return ""
        why = self._read_model.why(self._jid)
        sentence = "" if why is None else f"{why.reason}: {why.message}"
        return sentence if why and self._happening.message.startswith(f"{why.reason}: ") else ""


# --- all of them --------------------------------------------------------------------------------


def walk(
    read_model: ReadModel,
    stories: Stories,
    cluster: list[ClusterHappening],
    namespace: str | None,
    start: EventPosition,
) -> Iterator[tuple[EventPosition, EventEntry]]:
    """Every event from a position on, each with the position after it."""
    if start.jid == _CLUSTER:
        for cluster_event in cluster:
            h, where = cluster_event.happening, cluster_event.about.namespace or "default"
            if h.number >= start.number and namespace in (None, where):
                yield (
                    EventPosition(_CLUSTER, h.number + 1),
                    EventEntry(read_model, cluster_event.about, h, _CLUSTER),
                )
    for jid in stories.order.between(max(start.jid, 0)):
        story, state = stories.jobs[jid], read_model.state(jid)
        if state is None or namespace not in (None, state.job.namespace):
            continue
        for h in story.happenings:
            if jid == start.jid and h.number < start.number:
                continue
            if (entry := event_of(read_model, state, h)) is not None:
                yield EventPosition(jid, h.number + 1), entry


def event_of(read_model: ReadModel, state: JobState, happening: Happening) -> EventEntry | None:
    """The event of a happening of a job; None where its object is gone."""
    job, tix = state.job, only_task(state, happening)
    if tix >= 0:
        about = Key("Pod", job.namespace, job.pod_name(tix))
        return event_of_pod(read_model, about, happening, job.jid, tix) if about.name else None
    if job.is_group:
        about = Key(read_model.registry.document_kind(job), job.namespace, job.name)
    elif (document := _job_document(read_model, job.jid)) is not None:
        about = document.key
    else:
        return None
    return EventEntry(read_model, about, _as_gang(read_model, happening), job.jid)


def event_of_pod(
    read_model: ReadModel, about: Key, happening: Happening, jid: int, tix: int
) -> EventEntry:
    """The event of a happening about one pod, with the reason that the policy's dialect has."""
    if happening.reason == EventReason.FAILED_SCHEDULING and read_model.of_kai:
        happening = replace(happening, reason=EventReason.UNSCHEDULABLE)
    elif happening.reason == EventReason.EVICTED:
        happening = replace(happening, reason=EventReason.EVICT)
    return EventEntry(read_model, about, happening, jid, tix)


def of_member(
    read_model: ReadModel, stories: Stories, pod: Key, task: PodTask
) -> list[EventEntry] | None:
    """Events about one pod of a gang; None where it is no gang's.

    The gang has each of these once. Of its pods they are made where a client asks about one of
    them, as ``kubectl describe pod`` does: Volcano writes the same sentence to each pod of a gang.
    """
    story, state = stories.jobs.get(task.jid), read_model.state(task.jid)
    if story is None or state is None or state.job.kind == "Pod":
        return None
    return [
        event_of_pod(read_model, pod, h, task.jid, task.tix)
        for h in story.happenings
        if _concerns(story, h, task)
    ]


def _concerns(story: Story, happening: Happening, task: PodTask) -> bool:
    match happening.audience:
        case Audience.JOB:
            return True
        case Audience.TASKS:
            return task.tix in happening.named()
        case Audience.WAITING if task.state is TaskState.PENDING:
            return True
        case Audience.WAITING:  # others may wait after this pod was placed
            placed = [h.number for h in story.happenings if h.place_of(task.tix) is not None]
            return not placed or happening.number < placed[-1]


def only_task(state: JobState, happening: Happening) -> int:
    """The task that the happening is about; -1 where it is about several, or the gang."""
    if state.job.kind == "Pod":
        return 0
    first_two = list(islice(happening.named(), 2)) if happening.audience is Audience.TASKS else []
    return first_two[0] if len(first_two) == 1 else -1


def _as_gang(read_model: ReadModel, happening: Happening) -> Happening:
    """Replace FailedScheduling, which is for pods, and Evicted by Volcano's and KAI's reasons for
    gangs. KAI's are no warnings."""
    if happening.reason == EventReason.EVICTED:
        return replace(happening, reason=EventReason.EVICT)
    if happening.reason != EventReason.FAILED_SCHEDULING:
        return happening
    reason = EventReason.UNSCHEDULABLE
    if read_model.of_kai and is_incomplete(happening):
        reason = EventReason.NOT_READY
    return replace(happening, reason=reason, shard=-1, warning=not read_model.of_kai)


def is_incomplete(happening: Happening) -> bool:
    """Whether a gang is told that some of its pods do not exist yet."""
    return happening.message.startswith(f"{Reason.NOT_ENOUGH_TASKS}: ")


def placed_text(core: Coordinator, happening: Happening) -> str:
    """The nodes of the placed tasks, with their levels."""
    levels, nodes = Counter[int](), Counter[int]()
    for placement in happening.placements:
        levels.update(placement.levels)
        nodes.update(placement.rows)
    at = [core.names.get(row, f"row {row}") for row, _ in nodes.most_common()]
    counted = ", ".join(f"{count} {LEVELS[level]}" for level, count in sorted(levels.items()))
    tasks = plural(sum(levels.values()), "task")
    return f"{tasks} placed by shard-{happening.shard} ({counted}) on {some(at)}"


def find(
    read_model: ReadModel,
    stories: Stories,
    cluster: list[ClusterHappening],
    namespace: str,
    name: str,
) -> EventEntry | None:
    """The event with this name; None if there is none (any more)."""
    about, _, number = name.rpartition(".")
    about, _, whose = about.rpartition(".")
    try:
        happening_number = int(number, 16)
        jid = _CLUSTER if whose == "c" else int(whose[1:], 16)
    except ValueError:
        return None
    if jid == _CLUSTER:
        matching = (
            t for t in cluster if t.happening.number == happening_number and t.about.name == about
        )
        cluster_event = next(matching, None)
        if cluster_event is None or namespace != (cluster_event.about.namespace or "default"):
            return None
        return EventEntry(read_model, cluster_event.about, cluster_event.happening, _CLUSTER)
    story, state = stories.jobs.get(jid), read_model.state(jid)
    happening = story.find(happening_number) if story is not None else None
    if state is None or happening is None or state.job.namespace != namespace:
        return None
    if whose.startswith("p") and (tix := task_named(read_model, state, about)) >= 0:
        pod = Key("Pod", namespace, about)
        entry: EventEntry | None = event_of_pod(read_model, pod, happening, jid, tix)
    else:
        entry = event_of(read_model, state, happening)
    return entry if entry is not None and entry.key.name == name else None


def task_named(read_model: ReadModel, state: JobState, pod: str) -> int:
    """The task index of a job's pod; -1 if no pod has this name."""
    if state.job.kind == "Job":
        return split_pod_name(state.job, pod)
    record = read_model.record("Pod", f"{state.job.namespace}/{pod}")
    if record is None or record.document.jid != state.job.jid:
        return -1
    return record.task & 0xFFFFFFFF


def changed(
    read_model: ReadModel, jid: int, story: Story, since: int
) -> Iterator[tuple[int, str, Key]]:
    """(version, ADDED or MODIFIED, name) of every event of a job that changed."""
    state = read_model.state(jid)
    if state is None:
        return
    for h in reversed(story.happenings):
        if h.version > since:
            event = "ADDED" if h.number > since else "MODIFIED"
            if (entry := event_of(read_model, state, h)) is not None:
                yield h.version, event, entry.key


def _job_document(read_model: ReadModel, jid: int) -> Document | None:
    state = read_model.state(jid)
    if state is None or state.job.kind != "Job":
        return None
    record = read_model.record("Job", state.job.key)
    return record.document if record is not None else None
