"""Puts a recorded cluster into a ledger, as a leader finds it after a restart.

Objects are stored, and tasks on nodes are adopted. A task whose node is not recorded runs on a
deleted one: it counts for its job, and is in no hyper node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from coordinator.cluster.protocol import Foreign
from coordinator.core.policy_record import policy_op
from coordinator.intake.admission.queues import ROOT
from laboratory.replay.recorded import Recorded
from shard_worker.session_model.full_world import PlacedJob
from shard_worker.session_model.status import Status
from shared.codec.packed import replace
from shared.ledger.entries.intake_batch import (
    DropNode,
    IntakeBatch,
    IntakeOp,
    Observe,
    PutJob,
    PutNode,
    PutObject,
    PutPartition,
    PutQueue,
)
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.ledger.protocol import COORDINATOR
from shared.messages.messages import Epoch, StatusBatch, StatusItem, TaskState
from shared.model.model import Job, Node
from shared.model.node_devices import declared
from shared.policy.model import Policy
from shared.records.specs import SLOTS_KEY, decode_slots, encode_node
from shared.records.specs_jobs import encode_job
from shared.units.slots import BASE, PODS
from shared.units.things import Vector, is_port

INTAKE = "intake"
_ADOPTED = {
    Status.BOUND: TaskState.BOUND,
    Status.RUNNING: TaskState.RUNNING,
    Status.RELEASING: TaskState.RELEASING,
    Status.UNKNOWN: TaskState.RUNNING,
    Status.SUCCEEDED: TaskState.RUNNING,
}
_THEN = {Status.SUCCEEDED: TaskState.SUCCEEDED, Status.FAILED: TaskState.FAILED}


@dataclass(frozen=True, slots=True)
class FilledLedger:
    """A filled ledger, and the leadership of its writer."""

    leader: Epoch
    intake: Epoch
    run_id: str


def fill(
    ledger: MemoryLedger,
    recorded: Recorded,
    *,
    gangs: bool = True,
    limits: bool = True,
    tree: bool = True,
    partition: PutPartition | None = None,
    policy: Policy | None = None,
) -> FilledLedger:
    """Fill the ledger. ``gangs``: the policy keeps gangs together; else minima are not enforced.
    ``limits``: it keeps queues within their capability; else that is not enforced. ``tree``: also
    within those of their ancestors. ``policy``: recorded as in force; a leader does so itself."""
    leader = at_once(ledger.claim(COORDINATOR))
    run_id = at_once(ledger.bless(leader))
    intake = at_once(ledger.claim(INTAKE, leader=leader))
    ops = list(_stored(recorded, gangs=gangs, limits=limits, tree=tree))
    if partition is not None:
        ops.append(partition)
    if policy is not None:
        ops.append(policy_op(policy))
    at_once(ledger.store(IntakeBatch(INTAKE, intake, 1, run_id, ops)))
    for number, items in enumerate(_adopted(recorded), start=2):
        at_once(ledger.record(StatusBatch(INTAKE, intake, number, run_id, items)))
    return FilledLedger(leader, intake, run_id)


# --- objects ----------------------------------------------------------------------------------


def _stored(recorded: Recorded, *, gangs: bool, limits: bool, tree: bool) -> Iterator[IntakeOp]:
    roots = {queue.qid for queue in recorded.queues if queue.name == ROOT}
    jobs = {s.job.jid: s.job for s in recorded.placed_jobs if not s.foreign}
    for op in recorded.admission.ops:
        match op:
            case PutNode():
                pass  # nodes may have other rows by now
            case PutJob():
                if op.jid in jobs:
                    yield _put_job(op, jobs[op.jid], gangs=gangs)
            case PutQueue():
                placed = op if tree else replace(op, parent=-1)
                yield _put_queue(placed, limits=limits and not (tree and op.qid in roots))
            case _:
                yield op
    names = _slot_names(recorded)
    for node in recorded.nodes:
        devices = declared(node, names)
        yield PutNode(node.row, list(node.allocatable), node.spec, encode_node(node), devices)
    unknown = elsewhere(recorded)
    yield PutNode(unknown.row, [], 0, encode_node(unknown))
    yield DropNode(unknown.row)
    things = named_usage(recorded)
    for row, used in usage(recorded).items():
        yield Observe(row=row, used=sorted(used.items()), things=things.get(row, []))


def _slot_names(recorded: Recorded) -> Sequence[str]:
    for op in recorded.admission.ops:
        if isinstance(op, PutObject) and op.key == SLOTS_KEY and op.spec is not None:
            return decode_slots(op.spec).names
    return BASE


def _put_queue(op: PutQueue, *, limits: bool) -> PutQueue:
    """The queue with its capability as far as Volcano's rules enforce it.

    They ignore ``pods`` and root's own capability, and proportion distributes guarantees whatever
    the capability.
    """
    if not limits or op.capability is None:
        return replace(op, capability=None)
    guarantee = dict(op.guarantee)
    most = [(s, max(amount, guarantee.get(s, 0))) for s, amount in op.capability if s != PODS]
    return replace(op, capability=most)


def _put_job(op: PutJob, job: Job, *, gangs: bool) -> PutJob:
    groups = op.groups if gangs else [replace(group, minimum=0) for group in op.groups]
    return replace(op, groups=groups, spec=encode_job(job))


def usage(recorded: Recorded) -> Mapping[int, Mapping[int, int]]:
    """Row -> slot -> usage by other schedulers' pods."""
    used: dict[int, Counter[int]] = {}
    for placed_job in recorded.placed_jobs:
        if placed_job.foreign:
            for tix, row in placed_job.rows.items():
                cls = recorded.classes[placed_job.job.role_of(tix).cid]
                used.setdefault(row, Counter()).update(dict(cls.requests))
    return used


def named_usage(recorded: Recorded) -> Mapping[int, list[tuple[str, Vector]]]:
    """The same for named things. Every pod uses some slot, so these rows are among those of
    :func:`usage`."""
    used: dict[int, dict[str, Vector]] = {}
    for placed_job in recorded.placed_jobs:
        if placed_job.foreign:
            for tix, row in placed_job.rows.items():
                on_row = used.setdefault(row, {})
                for name, amounts in recorded.classes[placed_job.job.role_of(tix).cid].things:
                    before = on_row.get(name, (0,) * len(amounts))
                    on_row[name] = tuple(a + b for a, b in zip(before, amounts, strict=True))
    return {row: sorted(things.items()) for row, things in used.items() if things}


def by_names(recorded: Recorded) -> Foreign:
    """Usage by other schedulers' pods, as a cluster reports it: by node and resource, or port."""
    rows, things = usage(recorded), named_usage(recorded)
    slots = _slot_names(recorded)
    return {
        node.name: {
            **{slots[slot]: amount for slot, amount in rows[node.row].items()},
            **{name: amounts[0] for name, amounts in things.get(node.row, ()) if is_port(name)},
        }
        for node in recorded.nodes
        if node.row in rows
    }


def elsewhere(recorded: Recorded) -> Node:
    """Stands for all nodes that are not in the record."""
    row = len(recorded.nodes)
    return Node(row=row, name="<not recorded>", allocatable=(), unschedulable=True)


def runs_elsewhere(recorded: Recorded) -> bool:
    """Whether any task is on a node that is not in the record."""
    return any(
        status in _ADOPTED and tix not in placed_job.rows
        for placed_job in recorded.placed_jobs
        for tix, status in placed_job.states.items()
    )


# --- tasks ------------------------------------------------------------------------------------


def _adopted(recorded: Recorded) -> tuple[list[StatusItem], list[StatusItem]]:
    """(adoptions of tasks on nodes, ends of tasks)"""
    queues = {queue.name for queue in recorded.queues}
    unknown = elsewhere(recorded).row
    present: list[StatusItem] = []
    ended: list[StatusItem] = []
    for placed_job in recorded.placed_jobs:
        if placed_job.foreign or placed_job.job.queue not in queues:
            continue
        for tix, status in placed_job.states.items():
            row = placed_job.rows.get(tix, unknown)
            present += _there(placed_job, tix, status, row)
            if status in _THEN:
                ended.append(StatusItem(_THEN[status], placed_job.job.jid, [tix], [row]))
    return present, ended


def _there(placed_job: PlacedJob, tix: int, status: Status, row: int) -> list[StatusItem]:
    # What is stuck holds its node like a running task: the ledger must not offer it to promises.
    state = TaskState.RUNNING if tix in placed_job.stuck else _ADOPTED.get(status)
    if state is None:
        return []
    role = placed_job.job.role_of(tix)
    devices = placed_job.devices.get(tix, ())
    item = StatusItem(state, placed_job.job.jid, [tix], [row], role.cid, role.group, devices)
    return [item]
