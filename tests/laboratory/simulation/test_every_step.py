"""The coordinator dies right before and right after every kind of event on a task's trip."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import pytest

from laboratory.scenarios.generate import scenario
from laboratory.scenarios.play import UNTIL, build, play
from laboratory.simulation.scenario import Fault, FaultKind, Scenario
from laboratory.simulation.virtual_time import CALM
from shared.codec.packed import replace
from tests.examples import THOROUGH

STEPS = {
    "take the leadership": (
        "claim",
        "snapshot",
        "read moved",
        "read nominations",
        "bless",
        "renew",
    ),
    "start workers": ("worker started", "worker up"),
    "intake": ("store",),
    "order and place": ("call", "read log"),
    "commit": ("commit",),
    "read anew what became of a turn": ("reread",),
    "bind": ("read binds", "bind", "record", "acknowledge binds", "look back"),
    "tell": ("report", "record"),
    "end what was deleted": ("stop", "sweep"),
}
SEEDS = (44, 43, 45)
"""One of each mode, with changes and deletions; small."""


@cache
def _calm(seed: int) -> tuple[Scenario, Counter[str]]:
    """Only a worker dies besides; and how often each event happens then."""
    expected = replace(
        scenario(seed),
        faults=(Fault(FaultKind.WORKER_KILLED, at=0.2),),
        faulty=False,
        network=CALM,
        standby=seed % 2 == 0,
    )
    simulation = build(expected)
    simulation.run(until=UNTIL)
    return expected, simulation.happened


LONG = (
    "take the leadership",
    "start workers",
    "order and place",
    "bind",
    "tell",
    "end what was deleted",
)
"""One to seven seconds of processor time each: for `make test-all`."""


@pytest.mark.parametrize(
    "step",
    [pytest.param(step, marks=pytest.mark.all) if step in LONG else step for step in STEPS],
)
def test_coordinator_dies_before_and_after(step: str) -> None:
    """Outside of CI before or after each, drawn anew in each run; see tests/examples.py."""
    died = 0
    for number, name in enumerate(STEPS[step]):
        for label in (name, f"{name} asked", f"{name} answered"):
            expected, happened = _calm(SEEDS[number % len(SEEDS)])
            many = happened[label]
            # The one in the middle meets work of every kind under way. Around the first one little
            # is under way: CI tries it at the event itself, and not at its messages, too.
            numbers = {(many + 1) // 2} | ({1} if THOROUGH and label == name else set())
            for which in sorted(numbers) if many else ():
                for before in (True, False) if THOROUGH else (random.random() < 0.5,):
                    played = play(expected, crash=(label, which, before))
                    how = f"{'before' if before else 'after'} {label}, number {which}"
                    assert not played.broken, f"{expected.seed}, {how}: {played.broken[0]}"
                    assert len(played.simulation.incarnations) > 1 + expected.standby, how
                    died += 1
    assert died, f"nothing of {STEPS[step]} happens"
