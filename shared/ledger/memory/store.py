"""The double's side of ``record`` and ``store``: the rules of those scripts in Python."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import (
    DropClass,
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
)
from shared.ledger.entries.stored import TaskRecord
from shared.ledger.errors import LedgerArgument
from shared.ledger.memory.books import JobAccount, NodeBook, Overlay, QueueBook
from shared.ledger.memory.form import (
    check_amounts,
    check_groups,
    check_slots,
    check_things,
    checked_amounts,
)
from shared.ledger.records import ALLOCATABLE, LIMB, OBSERVED, RELEASING, UNLIMITED, USED
from shared.messages.messages import ENDED, HOLDING, Group, StatusItem, TaskState
from shared.units.slots import LIMIT

_BEFORE: dict[TaskState, tuple[TaskState, ...]] = {
    TaskState.PENDING: (TaskState.BINDING,),
    TaskState.BOUND: (TaskState.BINDING,),
    TaskState.RUNNING: (TaskState.BINDING, TaskState.BOUND),
    TaskState.RELEASING: (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING),
    TaskState.SUCCEEDED: HOLDING,
    TaskState.FAILED: HOLDING,
    TaskState.LOST: HOLDING,
}
"""The states from which each state can be reached."""


# --- record -----------------------------------------------------------------------------------


def apply_item(overlay: Overlay, item: StatusItem) -> StatusItem:
    """Apply a status item; return the part of it that changed something."""
    overlay.begin()
    columns = zip(item.tasks, item.rows, strict=True)
    if item.restarts:
        incarnations = dict(zip(item.tasks, item.restarts, strict=True))
        applied = [at for at in columns if _restart(overlay, item.jid, at[0], incarnations[at[0]])]
    else:
        change = _adopt if item.adopted else _change
        applied = [(tix, row) for tix, row in columns if change(overlay, item, tix, row)]
    tasks, rows = [tix for tix, _ in applied], [row for _, row in applied]
    return replace(item, tasks=tasks, rows=rows, restarts=())


def _restart(overlay: Overlay, jid: int, tix: int, incarnation: int) -> bool:
    """Have a task that has ended begin anew, as the incarnation after this one."""
    record, job = overlay.tasks.get((jid, tix)), overlay.jobs.own(jid)
    if record is None or record.state not in ENDED or record.life != incarnation:
        return False
    if job is None or job.gone or overlay.classes.get(record.cid) is None:
        return False
    members = overlay.best_effort(record.cid) - (record.state == TaskState.SUCCEEDED)
    if members:
        job.add(record.group, members)
        overlay.jobs.dirty.add(jid)
    pending = replace(
        record,
        state=int(TaskState.PENDING),
        version=record.version + 1,
        life=incarnation + 1,
        by=-1,
        why="",
        devices=(),
    )
    overlay.tasks.put((jid, tix), pending)
    return True


def _adopt(overlay: Overlay, item: StatusItem, tix: int, row: int) -> bool:
    """Put the task where the cluster has it, unless it has ended."""
    record, job = overlay.tasks.get((item.jid, tix)), overlay.jobs.own(item.jid)
    was_placed = record is not None and record.state in HOLDING
    ended = record is not None and record.state > TaskState.RELEASING
    if ended or (was_placed and record is not None and record.row == row):
        return False
    if job is None or overlay.nodes.get(row) is None:
        return False
    cid, group = item.cid, item.group
    record = record or TaskRecord(int(TaskState.PENDING), row, cid, 0, group)
    if was_placed:
        cid, group = record.cid, record.group
        _vacate(overlay, item.jid, record)
        if record.by >= 0 and item.state is not TaskState.RELEASING:
            record = replace(record, by=-1, why="")
            job.add(group, 1)
            overlay.jobs.dirty.add(item.jid)
    elif overlay.classes.get(cid) is None or group >= len(job.groups):
        return False
    else:
        if not overlay.best_effort(cid):
            job.add(group, 1)
        job.top = max(job.top, tix + 1)
        overlay.jobs.dirty.add(item.jid)
    overlay.add_to_node(row, cid, USED, 1, devices=item.devices)
    if item.state is TaskState.RELEASING:
        overlay.add_to_node(row, cid, RELEASING, 1, devices=item.devices)
        overlay.leave(job.qid, cid, 1)
    overlay.touch(row)
    overlay.charge(job.qid, cid, 1)
    overlay.mark_queues(job.qid)
    adopted = replace(
        record,
        state=int(item.state),
        row=row,
        cid=cid,
        group=group,
        version=record.version + 1,
        devices=item.devices,
    )
    overlay.tasks.put((item.jid, tix), adopted)
    return True


def _change(overlay: Overlay, item: StatusItem, tix: int, row: int) -> bool:
    record = overlay.tasks.get((item.jid, tix))
    if record is None or record.state == TaskState.PENDING:
        return item.state is TaskState.FAILED and _fail_pending(overlay, item, tix)
    reborn = item.state is TaskState.PENDING and record.by >= 0
    if record.row != row or not (reborn or record.state in _BEFORE[item.state]):
        return False
    changed = replace(record, state=int(item.state), version=record.version + 1)
    if item.state is TaskState.RELEASING:
        job = overlay.jobs.get(item.jid)
        assert job is not None
        overlay.add_to_node(row, record.cid, RELEASING, 1, devices=record.devices)
        overlay.touch(row)
        overlay.leave(job.qid, record.cid, 1)
    elif item.state is TaskState.PENDING or item.state in ENDED:
        _free(overlay, item, record)
        changed = replace(changed, life=record.life + reborn, by=-1, why="")
        if item.state is TaskState.PENDING:
            changed = replace(changed, devices=())
    forgotten = item.state is TaskState.PENDING and changed.life == 0
    overlay.tasks.put((item.jid, tix), None if forgotten else changed)
    return True


def _fail_pending(overlay: Overlay, item: StatusItem, tix: int) -> bool:
    jid, job = item.jid, overlay.jobs.own(item.jid)
    if job is None:
        return False
    record = overlay.tasks.get((jid, tix))
    if record is None and item.cid in overlay.classes and item.group < len(job.groups):
        record = TaskRecord(0, 0, item.cid, 0, item.group)
    if record is not None and overlay.best_effort(record.cid):
        job.add(record.group, -1)
        overlay.jobs.dirty.add(jid)
    record = record or TaskRecord(0, 0, 0, 0)
    failed = replace(record, state=int(TaskState.FAILED), version=record.version + 1)
    overlay.tasks.put((jid, tix), failed)
    if tix >= job.top:
        job.top = tix + 1
        overlay.jobs.dirty.add(jid)
    return True


def _free(overlay: Overlay, item: StatusItem, record: TaskRecord) -> None:
    """Release a task's node and queue, and correct its group's member count.

    An evicted task left its group when it was evicted and counts again only where it succeeds. A
    best-effort task counts while it is pending, too.
    """
    job = _vacate(overlay, item.jid, record)
    waits = item.state is TaskState.PENDING and overlay.best_effort(record.cid)
    members = (item.state is TaskState.SUCCEEDED or waits) - (record.by < 0)
    if members:
        job.add(record.group, members)
        overlay.jobs.dirty.add(item.jid)


def _vacate(overlay: Overlay, jid: int, record: TaskRecord) -> JobAccount:
    """Take what the task holds off its node and queue; return its job."""
    overlay.add_to_node(record.row, record.cid, USED, -1, devices=record.devices)
    if record.state == TaskState.RELEASING:
        overlay.add_to_node(record.row, record.cid, RELEASING, -1, devices=record.devices)
    overlay.touch(record.row)
    job = overlay.jobs.must_own(jid)
    if record.state == TaskState.RELEASING:
        overlay.leave(job.qid, record.cid, -1)
    overlay.charge(job.qid, record.cid, -1)
    overlay.mark_queues(job.qid)
    return job


# --- store ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Specs:
    """The records other than accounts that one intake batch writes, by table; None deletes a
    record."""

    classes: dict[int, bytes | None] = field(default_factory=dict)
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
            case DropClass(cid):
                self.overlay.classes.pop(cid, None)
                self.specs.classes[cid] = None
            case PutNode():
                self._put_node(op)
            case DropNode():
                self._drop_node(op)
            case Observe():
                self._observe(op)
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
        subject = f"class {op.cid}"
        check_slots(subject, (slot for slot, _, _ in op.requests))
        check_amounts(subject, (n for _, amount, implied in op.requests for n in (amount, implied)))
        before = self.overlay.classes.get(op.cid)
        check_things(subject, [(a.name, (*a.amounts, *a.offers), 2) for a in op.things])
        things = self.overlay.class_things.get(op.cid, [])
        if before is not None and (before != op.requests or things != op.things):
            raise LedgerArgument(f"{subject}: its requests cannot change; use a new class")
        self.overlay.classes[op.cid] = op.requests
        self.overlay.class_things[op.cid] = op.things
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
        amounts = checked_amounts(f"node {op.row}", op.allocatable)
        node = self._node(op.row)
        self._declare(op)
        node.grow(_needed(amounts), self.overlay.implied_of)
        node.set_part(ALLOCATABLE, amounts, self.overlay.implied_of)
        node.version += 1
        node.spec_version = op.spec_version
        self.specs.nodes[op.row] = op.spec

    def _drop_node(self, op: DropNode) -> None:
        node = self.overlay.nodes.own(op.row)
        if node is not None:
            node.set_part(ALLOCATABLE, {}, _nothing)
            self._declare(op)
            node.version += 1
            node.spec_version += 1
            self.specs.nodes[op.row] = None

    def _declare(self, op: PutNode | DropNode) -> None:
        check_things(f"node {op.row}", [(name, values, 1) for name, values in op.things])
        for name, values in op.things:
            self.overlay.set_thing(op.row, name, ALLOCATABLE, values)

    def _observe(self, op: Observe) -> None:
        row, subject = op.row, f"node {op.row}"
        amounts = checked_amounts(subject, op.used)
        check_things(subject, [(name, values, 1) for name, values in op.things])
        node = self.overlay.nodes.own(row)
        if node is not None:
            node.grow(_needed(amounts), self.overlay.implied_of)
            node.set_part(OBSERVED, amounts, _nothing)
            node.version += 1
            for name, values in op.things:
                self.overlay.set_thing(row, name, OBSERVED, values)

    # --- queues -----------------------------------------------------------------------------

    def _put_queue(self, op: PutQueue) -> None:
        subject = f"queue {op.qid}"
        limits = checked_amounts(subject, op.capability or [], LIMIT * LIMB)
        guarantee = checked_amounts(subject, op.guarantee, LIMIT * LIMB)
        above = op.parent
        while above >= 0:
            ancestor = self.overlay.queues.get(above)
            if above == op.qid or ancestor is None:
                raise LedgerArgument(f"{subject}: parent {above} is not known or is below it")
            above = ancestor.parent
        queue = self.overlay.queues.own(op.qid)
        if queue is None:
            queue = QueueBook(op.parent)
            self.overlay.queues.put(op.qid, queue)
        elif queue.parent != op.parent:
            self._reparent(queue, op.parent)
        queue.grow(max(_needed(limits), _needed(guarantee)))
        queue.capability = [limits.get(s, UNLIMITED) for s in range(len(queue.used))]
        queue.guarantee = [guarantee.get(s, 0) for s in range(len(queue.used))]
        self.overlay.mark_queues(op.qid)
        self.specs.queues[op.qid] = op.spec

    def _drop_queue(self, qid: int) -> None:
        queue = self.overlay.queues.get(qid)
        if queue is None:
            return
        if any(queue.used):
            raise LedgerArgument(f"queue {qid}: its jobs still use something")
        for child, record in self.overlay.queues.all():
            if record.parent == qid:
                raise LedgerArgument(f"queue {qid}: queue {child} is below it")
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
        check_groups(op)
        job = JobAccount(op.spec_version, op.qid, list(op.groups))
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

    def _move_queue(self, jid: int, old: JobAccount, qid: int) -> None:
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


def _inherit(job: JobAccount, old: JobAccount) -> None:
    """The groups of a changed job: member counts carry over, and a group that is no longer named
    keeps its members without a minimum."""
    for group in old.groups[len(job.groups) :]:
        job.groups.append(Group(group.parent, 0, 0))
    for index, group in enumerate(old.groups):
        new = job.groups[index]
        job.groups[index] = replace(new, held=new.held + group.held)
    job.top = old.top


def _nothing(_: int) -> int:
    return 0


def _needed(amounts: dict[int, int]) -> int:
    return 1 + max(amounts, default=-1)
