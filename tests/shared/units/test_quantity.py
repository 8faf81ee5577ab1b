"""Quantities: Kubernetes' own examples, exactness, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidInput
from shared.units.quantity import amount
from shared.units.slots import LIMIT

SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{s: Fraction(1000) ** i for i, s in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{f"{s}i": Fraction(1024) ** i for i, s in enumerate("KMGTPE", start=1)},
}


@pytest.mark.parametrize(
    ("resource", "text", "units"),
    [
        ("cpu", "100m", 100),
        ("cpu", "0.1", 100),
        ("cpu", "1.5", 1500),
        ("cpu", ".5", 500),
        ("cpu", "2.", 2000),
        ("cpu", "0.0001", 1),
        ("cpu", "1n", 1),
        ("cpu", "+1", 1000),
        ("cpu", "-0", 0),
        ("cpu", 2, 2000),
        ("cpu", 0.5, 500),
        ("memory", "128974848", 128974848),
        ("memory", "129e6", 129000000),
        ("memory", "129M", 129000000),
        ("memory", "128974848000m", 128974848),
        ("memory", "123Mi", 128974848),
        ("memory", "1E3", 1000),
        ("memory", "1k", 1000),
        ("memory", "20G", 20 * 10**9),
        ("memory", "400m", 1),
        ("memory", "0Gi", 0),
        ("memory", "1e-400", 1),
        ("ephemeral-storage", "1Ki", 1024),
        ("hugepages-2Mi", "4Mi", 4 << 20),
        ("pods", "110", 110),
        ("nvidia.com/gpu", "1", 1000),
        ("nvidia.com/gpu", 8, 8000),
    ],
)
def test_examples(resource: str, text: str | float, units: int) -> None:
    assert amount(resource, text, "f") == units


@given(
    st.integers(0, 10**15),
    st.integers(0, 10**12),
    st.integers(0, 12),
    st.sampled_from(sorted(SUFFIXES)),
    st.sampled_from(["cpu", "memory", "example.com/thing"]),
)
def test_exact_and_rounded_up(
    whole: int, part: int, digits: int, suffix: str, resource: str
) -> None:
    fraction = f".{part % 10**digits:0{digits}d}" if digits else ""
    number = Fraction(whole) + (Fraction(part % 10**digits, 10**digits) if digits else 0)
    expected = math.ceil(number * SUFFIXES[suffix] * (1 if resource == "memory" else 1000))
    text = f"{whole}{fraction}{suffix}"
    if expected >= LIMIT:
        with pytest.raises(InvalidInput, match="too large"):
            amount(resource, text, "f")
    else:
        assert amount(resource, text, "f") == expected


@given(st.floats(0, 1e9, allow_nan=False))
def test_numbers_of_json(value: float) -> None:
    assert amount("memory", value, "f") == math.ceil(value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        " 1",
        "1 ",
        "1\n",
        "1gi",
        "1K",
        "1Mi5",
        "0x10",
        "1_000",
        "NaN",
        "Infinity",
        "1e",
        "1e5k",
        "1e99999",
        "٣",
        "1" * 65,
        True,
        None,
        [],
        {},
        float("inf"),
    ],
)
def test_malformed(value: object) -> None:
    with pytest.raises(InvalidInput, match="not a quantity; write a number") as error:
        amount("cpu", value, "spec.x")
    assert error.value.field == "spec.x"


@pytest.mark.parametrize("value", ["-1", "-1n", -1, -0.5, "-1e400"])
def test_negative(value: str | float) -> None:
    with pytest.raises(InvalidInput, match="negative"):
        amount("cpu", value, "f")


@pytest.mark.parametrize(
    ("resource", "value"),
    [
        ("memory", str(LIMIT)),
        ("memory", "8Pi"),
        ("cpu", "1e13"),
        ("cpu", "1e9999"),
        ("cpu", 10**30),
    ],
)
def test_too_large(resource: str, value: str | int) -> None:
    with pytest.raises(InvalidInput, match="too large; stay below"):
        amount(resource, value, "f")


def test_the_largest() -> None:
    assert amount("memory", str(LIMIT - 1), "f") == LIMIT - 1
