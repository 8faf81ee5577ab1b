"""Amounts as text for people, in Kubernetes' notation of quantities. Slots that only queues count
are left out: what they count is an amount of another resource, which is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shared.units.quantity import quantity
from shared.units.queue_slots import QUEUE_SLOTS


def name_of(slot: int, names: Sequence[str]) -> str:
    """The resource's name; "slot N" for a number without a name."""
    return names[slot] if slot < len(names) else f"slot {slot}"


def listed(amounts: Mapping[int, float], names: Sequence[str], limit: int = 3) -> str:
    """``24 nvidia.com/gpu, 8 cpu``: the first ``limit`` slots, and the number of others."""
    texts = [
        f"{quantity(n, a)} {n}"
        for s, a in amounts.items()
        for n in [name_of(s, names)]
        if n not in QUEUE_SLOTS
    ]
    return some(texts, limit)


def some(words: Iterable[str], limit: int = 3) -> str:
    """The first ``limit`` words, and the number of others."""
    words = list(words)
    more = len(words) - limit
    return ", ".join(words[:limit]) + (f" and {more} more" if more > 0 else "")


def by_name(amounts: Mapping[int, float], names: Sequence[str]) -> dict[str, str]:
    """Quantities by resource name, for JSON."""
    return {
        name: quantity(name, amount)
        for slot, amount in sorted(amounts.items())
        for name in [name_of(slot, names)]
        if name not in QUEUE_SLOTS
    }


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
