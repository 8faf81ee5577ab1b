"""A worker's session serves turn after turn: each finds what a session of its own finds."""

from __future__ import annotations

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from shard_worker.dialects.kai.service.turn_session import TurnSession
from shared.codec.packed import replace
from tests.examples import examples
from tests.shard_worker.dialects.kai.search.drawn_turns import DrawnTurn, clusters, opened
from tests.shard_worker.dialects.kai.turns import did

ACTIONS = ("allocate", "consolidation", "reclaim", "preempt")


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(clusters(), st.sampled_from(ACTIONS)), min_size=2, max_size=3))
def test_a_turn_does_not_see_what_the_turns_before_it_did(
    turns: list[tuple[DrawnTurn, str]],
) -> None:
    first, kept = turns[0][0], None
    for of_any_policy, action in turns:
        drawn = replace(of_any_policy, runtimes=first.runtimes, most=first.most)
        alone = did(*opened(drawn, by_columns=True), action)
        session: TurnSession | None = kept
        kept, job = opened(drawn, by_columns=True, session=session)
        assert did(kept, job, action) == alone
        event(f"{action}: does anything {bool(alone[0])}")  # type: ignore[index]
