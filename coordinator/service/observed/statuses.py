"""Status reports to a Kubernetes cluster: why pods and gangs wait, and the amounts of queues.

::

    stories of jobs --> StatusQueue --> one write at a time, made when its turn comes --> API server

Each only when it changes, and all of it at a bounded rate: an event costs the server nearly what a
binding costs. A gang's PodGroup comes before its pods, and an event of each pod last.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from itertools import count, islice
from typing import Any, NamedTuple, Protocol

import msgspec
import structlog

from coordinator.cluster.kubernetes.api.client import ApiError
from coordinator.cluster.kubernetes.api.pool import STRATEGIC_PATCH, HttpAnswer
from coordinator.cluster.kubernetes.state.mirror import Mirror, ObjectKey
from coordinator.cluster.kubernetes.state.pods import PodRow
from coordinator.cluster.kubernetes.writes.status_queue import LONGEST, Importance, StatusQueue
from coordinator.core.observer import EventReason
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.kinds import BY_KIND, KAI_POD_GROUP, POD, POD_GROUP, QUEUE
from coordinator.intake.documents.metadata import condition
from coordinator.jobs.pending_reasons import Why
from coordinator.jobs.state import JobState
from coordinator.objects.context import NOT_TRIED, ReadModel
from coordinator.objects.events import COMPONENT, NOTE, EventEntry, event_of
from coordinator.objects.pods import UNSCHEDULABLE
from coordinator.objects.store import Objects
from coordinator.objects.timeline import Happening, Story
from coordinator.service.observed.status_writes import (
    StatusWrite,
    conditions_write,
    queue_write,
    stamps_write,
)
from shared.messages.messages import TaskState
from shared.messages.reason import Reason
from shared.slices import GiveWay, Steps, in_slices
from shared.units.times import rfc3339

Json = dict[str, Any]

TICK_SECONDS = 0.1
WRITES_A_TICK = 10
"""100 writes a second: some 4% of what an API server on two cores takes (0.35 ms of its time each),
and 500 pods of a gang are told in five seconds."""
PODS_OF_A_JOB = 1000
"""Maximum number of pods of one job to write statuses to, the first that wait: what holds for them
holds for the rest, and stands on their PodGroup."""
LOOKS_A_TICK = 100
"""Objects looked at, most of which say what they said before: 0.1 ms each."""
QUEUES_SECONDS = 1.0
"""Interval of looks at what queues have: it changes with every placement."""
LOOK_AGAIN_SECONDS = 60.0
"""Interval of looking again at what waits: the amounts of a sentence follow the whole cluster, and
change without a turn of the job."""
_NO_ANSWER = 0
_AGAIN = (_NO_ANSWER, HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS)
_NOT_OURS = NOT_TRIED | {Reason.GATED}
"""No condition says these: nobody found yet that there is no room, which autoscalers act on; of
gates the API server tells itself."""

log = structlog.get_logger(__name__)


class StatusWriter(Protocol):
    """Client that sends a write within the lease."""

    async def report(self, method: str, path: str, body: bytes, form: str) -> HttpAnswer | None:
        """None where there is no answer."""
        ...

    async def resources(self, api_version: str) -> frozenset[str]:
        """The names of resources and sub resources of a version. Raises ApiError."""
        ...


class WriteSubject(NamedTuple):
    """Subject of a write: a gang, one of its pods, an event of either, or a queue."""

    importance: Importance
    jid: int
    tix: int = -1
    number: int = 0
    """Number of the event; 0 for none."""
    queue: str = ""
    """The name of a queue; "" for what is not about one."""


class StatusReports:
    """Runs while this coordinator leads."""

    def __init__(
        self,
        objects: Objects,
        mirror: Mirror,
        writer: StatusWriter,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.written = 0
        """Writes that the server took."""
        self.queue: StatusQueue[WriteSubject] = StatusQueue()
        self._objects = objects
        self._mirror = mirror
        self._writer = writer
        self._clock = clock
        self._seen = 0
        """The version up to which changes of jobs were queued."""
        self._queues_seen = 0
        """As :attr:`_seen`, of queues."""
        self._of_job: dict[int, set[WriteSubject]] = {}
        """jid -> what the server has of it."""
        self._not_understood: dict[int, tuple[ObjectKey, Json, str]] = {}
        self._number = count(1)
        self._reasons: dict[ObjectKey, str] = {}
        """Why objects were refused last."""
        self._group_path: Callable[[str, str], str] | None = None
        """(namespace, name) -> where a PodGroup's status is written; None: not asked yet."""

    async def run_forever(self) -> None:
        looked_again = looked_at_queues = self._clock()
        while True:
            now = self._clock()
            await in_slices(self._collect(now))
            if now >= looked_at_queues + QUEUES_SECONDS:
                await in_slices(self._collect_queues(now))
                looked_at_queues = now
            if now >= looked_again + LOOK_AGAIN_SECONDS:
                await in_slices(self._look_again(now))
                looked_again = now
            await self._write_some(now)
            await asyncio.sleep(TICK_SECONDS)

    async def _write_some(self, now: float) -> None:
        writes, others = 0, GiveWay()
        async with asyncio.TaskGroup() as group:
            for _ in range(LOOKS_A_TICK):
                await others.between()
                about = self.queue.take(now) if writes < WRITES_A_TICK else None
                if about is None:
                    return
                if about.importance is Importance.GROUP and self._group_path is None:
                    self._group_path = await self._find_group_path()
                write = self._write_of(about)
                if write is None:
                    continue
                if self.queue.is_new(about, write.content):
                    group.create_task(self._send(about, write))
                    writes += 1

    def not_understood(self, key: ObjectKey, item: Json, why: str) -> None:
        """An object is refused by intake: its author reads why in an event about it."""
        if self._reasons.get(key) == why:
            return  # it changed in something else
        if len(self._reasons) >= LONGEST:
            self._reasons.clear()
        self._reasons[key] = why
        number = next(self._number)
        self._not_understood[number] = key, item, why
        about = WriteSubject(Importance.GROUP_EVENT, -1, number=number)
        self.queue.changed(about, about.importance, self._clock())

    # --- what changed ---------------------------------------------------------------------------

    def _collect(self, now: float) -> Steps[None]:
        version, self._seen = self._seen, self._objects.version
        jobs, stories = self._objects.core.order.jobs, self._objects.stories
        # What changes between two steps has a later version, and is found by the next look.
        for jid in [jid for jid, _ in stories.since(version)]:
            state, story = jobs.get(jid), stories.jobs.get(jid)
            if state is not None and story is not None:
                for about in self._changes(state, story, version):
                    self.queue.changed(about, about.importance, now)
            yield

    def _collect_queues(self, now: float) -> Steps[None]:
        version, self._queues_seen = self._queues_seen, self._objects.version
        for name in self._mirror.names(QUEUE.kind):
            if self._objects.queue_version(QUEUE.kind, name) > version:
                about = WriteSubject(Importance.QUEUE, -1, queue=name)
                self.queue.changed(about, about.importance, now)
            yield

    def _changes(self, state: JobState, story: Story, seen: int) -> Iterator[WriteSubject]:
        jid = state.job.jid
        if not self._objects.core.order.session.eligibility.in_pool(state.job):
            return  # the scheduler of its node pool writes what is to be said of it
        if state.job.kind == POD_GROUP.kind:
            yield WriteSubject(Importance.GROUP, jid)
            yield WriteSubject(Importance.STAMPS, jid)
        is_gang = state.job.kind != POD.kind
        waiting = [*_waiting(state)]
        for h in story.happenings:
            if h.version > seen:
                importance = Importance.GROUP_EVENT if is_gang else Importance.POD_EVENT
                yield WriteSubject(importance, jid, number=h.number)
                if is_gang and h.reason == EventReason.FAILED_SCHEDULING:
                    for tix in waiting:
                        yield WriteSubject(Importance.POD_EVENT, jid, tix, h.number)
        for tix in waiting:
            yield WriteSubject(Importance.POD, jid, tix)

    def _look_again(self, now: float) -> Steps[None]:
        """Queue what was written of jobs that wait, and forget those that are gone."""
        jobs = self._objects.core.order.jobs
        for jid, written in list(self._of_job.items()):
            if jid in jobs:
                for about in written:
                    self.queue.changed(about, about.importance, now)
            else:
                del self._of_job[jid]
                for about in written:
                    self.queue.forget(about)
            yield

    # --- one write ------------------------------------------------------------------------------

    async def _send(self, about: WriteSubject, write: StatusWrite) -> None:
        body = msgspec.json.encode(write.body)
        answer = await self._writer.report(write.method, write.path, body, write.form)
        now, of_job = self._clock(), self._of_job.setdefault(about.jid, set())
        code = _NO_ANSWER if answer is None else answer.code
        if code == HTTPStatus.NOT_FOUND:
            of_job.discard(about)  # an event that has expired is made anew
        if code in _AGAIN or code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self.queue.written(about, None, now)
            self.queue.changed(about, about.importance, now)
            return
        # A refusal is not asked again: the object is another one by now, or the server does not
        # take what we say of it until that changes.
        self.queue.written(about, write.content, now)
        of_job.add(about)
        if about.jid < 0:
            self._not_understood.pop(about.number, None)
        if code < HTTPStatus.BAD_REQUEST:
            self.written += 1
        elif code != HTTPStatus.CONFLICT:
            log.warning("A status is refused", path=write.path, code=code)

    async def _find_group_path(self) -> Callable[[str, str], str] | None:
        """Volcano's definition of PodGroups has no status sub resource, others may have one."""
        base = f"/apis/{POD_GROUP.api_version}"
        try:
            names = await self._writer.resources(POD_GROUP.api_version)
        except ApiError as error:
            log.warning("Cannot ask what PodGroups have", why=str(error))
            return None
        plural = POD_GROUP.plural
        end = "/status" if f"{plural}/status" in names else ""
        return lambda namespace, name: f"{base}/namespaces/{namespace}/{plural}/{name}{end}"

    def _write_of(self, about: WriteSubject) -> StatusWrite | None:
        """None where there is nothing to say any more."""
        read_model = self._objects.read_model()
        if about.queue:
            return self._of_queue(read_model, about.queue)
        if about.jid < 0:
            return self._of_misunderstanding(about)
        state = read_model.core.order.jobs.get(about.jid)
        if state is None:
            return None
        if about.number:
            return self._of_happening(read_model, state, about)
        of_kai = read_model.registry.group_kind == KAI_POD_GROUP.kind
        match about.importance:
            case Importance.GROUP | Importance.STAMPS if of_kai:
                return self._of_kai(state, about)
            case Importance.GROUP:
                return self._of_group(state)
            case Importance.STAMPS:
                return None
            case _:
                pass
        return self._of_pod(read_model, state, about.tix)

    def _of_group(self, state: JobState) -> StatusWrite | None:
        namespace, name = state.job.namespace, state.job.name
        uid = self._mirror.uid(ObjectKey(POD_GROUP.kind, namespace, name))
        group = self._objects.get(POD_GROUP, namespace, name)
        if group is None or not uid or self._group_path is None:
            return None
        status = group["status"]
        counts = {part: status[part] for part in ("phase", "running", "succeeded", "failed")}
        conditions = status.get("conditions")  # null takes away those of before
        body = {"metadata": {"uid": uid}, "status": counts | {"conditions": conditions}}
        return StatusWrite("PATCH", self._group_path(namespace, name), body)

    def _of_kai(self, state: JobState, about: WriteSubject) -> StatusWrite | None:
        namespace, name = state.job.namespace, state.job.name
        uid = self._mirror.uid(ObjectKey(KAI_POD_GROUP.kind, namespace, name))
        group = self._objects.get(KAI_POD_GROUP, namespace, name)
        if group is None or not uid:
            return None
        subjects = about in self._of_job.get(about.jid, ())
        write = stamps_write if about.importance is Importance.STAMPS else conditions_write
        return write(group, uid, said=subjects)

    def _of_queue(self, read_model: ReadModel, name: str) -> StatusWrite | None:
        uid = self._mirror.uid(ObjectKey(QUEUE.kind, "", name))
        return queue_write(read_model, name, uid) if uid else None

    def _of_pod(self, read_model: ReadModel, state: JobState, tix: int) -> StatusWrite | None:
        row = self._waiting_pod(state, tix)
        why = _found(read_model, state)
        if row is None or why is None:
            return None
        story = read_model.stories.get(state.job.jid)
        failure = story.last(EventReason.FAILED_SCHEDULING) if story is not None else None
        scheduled = condition(
            "PodScheduled",
            False,
            reason=UNSCHEDULABLE,
            message=f"{why.reason}: {why.message}",
            at=failure.first if failure is not None else None,
        )
        nominated = state.nominated.get(tix)
        node = None if nominated is None else read_model.core.names.get(nominated)
        status = {"conditions": [scheduled], "nominatedNodeName": node}
        body = {"metadata": {"uid": row.uid}, "status": status}
        path = f"/api/v1/namespaces/{row.namespace}/pods/{row.name}/status"
        return StatusWrite("PATCH", path, body, STRATEGIC_PATCH)

    def _waiting_pod(self, state: JobState, tix: int) -> PodRow | None:
        """The pod of a task that waits; None where it does not wait any more."""
        row = self._mirror.pods.of_task((state.job.jid, tix))
        if row is None or row.ended or row.leaving or row.node:
            return None
        return row if state.states[tix] == TaskState.PENDING else None

    # --- events ---------------------------------------------------------------------------------

    def _of_happening(
        self, read_model: ReadModel, state: JobState, about: WriteSubject
    ) -> StatusWrite | None:
        story = read_model.stories.get(about.jid)
        happening = None if story is None else story.find(about.number)
        if happening is None:
            return None
        entry = self._entry(read_model, state, happening, about.tix)
        uid = None if entry is None else self._mirror.uid(ObjectKey(*entry.about))
        if entry is None or not uid:
            return None
        event = entry.object()
        event["involvedObject"]["uid"] = uid
        namespace, name = entry.key.namespace, entry.key.name
        path = f"/api/v1/namespaces/{namespace}/events"
        if about in self._of_job.get(about.jid, ()):
            changed = {part: event[part] for part in ("message", "count", "lastTimestamp")}
            return StatusWrite("PATCH", f"{path}/{name}", changed)
        event["metadata"] = {"name": name, "namespace": namespace}
        return StatusWrite("POST", path, event)

    def _entry(
        self, read_model: ReadModel, state: JobState, happening: Happening, tix: int
    ) -> EventEntry | None:
        if tix < 0:
            return event_of(read_model, state, happening)
        row = self._waiting_pod(state, tix)
        if row is None:
            return None
        return EventEntry(read_model, Key(POD.kind, *row.key), happening, state.job.jid, tix)

    def _of_misunderstanding(self, about: WriteSubject) -> StatusWrite:
        key, item, why = self._not_understood[about.number]
        kind, now = BY_KIND[key.kind], rfc3339(self._clock())
        namespace = key.namespace or "default"
        name = f"{key.name}.{item['metadata'].get('uid', '')[:8]}.{about.number:x}"
        event: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": kind.api_version,
                "kind": kind.written,
                "name": key.name,
                **({"namespace": key.namespace} if key.namespace else {}),
                "uid": item["metadata"].get("uid", ""),
            },
            "reason": Reason.MISCONFIGURED.value,
            "message": why[:NOTE],
            "type": "Warning",
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": "",
        }
        return StatusWrite("POST", f"/api/v1/namespaces/{namespace}/events", event)


def _waiting(state: JobState) -> Iterator[int]:
    """The first tasks that wait."""
    waiting = (tix for tix, task in enumerate(state.states) if task == TaskState.PENDING)
    return islice(waiting, PODS_OF_A_JOB)


def _found(read_model: ReadModel, state: JobState) -> Why | None:
    """Why the job waits, where somebody has found that."""
    why = read_model.why(state.job.jid)
    return None if why is None or why.reason in _NOT_OURS else why
