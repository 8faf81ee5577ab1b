"""The double's side of ``record`` and ``store``: the rules of those scripts, written once more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from shared.ledger.double_books import JobBook, NodeBook, Overlay, QueueBook
from shared.ledger.errors import LedgerArgument
from shared.ledger.protocol import (
    DropJob,
    DropNode,
    DropQueue,
    IntakeOp,
    Observe,
    PurgeJob,
    PutClass,
    PutJob,
    PutNode,
    PutObject,
    PutPartition,
    PutQueue,
    TaskRecord,
)
from shared.ledger.records import ALLOCATABLE, LIMB, OBSERVED, RELEASING, UNLIMITED, USED
from shared.messages import HOLDING, Group, StatusItem, TaskState
from shared.slots import LIMIT

_MOST_SLOTS = 4096
_BEFORE: dict[TaskState, tuple[TaskState, ...]] = {
    TaskState.PENDING: (TaskState.BINDING,),
    TaskState.BOUND: (TaskState.BINDING,),
    TaskState.RUNNING: (TaskState.BINDING, TaskState.BOUND),
    TaskState.RELEASING: (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING),
    TaskState.SUCCEEDED: HOLDING,
    TaskState.FAILED: HOLDING,
}
"""The states from which each state can be reached."""


# --- record -----------------------------------------------------------------------------------


def apply_item(overlay: Overlay, item: StatusItem) -> StatusItem:
    """The part of the item that changed something."""
    overlay.begin()
    change = _adopt if item.adopted else _change
    done = [
        (tix, row)
        for tix, row in zip(item.tasks, item.rows, strict=True)
        if change(overlay, item, tix, row)
    ]
    return replace(item, tasks=[tix for tix, _ in done], rows=[row for _, row in done])


def _adopt(overlay: Overlay, item: StatusItem, tix: int, row: int) -> bool:
    """The task is where the cluster has it; what has ended stays so."""
    known, job = overlay.tasks.get((item.jid, tix)), overlay.jobs.own(item.jid)
    held = known is not None and known.state in HOLDING
    ended = known is not None and known.state > TaskState.RELEASING
    if ended or (held and known is not None and known.row == row):
        return False
    if job is None or overlay.nodes.get(row) is None:
        return False
    cid, group = item.cid, item.group
    known = known or TaskRecord(int(TaskState.PENDING), row, cid, 0, group)
    if held:
        cid, group = known.cid, known.group
        _vacate(overlay, item.jid, known)
        if known.by >= 0 and item.state is not TaskState.RELEASING:
            known = replace(known, by=-1, why="")
            job.add(group, 1)
            overlay.jobs.dirty.add(item.jid)
    elif overlay.classes.get(cid) is None or group >= len(job.groups):
        return False
    else:
        if not overlay.best_effort(cid):
            job.add(group, 1)
        job.top = max(job.top, tix + 1)
        overlay.jobs.dirty.add(item.jid)
    overlay.add_to_node(row, cid, USED, 1)
    if item.state is TaskState.RELEASING:
        overlay.add_to_node(row, cid, RELEASING, 1)
        overlay.leave(job.qid, cid, 1)
    overlay.touch(row)
    overlay.charge(job.qid, cid, 1)
    overlay.mark_queues(job.qid)
    adopted = replace(
        known, state=int(item.state), row=row, cid=cid, group=group, version=known.version + 1
    )
    overlay.tasks.put((item.jid, tix), adopted)
    return True


def _change(overlay: Overlay, item: StatusItem, tix: int, row: int) -> bool:
    known = overlay.tasks.get((item.jid, tix))
    if known is None or known.state == TaskState.PENDING:
        return item.state is TaskState.FAILED and _fail_pending(overlay, item, tix)
    reborn = item.state is TaskState.PENDING and known.by >= 0
    if known.row != row or not (reborn or known.state in _BEFORE[item.state]):
        return False
    changed = replace(known, state=int(item.state), version=known.version + 1)
    if item.state is TaskState.RELEASING:
        job = overlay.jobs.get(item.jid)
        assert job is not None
        overlay.add_to_node(row, known.cid, RELEASING, 1)
        overlay.touch(row)
        overlay.leave(job.qid, known.cid, 1)
    elif item.state in (TaskState.PENDING, TaskState.SUCCEEDED, TaskState.FAILED):
        _free(overlay, item, known)
        changed = replace(changed, life=known.life + reborn, by=-1, why="")
    forgotten = item.state is TaskState.PENDING and changed.life == 0
    overlay.tasks.put((item.jid, tix), None if forgotten else changed)
    return True


def _fail_pending(overlay: Overlay, item: StatusItem, tix: int) -> bool:
    jid, job = item.jid, overlay.jobs.own(item.jid)
    if job is None:
        return False
    known = overlay.tasks.get((jid, tix))
    if known is None and item.cid in overlay.classes and item.group < len(job.groups):
        known = TaskRecord(0, 0, item.cid, 0, item.group)
    if known is not None and overlay.best_effort(known.cid):
        job.add(known.group, -1)
        overlay.jobs.dirty.add(jid)
    known = known or TaskRecord(0, 0, 0, 0)
    failed = replace(known, state=int(TaskState.FAILED), version=known.version + 1)
    overlay.tasks.put((jid, tix), failed)
    if tix >= job.top:
        job.top = tix + 1
        overlay.jobs.dirty.add(jid)
    return True


def _free(overlay: Overlay, item: StatusItem, known: TaskRecord) -> None:
    """Who was evicted left its group then, and comes back to it by ending well. What asks for
    nothing is a member while it is pending, too."""
    job = _vacate(overlay, item.jid, known)
    waits = item.state is TaskState.PENDING and overlay.best_effort(known.cid)
    members = (item.state is TaskState.SUCCEEDED or waits) - (known.by < 0)
    if members:
        job.add(known.group, members)
        overlay.jobs.dirty.add(item.jid)


def _vacate(overlay: Overlay, jid: int, known: TaskRecord) -> JobBook:
    """The task holds nothing of its node and queue any more; returns its job."""
    overlay.add_to_node(known.row, known.cid, USED, -1)
    if known.state == TaskState.RELEASING:
        overlay.add_to_node(known.row, known.cid, RELEASING, -1)
    overlay.touch(known.row)
    job = overlay.jobs.own(jid)
    assert job is not None
    if known.state == TaskState.RELEASING:
        overlay.leave(job.qid, known.cid, -1)
    overlay.charge(job.qid, known.cid, -1)
    overlay.mark_queues(job.qid)
    return job


# --- store ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Specs:
    """What one intake batch changes besides accounts; None deletes."""

    classes: dict[int, bytes] = field(default_factory=dict)
    nodes: dict[int, bytes | None] = field(default_factory=dict)
    queues: dict[int, bytes | None] = field(default_factory=dict)
    jobs: dict[int, bytes | None] = field(default_factory=dict)
    objects: dict[str, bytes | None] = field(default_factory=dict)
    partition: PutPartition | None = None


@dataclass(slots=True)
class Storing:
    """Applies the operations of one intake batch to an overlay."""

    overlay: Overlay
    specs: Specs = field(default_factory=Specs)
    dropped: list[int] = field(default_factory=list)

    def apply(self, op: IntakeOp) -> None:
        self.overlay.begin()
        match op:
            case PutClass():
                self._put_class(op)
            case PutNode():
                self._put_node(op)
            case DropNode(row):
                self._drop_node(row)
            case Observe(row, used):
                self._observe(row, used)
            case PutQueue():
                self._put_queue(op)
            case PutJob():
                self._put_job(op)
            case DropQueue(qid):
                self._drop_queue(qid)
            case DropJob(jid):
                self._drop_job(jid)
            case PurgeJob(jid):
                self._purge_job(jid)
            case PutObject(key, spec):
                self.specs.objects[key] = spec
            case PutPartition():
                self.specs.partition = op

    # --- classes and nodes ------------------------------------------------------------------

    def _put_class(self, op: PutClass) -> None:
        what = f"class {op.cid}"
        _check_slots(what, (slot for slot, _, _ in op.requests))
        _check_amounts(what, (n for _, amount, implied in op.requests for n in (amount, implied)))
        known = self.overlay.classes.get(op.cid)
        if known is not None and known != op.requests:
            raise LedgerArgument(f"{what}: its requests cannot change; use a new class")
        self.overlay.classes[op.cid] = op.requests
        self.specs.classes[op.cid] = op.spec
        for slot, _, implied in op.requests:
            if implied > self.overlay.implied_of(slot):
                self.overlay.implied[slot] = implied

    def _node(self, row: int) -> NodeBook:
        node = self.overlay.nodes.own(row)
        if node is None:
            node = NodeBook()
            self.overlay.nodes.put(row, node)
        return node

    def _put_node(self, op: PutNode) -> None:
        amounts = _checked(f"node {op.row}", op.allocatable)
        node = self._node(op.row)
        node.grow(_needed(amounts), self.overlay.implied_of)
        node.set_part(ALLOCATABLE, amounts, self.overlay.implied_of)
        node.version += 1
        node.spec_version = op.spec_version
        self.specs.nodes[op.row] = op.spec

    def _drop_node(self, row: int) -> None:
        node = self.overlay.nodes.own(row)
        if node is not None:
            node.set_part(ALLOCATABLE, {}, _nothing)
            node.version += 1
            node.spec_version += 1
            self.specs.nodes[row] = None

    def _observe(self, row: int, used: list[tuple[int, int]]) -> None:
        amounts = _checked(f"node {row}", used)
        node = self.overlay.nodes.own(row)
        if node is not None:
            node.grow(_needed(amounts), self.overlay.implied_of)
            node.set_part(OBSERVED, amounts, _nothing)
            node.version += 1

    # --- queues -----------------------------------------------------------------------------

    def _put_queue(self, op: PutQueue) -> None:
        what = f"queue {op.qid}"
        limits = _checked(what, op.capability or [], LIMIT * LIMB)
        kept = _checked(what, op.guarantee, LIMIT * LIMB)
        above = op.parent
        while above >= 0:
            known = self.overlay.queues.get(above)
            if above == op.qid or known is None:
                raise LedgerArgument(f"{what}: parent {above} is not known or is below it")
            above = known.parent
        queue = self.overlay.queues.own(op.qid)
        if queue is None:
            queue = QueueBook(op.parent)
            self.overlay.queues.put(op.qid, queue)
        elif queue.parent != op.parent:
            self._reparent(queue, op.parent)
        queue.grow(max(_needed(limits), _needed(kept)))
        queue.capability = [limits.get(s, UNLIMITED) for s in range(len(queue.used))]
        queue.guarantee = [kept.get(s, 0) for s in range(len(queue.used))]
        self.overlay.mark_queues(op.qid)
        self.specs.queues[op.qid] = op.spec

    def _drop_queue(self, qid: int) -> None:
        queue = self.overlay.queues.get(qid)
        if queue is None:
            return
        if any(queue.used):
            raise LedgerArgument(f"queue {qid}: its jobs still use something")
        for other, record in self.overlay.queues.all():
            if record.parent == qid:
                raise LedgerArgument(f"queue {qid}: queue {other} is below it")
        self.overlay.queues.put(qid, None)
        self.specs.queues[qid] = None

    def _reparent(self, queue: QueueBook, parent: int) -> None:
        for start, sign in ((queue.parent, -1), (parent, 1)):
            for qid, above in self.overlay.chain(start):
                above.grow(len(queue.used))
                for slot, amount in enumerate(queue.used):
                    above.used[slot] += sign * amount
                    above.leaving[slot] += sign * queue.leaving[slot]
                self.overlay.queues.dirty.add(qid)
        queue.parent = parent

    # --- jobs -------------------------------------------------------------------------------

    def _put_job(self, op: PutJob) -> None:
        _check_groups(op)
        job = JobBook(op.spec_version, op.qid, list(op.groups))
        old = self.overlay.jobs.get(op.jid)
        if old is not None:
            _inherit(job, old)
            if old.qid != op.qid:
                self._move_queue(op.jid, old, op.qid)
            if old.spec_version != op.spec_version:
                self._drop_nomination(op.jid)
        job.groups = [replace(group, held=max(0, group.held)) for group in job.groups]
        self.overlay.jobs.put(op.jid, job)
        self.specs.jobs[op.jid] = op.spec

    def _move_queue(self, jid: int, old: JobBook, qid: int) -> None:
        if qid >= 0 and self.overlay.queues.get(qid) is None:
            raise LedgerArgument(f"job {jid}: queue {qid} is not known; store the queue first")
        for tix in range(old.top):
            task = self.overlay.tasks.get((jid, tix))
            if task is not None and task.state in HOLDING:
                self.overlay.charge(old.qid, task.cid, -1)
                self.overlay.charge(qid, task.cid, 1)
                if task.state == TaskState.RELEASING:
                    self.overlay.leave(old.qid, task.cid, -1)
                    self.overlay.leave(qid, task.cid, 1)
                self.overlay.mark_queues(old.qid)
                self.overlay.mark_queues(qid)

    def _drop_job(self, jid: int) -> None:
        job = self.overlay.jobs.own(jid)
        if job is not None and not job.gone:
            job.gone = True
            job.spec_version += 1
            self.overlay.jobs.dirty.add(jid)
            self._drop_nomination(jid)

    def _purge_job(self, jid: int) -> None:
        job = self.overlay.jobs.get(jid)
        if job is None:
            return
        if not job.gone:
            raise LedgerArgument(f"job {jid}: it is not gone; drop it first")
        for tix in range(job.top):
            task = self.overlay.tasks.get((jid, tix))
            if task is not None and task.state in HOLDING:
                raise LedgerArgument(f"job {jid}: a task of it still holds node {task.row}")
            self.overlay.tasks.put((jid, tix), None)
        self.overlay.jobs.put(jid, None)
        self.specs.jobs[jid] = None

    def _drop_nomination(self, jid: int) -> None:
        if self.overlay.drop_nomination(jid):
            self.dropped.append(jid)


def _inherit(job: JobBook, old: JobBook) -> None:
    """What a job held stays with it; a group no longer named keeps its members, no minimum."""
    for group in old.groups[len(job.groups) :]:
        job.groups.append(Group(group.parent, 0, 0))
    for index, group in enumerate(old.groups):
        new = job.groups[index]
        job.groups[index] = replace(new, held=new.held + group.held)
    job.top = old.top


# --- checks -----------------------------------------------------------------------------------


def _nothing(_: int) -> int:
    return 0


def _needed(amounts: dict[int, int]) -> int:
    return 1 + max(amounts, default=-1)


def _check_slots(what: str, slots: Iterable[int]) -> None:
    for slot in slots:
        if not 0 <= slot < _MOST_SLOTS:
            raise LedgerArgument(f"{what}: slot {slot} is outside 0..{_MOST_SLOTS - 1}")


def _check_amounts(what: str, amounts: Iterable[int], limit: int = LIMIT) -> None:
    for amount in amounts:
        if not 0 <= amount < limit:
            raise LedgerArgument(f"{what}: {amount} is not a whole number below {limit}")


def _checked(what: str, pairs: list[tuple[int, int]], limit: int = LIMIT) -> dict[int, int]:
    amounts = dict(pairs)
    _check_slots(what, amounts)
    _check_amounts(what, amounts.values(), limit)
    return amounts


def _check_groups(op: PutJob) -> None:
    if not op.groups:
        raise LedgerArgument(f"job {op.jid}: groups are missing")
    for index, group in enumerate(op.groups):
        if not -1 <= group.parent < index or (index == 0 and group.parent != -1):
            raise LedgerArgument(f"job {op.jid}: the parent of group {index} must come before it")
        if group.minimum < 0:
            raise LedgerArgument(f"job {op.jid}: the minimum of group {index} must not be negative")
