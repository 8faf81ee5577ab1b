"""Packed records: what is packed comes back, and a matrix of nodes holds every record."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.ledger import records
from shared.ledger.entries.stored import JobRecord, QueueRecord, TaskRecord, ThingAsk
from shared.messages.messages import Group

amounts = st.integers(-1, 2**53 - 1)
slots = st.lists(st.lists(amounts, min_size=5, max_size=5), max_size=6)


@given(version=amounts, spec=amounts, values=slots)
def test_nodes_come_back(version: int, spec: int, values: list[list[int]]) -> None:
    flat = [amount for slot in values for amount in slot]
    packed = records.pack_node(version, spec, flat)
    assert records.unpack_node(packed) == (version, spec, flat)
    assert struct.unpack_from("<ddd", packed) == (version, spec, len(values))


@given(st.lists(slots, max_size=8))
def test_a_matrix_fills_shorter_records_with_zeros(nodes: list[list[list[int]]]) -> None:
    flat = [[amount for slot in node for amount in slot] for node in nodes]
    matrix = records.unpack_nodes([records.pack_node(7, 8, values) for values in flat])
    assert matrix.dtype == np.int64
    for line, values in zip(matrix.tolist(), flat, strict=True):
        assert line[:3] == [7, 8, len(values) // 5]
        assert line[3 : 3 + len(values)] == values
        assert not any(line[3 + len(values) :])


@given(
    used=st.lists(st.integers(0, 10**24), max_size=5),
    limits=st.lists(st.none() | st.integers(0, 10**24), min_size=5, max_size=5),
)
def test_queue_totals_come_back_exactly(used: list[int], limits: list[int | None]) -> None:
    capability = {slot: limit for slot, limit in enumerate(limits) if limit is not None}
    queue = QueueRecord(3, {slot: amount for slot, amount in enumerate(used) if amount}, capability)
    assert records.unpack_queue(records.pack_queue(queue)) == queue


def test_tasks_jobs_and_classes_come_back() -> None:
    task = TaskRecord(state=4, row=2**32 - 1, cid=9, version=3, group=65535)
    assert records.unpack_task(records.pack_task(task, 5, 6), 5, 6) == task
    job = JobRecord(5, -1, True, [Group(-1, 3, 2), Group(0, 1, 1)], top=12)
    assert records.unpack_job(records.pack_job(job)) == job
    requests = [(0, 2**53 - 1, 0), (7, 1, 1)]
    packed = records.pack_class(requests, b"\xff\x00spec")
    assert records.unpack_class(packed) == (requests, b"\xff\x00spec", [])
    things = [ThingAsk("port/TCP/80", (1,), (1,)), ThingAsk("gpu/0", (2**53 - 1, 0), (5, 6))]
    packed = records.pack_class(requests, b"\xff\x00spec", things)
    assert records.unpack_class(packed) == (requests, b"\xff\x00spec", things)
    assert records.unpack_count(records.pack_count(-4)) == -4


DEVICES = (("kai-gpu/3", (500,)),)
LEFT = TaskRecord(4, 9, 4, 3, 1, incarnation=2, by=17, why="reclaim", devices=DEVICES)
ASKS = [ThingAsk("port/TCP/80", (1,), (1,))]
STORED = {
    "node": (
        records.pack_node(7, 2, [8000, 1000, 0, 500, 4000]),
        "0000000000001c400000000000000040000000000000f03f000000000040bf400000000000408f4000000000"
        "000000000000000000407f40000000000040af406133346631343339",
    ),
    "thing": (
        records.pack_thing(3, [1000, 500, 0, 0, 500]),
        "0000000000000840000000000000f03f0000000000408f400000000000407f40000000000000000000000000"
        "000000000000000000407f406239666566343638",
    ),
    "task": (
        records.pack_task(TaskRecord(2, 9, 4, 3, 1), 5, 6),
        "02090000000400000003000000010004021e00",
    ),
    "evicted task": (
        records.pack_task(LEFT, 5, 6),
        "0409000000040000000300000001000602200002000000110000007265636c61696d009192a96b61692d6770"
        "752f3391cd01f46231333633646635",
    ),
    "job": (
        records.pack_job(JobRecord(5, 2, False, [Group(-1, 3, 2), Group(0, 1, 1)], top=12)),
        "0000000000001440000000000000004000000000000000000000000000000040000000000000f0bf00000000"
        "0000084000000000000000400000000000000000000000000000f03f000000000000f03f0000000000002840"
        "3236346463643137",
    ),
    "class": (
        records.pack_class([(0, 1000, 0), (4, 500, 2**46)], b"spec", ASKS),
        "0200010000000000000000000000000000408f40000000000000000000000000000010400000000000407f40"
        "000000000000d042706f72742f5443502f38300001000000000000f03f000000000000f03f73706563313863"
        "6435353539",
    ),
}


@pytest.mark.parametrize("name", STORED)
def test_packed_records_keep_their_stored_bytes(name: str) -> None:
    """Where this fails, the scripts and ledgers that are there have another form: it is another
    schema, which has to be taken up (``tests/shared/ledger/migration``)."""
    packed, written = STORED[name]
    assert packed.hex() == written
