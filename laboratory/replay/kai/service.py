"""A KAI scenario as a service decides it: coordinator, workers and ledger over its cluster."""

from __future__ import annotations

from collections.abc import Callable

from laboratory.replay.kai.recorded import read_kai_recorded
from laboratory.replay.kai.scenario import KaiScenario
from laboratory.replay.outcome import ReplayResult
from laboratory.replay.sharded import ShardedRun, run_sharded


def run_kai_sharded(
    scenario: KaiScenario, sharding: ShardedRun, *, step: Callable[[], None] = lambda: None
) -> ReplayResult:
    """Run the scenario's cluster until nothing changes any more. Raises RecordError,
    PolicyError."""
    read = read_kai_recorded(scenario.items, scenario.now, policy=scenario.policy)
    return run_sharded(
        scenario.policy, read.recorded, sharding, name=scenario.id, step=step, began=scenario.now
    )
