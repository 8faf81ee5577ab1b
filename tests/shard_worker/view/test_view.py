"""The view: absolute rows by version, in any order; what open statements add stays on top."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.placement.statement import ViewStatement
from shard_worker.view.columns import USED
from shard_worker.view.view import View
from shared.ledger.entries.intake_batch import DropNode, PutPartition
from shared.ledger.entries.snapshot import Nomination, Snapshot
from shared.ledger.records import pack_thing
from shared.messages.messages import ALLOCATE, Level, Rows
from shared.model.constraints import Taint
from shared.records.specs import encode_class, encode_node
from shared.units.slots import CPU, PODS
from tests.shard_worker.placement.support import cls, cpus, intake, node, put_node, record, view_of


def test_used_includes_pods_of_others() -> None:
    view = view_of([record(allocatable=cpus(8), used={CPU: 1000}, observed={CPU: 500})])
    assert view.column("used", CPU).tolist() == [1500]
    assert view.column("allocatable", CPU).tolist() == [8000]


def test_an_older_record_changes_nothing() -> None:
    view = view_of([record(version=5, allocatable=cpus(8), used={CPU: 3000})])
    view.set_rows(Rows([0], [record(version=4, allocatable=cpus(8))]))
    assert view.column("used", CPU).tolist() == [3000]
    view.set_rows(Rows([0], [record(version=6, allocatable=cpus(8))]))
    assert view.column("used", CPU).tolist() == [0]


def test_amounts_near_the_limit_are_exact() -> None:
    top = 2**53 - 1
    view = view_of([record(allocatable={0: top, 1: 1, 2: 110}, used={0: top - 1})])
    free = view.column("allocatable", 0) - view.column("used", 0)
    assert free.tolist() == [1]


PORT_80 = (("port/TCP/80", (1,)),)


def reported_thing(
    row: int, version: int, *, used: int = 0, promised: int = 0
) -> tuple[int, str, bytes]:
    return row, "port/TCP/80", pack_thing(version, [0, used, 0, 0, promised])


def fits(view: View) -> list[tuple[int, int]]:
    """(fit in the future, fit now) of each row, counted for all and one by one."""
    future, idle = view.things.counts(PORT_80, view.size)
    items = list(zip(future.tolist(), idle.tolist(), strict=True))
    assert items == [view.things.count_at(PORT_80, row) for row in range(view.size)]
    return items


def test_named_things_follow_their_records_by_version() -> None:
    view = view_of([record(allocatable=cpus(8))] * 2)
    assert fits(view) == [(1, 1), (1, 1)], "what nobody has is free, without a word of it"
    view.set_rows(Rows([], [], [reported_thing(0, 5, used=1)]))
    assert fits(view) == [(0, 0), (1, 1)]
    view.set_rows(Rows([], [], [reported_thing(0, 4), reported_thing(1, 4, promised=1)]))
    assert fits(view) == [(0, 0), (0, 1)], "what is older does not count"
    view.set_rows(Rows([], [], [reported_thing(0, 6), reported_thing(1, 6)]))
    assert fits(view) == [(1, 1), (1, 1)]
    assert not view.things.image(), "nothing is kept of what nobody has"


def test_open_statements_stay_on_top_of_the_records_of_things() -> None:
    view = view_of([record(allocatable=cpus(8))], classes={0: cls(things=PORT_80)})
    statement = ViewStatement(view)
    statement.place(cid=0, group=0, task=0, row=0, level=Level.IDLE_OWN, kind=ALLOCATE)
    assert fits(view) == [(0, 0)]
    view.set_rows(Rows([], [], [reported_thing(0, 2, used=1)]))
    assert fits(view) == [(0, 0)]
    view.set_rows(Rows([], [], [reported_thing(0, 3)]))
    assert fits(view) == [(0, 0)]
    statement.rollback()
    assert fits(view) == [(1, 1)]
    assert view.things.settled


def test_rows_beyond_the_first_allocation() -> None:
    view = view_of([record(allocatable=cpus(row + 1)) for row in range(200)], own=range(100))
    assert view.size == 200
    assert view.column("allocatable", CPU).tolist() == [1000 * (r + 1) for r in range(200)]
    assert view.own.sum() == 100
    view.set_rows(Rows([5000], [record(allocatable=cpus(2))]))
    assert view.size == 5001
    assert view.column("allocatable", CPU)[[0, 199, 200, 5000]].tolist() == [1000, 200_000, 0, 2000]


def test_labels_and_taints_are_coded_and_follow_changes() -> None:
    taint = Taint("dedicated", "x", "NoSchedule")
    nodes = [node(0, labels={"zone": "a"}), node(1, taints=(taint,)), node(2, labels={"zone": "b"})]
    view = view_of([record(allocatable=cpus(8))] * 3, nodes=nodes)
    zone = view.label("zone")
    assert [None if c < 0 else zone.values[c] for c in zone.codes] == ["a", None, "b"]
    taints = view.taints()
    assert [taints.values[c] for c in taints.codes] == [(), (taint,), ()]
    assert view.unschedulable().tolist() == [False, False, False]
    moved = node(1, spec=2, labels={"zone": "a"}, unschedulable=True)
    view.apply([intake([put_node(moved), DropNode(row=2)])])
    zone, taints = view.label("zone"), view.taints()
    assert [None if c < 0 else zone.values[c] for c in zone.codes] == ["a", "a", None]
    assert taints.codes.tolist()[1:] == [taints.values.index(()), -1]
    assert view.unschedulable().tolist() == [False, True, False]


def test_a_row_is_not_live_until_its_specification_has_arrived() -> None:
    view = view_of([record(allocatable=cpus(8))] * 2)
    assert view.live().tolist() == [True, True]
    view.set_rows(Rows([1], [record(version=2, spec=2, allocatable=cpus(8))]))
    assert view.live().tolist() == [True, False]
    view.apply([intake([put_node(node(1, spec=2))])])
    assert view.live().tolist() == [True, True]
    view.apply([intake([DropNode(row=0)])])
    assert view.live().tolist() == [False, True]
    assert view.exists().tolist() == [False, True]


def test_the_newest_partition_counts() -> None:
    view = view_of([record(allocatable=cpus(8))] * 4, own=[0, 1])
    view.apply([intake([PutPartition(revision=3, shards={0: [2], 1: [0, 1, 3]})])])
    view.apply([intake([PutPartition(revision=2, shards={0: [3], 1: []})])])
    assert np.flatnonzero(view.own).tolist() == [2]


def test_load_equals_applying_the_log() -> None:
    listed = [node(0, labels={"zone": "a"}), node(1)]
    records = [record(allocatable=cpus(8), used={CPU: 1000, PODS: 1}), record(allocatable=cpus(4))]
    view = View(shard=1)
    nomination = Nomination(jid=3, priority=1, since=0.0, expiry=9.0, runs=[])
    view.load(
        Snapshot(
            log_id="0",
            nodes=Rows([0, 1], records),
            node_specs={n.row: encode_node(n) for n in listed},
            classes={0: encode_class(cls())},
            nominations={3: nomination},
            partition=PutPartition(revision=1, shards={1: [1]}),
        )
    )
    other = view_of(records, nodes=listed)
    assert view.columns.image() == other.columns.image()
    assert view.nodes == other.nodes
    assert view.classes == other.classes
    assert view.own.tolist() == [False, True]
    assert view.nominations == {3: nomination}


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 12))
def test_order_and_repetition_of_rows_do_not_matter(seed: int, rows: int, count: int) -> None:
    draw = random.Random(seed)
    history = []
    for row in range(rows):
        for version in range(1, count + 1):
            slots = draw.randint(3, 5)
            amounts = {s: draw.randint(0, 2**53 - 1) for s in range(slots)}
            used = {s: draw.randint(0, 9) for s in range(slots)}
            history.append((row, record(version=version, allocatable=amounts, used=used)))
    straight, mixed = View(shard=0), View(shard=0)
    for row, packed in history:
        straight.set_rows(Rows([row], [packed]))
    shuffled = history + draw.sample(history, len(history) // 2)
    draw.shuffle(shuffled)
    while shuffled:
        part = dict(shuffled[: draw.randint(1, 4)])
        for row, packed in part.items():
            shuffled.remove((row, packed))
        mixed.set_rows(Rows(list(part), list(part.values())))
    slots = max(straight.columns.slots, mixed.columns.slots)
    straight.columns.grow(slots=slots)
    mixed.columns.grow(slots=slots)
    assert mixed.columns.image() == straight.columns.image()
    assert mixed.version.tolist() == straight.version.tolist()


def test_changes_of_an_open_statement_stay_on_top_of_fresh_rows() -> None:
    view = view_of([record(allocatable=cpus(8))])
    view.shift(USED, cls(1), 0, 1)
    view.set_rows(Rows([0], [record(version=2, allocatable=cpus(8), used={CPU: 2000})]))
    assert view.column("used", CPU).tolist() == [3000]
    assert not view.columns.settled
    view.shift(USED, cls(1), 0, -1)
    assert view.column("used", CPU).tolist() == [2000]
    assert view.columns.settled
