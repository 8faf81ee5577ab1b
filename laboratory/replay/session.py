"""A single session over the whole recorded cluster, in one process.

It has the same rules as the service, over a world with everything: the policy's actions do what
Volcano's session does, or KAI's. What the session keeps is also committed to a ledger in memory,
which judges it like statements of shards.
"""

from __future__ import annotations

from collections.abc import Sequence

from laboratory.replay.ledger_check import ReplayLedger
from laboratory.replay.recorded import Recorded
from laboratory.simulation.history import Notes
from shard_worker.dialects.open_session import open_world_session, run_action
from shard_worker.framework.operation import Operation
from shard_worker.framework.session import Session
from shard_worker.session_model.full_world import build_world
from shard_worker.turns.extender_http import ask_over_http, with_answers
from shard_worker.view.mode import Mode
from shared.policy.model import Policy

PATIENCE_SECONDS = 60.0
"""Time that an extender has for all questions of a session: no lease runs out meanwhile."""


def run_session(
    policy: Policy,
    recorded: Recorded,
    *,
    mode: Mode = Mode.NONE,
    own_rows: Sequence[int] | None = None,
    now: float = 0.0,
    memory: dict[str, float] | None = None,
    notes: Notes | None = None,
    actions: Sequence[str] | None = None,
) -> Session:
    """Run one session: the policy's actions in order, each statement judged by the ledger.

    ``actions``: run these instead.
    ``own_rows``: rows of the session's own shard, None = all. ``memory``: state that plugins keep
    across sessions. ``notes`` gets the history, for the checker. Raises LedgerRefused.
    """
    memo = {} if memory is None else memory

    def once() -> tuple[Session, ReplayLedger]:
        ssn = open_world_session(policy)
        ssn.memory = dict(memo)
        chosen = policy.actions if actions is None else actions
        return ssn, _run(ssn, recorded, chosen, mode=mode, own_rows=own_rows, now=now)

    answers = recorded.objects.extender
    answers.clear()
    ssn, books = with_answers(once, answers, ask_over_http, patience=PATIENCE_SECONDS)
    memo.update(ssn.memory)
    if notes is not None:
        first, *rest = books.log()  # the epoch of who leads; what its turns are told comes after
        notes.ledger_entries([first], now)
        if recorded.objects.usage:
            notes.measured(now, recorded.objects.usage)
        notes.ledger_entries(rest, now)
    return ssn


def _run(
    ssn: Session,
    recorded: Recorded,
    actions: Sequence[str],
    *,
    mode: Mode,
    own_rows: Sequence[int] | None,
    now: float,
) -> ReplayLedger:
    """The ledger with what the session decided."""
    books = ReplayLedger(recorded, ssn, own_rows=own_rows)
    world = build_world(
        books.view(),
        classes=recorded.classes,
        queues=recorded.queues,
        placed_jobs=recorded.placed_jobs,
        hyper_nodes=recorded.hyper_nodes,
        objects=recorded.objects,
        priority_classes=recorded.priority_classes,
        mode=mode,
        now=now,
    )
    ssn.enter(world)
    for action in actions:

        def judged(operations: Sequence[Operation], action: str = action) -> None:
            books.commit(action, operations)

        ssn.on_commit = judged
        run_action(ssn, action)
    return books
