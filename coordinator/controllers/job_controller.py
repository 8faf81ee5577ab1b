"""Actions on Jobs, decided from their lifecycle policies and the states of their tasks.

No I/O and no clock. It knows only the jobs that have policies; for all others an event costs one
look-up. :mod:`coordinator.controllers.job_loop` executes the actions, which become durable with the
document of the Job; an action that is under way is not issued twice.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from coordinator.controllers.job_rules import (
    JobStates,
    Rules,
    Ruling,
    all_created,
    bounds_pending,
    may_begin,
    minds_parts,
    outcome,
    rules_of,
    rulings,
)
from coordinator.controllers.restarts import RESTARTING, after, behind, carried_out, incarnations
from coordinator.intake.documents.document import Document, Key
from shared.manifests.volcano.policies import (
    ABORT_JOB,
    COMPLETE_JOB,
    RESTART_JOB,
    RESTARTS,
    TERMINATE_JOB,
)
from shared.messages.messages import UNSUCCESSFUL, TaskState

_PHASES = {
    ABORT_JOB: ("Aborting", "Aborted"),
    COMPLETE_JOB: ("Completing", "Completed"),
    TERMINATE_JOB: ("Terminating", "Terminated"),
}
_FAR = float("inf")
ADMISSION_LOOK_SECONDS = 5.0
"""Pause between two looks at a job that is not admitted, and whose pods may be pending only for a
time: it counts from the admission, which no event reports. Also at one that runs in part: no event
reports that nobody has a place for the rest."""
RESTART_LOOK_SECONDS = 1.0
"""Pause before pods that could not be stopped yet, to begin anew, are looked at again."""


@dataclass(frozen=True, slots=True)
class End:
    """Stop every task of this incarnation; ``state`` is stored in its document."""

    key: Key
    jid: int
    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Note:
    """Store the ``state`` of a job that ended by itself, or of which some pods are to begin anew,
    in its document."""

    key: Key
    jid: int
    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Grow:
    """Create the members of these roles."""

    key: Key
    jid: int
    roles: list[str]


@dataclass(frozen=True, slots=True)
class Restart:
    """Begin these tasks anew, as the document of the Job says already."""

    key: Key
    jid: int
    tasks: list[int]


@dataclass(frozen=True, slots=True)
class Expire:
    """Delete the Job, if it is still the one created then."""

    key: Key
    created: float


Action = End | Note | Grow | Restart | Expire


@dataclass(slots=True)
class _Ruled:
    key: Key
    rules: Rules
    retries: int
    noted: bool
    """Whether its end is stored in its document."""
    created: float
    awaiting: bool = False
    """Whether an action is under way whose result its next document will show."""
    looks: bool = False
    """Whether it is looked at again although nothing happens to it."""
    since: dict[tuple[str, str], float] = field(default_factory=dict)
    """(event, role) of a policy -> since when it holds, as this leader saw it."""
    incarnations: dict[int, int] = field(default_factory=dict)
    """Task -> the incarnation that it has to be, or was when its evictions were answered."""
    restarting: set[int] = field(default_factory=set)
    """Tasks whose restart was asked for, until they are looked at again."""


class JobController:
    """``known``: the jobs that are not deleted, by number."""

    def __init__(self, live_of: Callable[[int], JobStates | None]) -> None:
        self._known = live_of
        self._ruled: dict[int, _Ruled] = {}
        self._jids: dict[Key, int] = {}
        """Jobs that have rules, by name."""
        self._ends: dict[Key, tuple[float, float]] = {}
        """When these are to be deleted, and when they were created."""
        self._due: list[tuple[float, Key]] = []
        """Heap of the same; void where the other says another time."""
        self._later: list[tuple[float, int]] = []
        """Heap of (time, jid): then a policy with a timeout may be due."""
        self._actions: list[Action] = []

    # --- events -----------------------------------------------------------------------------------

    def published(self, documents: Iterable[Document], deleted: Iterable[Key], now: float) -> None:
        """Take durable documents that the scheduler knows, and deleted keys."""
        for key in deleted:
            if key.kind == "Job":
                self._forget(key)
        for document in documents:
            if document.key.kind == "Job":
                self._look(document, now)

    def recorded(self, jids: Iterable[int], now: float) -> None:
        """Note that tasks of these jobs changed."""
        for jid in jids:
            if jid in self._ruled:
                self._judge(jid, now)

    def restarted(self, jid: int, now: float) -> None:
        """Note that a restart was asked for: what could not be stopped is looked at again."""
        if (ruled := self._ruled.get(jid)) is not None:
            ruled.awaiting = False
            self._judge(jid, now)

    def failed(self, jid: int) -> None:
        """Note that an action on this job failed: it is issued again when the job changes."""
        if (ruled := self._ruled.get(jid)) is not None:
            ruled.awaiting = False

    def next_due(self) -> float | None:
        """When an action becomes due although nothing happens."""
        heads = [heap[0][0] for heap in (self._due, self._later) if heap]
        return min(heads, default=None)

    @property
    def asks(self) -> bool:
        """Whether an action is due."""
        return bool(self._actions)

    def take(self, now: float) -> list[Action]:
        """The actions that are due; each is returned once."""
        while self._due and self._due[0][0] <= now:
            due, key = heapq.heappop(self._due)
            # The Job may have been deleted, or begun anew under the same name, since this entry was
            # pushed.
            if self._ends.get(key, (_FAR, 0.0))[0] == due:
                self._actions.append(Expire(key, self._ends.pop(key)[1]))
        while self._later and self._later[0][0] <= now:
            _, jid = heapq.heappop(self._later)
            if (ruled := self._ruled.get(jid)) is not None:
                ruled.looks = False
                ruled.restarting.clear()
                self._judge(jid, now)
        actions, self._actions = self._actions, []
        return actions

    # --- documents --------------------------------------------------------------------------------

    def _forget(self, key: Key) -> None:
        jid = self._jids.pop(key, None)
        if jid is not None:
            del self._ruled[jid]
        self._ends.pop(key, None)

    def _look(self, document: Document, now: float) -> None:
        key, state = document.key, document.state or {}
        before = self._ruled.get(document.jid)
        self._forget(key)
        rules = None if document.deleting is not None else rules_of(document)
        if rules is None:
            return
        ended = state.get("ended")
        if ended is not None and rules.ttl is not None:
            due = ended + rules.ttl
            self._ends[key] = (due, document.created)
            heapq.heappush(self._due, (due, key))
        # `next`: an action is under way already, and the document says what follows it, also for a
        # leader that comes after this one (decision 0018).
        if document.jid >= 0 and "next" not in state:
            retries = int(state.get("retryCount", 0))
            self._jids[key] = document.jid
            self._ruled[document.jid] = _Ruled(
                key,
                rules,
                retries,
                ended is not None,
                document.created,
                incarnations=incarnations(state),
            )
            if before is not None:
                self._ruled[document.jid].since = before.since
            self._judge(document.jid, now)

    # --- judging ----------------------------------------------------------------------------------

    def _judge(self, jid: int, now: float) -> None:
        ruled, live = self._ruled[jid], self._known(jid)
        # `awaiting`: between the action and its stored document the tasks still look as they did,
        # and the policy would fire once more.
        if live is None or ruled.awaiting or ruled.noted:
            return
        rules, job, states = ruled.rules, live.job, live.states
        if tasks := sorted(behind(live, ruled.incarnations)):
            self._begin_anew(jid, ruled, tasks, now)
        elif (ruling := self._due_now(jid, ruled, live, now)) is not None:
            ruled.since.pop((ruling.event, ruling.role))
            if ruling.action in RESTARTS and ruled.retries + 1 < rules.max_retry:
                self._ask(ruled, Note(ruled.key, jid, _restarting(ruled, ruling, live)))
            else:
                self._ask(ruled, End(ruled.key, jid, _ending(ruled, ruling, live, now)))
        elif begin := may_begin(rules, job, states):
            self._ask(ruled, Grow(ruled.key, jid, begin))
        elif rules.ttl is not None and all_created(rules, job):
            phase = outcome(job, states, rules.min_success)
            if phase is not None:
                state = {"phase": phase, "retryCount": ruled.retries, "ended": now}
                self._ask(ruled, Note(ruled.key, jid, state))

    def _begin_anew(self, jid: int, ruled: _Ruled, tasks: list[int], now: float) -> None:
        """Ask for a restart that the document demands, and again after a pause."""
        if not ruled.restarting.issuperset(tasks):
            ruled.restarting = set(tasks)
            heapq.heappush(self._later, (now + RESTART_LOOK_SECONDS, jid))
            self._ask(ruled, Restart(ruled.key, jid, tasks))

    def _due_now(self, jid: int, ruled: _Ruled, live: JobStates, now: float) -> Ruling | None:
        """The ruling to carry out; those with a timeout are looked at again when it is over."""
        holding: dict[tuple[str, str], float] = {}
        due: Ruling | None = None
        if not ruled.looks and _is_watched(ruled.rules, live):
            ruled.looks = True
            heapq.heappush(self._later, (now + ADMISSION_LOOK_SECONDS, jid))
        for ruling in rulings(ruled.rules, live, ruled.incarnations):
            if not carried_out(ruling, live):
                continue
            of = (ruling.event, ruling.role)
            since = holding[of] = ruled.since.get(of, now)
            if due is None and since + ruling.timeout <= now:
                due = ruling
            elif of not in ruled.since and ruling.timeout:
                heapq.heappush(self._later, (since + ruling.timeout, jid))
        ruled.since = holding  # what holds no longer begins anew
        return due

    def _ask(self, ruled: _Ruled, action: Action) -> None:
        ruled.awaiting = True
        self._actions.append(action)


def _is_watched(rules: Rules, live: JobStates) -> bool:
    """Whether a policy may be due without a change of a task's state."""
    if not live.admitted:
        return bounds_pending(rules)
    waits = TaskState.PENDING in live.states and TaskState.RUNNING in live.states
    return waits and minds_parts(rules)


def _restarting(ruled: _Ruled, ruling: Ruling, live: JobStates) -> dict[str, Any]:
    """The state to store before some pods are begun anew."""
    reached = after(ruling, live, ruled.incarnations)
    return {
        "retryCount": ruled.retries + 1,
        "incarnations": {str(tix): incarnation for tix, incarnation in sorted(reached.items())},
        "event": ruling.event,
        "told": f"{ruling.event} in task {ruling.role}: {ruling.action}",
    }


def _ending(ruled: _Ruled, ruling: Ruling, live: JobStates, now: float) -> dict[str, Any]:
    """The state to store while the job is stopped: its phase, and what follows."""
    retries = ruled.retries
    if ruling.action in (RESTART_JOB, *RESTARTS):
        retries += 1
        phase, following = RESTARTING, "Pending" if retries < ruled.rules.max_retry else "Failed"
    else:
        phase, following = _PHASES[ruling.action]
    return {
        "phase": phase,
        "next": following,
        "retryCount": retries,
        "reason": ruling.event,
        "message": f"{ruling.event} in task {ruling.role}: {ruling.action}",
        "since": now,
        "minAvailable": live.job.groups[0].minimum,
        "succeeded": live.states.count(TaskState.SUCCEEDED),
        "failed": sum(map(live.states.count, UNSUCCESSFUL)),
    }
