"""The explored model: all holds with all checks; without one it finds what breaks."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from coordinator.chaos.model.checks import MEANING, Check, Promise
from coordinator.chaos.model.explore import ALL, SCOPES, Explored, explore
from coordinator.chaos.model.state import Faults
from coordinator.commands.chaos import app

CRASH, PAUSE = Faults(1, 0, 0, 0), Faults(0, 1, 0, 0)
BOTH, CUT, CHANGE = Faults(1, 1, 0, 0), Faults(0, 0, 1, 0), Faults(0, 0, 0, 1)
NONE = Faults(0, 0, 0, 0)

# Check taken away -> what has to go wrong for it to be missed, the promise that breaks then, and
# how many steps the shortest way there has.
MISSED = {
    Check.EPOCH: (CRASH, Promise.FENCE, 5),
    Check.RUN: (CRASH, Promise.FENCE, 4),
    Check.READ: (CHANGE, Promise.READ_SET, 4),
    Check.FIT: (NONE, Promise.ROOM, 7),
    Check.TASK: (CHANGE, Promise.NOTHING_LOST, 4),
    Check.IDEMPOTENCY: (CUT, Promise.REPLAY, 4),
    Check.LEASE: (PAUSE, Promise.FENCE, 5),
    Check.SEAT: (NONE, Promise.FENCE, 1),
    Check.LEADER: (PAUSE, Promise.NOTHING_LOST, 11),
    Check.BEHIND: (CRASH, Promise.NOTHING_LOST, 6),
    Check.TURN: (CRASH, Promise.NOTHING_LOST, 6),
    Check.DRAIN: (NONE, Promise.OWNERSHIP, 5),
}


def show(found: Explored) -> None:
    sys.stdout.write(
        f"{tuple(found.faults)}: {found.states:,} states, {found.steps:,} steps, "
        f"depth {found.depth}, {found.seconds:.1f} s\n"
    )


@pytest.mark.parametrize("faults", SCOPES, ids=lambda f: "".join(map(str, f)))
def test_every_promise_is_kept_in_every_state(faults: Faults) -> None:
    found = explore(faults)
    show(found)
    assert found.broken is None, found.trace
    assert found.states > 30_000  # else something cannot happen any more that should


def test_a_crash_and_a_pause_are_explored_together() -> None:
    assert (1, 1) in {(faults.crashes, faults.pauses) for faults in SCOPES}
    assert all(any(faults[kind] for faults in SCOPES) for kind in range(4))


@pytest.mark.parametrize("check", Check)
def test_without_a_check_the_violation_is_found(check: Check) -> None:
    faults, promise, steps = MISSED[check]
    found = explore(faults, ALL - {check})
    assert (found.broken, len(found.trace)) == (promise, steps), found.trace
    assert MEANING[check]


@pytest.mark.parametrize(
    ("missing", "faults", "promise"),
    [
        ({Check.EPOCH}, CRASH, Promise.NOTHING_LOST),
        ({Check.EPOCH}, CRASH, Promise.OWNERSHIP),
        ({Check.RUN}, CRASH, Promise.ROOM),
        ({Check.TASK, Check.IDEMPOTENCY}, CUT, Promise.ONE_PLACE),
        ({Check.LEADER}, PAUSE, Promise.OWNERSHIP),
    ],
)
def test_what_follows_from_a_missing_check_breaks_too(
    missing: set[Check], faults: Faults, promise: Promise
) -> None:
    """Not only the rule that names the check: what it is there for."""
    found = explore(faults, ALL - missing, promises={promise})
    sys.stdout.write("\n".join(found.trace))
    assert found.broken == promise


def test_the_command_shows_the_shortest_way() -> None:
    told = CliRunner().invoke(app, ["model", "--without", "drain"])
    assert told.exit_code == 1
    assert "promise hand-over" in told.output
    assert "   5. the ledger gets the request" in told.output
    told = CliRunner().invoke(app, ["model", "--without", "drain", "-o", "json"])
    result = json.loads(told.output.splitlines()[-1])
    assert (result["ok"], result["without"], len(result["trace"])) == (False, "drain", 5)
