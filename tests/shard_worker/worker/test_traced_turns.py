"""Traced turns: the steps that come with their outcome; they decide as untraced ones do."""

from __future__ import annotations

import numpy as np
import pytest

from shard_worker.worker.limits import WorkerLimits
from shared.codec.packed import replace
from shared.messages.messages import Level, Outcome, OutcomeCode, Verdict
from shared.messages.trace import TraceStage, TraceStep
from tests.shard_worker.placement.support import turn
from tests.shard_worker.turns.sessions import Books
from tests.shard_worker.turns.test_session_turns import CLASSES, SessionStage, full
from tests.shard_worker.worker.test_worker import (
    NOW,
    accept,
    commit_batch,
    nodes,
    outcomes_of,
    refuse,
    used,
    worker_of,
)


def stages(outcome: Outcome) -> list[TraceStage]:
    return [step.stage for step in outcome.steps]


def step_of(outcome: Outcome, stage: TraceStage) -> TraceStep:
    return next(step for step in outcome.steps if step.stage is stage)


FLAT = [TraceStage.PREDICATE, TraceStage.GRADIENT, TraceStage.NODE_ORDER]
COMMITTED = [TraceStage.PLACEMENT, TraceStage.COMMIT]


def test_an_untraced_turn_brings_no_steps() -> None:
    worker = worker_of(nodes(1))
    (outcome,) = outcomes_of(
        worker.on_reply(accept(commit_batch(worker.on_turns([turn(2)], now=NOW)), {}))
    )
    assert outcome.steps == ()


def test_a_flat_turn_tells_nodes_levels_scores_and_the_verdict() -> None:
    worker = worker_of(nodes(3))
    batch = commit_batch(worker.on_turns([replace(turn(2), traced=True)], now=NOW))
    (outcome,) = outcomes_of(worker.on_reply(accept(batch, {})))
    assert stages(outcome) == [*FLAT, *COMMITTED]
    assert step_of(outcome, TraceStage.GRADIENT).levels == [3, 0, 0, 0]
    placed = step_of(outcome, TraceStage.PLACEMENT)
    assert placed.levels == [2, 0, 0, 0]
    assert set(placed.rows) == set(outcome.placements[0].rows)
    best = step_of(outcome, TraceStage.NODE_ORDER).nodes
    assert [node.row for node in best] == [0, 1, 2]
    assert {node.level for node in best} == {Level.IDLE_OWN}
    assert step_of(outcome, TraceStage.COMMIT).text == "committed"


def test_each_attempt_after_a_refusal_names_the_node_that_was_taken() -> None:
    worker = worker_of(nodes(2), limits=WorkerLimits(repairs=1))
    batch = commit_batch(worker.on_turns([replace(turn(1), traced=True)], now=NOW))
    row = batch.statements[0].core[0].rows[0]
    again = commit_batch(worker.on_reply(refuse(Verdict.FIT, {row: used(4, version=7)})))
    (outcome,) = outcomes_of(worker.on_reply(accept(again, {})))
    assert stages(outcome) == [*FLAT, *COMMITTED, *FLAT, *COMMITTED]
    first, second = (step for step in outcome.steps if step.stage is TraceStage.COMMIT)
    assert first.text.endswith("took the idle room of a node first (attempt 1 of at most 2)")
    assert second.text == "committed"
    counts = [step for step in outcome.steps if step.stage is TraceStage.PREDICATE]
    assert [step.reasons for step in counts] == [{}, {"Insufficient cpu": 1}]


def test_a_turn_without_a_place_tells_why_it_was_discarded() -> None:
    worker = worker_of(nodes(1, cores=2))
    (outcome,) = outcomes_of(worker.on_turns([replace(turn(3), traced=True)], now=NOW))
    assert outcome.code is OutcomeCode.INFEASIBLE
    step = outcome.steps[-1]
    assert (step.stage, step.role, step.reasons) == (
        TraceStage.PLACEMENT,
        "worker",
        dict(outcome.reasons),
    )
    assert step.text.startswith("discarded")


def test_a_traced_session_has_queue_and_prepredicate_steps_and_decides_the_same() -> None:
    def run(*, traced: bool) -> tuple[Outcome, list[np.ndarray]]:
        books = Books(CLASSES)
        full(books)
        high = books.job(0, [-1, -1], priority=10)
        stage = SessionStage(books)
        one = replace(books.turn(high, "preempt", [books.jobs[0]]), traced=traced)
        (statement,), _ = stage.turn(one)
        (outcome,) = stage.answer(Verdict.COMMITTED)
        assert statement.evictions
        return outcome, stage.image()

    (traced, view), (plain, same_view) = run(traced=True), run(traced=False)
    assert replace(traced, steps=()) == plain
    assert all(np.array_equal(a, b) for a, b in zip(view, same_view, strict=True))
    assert stages(traced) == [
        TraceStage.PRE_PREDICATE,
        TraceStage.PREDICATE,
        TraceStage.GRADIENT,
        *COMMITTED,
    ]
    assert "could with victims" in step_of(traced, TraceStage.PREDICATE).text
    assert "2 victims to evict" in step_of(traced, TraceStage.PLACEMENT).text


@pytest.mark.parametrize("action", ["allocate", "backfill"])
def test_a_session_without_victims_reports_the_queues_decision(action: str) -> None:
    books = Books(CLASSES)
    mine = books.job(0, [-1, -1])
    stage = SessionStage(books)
    statements, outcomes = stage.turn(replace(books.turn(mine, action), traced=True))
    outcomes += stage.answer(Verdict.COMMITTED) if statements else []
    (outcome,) = outcomes
    assert step_of(outcome, TraceStage.QUEUE).text == "default takes the task"
    assert step_of(outcome, TraceStage.PRE_PREDICATE).text == "passed"
