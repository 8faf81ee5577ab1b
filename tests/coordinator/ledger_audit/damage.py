"""Every kind of damage, by name: a small ledger that is right, and one record of it made wrong.

Each is written past the scripts, sealed as the scripts seal: nothing on its way would prevent it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from coordinator.ledger_audit.findings import AuditKind
from shared.codec.packed import replace
from shared.ledger import records
from shared.ledger.entries.audit import Table
from shared.ledger.entries.intake_batch import PutJob
from shared.ledger.protocol import Ledger
from shared.ledger.records import ALLOCATABLE, NOMINATED, OBSERVED, RELEASING, USED, WIDTH
from shared.messages.messages import NOMINATE, DomainOp, EvictRun, Group, StatusItem, TaskState
from shared.model.model import Job, Node, Role
from shared.records.specs import encode_node
from shared.records.specs_jobs import encode_job
from tests.coordinator.ledger_audit.looking import record, write
from tests.shared.ledger.support import (
    CPU,
    DEVICE,
    HOST_PORT,
    LEAF,
    MEMORY,
    NOTHING,
    PODS,
    ROOT,
    SHARED,
    SMALL,
    Desk,
    job,
    node,
    run,
    statement,
)

GANG, OTHER_JOB, WAITING, EVICTING, SHARING = 7, 8, 9, 10, 13
GPU = "gpu/1"


async def settle(desk: Desk) -> None:
    """Job 7 holds nodes 0 and 1, with one task evicted and leaving, one that asks for nothing
    placed, one deleted and one pending; of 8 one is bound and one is lost; 9 has a nomination."""
    gang_roles = (Role("a", SMALL, 0, 2), Role("b", SMALL, 2, 2, 1), Role("c", NOTHING, 4, 3, 1))
    await desk.store(
        job_of(GANG, gang_roles, Group(-1, 2, 3), Group(0, 1, 3)),
        *(job_of(jid, (Role("a", SMALL, 0, 4),)) for jid in (OTHER_JOB, WAITING, EVICTING)),
    )
    gang = statement(GANG, run([0, 1], [0, 1]), run([2], [1], group=1))
    filled = statement(GANG, run([4], [0], cid=NOTHING, group=1))
    counted = [DomainOp("term/a", 1, "")]
    await desk.commit(replace(gang, domains=counted), statement(OTHER_JOB, run([0, 1], [2, 2])))
    await desk.record(
        StatusItem(TaskState.RUNNING, GANG, [0, 1, 2], [0, 1, 1]),
        StatusItem(TaskState.BOUND, OTHER_JOB, [0, 1], [2, 2]),
        StatusItem(TaskState.LOST, OTHER_JOB, [1], [2]),
    )
    await desk.commit(filled)
    await desk.record(
        StatusItem(TaskState.BOUND, GANG, [4], [0]),
        StatusItem(TaskState.FAILED, GANG, [5], [0], cid=NOTHING, group=1),
    )
    evicts = EvictRun(GANG, 1, 1, 1, [2], [1], 0)
    await desk.commit(replace(statement(EVICTING), evictions=[evicts], reason="preempt"))
    waits = statement(WAITING, run([0, 1], [2, 3], kind=NOMINATE), expiry=2e9)
    await desk.commit(waits)
    await desk.commit(statement(OTHER_JOB, run([2], [3], cid=SHARED)))
    await desk.record(StatusItem(TaskState.RUNNING, OTHER_JOB, [2], [3]))
    await share_devices(desk)
    for row in range(4):
        await specify(desk.ledger, row)
    await acknowledge(desk)


async def share_devices(desk: Desk) -> None:
    """Node 3 has a device. Of job 13 one task runs on a part of it, one leaves another part, and
    one waits for what that frees."""
    await desk.store(
        node(3, things=((GPU, (1000, 100)),)), job_of(SHARING, (Role("a", SMALL, 0, 3),))
    )
    part = ((GPU, (300, 10)),)
    plain = [run([tix], [3]) for tix in range(2)]
    await desk.commit(statement(SHARING, *(replace(r, devices=part) for r in plain)))
    await desk.record(
        StatusItem(TaskState.RUNNING, SHARING, [0], [3]),
        StatusItem(TaskState.RELEASING, SHARING, [1], [3]),
    )
    promise = replace(run([2], [3], kind=NOMINATE), devices=((GPU, (600, 0)),))
    await desk.commit(statement(SHARING, promise, expiry=2e9))


def job_of(jid: int, roles: tuple[Role, ...], *groups: Group) -> PutJob:
    """With a specification that can be read, as intake writes them."""
    spec = Job(jid, "ns", f"j{jid}", "Job", f"u{jid}", "leaf", 0.0, roles=roles)
    return replace(job(jid, *groups), spec=encode_job(spec))


async def acknowledge(desk: Desk) -> None:
    """All binds are driven."""
    while entries := await desk.ledger.read_binds("c"):
        await desk.ledger.ack_binds([entry.id for entry in entries])


@dataclass(frozen=True, slots=True)
class Damage:
    kind: AuditKind
    plant: Callable[[Desk], Awaitable[None]]


async def node_off(ledger: Ledger, row: int, part: int, delta: int, *, slot: int = CPU) -> None:
    version, spec, flat = records.unpack_node(await record(ledger, Table.NODE, str(row)))
    flat[slot * WIDTH + part] += delta
    await write(ledger, Table.NODE, str(row), records.pack_node(version, spec, flat))


async def specify(ledger: Ledger, row: int) -> None:
    """Store a specification that can be read, as intake writes them."""
    allocatable = ((CPU, 8000), (MEMORY, 2**34), (PODS, 10))
    spec = encode_node(Node(row, f"n{row}", allocatable))
    await write(ledger, Table.NODE_SPEC, str(row), spec)


async def thing_off(ledger: Ledger, row: int, name: str, part: int, delta: int) -> None:
    field = f"{row}/{name}"
    version, flat = records.unpack_thing(await record(ledger, Table.THING, field))
    flat[part] += delta
    await write(ledger, Table.THING, field, records.pack_thing(version, flat))


async def stray_thing(ledger: Ledger, row: int, name: str) -> None:
    """One that nobody has."""
    packed = records.pack_thing(1, [0, 1, 0, 0, 0])
    await write(ledger, Table.THING, f"{row}/{name}", packed)


async def queue_off(ledger: Ledger, qid: int, part: str, delta: int) -> None:
    queue = records.unpack_queue(await record(ledger, Table.QUEUE, str(qid)))
    amounts = {"used": queue.used, "leaving": queue.leaving}[part]
    amounts[CPU] = amounts.get(CPU, 0) + delta
    await write(ledger, Table.QUEUE, str(qid), records.pack_queue(queue))


async def held_off(ledger: Ledger, jid: int, group: int, held: int) -> None:
    result = records.unpack_job(await record(ledger, Table.JOB, str(jid)))
    result.groups[group] = replace(result.groups[group], held=held)
    await write(ledger, Table.JOB, str(jid), records.pack_job(result))


async def _task_without_job(desk: Desk) -> None:
    await write(desk.ledger, Table.JOB, str(OTHER_JOB), None)


async def _nomination_without_job(desk: Desk) -> None:
    await write(desk.ledger, Table.JOB, str(WAITING), None)


async def _nomination_of_a_gone_job(desk: Desk) -> None:
    result = records.unpack_job(await record(desk.ledger, Table.JOB, str(WAITING)))
    await write(desk.ledger, Table.JOB, str(WAITING), records.pack_job(replace(result, gone=True)))


async def _bind_lost(desk: Desk) -> None:
    """Its entry is acknowledged, and nobody recorded what came of it."""
    await desk.store(job_of(11, (Role("a", SMALL, 0, 1),)))
    await desk.commit(statement(11, run([0], [3])))
    await acknowledge(desk)


async def _negative_counter(desk: Desk) -> None:
    await write(desk.ledger, Table.DOMAIN, "term/a", records.pack_count(-3))


def _on_node(part: int, delta: int, row: int = 1) -> Callable[[Desk], Awaitable[None]]:
    return lambda desk: node_off(desk.ledger, row, part, delta)


def _on_queue(qid: int, part: str, delta: int) -> Callable[[Desk], Awaitable[None]]:
    return lambda desk: queue_off(desk.ledger, qid, part, delta)


K = AuditKind

DAMAGES: dict[str, Damage] = {
    "a-node-with-too-much-used": Damage(K.NODE_USED, _on_node(USED, 3000)),
    "a-node-with-too-little-used": Damage(K.NODE_USED, _on_node(USED, -500)),
    "a-node-with-too-much-releasing": Damage(K.NODE_RELEASING, _on_node(RELEASING, 1000)),
    "a-node-with-too-much-nominated": Damage(K.NODE_NOMINATED, _on_node(NOMINATED, 250, 2)),
    "a-thing-with-too-much-used": Damage(
        K.THING, lambda desk: thing_off(desk.ledger, 3, DEVICE, USED, 100)
    ),
    "a-thing-with-too-much-nominated": Damage(
        K.THING, lambda desk: thing_off(desk.ledger, 3, HOST_PORT, NOMINATED, 1)
    ),
    "a-device-with-too-little-used": Damage(
        K.THING, lambda desk: thing_off(desk.ledger, 3, GPU, USED, -300)
    ),
    "a-device-with-too-much-leaving": Damage(
        K.THING, lambda desk: thing_off(desk.ledger, 3, GPU, RELEASING, 300)
    ),
    "a-device-with-too-little-promised": Damage(
        K.THING, lambda desk: thing_off(desk.ledger, 3, GPU, NOMINATED, -600)
    ),
    "a-thing-that-nobody-has": Damage(
        K.THING, lambda desk: stray_thing(desk.ledger, 2, "port/UDP/53")
    ),
    "a-negative-thing": Damage(
        K.NEGATIVE, lambda desk: thing_off(desk.ledger, 3, DEVICE, OBSERVED, -7)
    ),
    "a-queue-with-too-much-used": Damage(K.QUEUE_USED, _on_queue(LEAF, "used", 4000)),
    "a-parent-with-too-little-used": Damage(K.QUEUE_USED, _on_queue(ROOT, "used", -1000)),
    "a-queue-with-too-little-leaving": Damage(K.QUEUE_LEAVING, _on_queue(LEAF, "leaving", -1000)),
    "a-group-with-too-many": Damage(K.GROUP_HELD, lambda desk: held_off(desk.ledger, GANG, 0, 5)),
    "a-child-group-with-too-many": Damage(
        K.GROUP_HELD, lambda desk: held_off(desk.ledger, GANG, 1, 1)
    ),
    "a-task-without-job": Damage(K.TASK_WITHOUT_JOB, _task_without_job),
    "a-nomination-without-job": Damage(K.NOMINATION_WITHOUT_JOB, _nomination_without_job),
    "a-nomination-of-a-gone-job": Damage(K.NOMINATION_WITHOUT_JOB, _nomination_of_a_gone_job),
    "a-lost-bind": Damage(K.BIND_LOST, _bind_lost),
    "negative-used": Damage(K.NEGATIVE, _on_node(USED, -9000)),
    "negative-capacity": Damage(K.NEGATIVE, _on_node(ALLOCATABLE, -9000)),
    "negative-use-by-others": Damage(K.NEGATIVE, _on_node(OBSERVED, -5)),
    "a-negative-queue": Damage(K.NEGATIVE, _on_queue(LEAF, "used", -8000)),
    "a-negative-group": Damage(K.NEGATIVE, lambda desk: held_off(desk.ledger, GANG, 0, -1)),
    "a-negative-counter": Damage(K.NEGATIVE, _negative_counter),
}
