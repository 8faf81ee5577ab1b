"""A quarantined node: reason and end. Stored in the ledger, so that every worker knows."""

from __future__ import annotations

from dataclasses import dataclass

from shared.codec.checked import count, number, pack_sealed, row, text, unpack_sealed

QUARANTINE_KEY = "aside/"
"""Key prefix of quarantine records, followed by the node's row."""

_KIND = b"aside"


@dataclass(frozen=True, slots=True)
class Quarantine:
    """``since`` and ``until`` in seconds since 1970; ``times``: quarantines in a row."""

    reason: str
    """The node's last refusal."""
    since: float
    until: float
    times: int = 1


def quarantine_key(number_of_row: int) -> str:
    return f"{QUARANTINE_KEY}{number_of_row}"


def quarantined_row(key: str) -> int:
    """The row of a quarantine record's key; -1 for other keys."""
    rest = key.removeprefix(QUARANTINE_KEY)
    return int(rest) if rest != key and rest.isascii() and rest.isdecimal() else -1


def encode_quarantine(quarantine: Quarantine) -> bytes:
    return pack_sealed(
        _KIND, [quarantine.reason, quarantine.since, quarantine.until, quarantine.times]
    )


def decode_quarantine(data: bytes) -> Quarantine:
    """Errors: Malformed."""
    reason, since, until, times = row(unpack_sealed(_KIND, data), "aside", 4)
    return Quarantine(
        reason=text(reason, "aside.reason"),
        since=number(since, "aside.since"),
        until=number(until, "aside.until"),
        times=count(times, "aside.times"),
    )
