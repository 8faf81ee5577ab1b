"""Status reports to a Kubernetes cluster: why pods and gangs wait, and the amounts of queues.

::

    stories of jobs --> StatusQueue --> one write at a time, made when its turn comes --> API server

Each only when it changes, and all of it at a bounded rate: an event costs the server nearly what a
binding costs. A gang's PodGroup comes before its pods, and an event of each pod last: Volcano's
controllers look at the conditions of a PodGroup when one of its pods changes, and only then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from typing import Any, NamedTuple

import structlog

from coordinator.cluster.kubernetes.api.client import ApiError
from coordinator.cluster.kubernetes.api.pool import STRATEGIC_PATCH
from coordinator.cluster.kubernetes.state.mirror import Mirror, ObjectKey
from coordinator.cluster.kubernetes.state.pods import PodRow
from coordinator.cluster.kubernetes.writes.status_queue import LONGEST, Importance, StatusQueue
from coordinator.core.observer import EventReason
from coordinator.intake.documents.document import Key
from coordinator.intake.documents.group_trees import group_keys
from coordinator.intake.documents.kinds import (
    BY_KIND,
    KAI_POD_GROUP,
    POD,
    POD_GROUP,
    QUEUE,
)
from coordinator.jobs.state import JobState
from coordinator.objects.conditions import lasting_conditions, present_condition
from coordinator.objects.context import NOT_TRIED, ReadModel, phase
from coordinator.objects.events import (
    COMPONENT,
    NOTE,
    EventEntry,
    event_of,
    event_of_pod,
    is_incomplete,
    only_task,
)
from coordinator.objects.kai import pool_of
from coordinator.objects.pods import waiting_condition
from coordinator.objects.store import Objects
from coordinator.objects.timeline import Happening, Story
from coordinator.service.observed.status_writes import (
    StatusWrite,
    StatusWriter,
    conditions_write,
    native_group_write,
    queue_write,
    stamps_write,
)
from shared.messages.messages import TaskState
from shared.messages.reason import Reason
from shared.model.groups import COMPOSITE, NATIVE_KINDS
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
_ON_NODES = (TaskState.BOUND, TaskState.RUNNING, TaskState.SUCCEEDED, TaskState.FAILED)
_NO_ANSWER = 0
_AGAIN = (_NO_ANSWER, HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS)
_NOT_OURS = NOT_TRIED | {Reason.GATED}
"""No condition says these: nobody found yet that there is no room, which autoscalers act on; of
gates the API server tells itself."""

log = structlog.get_logger(__name__)


class WriteSubject(NamedTuple):
    """Subject of a write: a gang, one of its pods, an event of either, or a queue."""

    importance: Importance
    jid: int
    uid: str = ""
    """Uid of the object that is written about. The next object of its name is another subject."""
    tix: int = -1
    number: int = 0
    """Number of the event; 0 for none."""
    queue: str = ""
    """The name of a queue; "" for what is not about one."""


@dataclass
class _Tick:
    """The writes that begin together. Objects that change meanwhile are written by a later tick."""

    read_model: ReadModel
    """One for all, so that the members of a gang share what is computed for it."""
    group: asyncio.TaskGroup
    of_gangs: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    """jid -> the write of its PodGroup."""
    writes: int = 0


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
        self._queues: set[str] = set()
        """Uids of the queues that were met: each is written about once, also without a job."""
        self._of_job: dict[int, set[WriteSubject]] = {}
        """jid -> what the server has of it."""
        self._phases: dict[str, str] = {}
        """Uid of a PodGroup -> its phase, as written last."""
        self._not_understood: dict[int, tuple[ObjectKey, Json, str]] = {}
        self._number = count(1)
        self._reasons: dict[ObjectKey, str] = {}
        """Why objects were refused last."""
        self._group_path: Callable[[str, str], str] | None = None
        """(namespace, name) -> where a PodGroup's status is written; None: not asked yet."""

    async def run_forever(self) -> None:
        looked_again = looked_at_queues = self._clock()
        looked_at_groups = False
        while True:
            now = self._clock()
            await in_slices(self._collect(now))
            if now >= looked_at_queues + QUEUES_SECONDS:
                await in_slices(self._collect_queues(now))
                looked_at_queues = now
            if now >= looked_again + LOOK_AGAIN_SECONDS:
                await in_slices(self._look_again(now))
                looked_again = now
            if not self._objects.core.order.is_held:
                # Before turns may begin the books lack what is on the nodes: a gang that runs would
                # be written as one that waits.
                if not looked_at_groups:
                    await in_slices(self._collect_groups(now))
                    looked_at_groups = True
                await self._write_some(now)
            await asyncio.sleep(TICK_SECONDS)

    async def _write_some(self, now: float) -> None:
        others, is_path_asked = GiveWay(), False
        async with asyncio.TaskGroup() as group:
            tick = _Tick(self._objects.read_model(), group)
            for _ in range(LOOKS_A_TICK):
                await others.between()
                about = self.queue.take(now) if tick.writes < WRITES_A_TICK else None
                if about is None:
                    return
                if self._lacks_path(about) and not is_path_asked:
                    is_path_asked, self._group_path = True, await self._find_group_path()
                if self._lacks_path(about):
                    self._write_again(about, now)
                    continue
                for subject in (*self._paused_gang(about), about):
                    self._start_write(tick, subject)

    def _start_write(self, tick: _Tick, about: WriteSubject) -> None:
        """Send what is new about a subject; about a pod after the PodGroup of the same tick."""
        write = self._write_of(tick.read_model, about)
        if write is None or not self.queue.is_new(about, write.content):
            return
        task = tick.group.create_task(self._send(about, write, after=tick.of_gangs.get(about.jid)))
        if about.importance is Importance.GROUP:
            tick.of_gangs[about.jid] = task
        tick.writes += 1

    def _paused_gang(self, about: WriteSubject) -> Iterator[WriteSubject]:
        """The PodGroup of this pod, if what is new about it waits for the end of a pause."""
        state = self._objects.core.order.jobs.get(about.jid)
        if about.importance is Importance.POD and state is not None:
            gang = WriteSubject(Importance.GROUP, about.jid, self._group_uid(state))
            if not self._lacks_path(gang) and self.queue.take_paused(gang):
                yield gang

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
        changed = [jid for jid, _ in stories.since(version)]
        for jid in (*changed, *self._recreated()):
            state, story = jobs.get(jid), stories.jobs.get(jid)
            if state is not None and story is not None:
                for about in self._changes(state, story, version):
                    at_once = about.importance is Importance.GROUP and self._has_other_phase(
                        state, about.uid
                    )
                    self.queue.changed(about, about.importance, now, at_once=at_once)
            yield

    def _recreated(self) -> Iterator[int]:
        """Jobs whose PodGroup is a new object, which has no status yet."""
        for key in self._mirror.take_recreated():
            document = self._objects.document(Key(*key))
            if document is not None:
                yield document.jid

    def _has_other_phase(self, state: JobState, uid: str) -> bool:
        """Whether Volcano's PodGroup has another phase than was written: its controllers wait for
        that, and make no pods of a Job before its PodGroup is Inqueue."""
        of_volcano = state.job.kind == self._group_kind == POD_GROUP.kind
        return of_volcano and self._phases.get(uid, "") != phase(state)

    def _collect_groups(self, now: float) -> Steps[None]:
        """Queue the groups whose status a leader before this one did not write: it ended between
        that and the binding, and nothing of them changes any more."""
        phases, order = self._mirror.take_first_phases(), self._objects.core.order
        for state in list(order.jobs.values()):
            is_ours = state.job.is_group and order.session.eligibility.in_pool(state.job)
            if is_ours and (uid := self._group_uid(state)):
                if uid in phases:
                    self._phases.setdefault(uid, phases[uid])
                if state.job.kind in NATIVE_KINDS or self._has_other_phase(state, uid):
                    for about in self._of_groups(state, uid):
                        self.queue.changed(about, about.importance, now)
            yield

    def _collect_queues(self, now: float) -> Steps[None]:
        version, self._queues_seen = self._queues_seen, self._objects.version
        for name in self._mirror.names(QUEUE.kind):
            uid = self._mirror.uid(ObjectKey(QUEUE.kind, "", name))
            # The mirror has a queue before the books do, and until then nothing can be written.
            is_new = uid not in self._queues and name in self._objects.core.order.queue_ids
            if is_new:
                self._queues.add(uid)
            if is_new or self._objects.queue_version(QUEUE.kind, name) > version:
                about = WriteSubject(Importance.QUEUE, -1, uid, queue=name)
                self.queue.changed(about, about.importance, now)
            yield

    def _changes(self, state: JobState, story: Story, seen: int) -> Iterator[WriteSubject]:
        jid = state.job.jid
        if not self._objects.core.order.session.eligibility.in_pool(state.job):
            return  # the scheduler of its node pool writes what is to be said of it
        if state.job.is_group and (uid := self._group_uid(state)):
            yield from self._of_groups(state, uid)
            yield WriteSubject(Importance.STAMPS, jid, uid)
        is_gang = state.job.kind != POD.kind
        waiting = [(tix, uid) for tix in _waiting(state) if (uid := self._pod_uid(jid, tix))]
        for h in story.happenings:
            if h.version > seen:
                importance = Importance.GROUP_EVENT if is_gang else Importance.POD_EVENT
                tix = only_task(state, h)
                if tix >= 0 and h.reason == EventReason.SCHEDULED:
                    continue  # said once the pod is bound
                if uid := self._group_uid(state) if tix < 0 else self._pod_uid(jid, tix):
                    yield WriteSubject(importance, jid, uid, number=h.number)
        failure = story.last(EventReason.FAILED_SCHEDULING) if is_gang else None
        if failure is not None:
            written = self._of_job.get(jid, ())
            for tix, uid in waiting:
                about = WriteSubject(Importance.POD_EVENT, jid, uid, tix, failure.number)
                if failure.version > seen or about not in written:
                    yield about
        for tix, uid in waiting:
            yield WriteSubject(Importance.POD, jid, uid, tix)
        yield from self._placed(state, story, seen)

    def _placed(self, state: JobState, story: Story, seen: int) -> Iterator[WriteSubject]:
        """The event of each pod that was bound; of a gang of very many the first ones, as the
        event of the gang is about all of them."""
        jid = state.job.jid
        written = self._of_job.get(jid, ())
        for tix in story.changed(seen):
            if tix >= PODS_OF_A_JOB or state.states[tix] not in _ON_NODES:
                continue
            happening = story.placement_of(tix)
            if happening is not None and (uid := self._pod_uid(jid, tix)):
                about = WriteSubject(Importance.PLACED, jid, uid, tix, happening.number)
                if about not in written:
                    yield about

    def _of_groups(self, state: JobState, uid: str) -> Iterator[WriteSubject]:
        """The gang's group; of a tree each of its groups. ``uid``: of the gang's own."""
        if state.job.kind != COMPOSITE:
            yield WriteSubject(Importance.GROUP, state.job.jid, uid)
            return
        for key in group_keys(state.job):
            if part_uid := self._mirror.uid(ObjectKey(*key)):
                yield WriteSubject(Importance.GROUP, state.job.jid, part_uid)

    def _group_of(self, state: JobState, uid: str) -> Key | None:
        """The one of Kubernetes' own groups of a job that has this uid."""
        keys = group_keys(state.job)
        return next((key for key in keys if self._mirror.uid(ObjectKey(*key)) == uid), None)

    def _group_uid(self, state: JobState) -> str:
        """The uid of a gang's object; "" where there is none."""
        kind = self._objects.read_model().registry.document_kind(state.job)
        return self._mirror.uid(ObjectKey(kind, state.job.namespace, state.job.name))

    @property
    def _group_kind(self) -> str:
        return self._objects.read_model().registry.group_kind

    def _pod_uid(self, jid: int, tix: int) -> str:
        """The uid of a task's pod, also of one that is gone; "" where there was none."""
        row = self._mirror.pods.of_task((jid, tix))
        return "" if row is None else row.uid

    def _look_again(self, now: float) -> Steps[None]:
        """Queue what was written of jobs that wait, and forget those that are gone."""
        jobs = self._objects.core.order.jobs
        for jid, written in list(self._of_job.items()):
            present = jid in jobs
            past = {about for about in written if not present or not self._is_present(about)}
            for about in past:
                self.queue.forget(about)
                self._phases.pop(about.uid, None)
            written.difference_update(past)
            for about in written:
                if about.importance is not Importance.PLACED:  # that a pod was bound stays so
                    self.queue.changed(about, about.importance, now)
            if not present:
                del self._of_job[jid]
            yield

    def _is_present(self, about: WriteSubject) -> bool:
        """Whether the pod that was written about is its task's present one."""
        return about.tix < 0 or self._pod_uid(about.jid, about.tix) == about.uid

    # --- one write ------------------------------------------------------------------------------

    async def _send(
        self, about: WriteSubject, write: StatusWrite, *, after: asyncio.Task[None] | None
    ) -> None:
        if after is not None:
            await after
        answer = await self._writer.report(write.method, write.path, write.encoded(), write.form)
        now, of_job = self._clock(), self._of_job.setdefault(about.jid, set())
        code = _NO_ANSWER if answer is None else answer.code
        if code == HTTPStatus.NOT_FOUND:
            of_job.discard(about)  # an event that has expired is made anew
        moved = bool(write.version) and code == HTTPStatus.CONFLICT
        if moved or code in _AGAIN or code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._write_again(about, now)
            return
        # A refusal is not asked again: the object is another one by now, or the server does not
        # take what we say of it until that changes.
        self.queue.written(about, write.content, now)
        of_job.add(about)
        if about.jid < 0:
            self._not_understood.pop(about.number, None)
        if code < HTTPStatus.BAD_REQUEST:
            self.written += 1
            if about.importance is Importance.GROUP and "phase" in write.body["status"]:
                self._phases[about.uid] = write.body["status"]["phase"]
        elif code != HTTPStatus.CONFLICT:
            log.warning("A status is refused", path=write.path, code=code)

    def _lacks_path(self, about: WriteSubject) -> bool:
        """Whether it is not known yet where the status of this PodGroup is written."""
        state = self._objects.core.order.jobs.get(about.jid)
        if state is not None and state.job.kind in NATIVE_KINDS:
            return False
        of_volcano = self._group_kind == POD_GROUP.kind
        return about.importance is Importance.GROUP and of_volcano and self._group_path is None

    def _write_again(self, about: WriteSubject, now: float) -> None:
        """Repeat a failed write after a pause."""
        self.queue.written(about, None, now)
        self.queue.changed(about, about.importance, now)

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

    def _write_of(self, read_model: ReadModel, about: WriteSubject) -> StatusWrite | None:
        """None where there is nothing to say any more."""
        if about.queue:
            return queue_write(read_model, about.queue, about.uid)
        if about.jid < 0:
            return self._of_misunderstanding(about)
        state = read_model.core.order.jobs.get(about.jid)
        if state is None:
            return None
        if about.number:
            return self._of_happening(read_model, state, about)
        match about.importance:
            case Importance.GROUP if state.job.kind in NATIVE_KINDS:
                group = self._group_of(state, about.uid)
                if group is None:
                    return None
                return native_group_write(read_model, state, group, about.uid)
            case Importance.STAMPS if state.job.kind in NATIVE_KINDS:
                return None
            case Importance.GROUP | Importance.STAMPS if read_model.of_kai:
                return self._of_kai(read_model, state, about)
            case Importance.GROUP:
                return self._of_group(read_model, state, about.uid)
            case Importance.STAMPS:
                return None
            case _:
                pass
        return self._of_pod(read_model, state, about)

    def _of_group(self, read_model: ReadModel, state: JobState, uid: str) -> StatusWrite | None:
        namespace, name = state.job.namespace, state.job.name
        group = self._objects.get(POD_GROUP, namespace, name)
        if group is None or uid != self._group_uid(state) or self._group_path is None:
            return None
        status = group["status"]
        counts = {part: status[part] for part in ("phase", "running", "succeeded", "failed")}
        present = present_condition(read_model, state)
        # null takes away those of before
        conditions = None if present is None else lasting_conditions(read_model, state, present)
        body = {"metadata": {"uid": uid}, "status": counts | {"conditions": conditions}}
        return StatusWrite("PATCH", self._group_path(namespace, name), body)

    def _of_kai(
        self, read_model: ReadModel, state: JobState, about: WriteSubject
    ) -> StatusWrite | None:
        group = self._objects.get(KAI_POD_GROUP, state.job.namespace, state.job.name)
        record = read_model.record(KAI_POD_GROUP.kind, state.job.key)
        if group is None or record is None or about.uid != self._group_uid(state):
            return None
        said = about in self._of_job.get(about.jid, ())
        if about.importance is Importance.STAMPS:
            return stamps_write(group, about.uid, said=said)
        stored = (record.document.object().get("status") or {}).get("schedulingConditions") or []
        return conditions_write(group, about.uid, stored, pool_of(read_model, state), said=said)

    def _of_pod(
        self, read_model: ReadModel, state: JobState, about: WriteSubject
    ) -> StatusWrite | None:
        row = self._waiting_pod(state, about)
        if row is None or not _is_reported(read_model, state):
            return None
        scheduled = waiting_condition(read_model, about.jid, about.tix)
        nominated = state.nominated.get(about.tix)
        node = None if nominated is None else read_model.core.names.get(nominated)
        status = {"conditions": [scheduled], "nominatedNodeName": node}
        body = {"metadata": {"uid": row.uid}, "status": status}
        path = f"/api/v1/namespaces/{row.namespace}/pods/{row.name}/status"
        # For this version alone: a pod that is bound before the write arrives is scheduled.
        return StatusWrite("PATCH", path, body, STRATEGIC_PATCH, row.version)

    def _waiting_pod(self, state: JobState, about: WriteSubject) -> PodRow | None:
        """The pod of a task that waits; None where it does not wait any more."""
        row = self._mirror.pods.of_task((state.job.jid, about.tix))
        if row is None or row.uid != about.uid or row.ended or row.leaving or row.node:
            return None
        return row if state.states[about.tix] == TaskState.PENDING else None

    def _placed_pod(self, state: JobState, about: WriteSubject) -> PodRow | None:
        """The pod of a task that was bound, also one that is gone since."""
        row = self._mirror.pods.of_task((state.job.jid, about.tix))
        return row if row is not None and row.uid == about.uid and row.node else None

    # --- events ---------------------------------------------------------------------------------

    def _of_happening(
        self, read_model: ReadModel, state: JobState, about: WriteSubject
    ) -> StatusWrite | None:
        story = read_model.stories.get(about.jid)
        happening = None if story is None else story.find(about.number)
        if happening is None:
            return None
        entry = self._entry(read_model, state, happening, about)
        if entry is None:
            return None
        event = entry.object()
        event["involvedObject"]["uid"] = about.uid
        namespace, name = entry.key.namespace, f"{entry.key.name}.{about.uid[:8]}"
        path = f"/api/v1/namespaces/{namespace}/events"
        if about in self._of_job.get(about.jid, ()):
            changed = {part: event[part] for part in ("message", "count", "lastTimestamp")}
            return StatusWrite("PATCH", f"{path}/{name}", changed)
        event["metadata"] = {"name": name, "namespace": namespace}
        return StatusWrite("POST", path, event)

    def _entry(
        self, read_model: ReadModel, state: JobState, happening: Happening, about: WriteSubject
    ) -> EventEntry | None:
        if about.tix < 0:
            return event_of(read_model, state, happening)
        placed = about.importance is Importance.PLACED
        row = (self._placed_pod if placed else self._waiting_pod)(state, about)
        if row is None or (read_model.of_kai and is_incomplete(happening)):
            return None
        return event_of_pod(read_model, Key(POD.kind, *row.key), happening, about.jid, about.tix)

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
    left = PODS_OF_A_JOB
    for role in state.job.roles:
        tasks = state.pending(role, left)
        left -= len(tasks)
        yield from tasks


def _is_reported(read_model: ReadModel, state: JobState) -> bool:
    """Whether pods are to say why their job waits: somebody has found that."""
    why = read_model.why(state.job.jid)
    if why is None or why.reason in _NOT_OURS:
        return False
    if not read_model.of_kai or state.job.kind in NATIVE_KINDS:
        return True
    # As in KAI: pods of a gang that is not complete say nothing, so that no autoscaler acts.
    group = read_model.core.order.accounts.cluster.objects.kai_groups.get(state.job.key)
    is_silent = group is not None and group.mark_unschedulable is False
    return not is_silent and why.reason is not Reason.NOT_ENOUGH_TASKS
