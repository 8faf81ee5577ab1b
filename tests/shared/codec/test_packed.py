"""Packed classes: arrays of their fields, read as strictly as their types say."""

from __future__ import annotations

from dataclasses import dataclass

import msgpack
import msgspec
import pytest

from shared.codec.checked import LARGEST, SEAL, Malformed, seal
from shared.codec.packed import Codec, Count, Finite, Index, Packed, replace
from tests.security.sealed import pack_sealed


class Leaf(Packed, frozen=True):
    name: str
    rows: list[Index]

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("it has no name")


class PackedTree(Packed, frozen=True):
    jid: Count
    seconds: Finite
    leaves: list[Leaf]
    note: str = ""


TREE = PackedTree(7, 1.5, [Leaf("a", [0, 2**32 - 1])], "x")
FIELDS = [7, 1.5, [["a", [0, 2**32 - 1]]], "x"]
CODEC = Codec(b"tree", PackedTree)


def test_a_value_is_the_array_of_its_fields_behind_a_seal() -> None:
    data = CODEC.encode(TREE)
    assert msgpack.unpackb(data[:-SEAL]) == FIELDS
    assert data == pack_sealed(b"tree", FIELDS)
    assert CODEC.decode(data) == TREE


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, "7", r"Expected `int`, got `str` - at `\$\[0\]`"),
        (0, True, r"got `bool` - at `\$\[0\]`"),
        (0, 7.0, r"got `float` - at `\$\[0\]`"),
        (0, -1, r">= 0 - at `\$\[0\]`"),
        (0, LARGEST + 1, r"<= 9007199254740991 - at `\$\[0\]`"),
        (1, float("nan"), r"at `\$\[1\]`"),
        (1, float("inf"), r"at `\$\[1\]`"),
        (2, {}, r"Expected `array`, got `object` - at `\$\[2\]`"),
        (2, [["a", [0]], ["b", [0, -1]]], r"at `\$\[2\]\[1\]\[1\]\[1\]`"),
        (2, [["a", [2**32]]], r"<= 4294967295 - at `\$\[2\]\[0\]\[1\]\[0\]`"),
        (2, [["a"]], r"at least length 2, got 1 - at `\$\[2\]\[0\]`"),
        (2, [["a", [], 0]], r"at most length 2, got 3 - at `\$\[2\]\[0\]`"),
        (2, [["", []]], r"it has no name - at `\$\[2\]\[0\]`"),
        (3, b"x", r"Expected `str`, got `bytes` - at `\$\[3\]`"),
        (3, None, r"got `None` - at `\$\[3\]`"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_position(
    at: int, value: object, message: str
) -> None:
    fields = [*FIELDS]
    fields[at] = value
    with pytest.raises(Malformed, match=f"^tree: .*{message}"):
        CODEC.decode(pack_sealed(b"tree", fields))


@pytest.mark.parametrize("fields", [FIELDS[:-1], [*FIELDS, 0], [], {}, None, 7])
def test_missing_and_surplus_fields_are_refused_even_where_one_has_a_default(
    fields: object,
) -> None:
    with pytest.raises(Malformed, match=r"^tree: "):
        CODEC.decode(pack_sealed(b"tree", fields))


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x94\x07", b"\x94\x07\x01\x90\xa1\xff", b"\x91" * 100_000]
)
def test_bytes_that_are_not_msgpack_are_refused(body: bytes) -> None:
    with pytest.raises(Malformed, match=r"^tree: "):
        CODEC.decode(seal(b"tree", body))


def test_more_fields_than_a_short_array_has() -> None:
    fields = [(f"f{i}", int, 0) for i in range(16)]
    wide = msgspec.defstruct("Wide", fields, bases=(Packed,), frozen=True)
    codec = Codec(b"wide", wide)
    assert codec.decode(codec.encode(wide(f15=3))) == wide(f15=3)
    with pytest.raises(Malformed):
        codec.decode(pack_sealed(b"wide", [0] * 15))


@dataclass(frozen=True, slots=True)
class Plain:
    a: int
    b: int = 2


def test_replace_takes_both_kinds_of_frozen_classes() -> None:
    assert replace(TREE, jid=8) == PackedTree(8, 1.5, TREE.leaves, "x")
    assert replace(Plain(1), a=3) == Plain(3)
    with pytest.raises(TypeError):
        replace(TREE, unknown=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="no name"):
        replace(Leaf("a", []), name="")
