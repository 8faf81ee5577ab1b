"""A KAI scenario as a service decides it: coordinator, workers and ledger over its cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coordinator.verification.replay.kai.gpu_groups import (
    RecordedDevices,
    key_of,
    recorded_devices,
)
from coordinator.verification.replay.kai.scenario import Json, KaiScenario
from coordinator.verification.replay.outcome import ReplayResult
from coordinator.verification.replay.recorded import Recorded, read_recorded
from coordinator.verification.replay.sharded import ShardedRun, run_sharded
from shared.model.named_devices import ASSIGNED_DEVICES, DEVICES, written_devices
from shared.policy.kai_model import KaiPolicy
from shared.policy.model import Dialect
from shared.units.things import Things


def run_kai_sharded(
    scenario: KaiScenario, sharding: ShardedRun, *, step: Callable[[], None] = lambda: None
) -> ReplayResult:
    """Run the scenario's cluster until nothing changes any more. Raises RecordError,
    PolicyError."""
    recorded = service_recorded(scenario)
    return run_sharded(
        scenario.policy, recorded, sharding, name=scenario.id, step=step, began=scenario.now
    )


def service_recorded(scenario: KaiScenario) -> Recorded:
    """The scenario's objects, numbered as a service of its policy admits them. Raises
    RecordError."""
    devices = recorded_devices(scenario.items)
    options = (scenario.policy.kai or KaiPolicy()).options
    items = [_with_devices(item, devices) for item in scenario.items]
    return read_recorded(
        items,
        scenario.now,
        dialect=Dialect.KAI,
        flat=not options.full_hierarchy_fairness,
    )


def _with_devices(item: Json, devices: RecordedDevices) -> Mapping[str, Any]:
    """A node with its devices, a pod with those that it is on, as the service has them."""
    match item["kind"]:
        case "Pod":
            return _marked(item, ASSIGNED_DEVICES, devices.taken.get(key_of(item), ()))
        case "Node":
            return _marked(item, DEVICES, devices.offered.get(item["metadata"]["name"], ()))
        case _:
            return item


def _marked(item: Json, mark: str, things: Things) -> Mapping[str, Any]:
    if not things:
        return item
    metadata = item["metadata"]
    marks = {**(metadata.get("annotations") or {}), mark: written_devices(things)}
    return {**item, "metadata": {**metadata, "annotations": marks}}
