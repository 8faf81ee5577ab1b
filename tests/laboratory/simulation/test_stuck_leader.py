"""A leader whose event loop hangs: for a moment it goes on leading, for longer another one does."""

from __future__ import annotations

import pytest

from laboratory.scenarios.generate import scenario
from laboratory.scenarios.play import play
from laboratory.simulation.intervals import Intervals
from laboratory.simulation.scenario import Fault, FaultKind
from laboratory.simulation.virtual_time import CALM
from shared.codec.packed import replace
from shared.ledger.lease import SILENT_LEASES

BOUND = SILENT_LEASES * Intervals().leader_lease


@pytest.mark.parametrize(
    ("kind", "seconds", "leaders"),
    [
        (FaultKind.LEADER_STUCK, 0.8 * BOUND, 1),
        (FaultKind.LEADER_STUCK, 1.6 * BOUND, 2),
        (FaultKind.LEADER_PAUSED, 0.8 * BOUND, 2),  # then the thread stands still as well
    ],
)
def test_terms_after_a_stuck_event_loop(kind: FaultKind, seconds: float, leaders: int) -> None:
    expected = replace(
        scenario(4),
        network=CALM,
        faulty=False,
        standby=True,
        faults=(Fault(kind, at=0.3, seconds=seconds),),
    )
    played = play(expected)
    assert not played.broken
    assert max(incarnation.term for incarnation in played.simulation.incarnations) == leaders
