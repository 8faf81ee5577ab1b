"""Shares of GPUs: what pods ask for, and the choice of devices against a naive model."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shard_worker.dialects.kai.rules.devices import DeviceRoom, choose
from shared.model.gpu_request import WHOLE, GpuRequest, gpu_request

STEP = WHOLE // 1000


@pytest.mark.parametrize(
    ("annotations", "whole", "request_"),
    [
        ({}, 0, None),
        ({}, 2, GpuRequest(2, part=1000)),
        ({"gpu-fraction": "0.5"}, 0, GpuRequest(1, part=500, portion=0.5)),
        ({"gpu-fraction": "0.333"}, 0, GpuRequest(1, part=330, portion=0.333)),
        ({"gpu-fraction": "0.125"}, 0, GpuRequest(1, part=130, portion=0.125)),
        (
            {"gpu-fraction": "0.2", "gpu-fraction-num-devices": "3"},
            0,
            GpuRequest(3, part=200, portion=0.2),
        ),
        ({"gpu-memory": "4000"}, 0, GpuRequest(1, memory=4000)),
        ({"gpu-fraction": "half"}, 0, None),
    ],
)
def test_gpu_request_is_read_from_annotations(
    annotations: Mapping[str, str], whole: int, request_: GpuRequest | None
) -> None:
    assert gpu_request(annotations, whole) == request_


@pytest.mark.parametrize(("memory", "charge"), [(50, 1000), (100, 500), (150, 340), (999, 60)])
def test_memory_is_charged_as_a_share_rounded_up_to_a_hundredth(memory: int, charge: int) -> None:
    """50 MiB of devices of so much."""
    assert GpuRequest(1, memory=50).charge_of(memory) == charge


@pytest.mark.parametrize(
    ("portion", "memory", "mebibytes", "judged"),
    [(0.334, 81500, 27221, 340), (0.29, 100, 28, 280), (0.5, 81500, 40750, 500)],
)
def test_a_share_is_so_many_mebibytes_of_its_device(
    portion: float, memory: int, mebibytes: int, judged: int
) -> None:
    """KAI's own floating point: 0.29 of 100 is 28."""
    request = GpuRequest(1, part=round(portion * 100) * 10, portion=portion)
    assert request.mebibytes(memory) == mebibytes
    assert request.judged_at(memory) == judged


@given(
    st.lists(st.integers(1, 40_000), min_size=1, max_size=12),
    st.integers(1, 10_000).map(lambda hundreds: 100 * hundreds),
)
def test_parts_fit_a_device_exactly_where_their_mebibytes_do(
    shares: list[int], memory: int
) -> None:
    parts = sum(GpuRequest(1, memory=share).parts_of(memory) for share in shares)
    assert (parts <= WHOLE) == (sum(shares) <= memory)


def test_three_thirds_of_a_device_fill_it() -> None:
    request = GpuRequest(1, memory=27_000)
    assert 3 * request.parts_of(81_000) <= WHOLE < 4 * request.parts_of(81_000)


def test_first_of_two_pipelined_gpu_shares_starts_on_an_unused_device() -> None:
    """Nobody is on it. Without a promise of its own a task waits for those that have one."""
    other_has_600 = [room(1000, 400)]
    assert choose(other_has_600, 300 * STEP, 1, packed) == ((0,), False)
    assert choose(other_has_600, 300 * STEP, 1, packed, promised=True) == ((0,), True)
    assert choose(other_has_600, 500 * STEP, 1, packed, promised=True) is None, (
        "the other keeps its part"
    )
    somebody_leaves = [room(200, 400)]
    assert choose(somebody_leaves, 300 * STEP, 1, packed, promised=True) == ((0,), False)


def room(idle: int, future: int) -> DeviceRoom:
    """Build the room of a device; amounts in thousandths."""
    return DeviceRoom(idle * STEP, future * STEP)


def packed(used: int | None) -> float:
    return (used or 0) / WHOLE


def spread(used: int | None) -> float:
    return 1 - (used or 0) / WHOLE


IDLE = room(1000, 1000)
HALF = room(500, 500)
FULLER = room(300, 300)
LEAVING = room(0, 1000)
PROMISED = room(1000, 400)


@pytest.mark.parametrize(
    ("rooms", "part", "number", "score", "choice"),
    [
        ([IDLE, HALF, FULLER], 300, 1, packed, ((2,), True)),
        ([IDLE, HALF, FULLER], 400, 1, packed, ((1,), True)),
        ([IDLE, HALF, FULLER], 300, 1, spread, ((0,), True)),
        ([IDLE, HALF, FULLER], 600, 1, packed, ((0,), True)),
        ([IDLE, HALF, FULLER], 300, 2, packed, ((1, 2), True)),
        ([IDLE, HALF, FULLER], 600, 2, packed, None),
        ([HALF, FULLER], 1000, 1, packed, None),
        ([LEAVING, IDLE], 1000, 1, packed, ((1,), True)),
        ([LEAVING, IDLE], 1000, 2, packed, ((0, 1), False)),
        ([LEAVING], 300, 1, packed, ((0,), False)),
        ([PROMISED, IDLE], 300, 1, packed, ((0,), False)),
        ([PROMISED, IDLE], 500, 1, packed, ((1,), True)),
    ],
)
def test_the_choice(
    rooms: list[DeviceRoom],
    part: int,
    number: int,
    score: object,
    choice: tuple[tuple[int, ...], bool] | None,
) -> None:
    assert choose(rooms, part * STEP, number, score) == choice  # type: ignore[arg-type]


# --- against a naive model ------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["come", "leave", "gone"]),
        st.sampled_from([part * STEP for part in (100, 300, 500, 700, 1000)]),
        st.integers(1, 3),
        st.integers(0, 30),
    ),
    max_size=25,
)


@given(devices=st.integers(0, 4), steps=STEPS, pack=st.booleans())
def test_no_device_ever_has_more_than_it_is(
    devices: int, steps: list[tuple[str, int, int, int]], pack: bool
) -> None:
    """The model keeps who is on each device: running, leaving or promised."""
    tasks: list[tuple[str, int, tuple[int, ...]]] = []

    def left_of(at: int) -> DeviceRoom:
        on = [(state, part) for state, part, devices in tasks if at in devices]
        idle = WHOLE - sum(part for state, part in on if state != "promised")
        future = WHOLE - sum(part for state, part in on if state != "leaving")
        return DeviceRoom(idle, future)

    for step, part, number, which in steps:
        if step == "come":
            rooms = [left_of(at) for at in range(devices)]
            choice = choose(rooms, part, number, packed if pack else spread)
            fitting = [at for at, left in enumerate(rooms) if left.future >= part]
            assert (choice is None) == (len(fitting) < number)
            if choice is not None:
                assert len(set(choice.devices)) == number
                assert set(choice.devices) <= set(fitting)
                if choice.now:
                    assert all(rooms[at].idle >= part for at in choice.devices)
                tasks.append(("running" if choice.now else "promised", part, choice.devices))
        elif tasks:
            state, had, chosen = tasks.pop(which % len(tasks))
            if step == "leave" and state == "running":
                tasks.append(("leaving", had, chosen))
        for at in range(devices):
            left = left_of(at)
            assert left.idle >= 0
            assert left.future >= 0
