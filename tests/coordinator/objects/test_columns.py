"""Tables as kubectl prints them, amounts and times in words."""

from __future__ import annotations

import pytest

from coordinator.intake.documents.kinds import KINDS
from coordinator.objects.cluster import exact
from coordinator.objects.columns import COLUMNS
from shared.messages.messages import TaskState
from shared.units.quantity import amount
from shared.units.times import moment, rfc3339, span
from tests.builders.objects import job, node, pod, pod_group, priority_class, queue, task
from tests.coordinator.objects.world import KIND, World, placed


def rows(world: World, kind: str, *, wide: bool = False) -> list[dict[str, object]]:
    page = world.objects.list(KIND[kind], namespace=None, limit=None)
    table = world.objects.table(KIND[kind], list(page.items))
    columns = [c["name"] for c in table["columnDefinitions"] if wide or not c["priority"]]
    return [dict(zip(columns, row["cells"], strict=False)) for row in table["rows"]]


def test_every_kind_has_columns_and_every_column_a_description() -> None:
    assert COLUMNS.keys() == {kind.kind for kind in KINDS}
    for columns in COLUMNS.values():
        order = [column.wide for column in columns]
        assert order == sorted(order)  # those of -o wide stand last
        assert all(column.description.endswith(".") for column in columns)


def test_pods_of_a_job_in_a_table() -> None:
    world = World()
    world.put(node("n0"), queue("q"), job("j", tasks=[task("w", replicas=3)], queue="q"))
    (turn,) = world.place()
    world.record(TaskState.BOUND, turn.jid, [0, 1])
    world.record(TaskState.RUNNING, turn.jid, [1])
    world.record(TaskState.FAILED, turn.jid, [2])
    world.now += 252
    table = [(r["Name"], r["Ready"], r["Status"], r["Age"]) for r in rows(world, "Pod")]
    assert table == [
        ("j-w-0", "0/1", "ContainerCreating", "4m12s"),
        ("j-w-1", "1/1", "Running", "4m12s"),
        ("j-w-2", "0/1", "Failed", "4m12s"),
    ]
    wide = rows(world, "Pod", wide=True)[1]
    assert (wide["Node"], wide["Queue"], wide["Shard"], wide["Reason"]) == (
        "n0",
        "q",
        "shard-0",
        "<none>",
    )
    world.record(TaskState.RELEASING, turn.jid, [1])
    assert rows(world, "Pod")[1]["Status"] == "Terminating"


def test_gangs_queues_nodes_and_shards_in_tables() -> None:
    world = World()
    world.put(
        node("n0", unschedulable=True), node("n1"), queue("q", weight=3), queue("r", parent="q")
    )
    world.put(pod_group("g", minMember=2, queue="q"), pod("a", group="g"), pod("b", group="g"))
    world.put(priority_class("high", value=7))
    (group,) = rows(world, "PodGroup", wide=True)
    assert [group[n] for n in ("Status", "minMember", "Runnings", "Queue", "Reason")] == [
        "Inqueue",
        2,
        0,
        "q",
        "PendingEvaluation",
    ]
    turns = world.answer(lambda turn: placed(turn, 1))
    world.record(TaskState.RUNNING, turns[0].jid, [0, 1], row=1)
    (group,) = rows(world, "PodGroup")
    assert (group["Status"], group["Runnings"]) == ("Running", 2)
    first, second = rows(world, "Node")
    assert first["Status"] == "Ready,SchedulingDisabled"
    assert (second["CPU"], second["Memory"], second["GPU"]) == ("2/8", "2Gi/32Gi", "<none>")
    queues = {row["Name"]: row for row in rows(world, "Queue")}
    assert queues["q"]["Weight"] == 3
    assert queues["q"]["Running"] == 1
    assert queues["r"]["Parent"] == "q"
    (shard,) = rows(world, "Shard")
    assert (shard["Status"], shard["Nodes"]) == ("Up", 2)
    (event, *_) = rows(world, "Event")
    assert event["Object"] == "podgroup/g"
    assert rows(world, "PriorityClass")[0]["Value"] == 7


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (252, "4m12s"),
        (600, "10m"),
        (10_740, "179m"),
        (11_000, "3h3m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (51 * 3600, "2d3h"),
        (8 * 86400, "8d"),
        (3 * 365 * 86400 + 35 * 86400, "3y35d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_ages_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_times_come_back() -> None:
    assert rfc3339(1_770_000_000.9) == "2026-02-02T02:40:00Z"
    assert moment(rfc3339(1_770_000_000.9)) == 1_770_000_000


@pytest.mark.parametrize("resource", ["cpu", "memory", "nvidia.com/gpu", "pods", "hugepages-2Mi"])
@pytest.mark.parametrize("units", [0, 1, 999, 1000, 1024, 1536, 64 << 30, 2**53 - 1])
def test_quantities_are_exact(resource: str, units: int) -> None:
    assert amount(resource, exact(resource, units), "field") == units
