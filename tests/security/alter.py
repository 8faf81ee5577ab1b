"""Ways to alter bytes: every bit, every cut, and what a seed makes of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest


def altered(data: bytes, *, most: int = 6000, seed: int = 7) -> Iterator[bytes]:
    """Every single bit turned, every cut, and a few longer ones; ``most`` at random where that is
    more."""
    bits = range(8 * len(data))
    r = random.Random(seed)
    for bit in bits if len(bits) <= most else r.sample(bits, most):
        yield turned(data, bit)
    cuts = range(len(data))
    for end in cuts if len(cuts) <= most else r.sample(cuts, most):
        yield data[:end]
    for more in (b"\0", b"\xff", data or b"x", b"\x93\x01\x02\x03"):
        yield data + more
        yield more + data
    for _ in range(200):
        yield scrambled(data, r)


def turned(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes((data[bit // 8] ^ 1 << bit % 8,)) + data[bit // 8 + 1 :]


def scrambled(data: bytes, r: random.Random) -> bytes:
    """A piece replaced, moved or doubled; always another text."""
    a, b = sorted(r.randrange(len(data) + 1) for _ in range(2))
    piece = r.randbytes(r.randrange(1, 9))
    mutated = r.choice((data[:a] + piece + data[b:], data[b:] + data[:b], data[:b] + data[a:]))
    return mutated if mutated != data else data + piece


def refuses(
    read: Callable[[bytes], object], data: bytes, error: type[Exception], *, most: int = 6000
) -> int:
    """``read`` takes the bytes as they are, and raises this error and no other where they are
    altered in any way. Returns how many ways were tried."""
    read(data)
    tried = 0
    for other in altered(data, most=most):
        tried += 1
        try:
            read_result = read(other)
        except error:
            continue
        pytest.fail(f"{other!r} was taken for {data!r}, as {read_result!r}")
    return tried


def survives(
    read: Callable[[bytes], object], data: bytes, error: type[Exception], *, most: int = 6000
) -> int:
    """Count the alterations that ``read`` refuses; it raises nothing but this error. For bytes
    behind a seal that fits, as another version may have written them."""
    refused = 0
    for other in altered(data, most=most):
        try:
            read(other)
        except error:
            refused += 1
    return refused
