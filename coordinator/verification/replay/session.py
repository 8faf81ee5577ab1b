"""A single session over the whole recorded cluster, in one process.

It has the same rules as the service, over a world with everything: the policy's actions do what
Volcano's session does. What the session keeps is also committed to the ledger's double, which
judges it like statements of shards.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.verification.replay.ledger_check import ReplayLedger
from coordinator.verification.replay.recorded import Recorded
from shard_worker.dialects.open_session import open_session
from shard_worker.dialects.volcano.actions.run import run_action
from shard_worker.framework.operation import Operation
from shard_worker.framework.session import Session
from shard_worker.session_model.full_world import build_world
from shard_worker.view.mode import Mode
from shared.policy.model import Policy


def run_session(
    policy: Policy,
    recorded: Recorded,
    *,
    mode: Mode = Mode.NONE,
    own_rows: Sequence[int] | None = None,
    now: float = 0.0,
    memory: dict[str, float] | None = None,
) -> Session:
    """Run one session: the policy's actions in order, each statement judged by the ledger.

    ``own_rows``: rows of the session's own shard, None = all. ``memory``: state that plugins keep
    across sessions. Raises LedgerRefused.
    """
    ssn = open_session(policy)
    ssn.memory = {} if memory is None else memory
    books = ReplayLedger(recorded, ssn, own_rows=own_rows)
    world = build_world(
        books.view(),
        classes=recorded.classes,
        queues=recorded.queues,
        standings=recorded.standings,
        hyper_nodes=recorded.hyper_nodes,
        objects=recorded.objects,
        priority_classes=recorded.priority_classes,
        mode=mode,
        now=now,
    )
    ssn.enter(world)
    for action in policy.actions:

        def judged(operations: Sequence[Operation], action: str = action) -> None:
            books.commit(action, operations)

        ssn.on_commit = judged
        run_action(ssn, action)
    return ssn
