"""Packed records: what is packed comes back, and a matrix of nodes holds every record."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.ledger import records
from shared.ledger.entries.stored import JobRecord, TaskRecord, ThingAsk
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
    capability = [-1 if limit is None else limit for limit in limits][: len(used)]
    record = records.unpack_queue(records.pack_queue(3, used, capability))
    assert record.parent == 3
    assert record.used == {slot: amount for slot, amount in enumerate(used) if amount}
    assert record.capability == {s: limit for s, limit in enumerate(capability) if limit != -1}


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
