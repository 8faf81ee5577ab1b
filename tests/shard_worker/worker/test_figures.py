"""Counts of a worker: each answer of the ledger, and every placement it had to throw away."""

from __future__ import annotations

import pytest

from shared.messages.messages import Answer, CommitReply, Rows, Verdict
from tests.shard_worker.placement.support import turn
from tests.shard_worker.worker.test_worker import (
    NOW,
    accept,
    commit_batch,
    nodes,
    refuse,
    worker_of,
)


def test_accepted_statements_are_counted_with_their_size() -> None:
    worker = worker_of(nodes(2))
    batch = commit_batch(worker.on_turns([turn(2, jid=1), turn(1, jid=2)], now=NOW))
    worker.on_reply(accept(batch, {}))
    figures = worker.take_figures()
    assert figures.statements == {"committed": 2}
    assert not figures.wasted
    assert (figures.operations.count, figures.operations.sum) == (2, 3)
    assert not worker.take_figures().statements, "taken is taken"


@pytest.mark.parametrize(
    ("verdict", "result"),
    [
        (Verdict.FIT, "true"),
        (Verdict.RANK, "true"),
        (Verdict.QUEUE, "quota"),
        (Verdict.TASK, "read"),
        (Verdict.NODE, "read"),
    ],
)
def test_a_refused_statement_is_waste_by_its_cause(verdict: Verdict, result: str) -> None:
    worker = worker_of(nodes(2))
    worker.on_turns([turn(3)], now=NOW)
    worker.on_reply(refuse(verdict))
    figures = worker.take_figures()
    assert figures.statements == {result: 1}
    assert figures.wasted == {result: 3}


def test_a_refused_operation_of_a_tail_is_waste_of_one() -> None:
    worker = worker_of(nodes(1, cores=8))
    batch = commit_batch(worker.on_turns([turn(6, minimum=2, tail=4)], now=NOW))
    tail = [Verdict.COMMITTED, Verdict.FIT, Verdict.COMMITTED, Verdict.FIT]
    worker.on_reply(accept(batch, {}, tail))
    figures = worker.take_figures()
    assert figures.statements == {"committed": 1, "true": 2}
    assert figures.wasted == {"true": 2}


def test_a_refused_batch_counts_all_placements_as_wasted_and_unsent_ones_too() -> None:
    worker = worker_of(nodes(4))
    worker.on_turns([turn(2, jid=1)], now=NOW)
    worker.on_turns([turn(3, jid=2)], now=NOW)
    worker.on_reply(CommitReply(Verdict.EPOCH, [], Rows([], [])))
    figures = worker.take_figures()
    assert figures.statements == {"epoch": 1}
    assert figures.wasted == {"epoch": 5}


def test_an_answer_that_comes_a_second_time_is_told() -> None:
    worker = worker_of(nodes(1))
    worker.on_turns([turn(1)], now=NOW)
    answers = [Answer(Verdict.COMMITTED, 0, [])]
    worker.on_reply(CommitReply(Verdict.COMMITTED, answers, Rows([], []), replayed=True))
    assert worker.take_figures().replays == 1
