"""Amounts as exact Kubernetes quantities: what is read back is what was meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shared.units.quantity import unit_of

_BINARY = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))


def exact(resource: str, units: int) -> str:
    """Units of a resource's slot as text: ``1500m``, ``8``, ``64Gi``, ``1000``."""
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
    """Quantities by resource; negative amounts count as none."""
    pairs = dict(amounts)
    return {
        names[slot]: exact(names[slot], max(0, pairs[slot]))
        for slot in sorted(pairs)
        if slot < len(names)
    }
