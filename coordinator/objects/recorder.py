"""Records events and changes as the scheduler reports them.

It must be fast, since it is called within every turn: a call keeps references to the lists it gets,
and computes at most one reason. The message of a pending job is made only when its reason changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from coordinator.cluster.overdue import OverduePod
from coordinator.controllers.restarts import RESTARTING
from coordinator.core.coordinator import Coordinator
from coordinator.core.observer import EventReason
from coordinator.core.reasons.borrowers import Borrowers
from coordinator.core.reasons.reasons import why
from coordinator.intake.admission.registry import Registry
from coordinator.intake.documents.document import Document, Key
from coordinator.intake.documents.kinds import BY_KIND, Kind
from coordinator.jobs.pending_reasons import Why, of_counts
from coordinator.jobs.state import JobState
from coordinator.ledger_audit.findings import Finding, RecordKind
from coordinator.objects.conditions import lacks_minimum
from coordinator.objects.context import NOT_TRIED, shard_name
from coordinator.objects.events import ClusterHappening
from coordinator.objects.queue_trees import QueueVersions
from coordinator.objects.story_texts import (
    OF_CLUSTER,
    REMEMBERED,
    WARNINGS,
    evicted_text,
    evicting_text,
    nominated_text,
    stopped_text,
)
from coordinator.objects.timeline import Audience, Happening, Stories, Story
from coordinator.objects.wait_log import WaitLog, runs
from shared.messages.messages import (
    ALLOCATE,
    Outcome,
    OutcomeCode,
    Placement,
    StatusItem,
    TaskState,
)
from shared.messages.reason import Reason
from shared.records.quarantine import Quarantine
from shared.units.amount_text import plural

CLUSTER_HAPPENINGS = 256
WAITING = 100_000
"""Maximum number of pending jobs whose reason is checked in rotation."""
_PLACED = OutcomeCode.PLACED


class Observing:
    """The part of :class:`coordinator.objects.store.Objects` that receives the scheduler's
    reports."""

    def __init__(
        self,
        core: Coordinator,
        *,
        first: int,
        registry: Callable[[], Registry],
        notify: Callable[[], None],
    ) -> None:
        """``registry``: intake's current objects."""
        self.core = core
        self._registry = registry
        self.version = first
        """The version of the latest change."""
        self.cluster_events: list[ClusterHappening] = []
        """Happenings of cluster objects, and of Jobs by their policies; the newest last."""
        self._first = first
        self._notify = notify
        self.stories = Stories()
        """The story of each job: its changes and events."""
        self._queues = QueueVersions(core)
        self._shards: dict[int, int] = {}
        self._nodes: dict[str, int] = {}
        """Node name -> version at which it was last quarantined, released, or found with a wrong
        record."""
        self._waiting: deque[int] = deque(maxlen=WAITING)
        """Pending jobs whose reason may change without a turn."""
        self._listed: set[int] = set()
        self._borrowers = Borrowers(core)
        self._last_restored = -1
        """Highest number of a job that an earlier coordinator admitted."""

    # --- the calls --------------------------------------------------------------------------------

    def outcome(self, shard: int, outcome: Outcome) -> None:
        state = self.core.order.jobs.get(outcome.jid)
        if state is None:
            return
        for jid in outcome.displaced:
            self._displaced(jid, by=state)
        placements, code = outcome.placements, outcome.code
        # By reference: nearly every outcome has one placement, and most of the time nobody looks
        # (decision 0016).
        tasks: Sequence[int] = placements[0].tasks if placements else ()
        if len(placements) > 1:
            tasks = [tix for p in placements for tix in p.tasks]
        story = self._move(state, tasks)
        if outcome.conflicts_true or outcome.conflicts_read:
            self._conflicts(story, outcome, shard)
        if code is _PLACED:
            self._placed(story, placements, shard)
            if story.waits is not None or story.tasks > 1:
                self._waits_of(state, story).turn_placed(state, self.core.order.now)
            if outcome.reasons:
                self._waits(state, story, of_counts(outcome.reasons))
            else:
                story.refusal = story.word = ""
        elif code is OutcomeCode.NOMINATED:
            self._nominated(state, story, shard, len(tasks))
        elif code is OutcomeCode.INFEASIBLE:
            self._waits(state, story, of_counts(outcome.reasons))
        elif state.reason == Reason.REPEATED_CONFLICT:
            self._waits(state, story, Reason.REPEATED_CONFLICT)
        self._notify()

    def recorded(self, item: StatusItem, tasks: list[int], rows: list[int]) -> None:
        state = self.core.order.known(item.jid)
        if state is None:
            return
        story, new_state = self._move(state, tasks), item.state
        if new_state in REMEMBERED:
            story.remember(new_state, self.core.order.now, tasks)
            waits = story.waits
            if (waits is not None and not waits.is_over) or (waits is None and story.tasks > 1):
                self._wait_changed(state, story, new_state, tasks)
        elif new_state is TaskState.RELEASING:
            # Whoever deletes a pod has it stopped, too: that is no eviction.
            if evicted := [tix for tix in tasks if state.is_stopped_by_us(tix)]:
                text = stopped_text(len(evicted))
                self._again(story, EventReason.EVICT, text, count=len(evicted))
        elif new_state is TaskState.PENDING:
            self._wait_changed(state, story, new_state, tasks)
            if not state.refused.isdisjoint(tasks):
                self._bind_failed(story, tasks, rows)
        self._notify()

    def evicted(self, jid: int, tasks: list[int], by_jid: int, reason: str) -> None:
        """Record evictions, on the victims and on the job that they make room for.

        A statement names one member that it evicts for; the events name its job.
        """
        state, by = self.core.order.known(jid), self.core.order.known(by_jid)
        if state is None:
            return
        beneficiary = f"job {by_jid}" if by is None else by.job.key
        text = evicted_text("" if jid == by_jid else beneficiary, reason)
        tasks = sorted(tasks)
        self._record_event(
            self._move(state, tasks), EventReason.EVICTED, text, Audience.TASKS, tasks=tasks
        )
        if by is not None and jid != by_jid:
            text = evicting_text(len(tasks), state.job.key, reason)
            self._record_event(self._move(by, ()), EventReason.EVICTING, text, Audience.JOB)
        self._notify()

    def victim_overdue(self, pod: OverduePod, waiting: Sequence[int]) -> None:
        jid, tix = pod.task
        if (state := self.core.order.known(jid)) is not None:
            story, reason = self._move(state, [tix]), EventReason.EVICTION_OVERDUE
            self._record_event(
                story, reason, pod.sentence, Audience.TASKS, warning=True, tasks=[tix]
            )
        for other in waiting:
            by = self.core.order.jobs.get(other)
            reason_of = None if by is None else why(self.core, by, names=self._names())
            if by is not None and reason_of is not None:
                self._record_waiting(by, self._move(by, None), reason_of)
        self._notify()

    def job_moved(self, jid: int) -> None:
        state = self.core.order.known(jid)
        if state is not None:
            story = self._move(state, None)
            if state.stopping and story.last(EventReason.GANG_RELEASED) is None:
                text = f"too few of its gang were left: {plural(len(state.stopping), 'task')} stop"
                self._record_event(
                    story, EventReason.GANG_RELEASED, text, Audience.JOB, warning=True
                )
            self._notify()

    def shard_changed(self, shard: int, reason: EventReason, message: str = "") -> None:
        self.version += 1
        self._shards[shard] = self.version
        self._of_cluster(Key("Shard", "", shard_name(shard)), reason, message)
        self._notify()

    def node_changed(self, name: str, quarantine: Quarantine | None) -> None:
        self.version += 1
        self._nodes[name] = self.version
        if quarantine is None:
            self._of_cluster(Key("Node", "", name), EventReason.NODE_RETURNED)
        else:
            cause = f" ({quarantine.reason})" if quarantine.reason else ""
            seconds = round(quarantine.until - quarantine.since)
            text = f"it refused bind after bind{cause}: nothing is placed there for {seconds} s"
            self._of_cluster(Key("Node", "", name), EventReason.NODE_SET_ASIDE, text)
        self._notify()

    def ledger_contradicted(self, finding: Finding, message: str) -> str:
        """Record an event on the node, queue, job or pod whose record was wrong, and return what to
        call that. If the job is unknown, the event is on the node that the record held; there is
        none for a domain's counter or an unknown node."""
        core, reason, number = self.core, EventReason.LEDGER_CONTRADICTION, (*finding.name, -1)[0]
        match finding.subject:
            case RecordKind.NODE:
                shown = self._node_contradicted(number, reason, message)
            case RecordKind.QUEUE:
                names = {qid: name for name, qid in core.order.queue_ids.items()}
                name = names.get(number, f"queue {number}")
                self._of_cluster(Key(self._registry().queue_kind, "", name), reason, message)
                shown = f"queue {name}"
            case RecordKind.JOB | RecordKind.TASK | RecordKind.NOMINATION:
                shown = self._job_contradicted(finding, reason, message)
            case RecordKind.DOMAIN:
                shown = f"counter {finding.key}"
        self._notify()
        return shown

    def _node_contradicted(self, row: int, reason: EventReason, message: str) -> str:
        name = self.core.names.get(row)
        if name is None:
            return f"row {row}"
        self._nodes[name] = self.version + 1
        self._of_cluster(Key("Node", "", name), reason, message)
        return f"node {name}"

    def _job_contradicted(self, finding: Finding, reason: EventReason, message: str) -> str:
        jid, *tasks = finding.name
        state = self.core.order.known(jid)
        if state is None:
            shown = f"{finding.subject} {'.'.join(map(str, finding.name))}"
            on = self._node_contradicted(finding.row, reason, f"{shown}: {message}")
            return f"{shown} on {on}"
        audience = Audience.TASKS if tasks else Audience.JOB
        self._record_event(
            self._move(state, tasks), reason, message, audience, warning=True, tasks=tasks
        )
        return f"job {state.job.key}" + (f", task {tasks[0]}" if tasks else "")

    # --- those without a turn ---------------------------------------------------------------------

    def _came(self, jid: int) -> None:
        """A document of a job or of one of its members was published."""
        self._list(jid)
        state = self.core.order.jobs.get(jid)
        if state is not None and state.job.is_group:
            self._move(state, ())

    def _list(self, jid: int) -> None:
        if jid >= 0 and jid not in self._listed and len(self._waiting) < WAITING:
            self._listed.add(jid)
            self._waiting.append(jid)

    def report_waiting(self, most: int = 100) -> None:
        """Check the reason of some pending jobs, in rotation: it may have become known, or changed,
        without a turn of the job."""
        for _ in range(min(most, len(self._waiting))):
            jid = self._waiting.popleft()
            if self.report_reason(jid):
                self._waiting.append(jid)
            else:
                self._listed.discard(jid)

    def report_reason(self, jid: int) -> bool:
        """Report a job's reason if it differs from the one reported last; False if the job does not
        wait."""
        state = self.core.order.jobs.get(jid)
        reason = None if state is None else why(self.core, state, names=self._names())
        # What another scheduler places waits for that one, whose events say why.
        if state is None or reason is None or jid in self.core.order.theirs:
            return False
        story = self.stories.jobs.get(jid)
        reported = "" if story is None else story.word
        if reason.reason not in NOT_TRIED and reported != reason.reason:
            self._record_waiting(state, self._move(state, None), reason)
            self._notify()
        elif story is not None and reason.reason is Reason.WAITING_FOR_TURN:
            self._waits_of(state, story).reason(state, reason, self.core.order.now)
        return True

    # --- what moved -------------------------------------------------------------------------------

    def _move(self, state: JobState, tasks: Sequence[int] | None) -> Story:
        self.version += 1
        self._queues.moved[state.info.qid] = self.version
        return self.stories.move(state.job.jid, self.version, tasks, of=len(state.states))

    def _names(self) -> Sequence[str]:
        """The resource name of each slot."""
        return self._registry().slots.names

    def queue_version(self, kind: str, name: str) -> int:
        """The version at which the status of a queue of this kind last changed."""
        return self._queues.at(kind, name, now=self.version)

    def shard_version(self, shard: int) -> int:
        return self._shards.get(shard, self._first)

    def node_version(self, name: str) -> int:
        return self._nodes.get(name, 0)

    def moved_cluster(self, kind: Kind, since: int) -> Iterator[tuple[Key, int]]:
        """Queues, shards or nodes that changed after a version without being written."""
        if kind.kind == self._registry().queue_kind:
            for name in self.core.order.queue_ids:
                version = self.queue_version(kind.kind, name)
                if version > since:
                    yield Key(kind.kind, "", name), version
        elif kind.kind == "Node":
            for name, version in self._nodes.items():
                if version > since:
                    yield Key(kind.kind, "", name), version
        elif kind.kind == "Shard":
            for shard, version in self._shards.items():
                if version > since:
                    yield Key(kind.kind, "", shard_name(shard)), version

    # --- events --------------------------------------------------------------------------------

    def _placed(self, story: Story, placements: list[Placement], shard: int) -> None:
        """Record placements by reference; the pods' events are expanded when a client reads."""
        allocations = placements
        if len(allocations) > 1 or (allocations and allocations[0].kind != ALLOCATE):
            allocations = [p for p in placements if p.kind == ALLOCATE]
        if allocations:
            happening = self._record_event(
                story, EventReason.SCHEDULED, "", Audience.TASKS, shard=shard
            )
            happening.placements = allocations
            if story.placed_since is None or story.word:
                story.placed_since = self.core.order.now

    def _waits_of(
        self, state: JobState, story: Story, *, stopped: bool = False, started: int = 0
    ) -> WaitLog:
        """The waits of a job under this coordinator. ``stopped``: tasks have just lost their
        places; ``started``: number of tasks that have just begun to run."""
        if story.waits is None:
            story.waits = story.wait_log(state.job.created)
            # One of an earlier coordinator may have run before this one was told anything of it.
            if state.job.jid <= self._last_restored:
                story.waits.is_over = stopped or runs(state, without=started)
        return story.waits

    def _wait_changed(
        self, state: JobState, story: Story, new_state: TaskState, tasks: Sequence[int]
    ) -> None:
        """End or begin a wait, if these tasks do so by their new state."""
        stopped, cause = new_state is TaskState.PENDING, ""
        if stopped and (last := story.last(EventReason.EVICTED)) is not None:
            cause = last.message
        started = len(tasks) if new_state is TaskState.RUNNING else 0
        waits = self._waits_of(state, story, stopped=stopped, started=started)
        waits.tasks_changed(new_state, self.core.order.now, runs=runs(state), cause=cause)

    def _bind_failed(self, story: Story, tasks: list[int], rows: list[int]) -> None:
        row = rows[0] if rows else -1
        node = self.core.names.get(row, f"row {row}")
        text = f"node {node} did not take it; it is placed again"
        self._record_event(
            story, EventReason.BIND_FAILED, text, Audience.TASKS, warning=True, tasks=tasks
        )

    def _nominated(self, state: JobState, story: Story, shard: int, count: int) -> None:
        text = nominated_text(count, shard)
        waits = Why(Reason.WAITING_FOR_VICTIMS, text)
        self._waits_of(state, story).reason(state, waits, self.core.order.now)
        self._again(story, EventReason.NOMINATED, text, shard=shard)

    def _conflicts(self, story: Story, outcome: Outcome, shard: int) -> None:
        true, read = outcome.conflicts_true, outcome.conflicts_read
        text = "what was placed did not fit any more when it was committed; it is placed again"
        self._again(story, EventReason.COMMIT_CONFLICT, text, shard=shard, count=true + read)

    def _displaced(self, jid: int, *, by: JobState) -> None:
        state = self.core.order.jobs.get(jid)
        if state is not None:
            kind = BY_KIND[by.job.kind].written
            text = f"{kind} {by.job.key} of priority {by.job.priority} took the room it had"
            story = self._move(state, None)
            self._record_event(
                story, EventReason.PREEMPTED, f"{text} been promised", Audience.JOB, warning=True
            )

    def _waits(self, state: JobState, story: Story, word: Reason) -> None:
        """Record a pending reason if it differs from the last one; else count that once more."""
        # The same refusal as before: the sentence is not made anew, as nobody may ever read it.
        if story.refusal == word:
            earlier = story.last(EventReason.FAILED_SCHEDULING)
            if earlier is not None:
                earlier.count += 1
                earlier.last = self.core.order.now
                return
        story.refusal = word
        reason = why(self.core, state, names=self._names())
        if reason is not None and reason.reason != story.word:
            self._record_waiting(state, story, reason)

    def _record_waiting(self, state: JobState, story: Story, reason: Why) -> None:
        story.word, story.waits_since = reason.reason, self.core.order.now
        borrowers = self._borrowers.of(state.info.qid, reason, self._names())
        self._waits_of(state, story).reason(state, reason, self.core.order.now, borrowers)
        text = f"{reason.reason}: {reason.message}"
        if lacks_minimum(state):
            story.shortage = text, self.core.order.now
        story.parts[-1] = (story.version, None)  # the condition of every pod that waits
        earlier = story.last(EventReason.FAILED_SCHEDULING, begins=f"{reason.reason}: ")
        if earlier is not None:
            self.version += 1
            earlier.version = story.version = self.version
            earlier.message, earlier.last, earlier.count = (
                text,
                self.core.order.now,
                earlier.count + 1,
            )
            return
        self._record_event(
            story,
            EventReason.FAILED_SCHEDULING,
            text,
            Audience.WAITING,
            warning=True,
            shard=reason.shard,
        )

    def _again(
        self, story: Story, reason: EventReason, text: str, *, shard: int = -1, count: int = 1
    ) -> None:
        """Record an event, or count the last one with this reason once more."""
        earlier = story.last(reason)
        if earlier is None:
            warning = reason is EventReason.COMMIT_CONFLICT
            happening = self._record_event(
                story, reason, text, Audience.JOB, warning=warning, shard=shard
            )
            happening.count = count
            return
        earlier.count += count
        earlier.last = self.core.order.now

    def _record_event(
        self,
        story: Story,
        reason: EventReason,
        text: str,
        audience: Audience,
        *,
        warning: bool = False,
        tasks: Sequence[int] = (),
        shard: int = -1,
    ) -> Happening:
        self.version = number = self.version + 1
        now = self.core.order.now
        happening = Happening(
            number, number, reason, text, audience, warning, now, now, 1, tasks, (), shard
        )
        story.version = number
        self.stories.add_event(story, happening)
        return happening

    def _of_cluster(self, about: Key, reason: str, text: str = "") -> None:
        for cluster_event in self.cluster_events:
            if cluster_event.about == about and cluster_event.happening.reason == reason:
                self.version += 1
                cluster_event.happening.version = self.version
                cluster_event.happening.count += 1
                cluster_event.happening.last = self.core.order.now
                return
        text = text or OF_CLUSTER.get(reason, reason)
        self.version = number = self.version + 1
        now, warning = self.core.order.now, reason in WARNINGS
        happening = Happening(number, number, reason, text, Audience.JOB, warning, now, now)
        self.cluster_events.append(ClusterHappening(about, happening))
        del self.cluster_events[:-CLUSTER_HAPPENINGS]

    def _job_published(self, before: Document | None, after: Document) -> None:
        """Record what a Job's policies did."""
        state = after.state or {}
        earlier = (before.state if before is not None else None) or {}
        phase = state.get("phase")
        if phase is not None and phase != earlier.get("phase"):
            self._of_cluster(after.key, phase, str(state.get("message", "")))
        elif state.get("incarnations") != earlier.get("incarnations") and "told" in state:
            self._of_cluster(after.key, RESTARTING, state["told"])
        elif phase is None and "next" in earlier:
            self._of_cluster(after.key, EventReason.RESTARTED, "its pods have left; it begins anew")

    def events_of(self, key: Key) -> list[Happening]:
        """The events of a cluster object, or of a Job's policies; the oldest first."""
        return [event.happening for event in self.cluster_events if event.about == key]

    def _job_gone(self, document: Document) -> None:
        """Drop the policy events of a deleted Job, since another Job may get its name."""
        if document.state is not None:
            self.cluster_events = [
                cluster_event
                for cluster_event in self.cluster_events
                if cluster_event.about != document.key
            ]

    def _queue_published(self, before: Document | None, after: Document) -> None:
        """Record an event if a queue was closed."""
        if _closed(after) and (before is None or not _closed(before)):
            self._of_cluster(after.key, EventReason.QUEUE_CLOSED)


def _closed(document: Document) -> bool:
    status = document.object().get("status") or {}
    return status.get("state") not in (None, "Open")
