"""Checks a session against the ledger, which must accept what one scheduler decides.

A ledger in memory has everything recorded. Every statement that the session keeps is committed to
it, and judged by the ledger's own rules.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from laboratory.replay.fill_ledger import fill
from laboratory.replay.recorded import Recorded
from shard_worker.eviction.victims import joined
from shard_worker.framework.extension_points import ALLOCATABLE, JOB_READY
from shard_worker.framework.operation import Operation, OpKind
from shard_worker.framework.session import Session
from shard_worker.session_model.job import TaskInfo
from shard_worker.session_model.status import Status
from shard_worker.turns.guards import Guards
from shard_worker.view.view import View
from shared.ledger.entries.intake_batch import PutPartition
from shared.ledger.entries.log import LogEntry
from shared.ledger.memory.ledger import MemoryLedger
from shared.ledger.memory.synchronous import at_once
from shared.messages.messages import (
    ACCEPTED,
    ALLOCATE,
    NOMINATE,
    CommitBatch,
    EvictRun,
    Level,
    Run,
    Statement,
    Verdict,
)
from shared.units.things import Things

OURS, OTHERS = 0, 1
"""The two shards of a replay: the session's, and one for all other nodes."""
RunKey = tuple[int, int, int, Things]
"""Kind, class, group, devices: the operations of a run share them."""
_EVERYTHING = 1 << 40
"""More entries than any log has."""
_PROMISED = 60.0
"""Seconds until a nomination expires."""


class LedgerRefused(RuntimeError):
    """The ledger did not accept the session's decision: one of the two is wrong."""


class ReplayLedger:
    """A ledger with everything recorded, and its writer."""

    def __init__(
        self, recorded: Recorded, ssn: Session, *, own_rows: Sequence[int] | None = None
    ) -> None:
        """``ssn``: limits that its policy does not keep are not enforced. ``own_rows``: rows of the
        own shard, None = all."""
        self.recorded = recorded
        self.stopped = ""
        """Why later statements are no longer judged; "" while they are."""
        self._ssn = ssn
        self.ledger = ledger = MemoryLedger(random.Random(0))
        filled = fill(
            ledger,
            recorded,
            gangs=any(hook.plugin == "gang" for hook in ssn.rules(JOB_READY)),
            limits=bool(ssn.rules(ALLOCATABLE)),
            tree=_looks_up(ssn),
            partition=self._partition(own_rows),
            policy=ssn.policy,
        )
        self._run_id = filled.run_id
        self._writer = at_once(ledger.claim(str(OURS), leader=filled.leader))
        self._sequence = 0
        self._versions = {s.job.jid: s.job.spec for s in recorded.placed_jobs}
        self._qids = {queue.name: queue.qid for queue in recorded.queues}
        self._held: dict[int, dict[int, int]] = {}
        """jid -> tix -> row of the job's nominations."""

    def view(self) -> View:
        """A view of all nodes with their usage."""
        view = View(shard=OURS)
        view.load(at_once(self.ledger.snapshot(workload=False)))
        return view

    def log(self) -> list[LogEntry]:
        """Everything that the ledger accepted so far."""
        return at_once(self.ledger.read_log("0", count=_EVERYTHING))

    def _partition(self, own_rows: Sequence[int] | None) -> PutPartition:
        rows = [node.row for node in self.recorded.nodes]
        if own_rows is None:
            return PutPartition(revision=1, shards={OURS: rows})
        in_shard = set(own_rows)
        return PutPartition(
            revision=1,
            shards={
                OURS: [row for row in rows if row in in_shard],
                OTHERS: [row for row in rows if row not in in_shard],
            },
        )

    # --- what is decided ----------------------------------------------------------------------

    def commit(self, action: str, operations: Sequence[Operation]) -> None:
        """Commit what the session keeps. Raises LedgerRefused."""
        for statement in self._statements(action, operations):
            if self.stopped:
                return
            self._sequence += 1
            batch = CommitBatch(str(OURS), self._writer, self._sequence, self._run_id, [statement])
            answer = at_once(self.ledger.commit(batch)).answers[0]
            if answer.verdict in ACCEPTED:
                continue
            key = self._ssn.world.session_job(statement.jid).job.key
            description = f"{action} for job {key}: {answer.verdict.name} at {answer.at}"
            if answer.verdict is Verdict.QUEUE and self._counts_more():
                self.stopped = description
                return
            raise LedgerRefused(f"the ledger refuses what was decided by {description}")

    def _counts_more(self) -> bool:
        """Whether tasks are leaving or unknown. The ledger counts them against a capability until
        they have left their nodes, and Volcano does not: the service would decide the same, only
        later."""
        uncertain = Status.UNKNOWN | Status.RELEASING
        return any(task.status & uncertain for task in self._ssn.world.tasks())

    def _statements(self, action: str, operations: Sequence[Operation]) -> list[Statement]:
        world = self._ssn.world
        placed: dict[int, list[Operation]] = {}
        victims: dict[int, list[Operation]] = {}
        leaving = {id(op.task) for op in operations if op.kind is OpKind.EVICT}
        for op in operations:
            if op.kind is OpKind.EVICT:
                victims.setdefault(op.task.job.job.jid, []).append(op)
            elif id(op.task) not in leaving:
                # Who moves is promised its next place by the session alone: the ledger takes
                # nominations of pending tasks.
                placed.setdefault(op.task.job.job.jid, []).append(op)
        if not placed and not victims:
            return []
        evictions = self._evictions(action, victims) if victims else []
        reasons = [op.reason or action for ops in victims.values() for op in ops]
        reason = joined(reasons) if reasons else ""
        statements = []
        for jid in placed or list(victims)[:1]:
            job = world.session_job(jid).job
            statements.append(
                Statement(
                    jid=jid,
                    job_version=self._versions[jid],
                    qid=self._qids[job.queue],
                    priority=job.priority,
                    core=self._core(jid, placed.get(jid, [])),
                    tail=[],
                    displaced=[],
                    domains=[],
                    expiry=_PROMISED,
                    evictions=evictions,
                    reason=reason,
                )
            )
            evictions, reason = [], ""
        return statements

    def _evictions(self, action: str, victims: Mapping[int, list[Operation]]) -> list[EvictRun]:
        """``victims``: by jid."""
        runs: dict[tuple[int, int, int], EvictRun] = {}
        guards = Guards(self._ssn, action)
        for jid, operations in victims.items():
            job, version = self._ssn.world.session_job(jid), self._versions[jid]
            for op in operations:
                cid, group = op.task.role.cid, op.task.role.group
                run = runs.get((jid, cid, group))
                if run is None:
                    run = EvictRun(jid, version, cid, group, [], [], guards.of(job, group))
                    runs[jid, cid, group] = run
                run.tasks.append(op.task.tix)
                run.rows.append(op.row)
        return list(runs.values())

    def _core(self, jid: int, operations: Sequence[Operation]) -> list[Run]:
        """The statement's core. It replaces all nominations of the job, so existing ones are
        included."""
        promised = self._held.setdefault(jid, {})
        runs: dict[RunKey, Run] = {}
        ssn = self._ssn
        job = ssn.world.session_job(jid)
        for op in operations:
            kind = ALLOCATE if op.kind is OpKind.ALLOCATE else NOMINATE
            if kind == ALLOCATE:
                promised.pop(op.task.tix, None)
                _add(runs, ssn, op.task, kind, op.row)
            else:
                promised[op.task.tix] = op.row
        for tix, row in list(promised.items()):
            if job.tasks[tix].status is Status.PIPELINED:
                _add(runs, ssn, job.tasks[tix], NOMINATE, row)
            else:
                del promised[tix]
        return list(runs.values())


def _looks_up(ssn: Session) -> bool:
    """Whether a rule of the policy may depend on a queue's ancestors; rules known not to are
    ignored."""
    flat = {"proportion"} | {
        option.name
        for tier in ssn.policy.tiers
        for option in tier
        if option.name == "capacity" and not option.enabled("enableHierarchy")
    }
    return any(hook.plugin not in flat for hook in ssn.rules(ALLOCATABLE))


def _add(runs: dict[RunKey, Run], ssn: Session, task: TaskInfo, kind: int, row: int) -> None:
    role, view = task.role, ssn.world.view
    empty = Run(kind, role.cid, role.group, [], [], [], [], [], devices=task.devices)
    run = runs.setdefault((kind, role.cid, role.group, task.devices), empty)
    is_own = bool(ssn.world.own()[row])
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
    run.levels.append(levels[kind, is_own])
