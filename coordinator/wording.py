"""Amounts in words: as Kubernetes writes quantities, for messages that people read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shared.quantity import unit_of

_BINARY = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_BYTES = ("memory", "ephemeral-storage", "hugepages-")


def quantity(resource: str, amount: float) -> str:
    """An amount in its slot's unit as a quantity: ``1500m``, ``24``, ``64Gi``."""
    whole = round(amount)
    if resource.startswith(_BYTES):
        return _bytes(whole)
    unit = unit_of(resource)
    if whole % unit == 0:
        return str(whole // unit)
    return f"{whole}m" if abs(whole) < unit else f"{whole / unit:.3f}".rstrip("0")


def _bytes(amount: int) -> str:
    for suffix, size in _BINARY:
        if abs(amount) >= size:
            return f"{amount / size:.1f}".removesuffix(".0") + suffix
    return str(amount)


def name_of(slot: int, names: Sequence[str]) -> str:
    """The resource's name; a slot that no accepted object named is told by its number."""
    return names[slot] if slot < len(names) else f"slot {slot}"


def listed(amounts: Mapping[int, float], names: Sequence[str], limit: int = 3) -> str:
    """``24 nvidia.com/gpu, 8 cpu``: the first ``limit`` slots, and how many more there are."""
    told = [f"{quantity(n, a)} {n}" for s, a in amounts.items() for n in [name_of(s, names)]]
    return some(told, limit)


def some(words: Iterable[str], limit: int = 3) -> str:
    """A list of words cut to ``limit``, with the number of the others."""
    words = list(words)
    more = len(words) - limit
    return ", ".join(words[:limit]) + (f" and {more} more" if more > 0 else "")


def by_name(amounts: Mapping[int, float], names: Sequence[str]) -> dict[str, str]:
    """Quantities by resource name, for JSON."""
    return {
        name: quantity(name, amount)
        for slot, amount in sorted(amounts.items())
        for name in [name_of(slot, names)]
    }


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
