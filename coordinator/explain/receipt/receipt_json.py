"""A receipt as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coordinator.explain.receipt.receipt import Receipt, WaitPart
from shared.units.amount_text import by_name
from shared.units.times import rfc3339

Json = dict[str, Any]


def time_of_day(at: int) -> str:
    """RFC 3339."""
    return rfc3339(at / 1000, "milliseconds")


def receipt_json(
    receipt: Receipt, names: Sequence[str], *, time: Callable[[int], str | float] = time_of_day
) -> Json:
    """``names``: the resource of each slot. ``time``: how a time in milliseconds is shown."""
    sums: dict[str, int] = {}
    for wait in receipt.waits:
        for part in wait.parts:
            sums[part.mark.word] = sums.get(part.mark.word, 0) + part.length
    return {
        "milliseconds": receipt.length,
        "sums": dict(sorted(sums.items(), key=lambda item: -item[1])),
        "earlier": {"waits": receipt.earlier, "milliseconds": receipt.earlier_length},
        "waits": [
            {
                "begin": time(wait.begin),
                "end": time(wait.end) if wait.is_over else None,
                "cause": wait.cause,
                "milliseconds": wait.length,
                "parts": [{"begin": time(part.begin)} | _part(part, names) for part in wait.parts],
            }
            for wait in receipt.waits
        ],
    }


def _part(part: WaitPart, names: Sequence[str]) -> Json:
    mark = part.mark
    return {
        "milliseconds": part.length,
        "reason": mark.word,
        "message": mark.message,
        "short": by_name(mark.short, names),
        "queue": mark.queue,
        "borrowers": list(mark.borrowers),
        "behind": [
            {
                "job": holder.job,
                "queue": holder.queue,
                "held": by_name({part.slot: holder.amount}, names),
                "milliseconds": holder.length,
            }
            for holder in part.behind
        ],
        "others": part.others,
    }
