"""The pick: block maxima equal a plain search, classes that catch up equal classes made anew."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shard_worker.dialects.open_session import open_session
from shard_worker.framework.session import Session
from shard_worker.placement.block_maxima import (
    NOISE_BITS,
    NOISE_UNIT,
    UNPICKABLE,
    BlockMaxima,
    noise,
)
from shard_worker.placement.gradient import pick
from shard_worker.placement.statement import ViewStatement
from shard_worker.placement.task_class import Compiled
from shard_worker.view.mode import Mode
from shard_worker.view.view import View
from shared.messages.messages import ALLOCATE, NOMINATE, Level, Rows
from shared.model.constraints import Taint
from shared.model.model import TaskClass
from shared.policy.volcano import DEFAULT_POLICY
from shared.units.slots import CPU, MEMORY, PODS
from tests.examples import examples
from tests.shard_worker.placement.support import (
    classes_of,
    cls,
    cpus,
    intake,
    node,
    put_node,
    record,
    session_of,
    view_of,
)


@given(st.integers(0, 2**32), st.integers(1, 3000))
@settings(max_examples=examples(40))
def test_block_maxima_equal_a_plain_search(seed: int, size: int) -> None:
    draw = np.random.default_rng(seed)
    keys = draw.integers(0, 5, size).astype(np.float64)
    keys[draw.random(size) < 0.3] = UNPICKABLE
    blocks = BlockMaxima(keys)
    for _ in range(20):
        if draw.random() < 0.5:
            row, key = int(draw.integers(size)), float(draw.integers(-5, 9))
            keys[row] = key
            blocks.set(row, key)
        else:
            rows = np.unique(draw.integers(0, size, 8))
            keys[rows] = draw.choice([UNPICKABLE, 1.0, 7.0], len(rows))
            blocks.set_many(rows, keys[rows])
        assert blocks.top() == (int(keys.argmax()), keys.max())


def test_noise_stays_far_below_a_score_unit_and_differs_by_seed() -> None:
    one, other = noise(1, 10_000), noise(2, 10_000)
    assert one.max() < 2**NOISE_BITS * NOISE_UNIT <= 2**-20
    assert len(np.unique(one)) / 2**NOISE_BITS > 0.9
    assert (one != other).mean() > 0.99
    assert (noise(1, 20_000)[:10_000] == one).all()


SPECS = {
    0: cls(1),
    1: TaskClass(requests=((CPU, 500), (MEMORY, 3 * 2**30), (PODS, 1))),
    2: cls(3, selector=(("zone", "a"),)),
}


def random_view(draw: random.Random, rows: int) -> View:
    taint = Taint("keep", "out", "NoSchedule")
    nodes, records = [], []
    for row in range(rows):
        zone = draw.choice(["a", "b"])
        taints = (taint,) if draw.random() < 0.2 else ()
        nodes.append(node(row, labels={"zone": zone}, taints=taints))
        records.append(random_record(draw, 1))
    own = [row for row in range(rows) if draw.random() < 0.4]
    return view_of(records, own=own, classes=SPECS, nodes=nodes)


def random_record(draw: random.Random, version: int) -> bytes:
    cores = draw.choice([2, 4, 8])
    used = draw.randint(0, cores) * 1000
    return record(
        version=version,
        allocatable=cpus(cores),
        used={CPU: used, MEMORY: used * 2**21, PODS: used // 500},
        releasing={CPU: draw.choice([0, used]), PODS: 0},
        nominated={CPU: draw.choice([0, 0, 1000])},
    )


def search(
    compiled: Compiled, view: View, session: Session, mode: Mode, seed: int
) -> tuple[int, Level] | None:
    """The pick by plain arithmetic over every row."""
    spec = compiled.spec
    ties = noise(seed, view.size)
    score = session.score(spec, view, slice(None))
    best: dict[Level, tuple[float, int]] = {}
    passed = np.logical_and.reduce([view.live(), *(m for _, m in session.predicates(spec, view))])
    for row in range(view.size):
        own = mode is not Mode.SOFT or bool(view.own[row])
        if not passed[row] or (mode is Mode.HARD and not view.own[row]):
            continue
        free, ahead = [], []
        for slot, amount in spec.requests:
            a, u, r, n = (
                int(view.column(k, slot)[row])
                for k in ("allocatable", "used", "releasing", "nominated")
            )
            free.append(a - u >= amount)
            ahead.append(a - u + r - n >= amount)
        if not all(ahead):
            continue
        idle = all(free)
        level = Level(1 + (not own) + 2 * (not idle))
        key = score[row] + ties[row]
        if level not in best or key > best[level][0]:
            best[level] = (key, row)
    if not best:
        return None
    first = min(best)
    return best[first][1], first


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("default", [True, False])
def test_pick_equals_a_plain_search_while_everything_moves(mode: Mode, default: bool) -> None:
    for seed in range(12):
        draw = random.Random(seed)
        view = random_view(draw, draw.choice([1, 7, 40, 90]))
        session = open_session(DEFAULT_POLICY) if default else session_of()
        classes = classes_of(view, session, mode=mode, seed=seed)
        statement = ViewStatement(view)
        for step in range(30):
            cid = draw.randrange(3)
            compiled = classes.get(cid)
            result = pick(compiled)
            assert result == search(compiled, view, session, mode, seed)
            if result is not None:
                row, level = result
                kind = ALLOCATE if level <= Level.IDLE_OTHER else NOMINATE
                statement.place(cid=cid, group=0, task=step, row=row, level=level, kind=kind)
            what = draw.random()
            if what < 0.2:
                rows = draw.sample(range(view.size), min(view.size, 9))
                fresh = [random_record(draw, step + 2) for _ in rows]
                view.set_rows(Rows(rows, fresh))
            elif what < 0.25:
                statement.rollback(statement.checkpoint // 2)
            elif what < 0.3:
                moved = node(draw.randrange(view.size), unschedulable=True, labels={"zone": "a"})
                view.apply([intake([put_node(moved)])])


def test_room_counts_every_task_that_fits() -> None:
    view = view_of([record(allocatable=cpus(4), used={CPU: u}) for u in (0, 1000, 3500, 5000)])
    classes = classes_of(view, session_of())
    assert classes.get(0).room == 4 + 3 + 0 + 0
    view.set_rows(Rows([3], [record(version=2, allocatable=cpus(4))]))
    assert classes.get(0).room == 11


def test_reasons_count_every_node_once() -> None:
    taint = Taint("keep", "out", "NoSchedule")
    nodes = [
        node(0),
        node(1, unschedulable=True),
        node(2, taints=(taint,), unschedulable=True),
        node(3, taints=(taint,)),
        node(4),
        node(5),
    ]
    full = record(allocatable=cpus(4), used={CPU: 4000, PODS: 110})
    no_pods = record(allocatable=cpus(4), used={PODS: 110})
    view = view_of([full, full, full, full, no_pods, full], own=[0, 1, 2, 3, 4], nodes=nodes)
    session = open_session(DEFAULT_POLICY)
    assert classes_of(view, session, mode=Mode.SOFT).get(0).reasons() == {
        "node(s) were unschedulable": 2,
        "node(s) had untolerated taints": 1,
        "Insufficient cpu": 2,
        "Insufficient pods": 1,
    }
    hard = classes_of(view, session, mode=Mode.HARD).get(0).reasons()
    assert hard["node isn't in scheduler node shard"] == 1
    assert sum(hard.values()) == 6


def test_seeds_spread_workers_over_equal_nodes() -> None:
    view = view_of([record(allocatable=cpus(8))] * 400)
    rows = {pick(classes_of(view, session_of(), seed=seed).get(0)) for seed in range(20)}
    assert len(rows) > 15


def test_forgotten_classes_are_made_anew() -> None:
    specs = {cid: cls(1 + cid) for cid in range(6)}
    view = view_of([record(allocatable=cpus(8))] * 3, classes=specs)
    classes = classes_of(view, session_of())
    classes._limit = 2
    for cid in (0, 1, 2, 3, 0, 5, 0):
        assert classes.get(cid).spec == specs[cid]
    assert len(classes._kept) == 2


def test_a_change_log_that_was_cut_means_starting_over() -> None:
    view = view_of([record(allocatable=cpus(8))] * 4)
    classes = classes_of(view, session_of())
    assert pick(classes.get(0)) is not None
    view.changes._limit = 10
    for version in range(2, 40):
        row = version % 4
        view.set_rows(Rows([row], [record(version=version, allocatable=cpus(8), used={CPU: 8000})]))
    assert view.changes.since(0) is None
    assert pick(classes.get(0)) is None
