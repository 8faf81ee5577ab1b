"""Reconciliation: repairs differences between the cluster and the coordinator's books once two
passes in a row find the same one.

A bind, its answer or a report may be under way while the cluster lists its tasks, so that a
difference seen once means nothing. A difference that the next pass finds unchanged has no message
under way that could explain it. Then the books follow the cluster.

Pure: parts of a listing in, repairs out. The books are the coordinator's.
:mod:`coordinator.service.reconcile_loop` compares them with the ledger separately.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from coordinator.bind.evictions import uid_of
from coordinator.cluster.protocol import Listed, Phase, incarnation_uid
from coordinator.core.coordinator import Coordinator
from coordinator.jobs.state import JobState, SchedulingStatus
from shared.messages.messages import HOLDING, StatusItem, TaskState
from shared.model.model import Job

Task = tuple[int, int]
"""(jid, tix)"""


class FindingKind(StrEnum):
    """The kinds of difference. Each but the last two is repaired."""

    ELSEWHERE = "elsewhere"  # on another node than the books say: adopted
    FORGOTTEN = "forgotten"  # on a node, and pending in the books: adopted
    BEHIND = "behind"  # the books have an earlier state: recorded
    ENDED = "ended"  # ended in the cluster, its report taken, held in the books: recorded
    LOST = "lost"  # held in the books, and not in the cluster: recorded as lost
    REVIVED = "revived"  # on a node, and ended in the books: stopped
    BOOKS = "books"  # the coordinator's books were not the ledger's: read anew
    VIEW = "view"  # a worker's row was not the ledger's: read anew
    FOREIGN = "foreign"  # what others use on a node was not what the ledger had: recorded
    ORPHAN = "orphan"  # on a node, and no job of ours has it
    NO_NODE = "no-node"  # on a node that is not known


SHOWN = (FindingKind.ORPHAN, FindingKind.NO_NODE)
"""Kinds that are not repaired but reported: an operator has to look."""

_HELD = frozenset((TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING))
_LIVE = (TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING, None, None, None)
"""By phase: the state of a task that is on a node."""
_ENDS = {
    Phase.SUCCEEDED: TaskState.SUCCEEDED,
    Phase.FAILED: TaskState.FAILED,
    Phase.UNKNOWN: TaskState.LOST,
}
_ORDER = (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING, TaskState.RELEASING)


@dataclass(frozen=True, slots=True)
class ReconcileFinding:
    """One task; ``state`` and ``row`` as they should be."""

    kind: FindingKind
    task: Task
    state: TaskState
    row: int


@dataclass(slots=True)
class ReconcileRepairs:
    """The repairs of the differences that two looks found."""

    items: list[StatusItem] = field(default_factory=list)
    stop: list[Task] = field(default_factory=list)
    counts: Counter[FindingKind] = field(default_factory=Counter)


class ReconcilePass:
    """One pass over all tasks of the cluster."""

    def __init__(self, core: Coordinator) -> None:
        self._core = core
        self.findings: dict[Task, ReconcileFinding] = {}
        self.orphans: list[str] = []
        """Names of tasks that no job of ours has."""
        self._present: dict[int, set[int]] = {}

    def take(self, part: Listed) -> None:
        """Take a part of the listing. Tasks of one job are adjacent, and almost all match the
        books: the loop is optimized for those."""
        row_of = self._core.rows.get
        head, state, unsure = "", None, False
        job_uid, states, rows, present = "", bytearray(), array("i"), set[int]()
        incarnations: Mapping[int, int] = {}
        for name, uid, node, phase in zip(
            part.tasks, part.uids, part.nodes, part.phases, strict=True
        ):
            jid, _, tail = name.partition(".")
            if jid != head:
                head, state = jid, self._known(jid)
                if state is not None:
                    job_uid, states, rows = state.job.uid, state.states, state.rows
                    incarnations = state.incarnations
                    present = self._present.setdefault(state.job.jid, set())
                    unsure = _unsure(state)
            tix = int(tail) if tail.isdecimal() else -1
            # By uid and not by name alone: a pod of an earlier incarnation says nothing about the
            # present one.
            expected = (
                incarnation_uid(job_uid, incarnations.get(tix, 0)) if incarnations else job_uid
            )
            if state is None or uid != expected or not 0 <= tix < len(states):
                self.orphans.append(name)
                continue
            present.add(tix)
            live = _LIVE[phase]
            # Almost every task ends here: no object is made and no method called for it.
            if live is None or unsure or (states[tix] == live and rows[tix] == row_of(node)):
                continue
            self._compare(state, tix, live, row_of(node, -1))

    def _known(self, jid: str) -> JobState | None:
        """The job of this number; None where there is none, or the text is no number."""
        return self._core.order.known(int(jid)) if jid.isascii() and jid.isdecimal() else None

    def _compare(self, state: JobState, tix: int, live: TaskState, row: int) -> None:
        """Compare a task that is on a node with its state in the books."""
        recorded, task = TaskState(state.states[tix]), (state.job.jid, tix)
        kind: FindingKind | None = None
        if row < 0:
            kind = FindingKind.NO_NODE
        elif recorded in _ORDER:
            if state.rows[tix] != row:
                kind = FindingKind.ELSEWHERE
            # Only forwards: books that are ahead have heard of more than this listing, which takes
            # several calls to read.
            elif _ORDER.index(recorded) < _ORDER.index(live):
                kind = FindingKind.BEHIND
        else:
            kind = FindingKind.FORGOTTEN if recorded is TaskState.PENDING else FindingKind.REVIVED
        if kind is not None:
            self.findings[task] = ReconcileFinding(kind, task, live, row)

    def missing(self, states: Iterable[JobState]) -> Iterator[Task]:
        """Tasks of these jobs that hold a node in the books and are not in the listing; of deleted
        jobs also the binding ones, because nobody may be asking for their binds any more."""
        for state in states:
            # Most jobs of a long run have finished, and each pass comes by all of them.
            if state.status is SchedulingStatus.DONE or _unsure(state):
                continue
            present = self._present.get(state.job.jid, ())
            holding = HOLDING if state.job.jid in self._core.leaving else _HELD
            for tix, recorded in enumerate(state.states):
                if recorded in holding and tix not in present:
                    yield state.job.jid, tix

    def take_missing(self, listing: Listed) -> None:
        """Take the cluster's answer about tasks that were missing from its listing."""
        for name, uid, phase in zip(listing.tasks, listing.uids, listing.phases, strict=True):
            task = read_name(name)
            state = self._core.order.known(task[0])
            end = _ENDS.get(Phase(phase))
            if state is None or end is None or state.states[task[1]] not in HOLDING:
                continue
            never = phase == Phase.UNKNOWN or uid != uid_of(state, task[1])
            if never and state.states[task[1]] not in _HELD:
                continue  # the bind may still be carried out
            kind = FindingKind.LOST if never else FindingKind.ENDED
            end = TaskState.LOST if never else end
            self.findings[task] = ReconcileFinding(kind, task, end, state.rows[task[1]])


class Reconciler:
    """Decides by two passes in a row."""

    def __init__(self, core: Coordinator) -> None:
        self._core = core
        self._before: dict[Task, ReconcileFinding] = {}
        self._orphans: set[str] = set()

    @property
    def suspects(self) -> int:
        """Number of findings that wait to be confirmed."""
        return len(self._before)

    def judge(self, look: ReconcilePass) -> ReconcileRepairs:
        """The repairs of each difference that the previous pass found unchanged."""
        # Equal in kind, state and row: a difference that moves is a message under way. A repair
        # that comes a look late does no harm, as the bind carries the task's identity (decision
        # 0022).
        again = [f for task, f in look.findings.items() if self._before.get(task) == f]
        repairs = ReconcileRepairs()
        groups: dict[tuple[object, ...], StatusItem] = {}
        for finding in again:
            if finding.kind not in SHOWN:
                repairs.counts[finding.kind] += 1
                self._repair(finding, repairs, groups)
        # An evicted task that has ended is pending again, and not failed.
        repairs.items = self._core.victims.ended([*groups.values()])
        # Shown and left alone. To stop what no job has would be tidy, and is how an empty ledger,
        # restored by mistake, would end everything that runs (decision 0022).
        orphans = set(look.orphans)
        tally = self._core.tally
        tally.unexplained = {
            FindingKind.ORPHAN.value: len(orphans & self._orphans),
            FindingKind.NO_NODE.value: sum(f.kind is FindingKind.NO_NODE for f in again),
        }
        self._before, self._orphans = look.findings, orphans
        tally.repaired.update({kind.value: n for kind, n in repairs.counts.items()})
        return repairs

    def _repair(
        self,
        finding: ReconcileFinding,
        repairs: ReconcileRepairs,
        groups: dict[tuple[object, ...], StatusItem],
    ) -> None:
        jid, tix = finding.task
        match finding.kind:
            case FindingKind.ELSEWHERE | FindingKind.FORGOTTEN:
                job = self._known_job(jid)
                role, devices = job.role_of(tix), self._core.victims.devices
                group = role.cid, role.group, devices.of(job, tix, finding.row)
            case FindingKind.BEHIND | FindingKind.ENDED | FindingKind.LOST:
                group = -1, -1, ()
            case _:
                repairs.stop.append(finding.task)
                return
        key = finding.state, jid, *group
        if key not in groups:
            groups[key] = StatusItem(finding.state, jid, [], [], *group)
        groups[key].tasks.append(tix)
        groups[key].rows.append(finding.row)

    def _known_job(self, jid: int) -> Job:
        state = self._core.order.known(jid)
        assert state is not None, jid
        return state.job


def _unsure(state: JobState) -> bool:
    """Whether a turn of the job is open: its placements are in the ledger before they are known
    here."""
    return state.status is SchedulingStatus.OPEN or state.unread


def read_name(name: str) -> Task:
    """(jid, tix); jid -1 where it is no name of ours."""
    jid, _, tix = name.partition(".")
    if jid.isascii() and jid.isdecimal() and tix.isascii() and tix.isdecimal():
        return int(jid), int(tix)
    return -1, -1
