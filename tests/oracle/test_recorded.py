"""Outcomes that Volcano's and KAI's own code gave, held against ours, without Go.

Each recorded case is a random scenario of ours. In one session and through shards it comes out as
in one of the peer's runs, or differs in a kind that is argued.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.examples import THOROUGH, examples, first_of
from tests.oracle.compare import KAI, VOLCANO, Peer, among
from tests.oracle.decided import decided
from tests.oracle.recorded import cases, explained_cases

PEERS = [pytest.param(VOLCANO, id="volcano"), pytest.param(KAI, id="kai")]
CASES = {peer: list(cases(peer)) for peer in (VOLCANO, KAI)}
PARTS = 6
"""The cases are distributed to so many tests, which run side by side."""
FORMS = [
    pytest.param(0, id="session"),
    pytest.param(1, id="--shards 1", marks=pytest.mark.all),
    pytest.param(2, id="--shards 2"),
]
ACTIONS = {
    VOLCANO: ("enqueue", "allocate", "backfill", "preempt", "reclaim"),
    KAI: ("allocate", "consolidation", "reclaim", "preempt"),
}


@pytest.mark.parametrize("part", first_of(range(PARTS), 2))
@pytest.mark.parametrize("shards", FORMS)
@pytest.mark.parametrize("peer", PEERS)
def test_comes_out_as_in_a_run_of_the_peer(
    peer: Peer, shards: int, part: int, subtests: pytest.Subtests
) -> None:
    recorded = CASES[peer]
    chosen = recorded[: examples(len(recorded))] if shards or not THOROUGH else recorded
    for case in chosen[part::PARTS]:
        with subtests.test(case.scenario["id"]):
            ours = decided(case.scenario, shards)
            equal = among(case.scenario, ours, case.outcomes, service=bool(shards))
            kind = None
            if not equal:
                kind = peer.kind_of(case.scenario, ours, case.outcomes, bool(shards))
            assert equal or kind is not None, (ours, case.outcomes)


@pytest.mark.parametrize("shards", first_of([0, 1, 2]))
@pytest.mark.parametrize("peer", PEERS)
def test_a_variant_that_was_understood_differs_as_it_did(
    peer: Peer, shards: int, subtests: pytest.Subtests
) -> None:
    for case in explained_cases(peer):
        with subtests.test(case.scenario["id"]):
            ours = decided(case.scenario, shards)
            equal = among(case.scenario, ours, case.outcomes, service=bool(shards))
            kind = None
            if not equal:
                kind = peer.kind_of(case.scenario, ours, case.outcomes, bool(shards))
            assert equal or kind is not None, (ours, case.outcomes)
            assert shards or (kind.name if kind else "") == case.kind


@pytest.mark.parametrize("peer", PEERS)
def test_the_record_covers_every_action(peer: Peer) -> None:
    actions = Counter(case.scenario["policy"]["actions"] for case in CASES[peer])
    for word in ACTIONS[peer]:
        assert sum(number for names, number in actions.items() if word in names) >= 30, word
