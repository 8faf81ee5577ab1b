"""Our own outcome of a scenario, in one session or through a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laboratory.replay.kai.rounds import run_round
from laboratory.replay.kai.scenario import read_kai_scenario
from laboratory.replay.kai.service import run_kai_sharded
from laboratory.replay.outcome import result_of
from laboratory.replay.scenario import read_scenario, replay
from laboratory.replay.sharded import ShardedRun, run_sharded
from shard_worker.view.mode import Mode
from shared.codec.packed import replace
from tests.oracle.outcome import Outcome

Scenario = Mapping[str, Any]
QUIET = 1.5
"""Seconds of virtual time without changes that end a run in shards."""


def decided(scenario: Scenario, shards: int) -> Outcome:
    """Our outcome, of one session, or of a service with so many shards that is halted where one
    session ends."""
    if not shards:
        of_kai = scenario["policy"].get("dialect") == "kai"
        return _session_of_kai(scenario) if of_kai else Outcome.of(replay(scenario))
    halted = ShardedRun(shards, Mode.NONE, seed=0, one_session=True, window=1, quiet=QUIET)
    return _of_service(scenario, halted)


def grown(scenario: Scenario) -> Outcome:
    """Our outcome of a service that is not halted: pods leave and start, and more turns follow."""
    return _of_service(scenario, ShardedRun(1, Mode.NONE, seed=0, window=1, quiet=QUIET))


def _of_service(scenario: Scenario, sharding: ShardedRun) -> Outcome:
    if scenario["policy"].get("dialect") == "kai":
        return Outcome.of(run_kai_sharded(read_kai_scenario(scenario), sharding)).placed()
    read = read_scenario(scenario)
    return Outcome.of(run_sharded(read.policy, read.recorded, sharding, name=read.id)).placed()


def _session_of_kai(scenario: Scenario) -> Outcome:
    """KAI writes no phases of PodGroups."""
    read = read_kai_scenario(scenario)
    played = run_round(read, read.items)
    result = result_of(read.id, played.session, played.recorded.recorded.placed_jobs)
    return replace(Outcome.of(result), phases={})
