"""The ledger's double beside a session: it must accept what one scheduler decides.

Everything that is recorded is taken up as a leader does after a restart: the objects are stored,
and the tasks that the cluster has on its nodes are adopted. Then every statement that the session
keeps is put to the ledger, which judges it by its own rules.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from coordinator.what_if.recorded import Recorded
from shard_worker.session import Session
from shard_worker.tasks import Status, TaskInfo
from shard_worker.view import View
from shard_worker.world_building import Standing
from shard_worker.world_statement import Kind, Operation
from shared.ledger.double import LedgerDouble
from shared.ledger.protocol import (
    COORDINATOR,
    DropNode,
    IntakeBatch,
    IntakeOp,
    Observe,
    PutJob,
    PutNode,
    PutPartition,
)
from shared.ledger.synchronous import at_once
from shared.messages import (
    ACCEPTED,
    ALLOCATE,
    GUARD_GANG,
    GUARD_GUARANTEE,
    NOMINATE,
    CommitBatch,
    EvictRun,
    Level,
    Run,
    Statement,
    StatusBatch,
    StatusItem,
    TaskState,
)
from shared.model import Node
from shared.specs import encode_node

OURS, OTHERS = 0, 1
"""The two shards of a replay: the one whose session it is, and all else."""
_PROMISED = 60.0
"""Seconds for which a nomination holds."""

_ADOPTED = {
    Status.BOUND: TaskState.BOUND,
    Status.RUNNING: TaskState.RUNNING,
    Status.RELEASING: TaskState.RELEASING,
    Status.UNKNOWN: TaskState.RUNNING,
    Status.SUCCEEDED: TaskState.RUNNING,
}
_THEN = {Status.SUCCEEDED: TaskState.SUCCEEDED, Status.FAILED: TaskState.FAILED}


class LedgerRefused(RuntimeError):
    """The ledger did not accept what the session decided: one of the two is wrong."""


class Books:
    """A ledger with everything recorded in it, and the writer's side of it."""

    def __init__(
        self, recorded: Recorded, *, gangs: bool, own: Sequence[int] | None = None
    ) -> None:
        """``gangs``: does the policy keep gangs together? Else their minima bind nobody. ``own``:
        rows of the own shard, None = all."""
        self.recorded = recorded
        self.gangs = gangs
        self.own = own
        self.ledger = ledger = LedgerDouble(random.Random(0))
        leader = at_once(ledger.claim(COORDINATOR))
        self._run_id = at_once(ledger.bless(leader))
        self._intake = at_once(ledger.claim("intake", leader=leader))
        self._writer = at_once(ledger.claim(str(OURS), leader=leader))
        self._sequences: Counter[str] = Counter()
        self._versions = {s.job.jid: s.job.spec for s in recorded.standings}
        self._qids = {queue.name: queue.qid for queue in recorded.queues}
        self._ghost = len(recorded.nodes)
        self._held: dict[int, dict[int, int]] = {}
        """jid -> tix -> row of what the job was promised and still is."""
        self._store()
        self._adopt()

    def view(self) -> View:
        """All nodes, with what is used of them."""
        view = View(shard=OURS)
        view.load(at_once(self.ledger.snapshot(workload=False)))
        return view

    def _next(self, writer: str) -> int:
        self._sequences[writer] += 1
        return self._sequences[writer]

    # --- what is recorded ---------------------------------------------------------------------

    def _store(self) -> None:
        foreign = {s.job.jid for s in self.recorded.standings if s.foreign}
        ops: list[IntakeOp] = []
        for op in self.recorded.admission.ops:
            if not isinstance(op, PutJob):
                ops.append(op)
            elif op.jid not in foreign:
                ops.append(op if self.gangs else _ungrouped(op))
        ghost = Node(row=self._ghost, name="<gone>", allocatable=())
        ops += [PutNode(ghost.row, [], 0, encode_node(ghost)), DropNode(ghost.row)]
        ops += self._observed()
        ops.append(self._partition())
        number = self._next("intake")
        batch = IntakeBatch("intake", self._intake, number, self._run_id, ops)
        at_once(self.ledger.store(batch))

    def _observed(self) -> list[IntakeOp]:
        """What others' pods use of the nodes."""
        used: dict[int, Counter[int]] = {}
        for standing in self.recorded.standings:
            if standing.foreign:
                for tix, row in standing.rows.items():
                    cls = self.recorded.classes[standing.job.role_of(tix).cid]
                    used.setdefault(row, Counter()).update(dict(cls.requests))
        return [Observe(row=row, used=sorted(amounts.items())) for row, amounts in used.items()]

    def _partition(self) -> PutPartition:
        rows = [node.row for node in self.recorded.nodes]
        if self.own is None:
            return PutPartition(revision=1, shards={OURS: rows})
        mine = set(self.own)
        return PutPartition(
            revision=1,
            shards={
                OURS: [row for row in rows if row in mine],
                OTHERS: [row for row in rows if row not in mine],
            },
        )

    def _adopt(self) -> None:
        """Tasks are where the cluster has them; one on a node that is gone is on none of ours."""
        items: list[StatusItem] = []
        then: list[StatusItem] = []
        for standing in self.recorded.standings:
            if not standing.foreign:
                for tix, status in standing.states.items():
                    items += self._adopted(standing, tix, status)
                    then += self._ended(standing, tix, status)
        for batch in (items, then):
            number = self._next("intake")
            at_once(
                self.ledger.record(StatusBatch("intake", self._intake, number, self._run_id, batch))
            )

    def _adopted(self, standing: Standing, tix: int, status: Status) -> list[StatusItem]:
        state = _ADOPTED.get(status)
        if state is None or standing.job.queue not in self._qids:
            return []
        role = standing.job.role_of(tix)
        row = standing.rows.get(tix, self._ghost)
        return [StatusItem(state, standing.job.jid, [tix], [row], role.cid, role.group)]

    def _ended(self, standing: Standing, tix: int, status: Status) -> list[StatusItem]:
        state = _THEN.get(status)
        row = standing.rows.get(tix, self._ghost)
        return [] if state is None else [StatusItem(state, standing.job.jid, [tix], [row])]

    # --- what is decided ----------------------------------------------------------------------

    def commit(self, ssn: Session, action: str, operations: Sequence[Operation]) -> None:
        """Put what the session keeps to the ledger. Raises LedgerRefused."""
        for statement in self._statements(ssn, action, operations):
            number = self._next(str(OURS))
            batch = CommitBatch(str(OURS), self._writer, number, self._run_id, [statement])
            answer = at_once(self.ledger.commit(batch)).answers[0]
            if answer.verdict not in ACCEPTED:
                key = ssn.world.session_job(statement.jid).job.key
                raise LedgerRefused(
                    f"the ledger refuses what {action} decided for job {key}: "
                    f"{answer.verdict.name} at {answer.at}"
                )

    def _statements(
        self, ssn: Session, action: str, operations: Sequence[Operation]
    ) -> list[Statement]:
        placed: dict[int, list[Operation]] = {}
        victims: dict[int, list[Operation]] = {}
        for op in operations:
            into = victims if op.kind is Kind.EVICT else placed
            into.setdefault(op.task.job.job.jid, []).append(op)
        if not placed and not victims:
            return []
        evictions = [run for jid, ops in victims.items() for run in self._evictions(jid, ops)]
        reason = next((op.reason or action for ops in victims.values() for op in ops), "")
        found = []
        for jid in placed or list(victims)[:1]:
            job = ssn.world.session_job(jid).job
            found.append(
                Statement(
                    jid=jid,
                    job_version=self._versions[jid],
                    qid=self._qids[job.queue],
                    priority=job.priority,
                    core=self._core(ssn, jid, placed.get(jid, [])),
                    tail=[],
                    displaced=[],
                    domains=[],
                    expiry=_PROMISED,
                    evictions=evictions,
                    guards=_guards(ssn, action) if evictions else 0,
                    reason=reason,
                )
            )
            evictions, reason = [], ""
        return found

    def _evictions(self, jid: int, operations: Sequence[Operation]) -> list[EvictRun]:
        runs: dict[tuple[int, int], EvictRun] = {}
        for op in operations:
            role = op.task.role
            run = runs.setdefault(
                (role.cid, role.group),
                EvictRun(jid, self._versions[jid], role.cid, role.group, [], []),
            )
            run.tasks.append(op.task.tix)
            run.rows.append(op.row)
        return list(runs.values())

    def _core(self, ssn: Session, jid: int, operations: Sequence[Operation]) -> list[Run]:
        """A statement replaces the promises of its job: those that stand are made again."""
        held = self._held.setdefault(jid, {})
        runs: dict[tuple[int, int, int], Run] = {}
        job = ssn.world.session_job(jid)
        for op in operations:
            kind = ALLOCATE if op.kind is Kind.ALLOCATE else NOMINATE
            if kind == ALLOCATE:
                held.pop(op.task.tix, None)
                _add(runs, ssn, op.task, kind, op.row)
            else:
                held[op.task.tix] = op.row
        for tix, row in list(held.items()):
            if job.tasks[tix].status is Status.PIPELINED:
                _add(runs, ssn, job.tasks[tix], NOMINATE, row)
            else:
                del held[tix]
        return list(runs.values())


def _add(
    runs: dict[tuple[int, int, int], Run], ssn: Session, task: TaskInfo, kind: int, row: int
) -> None:
    role, view = task.role, ssn.world.view
    key = (kind, role.cid, role.group)
    run = runs.setdefault(key, Run(*key, [], [], [], [], []))
    own = bool(ssn.world.own()[row])
    levels: Mapping[tuple[int, bool], Level] = {
        (ALLOCATE, True): Level.IDLE_OWN,
        (ALLOCATE, False): Level.IDLE_OTHER,
        (NOMINATE, True): Level.FUTURE_OWN,
        (NOMINATE, False): Level.FUTURE_OTHER,
    }
    run.tasks.append(task.tix)
    run.rows.append(row)
    run.versions.append(int(view.version[row]))
    run.specs.append(int(view.spec[row]))
    run.levels.append(levels[kind, own])


def _ungrouped(op: PutJob) -> PutJob:
    return replace(op, groups=[replace(group, minimum=0) for group in op.groups])


def _guards(ssn: Session, action: str) -> int:
    """What evictions must leave whole, as the plugins that name victims keep it."""
    point = {"preempt": "Preemptable", "reclaim": "Reclaimable"}.get(action, "UnifiedEvictable")
    speakers = {hook.plugin for hook in ssn.hooks[point]}
    guards = GUARD_GANG if "gang" in speakers and action in ("preempt", "reclaim") else 0
    if action in ("reclaim", "gangreclaim") and speakers & {"capacity"}:
        guards |= GUARD_GUARANTEE
    return guards
