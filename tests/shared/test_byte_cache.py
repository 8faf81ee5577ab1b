"""Caches hold no more than their bound in bytes, whatever they are asked for."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from shared.byte_cache import MIB, ByteCache, footprint
from shared.errors import InvalidInput
from shared.manifests.kubernetes.pods import read_pod
from shared.manifests.text.text import read_objects
from shared.messages.messages import TaskState
from shared.messages.reason import Reason
from shared.units.quantity import amount

LONG = 900_000
"""Bytes of the largest text that a client may put into one object."""


def _pod(number: int, **spec: Any) -> dict[str, object]:
    container = {"name": "c", "image": "i", **spec}
    labels = {f"example.com/label-{n}": f"value-{number}-{n}" for n in range(40)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number}", "namespace": "ns", "labels": labels},
        "spec": {"containers": [container]},
    }


def _read_long_pod(number: int) -> None:
    read_pod(_pod(number, args=[f"{number}" + "x" * LONG]))


def _read_labels(number: int) -> None:
    read_pod(_pod(number))


def _read_scalar(number: int) -> None:
    text = f"kind: Pod\nname: {'x' * LONG}{number}\n"
    read_objects(text.encode(), form="yaml")


def _read_quantity(number: int) -> None:
    with pytest.raises(InvalidInput):
        amount("cpu", f"{number}" + "x" * LONG, "cpu")


@pytest.mark.parametrize(
    ("read", "times", "most"),
    [
        pytest.param(_read_long_pod, 60, 20 * MIB, id="pods of a megabyte"),
        pytest.param(_read_labels, 1500, 16 * MIB, id="sets of labels", marks=pytest.mark.all),
        pytest.param(_read_scalar, 60, 8 * MIB, id="scalars of a megabyte"),
        pytest.param(_read_quantity, 60, 8 * MIB, id="quantities of a megabyte"),
    ],
)
def test_what_clients_send_leaves_no_more_than_the_bounds(
    read: Callable[[int], None], times: int, most: int
) -> None:
    read(0)
    tracemalloc.start()
    try:
        for number in range(1, times):
            read(number)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < most


def _numbered(cache: ByteCache) -> tuple[Callable[[int], str], list[int]]:
    computed: list[int] = []

    def text(number: int) -> str:
        computed.append(number)
        return "x" * 1000

    return cache.around(text, typed=False), computed


def test_a_cache_is_emptied_at_its_bound() -> None:
    cache = ByteCache(10_000)
    text, computed = _numbered(cache)
    for number in [*range(50), 49, 49]:
        assert len(text(number)) == 1000
        assert cache.figures().bytes < 10_000 + 1500
    assert computed == list(range(50))
    assert cache.figures()[2:] == (2, 50)
    text(0)
    assert computed[-1] == 0, "it had been emptied since"


def test_an_error_is_not_cached() -> None:
    def fails(number: int) -> int:
        raise ValueError(number)

    cache = ByteCache(1000)
    cached = cache.around(fails, typed=False)
    for _ in range(2):
        with pytest.raises(ValueError, match="1"):
            cached(1)
    assert cache.figures() == (0, 1000, 0, 2)


def test_footprint_counts_what_a_value_holds() -> None:
    texts = ["x" * 5000, ("y" * 5000, {"z": b"w" * 5000})]
    assert 15_000 < footprint(texts) < 16_000
    assert footprint(read_pod(_pod(1))) > footprint(read_pod(_pod(1)).labels) > 40 * 100


def test_footprint_of_an_enum_member_leaves_out_its_class() -> None:
    assert footprint((TaskState.BOUND, *Reason)) < 5000


@pytest.mark.parametrize("length", [1, LONG])
def test_equal_specs_share_a_template(length: int) -> None:
    first, second = (read_pod(_pod(7, args=["x" * length])) for _ in range(2))
    assert first.template is second.template
    assert first.template is not read_pod(_pod(7, args=["y" * length])).template
