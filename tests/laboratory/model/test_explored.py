"""The explored model: all holds with all checks; without one it finds what breaks."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from laboratory.cli.chaos.chaos import app
from laboratory.model.checks import MEANING, ModelCheck, Promise
from laboratory.model.explore import ALL, SCOPES, Explored, explore
from laboratory.model.state import FaultBudget
from tests.examples import first_of

CRASH, PAUSE = FaultBudget(1, 0, 0, 0), FaultBudget(0, 1, 0, 0)
BOTH, CUT, CHANGE = FaultBudget(1, 1, 0, 0), FaultBudget(0, 0, 1, 0), FaultBudget(0, 0, 0, 1)
NONE = FaultBudget(0, 0, 0, 0)

# Check taken away -> what has to go wrong for it to be missed, the promise that breaks then, and
# how many steps the shortest way there has.
MISSED = {
    ModelCheck.EPOCH: (CRASH, Promise.FENCE, 5),
    ModelCheck.RUN: (CRASH, Promise.FENCE, 4),
    ModelCheck.READ: (CHANGE, Promise.READ_SET, 4),
    ModelCheck.FIT: (NONE, Promise.ROOM, 7),
    ModelCheck.TASK: (CHANGE, Promise.NOTHING_LOST, 4),
    ModelCheck.IDEMPOTENCY: (CUT, Promise.REPLAY, 4),
    ModelCheck.LEASE: (PAUSE, Promise.FENCE, 5),
    ModelCheck.LEADERSHIP: (NONE, Promise.FENCE, 1),
    ModelCheck.LEADER: (PAUSE, Promise.NOTHING_LOST, 11),
    ModelCheck.BEHIND: (CRASH, Promise.OLD_COPY, 6),
    ModelCheck.UNTOLD: (CRASH, Promise.OLD_COPY, 10),
    ModelCheck.TURN: (CRASH, Promise.NOTHING_LOST, 6),
    ModelCheck.DRAIN: (NONE, Promise.OWNERSHIP, 5),
}


def show(exploration: Explored) -> None:
    sys.stdout.write(
        f"{tuple(exploration.faults)}: {exploration.states:,} states, {exploration.steps:,} steps, "
        f"depth {exploration.depth}, {exploration.seconds:.1f} s\n"
    )


@pytest.mark.parametrize(
    "faults",
    first_of([(faults,) for faults in reversed(SCOPES)]),
    ids=lambda faults: "".join(map(str, faults)),
)
def test_every_promise_is_kept_in_every_state(faults: FaultBudget) -> None:
    exploration = explore(faults)
    show(exploration)
    assert exploration.broken is None, exploration.trace
    assert exploration.states > 30_000  # else something cannot happen any more that should


def test_a_crash_and_a_pause_are_explored_together() -> None:
    assert (1, 1) in {(faults.crashes, faults.pauses) for faults in SCOPES}
    assert all(any(faults[kind] for faults in SCOPES) for kind in range(4))


@pytest.mark.parametrize("check", ModelCheck)
def test_without_a_check_the_violation_is_found(check: ModelCheck) -> None:
    faults, promise, steps = MISSED[check]
    exploration = explore(faults, ALL - {check})
    assert (exploration.broken, len(exploration.trace)) == (promise, steps), exploration.trace
    assert MEANING[check]


@pytest.mark.parametrize(
    ("missing", "faults", "promise"),
    [
        ({ModelCheck.EPOCH}, CRASH, Promise.NOTHING_LOST),
        ({ModelCheck.EPOCH}, CRASH, Promise.OWNERSHIP),
        ({ModelCheck.RUN}, CRASH, Promise.ROOM),
        ({ModelCheck.TASK, ModelCheck.IDEMPOTENCY}, CUT, Promise.ONE_PLACE),
        ({ModelCheck.LEADER}, PAUSE, Promise.OWNERSHIP),
        ({ModelCheck.BEHIND}, CRASH, Promise.NOTHING_LOST),
    ],
)
def test_a_missing_check_also_breaks_the_promises_that_rest_on_it(
    missing: set[ModelCheck], faults: FaultBudget, promise: Promise
) -> None:
    """Not only the rule that names the check: what it is there for."""
    exploration = explore(faults, ALL - missing, promises={promise})
    sys.stdout.write("\n".join(exploration.trace))
    assert exploration.broken == promise


def test_the_command_shows_the_shortest_way() -> None:
    report = CliRunner().invoke(app, ["model", "--without", "drain"])
    assert report.exit_code == 1
    assert "promise hand-over" in report.output
    assert "   5. the ledger gets the request" in report.output
    report = CliRunner().invoke(app, ["model", "--without", "drain", "-o", "json"])
    result = json.loads(report.output.splitlines()[-1])
    assert (result["ok"], result["without"], len(result["trace"])) == (False, "drain", 5)
