"""Nodes of a topology's lowest domain are in one shard, so that a gang that has to be in one is
placed on nodes of the worker's own."""

from __future__ import annotations

from coordinator.core.coordinator import Coordinator
from coordinator.dispatch.dispatcher import Dispatcher
from coordinator.intake.changes import Changes
from shared.messages.messages import Epoch
from shared.model.kai import KaiLevel, KaiTopology
from shared.model.model import Node
from tests.builders import rows
from tests.coordinator.order.helpers import order

SHARDS, RACKS, NODES = 3, 6, 24
TOPOLOGY = KaiTopology("hall", (KaiLevel("row"), KaiLevel("rack")))


def node(row: int, *, rack: int | None) -> Node:
    """Rows of two racks; one without a rack has no label of the lower level."""
    labels = {} if rack is None else {"row": str(rack // 2), "rack": str(rack)}
    return rows.node(row, labels=labels)


def started(nodes: list[Node], *, topology: KaiTopology | None) -> Coordinator:
    core = Coordinator(order(nodes=0), Dispatcher(SHARDS), mode="soft")
    core.admitted(Changes(nodes=nodes, objects=[] if topology is None else [topology]))
    settle(core)
    return core


def settle(core: Coordinator) -> None:
    """Store what is asked for; workers follow at once."""
    for now in range(100):
        partition = core.repartition(float(now))
        if partition is not None:
            core.partition_stored(f"{now + 1}-0")
        for shard in range(SHARDS):
            core.followed(shard, Epoch(1, "x"), "1000-0")
        for _ in core.step(float(now)):
            core.partition_stored(f"{now + 1}-0")


def shards_of_racks(core: Coordinator) -> list[set[int]]:
    shard_of = core.dispatcher.shard_of
    racks: list[set[int]] = [set() for _ in range(RACKS)]
    for row, each in core.nodes.items():
        if "rack" in each.labels:
            racks[int(each.labels["rack"])].add(shard_of[row])
    return racks


def test_a_rack_is_in_one_shard_and_racks_are_spread() -> None:
    nodes = [node(row, rack=row // (NODES // RACKS)) for row in range(NODES)]
    racks = shards_of_racks(started(nodes, topology=TOPOLOGY))
    assert all(len(shards) == 1 for shards in racks)
    assert sorted(shard for shards in racks for shard in shards) == [0, 0, 1, 1, 2, 2]
    apart = shards_of_racks(started(nodes, topology=None))
    assert any(len(shards) > 1 for shards in apart)


def test_racks_come_together_when_a_topology_or_another_label_comes() -> None:
    nodes = [node(row, rack=row // (NODES // RACKS)) for row in range(NODES)]
    core = started(nodes, topology=None)
    core.admitted(Changes(objects=[TOPOLOGY]))
    settle(core)
    assert all(len(shards) == 1 for shards in shards_of_racks(core))
    core.admitted(Changes(nodes=[node(0, rack=1)]))
    settle(core)
    assert all(len(shards) == 1 for shards in shards_of_racks(core))


def test_nodes_without_all_labels_are_shared_out_one_by_one() -> None:
    core = started([node(row, rack=None) for row in range(NODES)], topology=TOPOLOGY)
    owners = list(core.dispatcher.shard_of.values())
    assert [owners.count(shard) for shard in range(SHARDS)] == [NODES // SHARDS] * SHARDS
