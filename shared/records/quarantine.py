"""A quarantined node: reason and end. Stored in the ledger, so that every worker knows."""

from __future__ import annotations

from dataclasses import dataclass

from shared.codec.checked import count, number, pack_sealed, row, text, unpack_sealed

ASIDE_KEY = "aside/"
"""Key prefix of quarantine records, followed by the node's row."""

_KIND = b"aside"


@dataclass(frozen=True, slots=True)
class Aside:
    """``since`` and ``until`` in seconds since 1970; ``times``: quarantines in a row."""

    reason: str
    """The node's last refusal."""
    since: float
    until: float
    times: int = 1


def aside_key(number_of_row: int) -> str:
    return f"{ASIDE_KEY}{number_of_row}"


def aside_row(key: str) -> int:
    """The row of a quarantine record's key; -1 for other keys."""
    rest = key.removeprefix(ASIDE_KEY)
    return int(rest) if rest != key and rest.isascii() and rest.isdecimal() else -1


def encode_aside(aside: Aside) -> bytes:
    return pack_sealed(_KIND, [aside.reason, aside.since, aside.until, aside.times])


def decode_aside(data: bytes) -> Aside:
    """Errors: Malformed."""
    reason, since, until, times = row(unpack_sealed(_KIND, data), "aside", 4)
    return Aside(
        reason=text(reason, "aside.reason"),
        since=number(since, "aside.since"),
        until=number(until, "aside.until"),
        times=count(times, "aside.times"),
    )
