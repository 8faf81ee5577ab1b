"""A worker whose policy names an extender: asked beside the session, which begins anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shard_worker.dialects.open_session import open_session
from shard_worker.dialects.volcano.plugins.node.extender import FAILED, ExtenderQuestion
from shard_worker.turns.session_turn import SessionTurns
from shard_worker.view.mode import Mode
from shared.model.model import Queue
from shared.policy.dialect import parse_policy
from tests.shard_worker.placement.support import cpus
from tests.shard_worker.turns.sessions import Books
from tests.shard_worker.turns.test_session_turns import CLASSES, SessionStage

ARGUMENTS = {"extender.urlPrefix": "http://nobody.invalid", "extender.predicateVerb": "p"}
PLUGINS = [{"name": "gang"}, {"name": "capacity"}, {"name": "extender", "arguments": ARGUMENTS}]
POLICY = parse_policy({"actions": "allocate", "tiers": [{"plugins": PLUGINS}]})


def placed(answer: Any) -> tuple[list[int], list[int], bool]:
    """Rows that a gang of two gets, how many questions came each time, and whether the view was
    as before once it was taken back. The gang needs all that its queue may have: what the first
    try charged may not count for the second."""
    books = Books(CLASSES)
    books.queues["default"] = Queue(0, "default", capability=tuple(cpus(2).items()))
    job = books.job(0, [-1, -1], minimum=2)
    stage = SessionStage(books, policy=POLICY)
    node_counts: list[int] = []

    def ask(questions: Sequence[ExtenderQuestion]) -> dict[str, object]:
        node_counts.append(len(questions))
        return {question.key: answer(question) for question in questions}

    turns = SessionTurns(lambda: open_session(POLICY), view=stage.view, mode=Mode.NONE, ask=ask)
    before = stage.image()
    result = turns.place(books.turn(job, "allocate", []), now=1.0)
    rows = [place.row for place in result.core]
    result.statement.rollback()
    same = all(np.array_equal(a, b) for a, b in zip(before, stage.image(), strict=True))
    return rows, node_counts, same


def test_a_node_refused_by_the_extender_is_not_used_and_leaves_no_trace() -> None:
    rows, node_counts, same = placed(lambda question: {"code": int('"n0"' in question.body)})
    assert rows == [1, 1]
    assert node_counts == [2, 2]  # two nodes for each of two tasks; the second only after the first
    assert same


def test_one_that_does_not_answer_refuses() -> None:
    rows, _, same = placed(lambda question: {FAILED: "gone"})
    assert rows == []
    assert same
