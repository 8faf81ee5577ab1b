"""All tasks and jobs read at once are those of a snapshot, and altered ones are refused."""

from __future__ import annotations

import numpy as np
import pytest

from shared.codec.packed import replace
from shared.ledger import records
from shared.ledger.entries.intake_batch import DropJob
from shared.ledger.entries.stored import TaskRecord
from shared.ledger.errors import LedgerAltered
from shared.ledger.residents import DeviceCodes, Residents, read_tasks
from shared.messages.messages import Group, StatusItem, TaskState
from tests.shared.ledger.evicting import VICTIM, evicting, running, victims
from tests.shared.ledger.of_snapshot import residents_of
from tests.shared.ledger.support import SMALL, Desk, job, node, run, statement


def plain(residents: Residents) -> tuple[set[tuple[object, ...]], object]:
    """With the devices themselves in the place of their codes."""
    tasks = {(*task[:5], residents.devices[task[5]]) for task in residents.tasks.T.tolist()}
    return tasks, residents.jobs


async def test_residents_equal_those_of_a_snapshot(desk: Desk) -> None:
    """Also of a task that was evicted, whose record is longer, of one that is placed again, and of
    those that take devices."""
    await running(desk, Group(-1, 0))
    await desk.store(job(3, Group(-1, 0)), job(1200), node(1, things=(("gpu/0", (4, 90)),)))
    await desk.commit(statement(3, run([0, 5], [1, 1])))
    part = (("gpu/0", (1, 30)),)
    await desk.commit(statement(3, replace(run([6, 7], [1, 1], version=10**6), devices=part)))
    await desk.store(DropJob(3))
    await desk.commit(evicting(victims([0], [0])))
    ledger = desk.ledger
    report = plain(await ledger.read_residents())
    assert report == plain(residents_of(await ledger.snapshot()))
    assert (VICTIM, 0, TaskState.RELEASING, 0, 2, ()) in report[0]
    assert (3, 7, TaskState.BINDING, 1, SMALL, part) in report[0]
    await desk.record(StatusItem(TaskState.PENDING, VICTIM, [0], [0]))
    assert plain(await ledger.read_residents()) == plain(residents_of(await ledger.snapshot()))


async def test_an_empty_ledger_has_none(desk: Desk) -> None:
    residents = await desk.ledger.read_residents()
    assert residents.tasks.shape == (6, 0)
    assert residents.jobs == []


GOOD = records.pack_task(TaskRecord(TaskState.RUNNING, 70_000, 3, 9, 1), 5, 2)
PART = (("gpu/0", (1, 30)),)
SHARED = records.pack_task(TaskRecord(TaskState.RUNNING, 1, 3, 9, 0, devices=PART), 5, 4)
LONG = records.pack_task(TaskRecord(TaskState.RUNNING, 1, 3, 9, 0, 1, -1, ""), 5, 3)


def test_seals_hold_in_columns_too() -> None:
    codes = DeviceCodes()
    read = read_tasks({b"5.2": GOOD, b"5.3": LONG, b"5.4": SHARED}, codes).T.tolist()
    assert sorted(read) == [[5, 2, 3, 70_000, 3, 0], [5, 3, 3, 1, 3, 0], [5, 4, 3, 1, 3, 1]]
    assert codes[1] == PART


@pytest.mark.parametrize("at", range(len(GOOD)))
def test_a_bit_that_fell_is_noticed(at: int) -> None:
    broken = bytearray(GOOD)
    broken[at] ^= 1
    with pytest.raises(LedgerAltered):
        read_tasks({b"5.2": bytes(broken), b"5.3": LONG}, DeviceCodes())


@pytest.mark.parametrize("name", [b"5.3", b"6.2", b"5", b"5.2.1", b"x.2", b""])
def test_a_record_of_another_is_noticed(name: bytes) -> None:
    with pytest.raises(LedgerAltered):
        read_tasks({name: GOOD}, DeviceCodes())


def test_combinations_of_devices_that_nobody_has_are_forgotten() -> None:
    codes = DeviceCodes()
    named = [codes.code((("gpu/0", (1, memory)),)) for memory in range(5)]
    assert codes.code((("gpu/0", (1, 3)),)) == named[3]
    column = np.array([named[4], 0, named[1], named[4]], np.int32)
    again = codes.forget_unused(column).tolist()
    assert len(codes) == 3
    assert [codes[code] for code in again] == [
        (("gpu/0", (1, 4)),),
        (),
        (("gpu/0", (1, 1)),),
        (("gpu/0", (1, 4)),),
    ]
    assert codes.code((("gpu/0", (1, 4)),)) == again[0]
