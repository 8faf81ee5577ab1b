"""Turns for inquiries: built as Order builds them, without charging any queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from coordinator.core.coordinator import Coordinator
from coordinator.jobs.state import JobState, core_need, task_runs
from coordinator.order.turn_contexts import Totals
from shard_worker.inquiry.inquiry import HERE
from shard_worker.session_model.queue_totals import INQUEUE, opens_gate
from shard_worker.session_model.workload import Amounts, add
from shared.codec.packed import replace
from shared.messages.messages import Group, TaskState, Turn
from shared.messages.turn_context import TOTALS, TURN_CONTEXT
from shared.model.model import Job, TaskClass

TAIL = 2000
"""Elastic tasks per inquiry: bounds how long it keeps a worker busy."""


def draft_turn(
    core: Coordinator, state: JobState, classes: dict[int, TaskClass], *, whole: bool = False
) -> tuple[Turn, dict[int, int]]:
    """The turn the job would get, and the tasks of each class that must start together.

    ``whole``: with all elastic tasks, up to a bound, instead of one.
    """
    key = core.order.session.task_key
    roles = sorted(state.job.roles, key=lambda role: (key(role), role.first))
    need = core_need(state, classes, roles, in_order=not core.order.session.flat.goes_on)
    ready = core.order.session.job_ready(state.info.progress())
    rest = state.info.pending - sum(count for _, count in need)
    tail = (1 if ready else 0) + (min(rest, TAIL) if whole else 0)
    job, info = state.job, state.info
    turn = Turn(
        jid=job.jid,
        job_version=job.spec,
        qid=info.qid,
        priority=job.priority,
        groups=[
            Group(parent=g.parent, minimum=g.minimum, held=members + best)
            for g, members, best in zip(job.groups, info.held, info.best_effort, strict=True)
        ],
        runs=task_runs(state, classes, roles, key=key, tail=tail),
        total=job.tasks,
        tail=tail,
        attempt=state.attempts,
        nominated=dict(state.nominated),
    )
    return turn, dict(need)


def session_turn(
    core: Coordinator,
    state: JobState,
    turn: Turn,
    *,
    action: str = "allocate",
    relief: Amounts | None = None,
) -> Turn:
    """The turn in the form for a session, as if the job were admitted.

    ``relief``: amounts to subtract from the queue's usage. ``state`` may be a changed copy of
    Order's.
    """
    admitted = replace(state, info=replace(state.info, phase=INQUEUE))
    world, _ = core.order.contexts.of(admitted, action, core.order.session)
    # In the copy that travels: the queue's books are never touched for a question.
    if relief:
        context = TURN_CONTEXT.decode(world)
        at = list(core.order.accounts.cluster.queues).index(state.info.qid)
        add(context.queues[at].totals[TOTALS.index("allocated")], relief.items(), -1)
        world = TURN_CONTEXT.encode(context)
    return replace(turn, action=action, world=world, lends=action == "allocate")


def planned_turn(
    core: Coordinator, state: JobState, turn: Turn, classes: dict[int, TaskClass]
) -> Turn:
    """The turn of a job that need not exist, in the form for a session where the job needs one."""
    if not state.info.pending:
        return session_turn(core, state, turn, action="backfill")
    state = replace(state, job=_through_gates(state.job))
    with _spanning(core, state.job, classes):
        job, order = state.job, core.order
        needs = bool(order.session.slow) or job.is_confined
        needs = needs or order.spanning.touches(job.jid)
        if needs or not all(
            order.session.fast(classes[role.cid], role.annotations + job.annotations)
            for role in job.roles
        ):
            return session_turn(core, state, turn)
        return turn


def evicting_turns(
    core: Coordinator, state: JobState, classes: dict[int, TaskClass], totals: Totals
) -> list[Turn]:
    """The turns by which tasks may be evicted for a job, one for each such action of the policy, in
    its order. Empty where the job does not starve. ``totals``: those that the actions judge by.
    """
    state = replace(state, job=_through_gates(state.job))
    state = replace(state, info=replace(state.info, phase=INQUEUE))
    if not state.info.pending or not core.order.session.job_starving(state.info):
        return []
    turn, _ = draft_turn(core, state, classes)
    key = core.order.session.task_key
    roles = sorted(state.job.roles, key=lambda role: (key(role), role.first))
    turn = replace(turn, runs=task_runs(state, classes, roles, key=key, tail=0), tail=0)
    contexts, turns = core.order.contexts.over(totals), []
    with _spanning(core, state.job, classes):
        for action in core.order.contention.actions:
            world, _ = contexts.of(state, action, core.order.session)
            turns.append(replace(turn, action=action, world=world))
    return turns


@contextmanager
def _spanning(core: Coordinator, job: Job, classes: dict[int, TaskClass]) -> Iterator[None]:
    """The keys that the job goes with, as if it existed, inside the block."""
    spanning, existing = core.order.spanning, core.order.known(job.jid)
    # Entered for the question and taken out in `finally`, with no await in between: nobody sees a
    # job that does not exist.
    spanning.put_job(job, classes)
    try:
        yield
    finally:
        spanning.drop_job(job.jid)
        if existing is not None:
            spanning.put_job(existing.job, core.order.accounts.classes)


def _through_gates(job: Job) -> Job:
    """The job without the gates that the scheduler itself removes: the turn after that places."""
    if not any(opens_gate(role) for role in job.roles):
        return job
    roles = [replace(r, gated=False, own_gate=False) if opens_gate(r) else r for r in job.roles]
    return replace(job, roles=tuple(roles))


def here_turn(core: Coordinator, state: JobState, turn: Turn, tix: int = -1) -> Turn:
    """The turn that asks why this task is on its node; -1: where the first pending task would
    go."""
    states, nominated = bytearray(state.states), {}
    if tix >= 0:
        states[tix], nominated = TaskState.PENDING, {tix: state.rows[tix]}
    plain_turn = session_turn(core, replace(state, states=states), turn)
    return replace(plain_turn, action=HERE, nominated=nominated)


def best_shards(core: Coordinator, requested: Amounts, home: int = -1) -> list[int]:
    """Shards with a live worker, in the order to ask: ``home`` first, then as Dispatch chooses."""
    up = [state for state in core.dispatcher.shards.values() if state.epoch is not None]
    return [
        state.shard
        for state in sorted(
            up,
            key=lambda s: (
                s.shard != home,
                not all(s.idle.get(slot, 0) >= amount for slot, amount in requested.items()),
                s.outstanding,
                s.shard,
            ),
        )
    ]
