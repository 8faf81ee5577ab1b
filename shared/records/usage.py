"""Past usage of queues: buckets of samples, as the ledger keeps them."""

from __future__ import annotations

from shared.codec.packed import Codec, Count, Packed

USAGE_KEY = "usage/"
"""With the moment of the bucket's first sample after it."""

MEMORY_UNIT = 2**20
"""Bytes of memory in one; in bytes the sums of a week would not be exact in the ledger."""

Sums = tuple[Count, Count, Count]
"""Sums over samples of thousandths of a core, mebibytes, and thousandths of a device."""


class UsageBucket(Packed, frozen=True):
    """Samples that follow each other, summed. Moments in seconds since 1970."""

    first: Count
    """When the first sample was taken."""
    last: Count
    samples: Count
    capacity: Sums
    """Capacity of the whole cluster."""
    queues: dict[str, Sums]
    """Usage of each queue that held something, with all queues below it."""


_BUCKET = Codec(b"usage", UsageBucket)
encode_usage, decode_usage = _BUCKET.encode, _BUCKET.decode


def usage_key(first: int) -> str:
    return f"{USAGE_KEY}{first}"


def usage_moment(key: str) -> int:
    """The first sample of a usage record's key; -1 for other keys."""
    rest = key.removeprefix(USAGE_KEY)
    return int(rest) if rest != key and rest.isascii() and rest.isdecimal() else -1
