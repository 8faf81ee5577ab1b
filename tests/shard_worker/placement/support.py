"""Helpers for placement tests: small clusters, sessions with hooks of their own, turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shard_worker.framework.extension_points import (
    JOB_PIPELINED,
    JOB_READY,
    NODE_ORDER,
    PREDICATE,
    Point,
)
from shard_worker.framework.rules import NodeColumns
from shard_worker.framework.session import Session
from shard_worker.placement.task_class import CompiledClasses
from shard_worker.session_model.workload import Progress
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shared.ledger.class_op import put_class
from shared.ledger.entries.intake_batch import IntakeOp, PutNode, PutPartition
from shared.ledger.entries.log import IntakeEntry
from shared.ledger.entries.snapshot import Nomination
from shared.ledger.records import pack_node
from shared.messages.messages import NOMINATE, Epoch, Group, Rows, Run, TaskRun, Turn
from shared.model.model import Node, Requests, TaskClass
from shared.policy.model import PluginOption, Policy
from shared.records.specs import encode_node
from shared.units.slots import CPU, MEMORY, PODS

CORE = 1000
GIB = 2**30
EPOCH = Epoch(1, "test")


def record(
    *,
    version: int = 1,
    spec: int = 1,
    allocatable: dict[int, int],
    used: dict[int, int] | None = None,
    observed: dict[int, int] | None = None,
    releasing: dict[int, int] | None = None,
    nominated: dict[int, int] | None = None,
) -> bytes:
    """A packed node record; amounts by slot."""
    parts = (allocatable, used or {}, observed or {}, releasing or {}, nominated or {})
    slots = 1 + max(slot for part in parts for slot in part)
    return pack_node(version, spec, [part.get(s, 0) for s in range(slots) for part in parts])


def cpus(count: int) -> dict[int, int]:
    """Allocatable amounts of a node with this many cores."""
    return {CPU: count * CORE, MEMORY: count * 4 * GIB, PODS: 110}


def node(row: int, *, spec: int = 1, cores: int = 8, **more: Any) -> Node:
    allocatable = tuple(sorted(cpus(cores).items()))
    return Node(row=row, name=f"n{row}", allocatable=allocatable, spec=spec, **more)


def cls(cores: float = 1, **more: Any) -> TaskClass:
    requests: Requests = ((CPU, int(cores * CORE)), (PODS, 1))
    return TaskClass(requests=requests, **more)


def intake(ops: Sequence[IntakeOp], fresh: Rows | None = None) -> IntakeEntry:
    return IntakeEntry(
        id="1-0",
        writer="coordinator",
        epoch=EPOCH,
        sequence=1,
        ops=list(ops),
        fresh=fresh or Rows([], []),
    )


def put_node(n: Node) -> PutNode:
    return PutNode(
        row=n.row, allocatable=list(n.allocatable), spec_version=n.spec, spec=encode_node(n)
    )


def view_of(
    records: Sequence[bytes],
    *,
    own: Iterable[int] | None = None,
    classes: dict[int, TaskClass] | None = None,
    nodes: Sequence[Node] | None = None,
) -> View:
    """A view of shard 0 with one node per record; ``own``: its rows (default: all)."""
    view = View(shard=0)
    listed = list(nodes) if nodes is not None else [node(row) for row in range(len(records))]
    mine = list(range(len(records)) if own is None else own)
    ops: list[IntakeOp] = [put_node(n) for n in listed]
    ops += [put_class(cid, c) for cid, c in (classes or {0: cls()}).items()]
    ops.append(PutPartition(revision=1, shards={0: mine}))
    view.apply([intake(ops, Rows(list(range(len(records))), list(records)))])
    return view


class Score:
    """A scorer from a function of (view, row)."""

    node_local = True

    def __init__(self, of: Callable[[NodeColumns, int], float]) -> None:
        self.of = of

    def rows(
        self, cls: TaskClass, view: NodeColumns, rows: NDArray[np.intp] | slice
    ) -> NDArray[np.float64]:
        listed = range(view.size)[rows] if isinstance(rows, slice) else rows.tolist()
        return np.array([self.of(view, row) for row in listed], dtype=np.float64)

    def row(self, cls: TaskClass, view: NodeColumns, row: int) -> float:
        return self.of(view, row)


def idle_cpu(view: NodeColumns, row: int) -> float:
    """More idle cores score higher, in whole points."""
    free = view.column("allocatable", CPU).item(row) - view.column("used", CPU).item(row)
    return float(free // CORE)


def session_of(
    *,
    gang: bool = True,
    score: Callable[[NodeColumns, int], float] | None = idle_cpu,
    predicate: Callable[..., list[tuple[str, NDArray[np.bool_]]]] | None = None,
) -> Session:
    """A session with a gang rule on every group, one scorer and one predicate, as asked for."""
    session = Session(Policy(actions=("allocate",), tiers=()))

    def add(point: Point[Any, Any], fn: object) -> None:
        with session.speaking(0, PluginOption("test")):
            session.add(point, fn, scalar=None)

    if gang:
        add(JOB_READY, lambda p: _reached(p, p.held))
        add(JOB_PIPELINED, lambda p: 1 if _reached(p, _both(p)) else -1)
    if score is not None:
        add(NODE_ORDER, Score(score))
    if predicate is not None:
        add(PREDICATE, predicate)
    return session


def _both(p: Progress) -> list[int]:
    return [held + waiting for held, waiting in zip(p.held, p.waiting, strict=True)]


def _reached(p: Progress, count: list[int]) -> bool:
    return all(c >= m for c, m in zip(count, p.minimum, strict=True))


def classes_of(
    view: View, session: Session, *, mode: Mode = Mode.SOFT, seed: int = 7
) -> CompiledClasses:
    return CompiledClasses(view=view, session=session, mode=mode, seed=seed)


def turn(
    tasks: int,
    *,
    minimum: int | None = None,
    held: int = 0,
    jid: int = 1,
    cid: int = 0,
    priority: int = 0,
    tail: int = 0,
    total: int | None = None,
    nominated: dict[int, int] | None = None,
) -> Turn:
    """A job of one role; ``minimum``: its gang (default: all its tasks)."""
    least = tasks + held if minimum is None else minimum
    return Turn(
        jid=jid,
        job_version=1,
        qid=0,
        priority=priority,
        groups=[Group(parent=-1, minimum=least, held=held)],
        runs=[TaskRun(cid=cid, group=0, role="worker", tasks=list(range(held, held + tasks)))],
        total=tasks + held if total is None else total,
        tail=tail,
        nominated=nominated or {},
    )


def nominate(view: View, jid: int, rows: list[int], *, priority: int, cid: int = 0) -> None:
    """Note in the view that a job holds nominations; the records have to hold them already."""
    run = Run(
        kind=NOMINATE,
        cid=cid,
        group=0,
        tasks=list(range(len(rows))),
        rows=rows,
        versions=[],
        specs=[],
        levels=[],
    )
    view.nominations[jid] = Nomination(
        jid=jid, priority=priority, since=1.0, expiry=99.0, runs=[run]
    )
