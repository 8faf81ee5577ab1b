"""A small cluster for Order: queues, nodes and jobs by a few numbers."""

from __future__ import annotations

from typing import Any

from coordinator.order.order import Order
from shard_worker.dialects.open_session import open_session
from shared.messages.messages import ALLOCATE, Outcome, OutcomeCode, Placement, Turn
from shared.model.model import Queue
from shared.policy.dialect import parse_policy
from tests.builders.rows import ONE, TWO, node

POLICY = {
    "actions": "allocate",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}]},
        {"plugins": [{"name": "drf"}, {"name": "proportion"}]},
    ],
}


def order(
    *,
    nodes: int = 4,
    cpus: int = 4,
    queues: tuple[str, ...] = ("a",),
    policy: dict[str, Any] = POLICY,
    **options: Any,
) -> Order:
    """``nodes`` nodes of ``cpus`` cores; class 0 asks for one core, class 1 for two."""
    new_order = Order(open_session(parse_policy(policy)), **options)
    new_order.accounts.classes.update({0: ONE, 1: TWO})
    for qid, name in enumerate(queues):
        new_order.put_queue(Queue(qid=qid, name=name))
    for row in range(nodes):
        new_order.accounts.put_node(node(row, cpus=cpus))
    return new_order


def turns(order: Order, now: float = 0.0) -> list[Turn]:
    order.begin(now)
    turns_opened = []
    while (turn := order.next_turn()) is not None:
        turns_opened.append(turn)
    return turns_opened


def placed(turn: Turn, count: int | None = None, row: int = 0, level: int = 1) -> Outcome:
    """The first ``count`` tasks of the turn (all where None) got node ``row``."""
    run = turn.runs[0]
    tasks = run.tasks[: len(run.tasks) if count is None else count]
    placement = Placement(
        cid=run.cid,
        kind=ALLOCATE if level < 3 else 1,
        tasks=tasks,
        rows=[row] * len(tasks),
        levels=[level] * len(tasks),
    )
    code = OutcomeCode.PLACED if level < 3 else OutcomeCode.NOMINATED
    return Outcome(jid=turn.jid, code=code, placements=[placement], reasons={})


def answer(turn: Turn, code: OutcomeCode, reasons: dict[str, int] | None = None) -> Outcome:
    return Outcome(jid=turn.jid, code=code, placements=[], reasons=reasons or {})
