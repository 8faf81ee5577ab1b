"""Metrics of KAI's tree of queues, and the mapping of KAI's names to ours."""

from __future__ import annotations

from coordinator.service.metrics.exporter import CoordinatorMetrics
from coordinator.service.metrics.kai_names import KAI_METRICS
from coordinator.service.metrics.probes import Probes
from coordinator.service.metrics.table import TABLE, reference
from shared.slices import at_once
from tests.builders.objects import kai_group, kai_queue, node
from tests.coordinator.objects.test_kai import GPUS, KAI, limited, member
from tests.coordinator.objects.world import World
from tests.coordinator.service.metrics.scrape import read


def test_a_queue_shows_its_shares_with_those_below_it() -> None:
    world = World(policy=KAI)
    world.put(
        node("n0") | GPUS,
        kai_queue("all", gpu=limited(3)),
        kai_queue("red", "all", gpu=limited(-1)),
        kai_group("g", "red", minMember=2),
        *(member(f"g{i}", "g") for i in range(2)),
    )
    world.place()
    registry = CoordinatorMetrics(world.core, Probes(), lambda: world.intake.registry.slots.names)
    series = read(at_once(registry.text()).decode())

    def figure(queue: str, kind: str, resource: str = "nvidia.com/gpu") -> float | None:
        labels = {"queue": queue, "resource": resource, "kind": kind}
        return series.get(("queue_tree_resource", frozenset(labels.items())))

    assert [figure("all", kind) for kind in ("allocated", "requested", "quota", "limit")] == [
        2,
        2,
        1,
        3,
    ]
    assert figure("red", "fair_share") == 2
    assert figure("red", "limit") is None
    assert figure("red", "non_preemptible") == 0
    assert figure("all", "allocated", "cpu") == 2


def test_each_of_kais_metrics_is_one_of_ours_or_said_to_be_none() -> None:
    page = reference()
    assert len({name for name, _, _ in KAI_METRICS}) == len(KAI_METRICS)
    for name, ours, remark in KAI_METRICS:
        assert (ours in TABLE) if ours else remark, name
        assert f"| `{name}` |" in page


def test_under_volcanos_policy_there_is_no_tree() -> None:
    world = World()
    world.put(node("n0"))
    registry = CoordinatorMetrics(world.core, Probes(), lambda: world.intake.registry.slots.names)
    assert "queue_tree_resource{" not in at_once(registry.text()).decode()
