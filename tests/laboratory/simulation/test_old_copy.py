"""An old copy of the ledger comes back in the midst of a seeded run.

No fault among the others: what users were told to be stored is lost, so that none of the promises
about it can be kept. A run is judged by what may not happen, up to the operator's word.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from coordinator.cluster.protocol import ClusterTimeout
from coordinator.ledger_refusals import StoreRefused
from laboratory.scenarios.generate import scenario
from laboratory.scenarios.play import build
from laboratory.simulation.run import Simulation
from shared.ledger.memory.synchronous import at_once
from tests.shared.ledger.changed_rules import change, disable

pytestmark = pytest.mark.all

SEEDS = range(24)
START = 1000.0
AT, AGE = 0.8, 0.4
"""When it comes back, in seconds after the start, and how old it is."""
MEANWHILE = 4.0
"""Ten leases: everybody tries to lead, again and again."""


def with_old_copy(seed: int) -> tuple[Simulation, str]:
    """The run right after the copy came back, and the end of its log."""
    simulation = build(scenario(seed))
    simulation.bring_back_old_copy(at=AT, age=AGE)
    simulation.run(until=START + AT + 1e-6)
    assert simulation.timeline.struck["old copy"]
    return simulation, at_once(simulation.ledger.log_tail())


def test_it_gets_no_service_until_the_operator_says_that_it_counts() -> None:
    """And no job gets a number that the cluster knows already: the copy does not know the jobs that
    came since, whose tasks may run."""
    looked = numbered = 0
    for seed in SEEDS:
        simulation, tail = with_old_copy(seed)
        ledger = simulation.ledger
        if ledger.seen == tail:
            continue
        looked += 1
        simulation.run(until=START + AT + MEANWHILE)
        assert at_once(ledger.log_tail()) == tail, f"seed {seed}: something was written to it"
        assert ledger.refused, f"seed {seed}: nobody looked"
        assert not any(
            incarnation.open and incarnation.process.alive
            for incarnation in simulation.incarnations
        )
        highest_before, before = highest(simulation), set(at_once(ledger.snapshot()).jobs)
        ledger.accept()
        simulation.run(until=simulation.timeline.now + MEANWHILE)
        assert simulation.incarnation.open, f"seed {seed}: nobody leads"
        assert at_once(ledger.log_tail()) != tail
        simulation.core.validate()
        new = set(at_once(ledger.snapshot()).jobs) - before
        assert all(jid > highest_before for jid in new), f"seed {seed}"
        numbered += len(new)
    assert looked > len(SEEDS) / 2
    assert numbered


def highest(simulation: Simulation) -> int:
    """Highest job number that the cluster knows, whatever its network loses."""
    while True:
        with suppress(ClusterTimeout):
            return simulation.kubelets.listing("").highest


def served(seed: int) -> bool:
    """Whether a ledger that lacks something was accepted, or written to."""
    simulation, tail = with_old_copy(seed)
    if simulation.ledger.seen == tail:
        return False
    try:
        simulation.run(until=START + AT + MEANWHILE)
    except StoreRefused:  # who goes on with an old copy asks it for what it cannot do
        return True
    return is_accepted(simulation) or at_once(simulation.ledger.log_tail()) != tail


def is_accepted(simulation: Simulation) -> bool:
    ledger = simulation.ledger
    return at_once(ledger.run_id()) == ledger.server.run_id


def test_claims_that_are_told_at_once_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that reads on has then seen an entry that is newer than all that is missing."""
    change(monkeypatch, "if call('HGET', META, 'run') == run_id() then", "if true then")
    assert any(map(served, SEEDS))


def test_a_run_that_anybody_may_accept_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    disable(monkeypatch, "not knows_what_was_seen()")
    assert any(map(served, SEEDS))
