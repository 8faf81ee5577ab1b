"""Texts that anybody may write are read as numbers within bounds of digits, size and time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.units.bounded_numbers import finite_number, int64, whole_number

READERS: list[Callable[[str], object]] = [whole_number, int64, finite_number]
LONG = "0." + "1" * 100_000
HOSTILE = ("9" * 5000, "1e999999999", "1e-999999999", LONG, "1/3", "nan", "inf", "\u0663")


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("read", READERS)
def test_a_number_out_of_bounds_is_refused_quickly(
    read: Callable[[str], object], text: str
) -> None:
    # The quickest of three: a collection of garbage may fall into one of them.
    assert min(_seconds(read, text) for _ in range(3)) < 0.01
    number = read(text)
    assert number is None or (read is finite_number and text == "1e-999999999" and number == 0.0)


def _seconds(read: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    read(text)
    return time.thread_time() - began


@given(st.integers(0, 10**15 - 1))
def test_a_whole_number_of_fifteen_digits_is_exact(number: int) -> None:
    assert whole_number(str(number)) == number


@given(st.integers(-(2**64), 2**64))
def test_a_number_is_taken_within_64_bits(number: int) -> None:
    assert int64(str(number)) == (number if -(2**63) <= number < 2**63 else None)


def test_a_sign_is_taken_where_kubernetes_takes_it() -> None:
    assert int64("+7") == 7 and int64("-7") == -7
    assert whole_number("-7") is None


@pytest.mark.parametrize(("text", "number"), [
    ("0.5", 0.5), (".5", 0.5), ("2.", 2.0), ("5e-1", 0.5), ("+5.0E-1", 0.5), ("-0.5", -0.5),
    ("1e400", None), (".", None), ("", None), (" 0.5", None), ("0_5", None), ("0x1p-1", None),
])  # fmt: skip
def test_a_decimal_number_is_read_as_go_writes_it(text: str, number: float | None) -> None:
    assert finite_number(text) == number
