"""A worker compares its view with the ledger's records, and takes over what is different."""

from __future__ import annotations

import random

import numpy as np
import pytest

from shard_worker.view.view import View
from shared.ledger.entries.intake_batch import Observe
from shared.ledger.memory.ledger import MemoryLedger
from tests.shared.ledger.support import CPU, Desk, cluster, job, run, statement

ROWS = [0, 1, 2, 3]


@pytest.fixture
async def desk() -> Desk:
    opened = await Desk(MemoryLedger(random.Random(1), clock=lambda: 1e9)).open()
    await opened.store(*cluster())
    await opened.store(job(7))
    await opened.commit(statement(7, run([0], [1])))
    return opened


async def viewed(desk: Desk) -> View:
    """Rows alone: what nodes are like is not compared."""
    view = View(shard=0)
    view.set_rows((await desk.ledger.snapshot()).nodes)
    return view


async def test_a_view_that_followed_the_log_is_as_the_records(desk: Desk) -> None:
    view = await viewed(desk)
    assert view.audit(await desk.ledger.read_nodes(ROWS)) == 0
    assert view.audit(await desk.ledger.read_nodes([])) == 0


@pytest.mark.parametrize("kind", range(4))
async def test_an_amount_that_is_not_the_records_is_put_right(desk: Desk, kind: int) -> None:
    view, sound = await viewed(desk), await viewed(desk)
    view.columns.views[kind][CPU][2] += 1
    assert view.audit(await desk.ledger.read_nodes(ROWS)) == 1
    for mine, theirs in zip(view.columns.views, sound.columns.views, strict=True):
        assert np.array_equal(mine[CPU], theirs[CPU])
    assert view.audit(await desk.ledger.read_nodes(ROWS)) == 0


async def test_a_row_that_the_log_never_told_of_is_found(desk: Desk) -> None:
    view = await viewed(desk)
    await desk.store(Observe(3, [(CPU, 500)]))
    assert view.audit(await desk.ledger.read_nodes(ROWS)) == 1
    assert view.column("used", CPU)[3] == 500


async def test_a_view_newer_than_a_read_row_keeps_its_own(desk: Desk) -> None:
    early = await desk.ledger.read_nodes(ROWS)
    await desk.store(Observe(3, [(CPU, 500)]))
    view = await viewed(desk)
    assert view.audit(early) == 0
    assert view.column("used", CPU)[3] == 500


async def test_a_row_may_have_slots_that_no_row_here_has_yet(desk: Desk) -> None:
    view = await viewed(desk)
    slot = view.columns.slots + 8
    await desk.store(Observe(3, [(slot, 1)]))
    assert view.audit(await desk.ledger.read_nodes(ROWS)) == 1
    assert view.column("used", slot)[3] == 1
