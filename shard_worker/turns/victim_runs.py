"""The victims of a session's statement, as runs that the ledger judges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shard_worker.framework.operation import OpKind
from shard_worker.placement.statement import ViewStatement
from shard_worker.session_model.job import SessionJob, TaskInfo
from shard_worker.view.view import View
from shared.codec.packed import replace
from shared.messages.messages import EvictRun
from shared.model.model import TaskClass
from shared.units.things import Things


@dataclass(frozen=True, slots=True)
class EffectiveOperation:
    """An operation of a session that is in effect at its end."""

    kind: OpKind
    task: TaskInfo
    row: int
    taking: TaskClass
    """Task class with the devices that the task takes of that row."""
    reason: str = ""


def evictions_of(did: Sequence[EffectiveOperation]) -> list[EffectiveOperation]:
    return [op for op in did if op.kind is OpKind.EVICT]


def victim_runs(
    statement: ViewStatement,
    did: Sequence[EffectiveOperation],
    *,
    view: View,
    guards: Callable[[SessionJob, int], int],
) -> list[EvictRun]:
    """Let the victims leave in the statement, and promise those that move their new places.
    ``guards``: (job, group) -> what the ledger keeps whole of it."""
    new_place = {id(op.task): op for op in did if op.kind is OpKind.PIPELINE}
    runs: dict[tuple[int, int, int, Things | None], EvictRun] = {}
    jobs: dict[int, SessionJob] = {}
    for op in evictions_of(did):
        task, spec, move = op.task, op.task.job.job, new_place.get(id(op.task))
        jobs[spec.jid] = task.job
        statement.let_go(op.taking, op.row)
        devices = None if move is None else task.devices
        key = (spec.jid, task.cid, task.role.group, devices)
        run = runs.get(key)
        if run is None:
            run = EvictRun(spec.jid, spec.spec, task.cid, task.role.group, [], [], guards=0)
            if devices is not None:
                run = replace(run, devices=devices, priority=spec.priority)
            runs[key] = run
        run.tasks.append(task.tix)
        run.rows.append(op.row)
        if move is not None:
            statement.restore(move.taking, move.row)
            run.to.append(move.row)
            run.specs.append(view.spec.item(move.row))
    return [replace(run, guards=guards(jobs[run.jid], run.group)) for run in runs.values()]
