"""Events: what happened to jobs, as Kubernetes Events about Jobs, PodGroups and pods.

No events are stored. A happening records a job and lists of its tasks; when a client reads, it is
expanded into events of the Job, its PodGroup and its pods, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from coordinator.core.observer import EventReason
from coordinator.intake.documents.document import Document, Key, make_uid
from coordinator.intake.documents.kinds import BY_KIND, EVENT
from coordinator.intake.documents.metadata import virtual
from coordinator.jobs.state import JobState
from coordinator.objects.context import ReadModel, group_name, pod_uid, split_pod_name
from coordinator.objects.entries import ObjectEntry
from coordinator.objects.timeline import Audience, Happening, Stories, Story
from shared.codec.packed import replace
from shared.messages.messages import Level, TaskState

Json = dict[str, Any]
COMPONENT = "quadrant"
NOTE = 1024
"""Maximum characters of a message."""

JOB_ITSELF, ITS_GROUP = -2, -1
"""Positions before the one of task 0."""
_CLUSTER = -1
"""Stands in for a jid in events of shards and queues."""
_LETTER = {"Pod": "p", "PodGroup": "g", "Job": "j"}
_KIND = {letter: kind for kind, letter in _LETTER.items()}
_OF_WAITING = frozenset((EventReason.FAILED_SCHEDULING, EventReason.UNSCHEDULABLE))
_LEVELS = {
    Level.IDLE_OWN: "idle room, own nodes",
    Level.IDLE_OTHER: "idle room, another shard's nodes",
    Level.FUTURE_OWN: "room that is leaving, own nodes",
    Level.FUTURE_OTHER: "room that is leaving, another shard's nodes",
}


@dataclass(frozen=True, slots=True)
class ClusterHappening:
    """A happening of a cluster object, or of a Job whatever its incarnation."""

    about: Key
    happening: Happening


class Spot(NamedTuple):
    """A position in the list of all events: job, number of the happening, position in it."""

    jid: int
    number: int
    place: int

    def __str__(self) -> str:
        return f"{self.jid}.{self.number}.{self.place}"

    @classmethod
    def parse(cls, text: str) -> Spot:
        jid, number, place = map(int, text.split("."))
        return cls(jid, number, place)


FIRST = Spot(_CLUSTER, 0, JOB_ITSELF)


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

    def field(self, path: str) -> str:
        about, happening = self._about, self._happening
        match path:
            case "metadata.name":
                return self.key.name
            case "metadata.namespace":
                return self.key.namespace
            case "involvedObject.kind":
                return about.kind
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
        if self._jid == _CLUSTER:
            record = read_model.record(about.kind, about.path)
            return record.document.uid if record is not None else make_uid(about, 0.0)
        record = read_model.record(about.kind, about.path)
        if record is not None:
            return record.document.uid
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
                "kind": about.kind,
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
        place = h.place_of(self._tix)
        if place is None:
            return self._reason_now() or h.message
        row, level = place
        node = self._read_model.core.names.get(row, f"row {row}")
        how = f" ({_LEVELS[Level(level)]})" if level else ""
        return f"Placed on {node} by shard-{h.shard}{how}"

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
    start: Spot,
) -> Iterator[tuple[Spot, EventEntry]]:
    """Every event from a position on, each with the position after it."""
    if start.jid == _CLUSTER:
        for cluster_event in cluster:
            h, where = cluster_event.happening, cluster_event.about.namespace or "default"
            if h.number >= start.number and namespace in (None, where):
                yield (
                    Spot(_CLUSTER, h.number + 1, 0),
                    EventEntry(read_model, cluster_event.about, h, _CLUSTER),
                )
    for jid in stories.order.between(max(start.jid, 0)):
        story, state = stories.jobs[jid], read_model.state(jid)
        if state is None or namespace not in (None, state.job.namespace):
            continue
        for h in story.happenings:
            if jid == start.jid and h.number < start.number:
                continue
            at_start = jid == start.jid and h.number == start.number
            for place, entry in _of(read_model, state, h, start.place if at_start else JOB_ITSELF):
                yield Spot(jid, h.number, place + 1), entry


def _of(
    read_model: ReadModel, state: JobState, happening: Happening, start: int
) -> Iterator[tuple[int, EventEntry]]:
    """The events of one happening, from a position on."""
    job, jid = state.job, state.job.jid
    if happening.audience is not Audience.TASKS:
        for place, about in _gangs(read_model, state):
            if place >= start:
                yield place, EventEntry(read_model, about, _as_gang(happening), jid)
    if happening.audience is Audience.JOB and job.kind != "Pod":
        return
    for place, tix in _tasks(state, happening, max(start, 0)):
        about = Key("Pod", job.namespace, job.pod_name(tix))
        if about.name:
            yield place, EventEntry(read_model, about, happening, jid, tix)


def _gangs(read_model: ReadModel, state: JobState) -> Iterator[tuple[int, Key]]:
    job = state.job
    if job.kind == "PodGroup":
        yield ITS_GROUP, Key("PodGroup", job.namespace, job.name)
    elif job.kind == "Job" and (document := _job_document(read_model, job.jid)) is not None:
        yield JOB_ITSELF, document.key
        yield ITS_GROUP, Key("PodGroup", job.namespace, group_name(document))


def _as_gang(happening: Happening) -> Happening:
    """Replace FailedScheduling, which is for pods, by Volcano's reason for gangs."""
    if happening.reason != EventReason.FAILED_SCHEDULING:
        return happening
    return replace(happening, reason=EventReason.UNSCHEDULABLE, shard=-1)


def _tasks(state: JobState, happening: Happening, start: int) -> Iterator[tuple[int, int]]:
    """(position, task) of the pods that the happening concerns, from a position on."""
    if happening.audience is Audience.TASKS:
        yield from enumerate(islice(happening.named(), start, None), start)
        return
    if len(state.states) == 1:  # a pod of its own keeps what it was told
        if not start:
            yield 0, 0
        return
    at = state.states.find(TaskState.PENDING, start)
    while at >= 0:
        yield at, at
        at = state.states.find(TaskState.PENDING, at + 1)


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
    kind = _KIND.get(whose[:1], "")
    if kind == "Pod":
        tix = task_named(read_model, state, about)
        key = Key("Pod", namespace, about)
        return EventEntry(read_model, key, happening, jid, tix) if tix >= 0 else None
    for _, key in _gangs(read_model, state):
        if (key.kind, key.name) == (kind, about):
            return EventEntry(read_model, key, _as_gang(happening), jid)
    return None


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
            for _, entry in _of(read_model, state, h, JOB_ITSELF):
                yield h.version, event, entry.key


def _job_document(read_model: ReadModel, jid: int) -> Document | None:
    state = read_model.state(jid)
    if state is None or state.job.kind != "Job":
        return None
    record = read_model.record("Job", state.job.key)
    return record.document if record is not None else None
