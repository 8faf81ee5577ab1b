"""Where victims are looked for, when there are more than one turn looks at."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.session_model import other_jobs
from shard_worker.session_model.other_jobs import Window

LIMIT = other_jobs.LOOKED_AT


@given(st.lists(st.integers(0, LIMIT + 5), min_size=1, max_size=30))
def test_everybody_is_looked_at_in_the_end(there: list[int]) -> None:
    counts, window = np.array(there, np.int64), Window()
    observed = np.zeros(len(there), np.bool_)
    for _ in range(len(there)):
        chosen = window.of(counts)
        assert np.array_equal(window.of(counts), chosen), "one turn looks at the same, if often"
        assert counts[chosen].sum() <= LIMIT or chosen.sum() == 1
        observed |= chosen
        window.go_on()
    assert observed.all()


def test_few_are_looked_at_at_once() -> None:
    window = Window()
    assert window.of(np.full(40, LIMIT // 40)).all()
    assert not window.of(np.full(40, LIMIT // 40 + 1)).all()
