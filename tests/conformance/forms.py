"""The forms of the running path in which every scenario is run."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from laboratory.replay.outcome import ReplayResult
from laboratory.replay.scenario import read_scenario, replay
from laboratory.replay.sharded import QUIET, ShardedRun, run_sharded
from shard_worker.view.mode import Mode
from shared.codec.packed import replace
from tests.conformance.at_rest import differences_at_rest
from tests.conformance.one_session import differences_after_one_session
from tests.examples import THOROUGH

REST = QUIET if THOROUGH else 1.5
"""All that happens in a scenario happens in the first half second. CI waits as long as the command
does for what should not come after it."""


class Form(Enum):
    """As the options of ``quadrant replay`` say it: so many workers, and what borders mean."""

    ONE = "--shards 1"
    TWO = "--shards 2 --mode none"
    THREE_SOFT = "--shards 3 --mode soft"

    def sharding(self, seed: int) -> ShardedRun:
        match self:
            case Form.ONE:
                return ShardedRun(1, Mode.NONE, seed, quiet=REST)
            case Form.TWO:
                return ShardedRun(2, Mode.NONE, seed, quiet=REST)
            case Form.THREE_SOFT:
                return ShardedRun(3, Mode.SOFT, seed, quiet=REST)


_sessions: dict[str, ReplayResult] = {}
"""Scenario -> what one session makes of it, which is held against each form."""


def _session(scenario: Mapping[str, Any]) -> ReplayResult:
    name = scenario["id"]
    if name not in _sessions:
        _sessions[name] = replay(scenario)
    return _sessions[name]


def differences_in(form: Form, scenario: Mapping[str, Any], *, seed: int = 0) -> list[str]:
    """Run the scenario in this form, and hold it against its table and one session."""
    read = read_scenario(scenario)
    sharding = form.sharding(seed)
    rest = run_sharded(read.policy, read.recorded, sharding, name=read.id)
    soft = sharding.mode is Mode.SOFT
    return differences_at_rest(scenario, _session(scenario), rest, shards_prefer_own=soft)


def differences_halted_in(form: Form, scenario: Mapping[str, Any], *, seed: int = 0) -> list[str]:
    """As :func:`differences_in`, with ``--cycles 1``: held against the table itself."""
    read = read_scenario(scenario)
    sharding = replace(form.sharding(seed), one_session=True)
    halted = run_sharded(read.policy, read.recorded, sharding, name=read.id)
    soft = sharding.mode is Mode.SOFT
    return differences_after_one_session(
        scenario, _session(scenario), halted, shards_prefer_own=soft
    )
