"""Siblings that are kept sorted: the same queue is first as where all are compared each time."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.dialects.kai.rules.amounts import NO_BOUND, Amounts
from shard_worker.dialects.kai.rules.queue_order import Candidate, QueueFigures, first
from shard_worker.dialects.kai.rules.sibling_order import SiblingOrder
from tests.examples import examples

CLUSTER = Amounts(10, 10, 10_000)
few = st.builds(Amounts, st.sampled_from([0, 1]), st.sampled_from([0, 1]), st.just(0))


@st.composite
def changes(draw: st.DrawFn) -> tuple[int, Candidate | None]:
    """A queue of five, and its next job; None where it has none any more."""
    qid = draw(st.integers(0, 4))
    if draw(st.integers(0, 4)) == 0:
        return qid, None
    figures = QueueFigures(
        uid=f"q{qid}",
        created=float(qid // 2),
        priority=draw(st.sampled_from([100, 100, 200])),
        quota=draw(few),
        limit=NO_BOUND,
        fair_share=draw(few),
        allocated=draw(few),
    )
    return qid, Candidate(figures, cluster=CLUSTER, asks=draw(few))


@given(st.lists(changes(), max_size=30))
@settings(max_examples=examples(1000), deadline=None)
def test_first_is_the_first_of_all_after_each_change(
    drawn: list[tuple[int, Candidate | None]],
) -> None:
    siblings, by_age = SiblingOrder(), SiblingOrder(by_age=True)
    present: dict[int, Candidate] = {}
    for qid, candidate in drawn:
        siblings.put(qid, candidate)
        by_age.put(qid, candidate)
        present.pop(qid, None)
        if candidate is not None:
            present[qid] = candidate
        qids, candidates = list(present), list(present.values())
        assert siblings.first() == (qids[first(candidates)] if qids else None)
        assert by_age.first() == min(qids, key=lambda at: present[at].age, default=None)
