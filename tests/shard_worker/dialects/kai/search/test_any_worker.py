"""The result of a search does not depend on the worker's own nodes."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from shard_worker.view.mode import Mode
from tests.examples import examples
from tests.shard_worker.dialects.kai.search.drawn_turns import DrawnTurn, clusters, opened
from tests.shard_worker.dialects.kai.turns import did

ACTIONS = ("consolidation", "reclaim", "preempt")


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), st.sampled_from(ACTIONS), st.lists(st.booleans(), min_size=6, max_size=6))
def test_a_search_finds_the_same_for_every_worker(
    drawn: DrawnTurn, action: str, own: list[bool]
) -> None:
    results = []
    for is_own in ([False] * 6, own):
        ssn, job = opened(drawn, by_columns=True)
        ssn.world.mode, size = Mode.SOFT, ssn.world.view.size
        ssn.world.view.own[:size] = np.resize(np.array(is_own), size)
        results.append(did(ssn, job, action))
    event(f"{action}: evicts {bool(results[0][0])}")  # type: ignore[index]
    assert results[0] == results[1]
