"""Random clusters under several policies: the ledger accepts whatever a session decides."""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.laboratory.replay.build import case, sessions
from tests.laboratory.replay.generate import cluster, policy_of

SEEDS = 60


def test_the_ledger_accepts_the_statements_of_successive_sessions() -> None:
    """A refusal is an error of the replay (see test_ledger); here is none."""
    completed: Counter[str] = Counter()
    for seed in range(SEEDS):
        draw = Random(seed)
        tree = draw.random() < 0.3
        items = cluster(draw, tree=tree)
        for result in sessions(case(*items, under=policy_of(draw, tree=tree)), 3):
            completed["bound"] += len(result.binds)
            completed["evicted"] += len(result.evicted)
            completed["promised"] += len(result.pipelined)
            assert not result.binds.keys() & result.pipelined.keys(), seed
            assert not result.binds.keys() & set(result.evicted), seed
    assert min(completed.values()) > 5, completed
