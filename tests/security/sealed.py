"""Any value behind a seal that fits, whatever a codec would make of it."""

from __future__ import annotations

import msgpack

from shared.codec.checked import seal


def pack_sealed(kind: bytes, value: object) -> bytes:
    return seal(kind, msgpack.packb(value, use_bin_type=True))
