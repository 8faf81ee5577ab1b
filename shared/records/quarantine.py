"""A quarantined node: reason and end. Stored in the ledger, so that every worker knows."""

from __future__ import annotations

from shared.codec.packed import Codec, Count, Finite, Packed

QUARANTINE_KEY = "aside/"
"""Key prefix of quarantine records, followed by the node's row."""


class Quarantine(Packed, frozen=True):
    """``since`` and ``until`` in seconds since 1970; ``times``: quarantines in a row."""

    reason: str
    """The node's last refusal."""
    since: Finite
    until: Finite
    times: Count = 1


_QUARANTINE = Codec(b"aside", Quarantine)
encode_quarantine, decode_quarantine = _QUARANTINE.encode, _QUARANTINE.decode


def quarantine_key(number_of_row: int) -> str:
    return f"{QUARANTINE_KEY}{number_of_row}"


def quarantined_row(key: str) -> int:
    """The row of a quarantine record's key; -1 for other keys."""
    rest = key.removeprefix(QUARANTINE_KEY)
    return int(rest) if rest != key and rest.isascii() and rest.isdecimal() else -1
