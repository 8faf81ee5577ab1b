"""Outcomes that Volcano's own code gave, held against ours, without Go.

Each recorded case is a random scenario of ours. In one session and through shards it comes out as
in one of Volcano's runs, or differs in a kind that ``tests/oracle/differences.py`` argues.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.examples import examples
from tests.oracle.compare import among, decided
from tests.oracle.differences import kind_of
from tests.oracle.recorded import cases

CASES = list(cases())
PARTS = 6
"""The cases are distributed to so many tests, which run side by side."""
FORMS = [
    pytest.param(0, id="session"),
    pytest.param(1, id="--shards 1", marks=pytest.mark.all),
    pytest.param(2, id="--shards 2"),
]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("shards", FORMS)
def test_comes_out_as_in_a_run_of_volcano(
    shards: int, part: int, subtests: pytest.Subtests
) -> None:
    chosen = CASES[: examples(len(CASES))] if shards else CASES
    for case in chosen[part::PARTS]:
        with subtests.test(case.scenario["id"]):
            ours = decided(case.scenario, shards)
            equal = among(case.scenario, ours, case.outcomes, service=bool(shards))
            kind = kind_of(case.scenario, ours, case.outcomes, service=bool(shards))
            assert equal or kind is not None, (ours, case.outcomes)


def test_the_record_covers_every_action() -> None:
    actions = Counter(case.scenario["policy"]["actions"] for case in CASES)
    for word in ("enqueue", "allocate", "backfill", "preempt", "reclaim"):
        assert sum(number for names, number in actions.items() if word in names) >= 30, word
