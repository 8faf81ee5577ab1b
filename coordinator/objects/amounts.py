"""Amounts as exact Kubernetes quantities, which parse back to the same amounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shared.units.quantity import unit_of

_BINARY = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))


def exact(resource: str, units: int) -> str:
    """A slot's amount as text: ``1500m``, ``8``, ``64Gi``, ``1000``."""
    unit = unit_of(resource)
    if unit > 1:
        return str(units // unit) if units % unit == 0 else f"{units}m"
    if resource != "pods":
        for suffix, bits in _BINARY:
            if units and units % (1 << bits) == 0:
                return f"{units >> bits}{suffix}"
    return str(units)


def quantities(
    amounts: Mapping[int, int] | Iterable[tuple[int, int]], names: Sequence[str]
) -> dict[str, str]:
    """Quantities by resource name; negative amounts become 0."""
    pairs = dict(amounts)
    return {
        names[slot]: exact(names[slot], max(0, pairs[slot]))
        for slot in sorted(pairs)
        if slot < len(names)
    }
