"""Kubernetes quantities (``100m``, ``1.5``, ``4Gi``, ``1e3``) as integers in a slot's unit.

The arithmetic is exact. Fractions of the unit round up, as in Kubernetes, so that a request never
counts for less than it is.
"""

from __future__ import annotations

import decimal
import re
from decimal import ROUND_CEILING, Decimal

from shared.byte_cache import MIB, byte_cache
from shared.errors import InvalidInput
from shared.units.queue_slots import resource_of
from shared.units.slots import LIMIT, MOST_IN_TOTAL

_FORM = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"  # the number
    r"(?:([eE][+-]?[0-9]{1,4})|([KMGTPE]i|[numkMGTPE]))?"  # an exponent or a suffix
)
_WHOLE = ("memory", "ephemeral-storage", "pods", "storage")
_LONGEST = 64
_SUFFIX = {
    **{s: Decimal(1000) ** power for power, s in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{f"{s}i": Decimal(1024) ** power for power, s in enumerate("KMGTPE", start=1)},
    **{s: Decimal(1000) ** -power for power, s in enumerate("mun", start=1)},
}
_EXACT = decimal.Context(prec=200, Emin=-decimal.MAX_EMAX, Emax=decimal.MAX_EMAX)
_REMEDY = "write a number with an optional suffix, such as 500m, 2, 1.5 or 4Gi"


def unit_of(resource: str) -> int:
    """Units per whole of a resource, e.g. 1000 per core (see :mod:`shared.units.slots`).

    Prefixed names are handled: ``requests.memory`` has the unit of memory, and so has the slot of a
    queue that counts a part of it.
    """
    resource = resource_of(resource)
    if resource in _WHOLE or resource.startswith("hugepages-"):
        return 1
    if resource.startswith(("requests.", "limits.")):
        return unit_of(resource.partition(".")[2])
    return 1 if resource.endswith("/requests.storage") else 1000


def amount(resource: str, value: object, field: str) -> int:
    """Parse a quantity to units of the resource's slot. Raises :class:`InvalidInput` if it is
    malformed, negative, or at least 2**53 units.
    """
    units = total_amount(resource, value, field)
    if units >= LIMIT:
        raise InvalidInput(field, value, f"too large; stay below {LIMIT // unit_of(resource)}")
    return units


def total_amount(resource: str, value: object, field: str) -> int:
    """Parse a total over many nodes; what exceeds int64 counts as its largest number, as in
    Kubernetes. Raises :class:`InvalidInput` if it is malformed or negative."""
    if type(value) is str:
        units = _parse(value, unit_of(resource))
    elif type(value) is int:
        units = min(value * unit_of(resource), MOST_IN_TOTAL)
    elif type(value) is float:
        units = _parse(repr(value), unit_of(resource))
    else:
        units = None
    if units is None:
        raise InvalidInput(field, value, f"not a quantity; {_REMEDY}")
    if units < 0:
        raise InvalidInput(field, value, "negative; write a quantity of 0 or more")
    return units


@byte_cache("quantities", 2 * MIB)
def _parse(text: str, unit: int) -> int | None:
    """Units, rounded up; None if the text is not a quantity; MOST_IN_TOTAL for everything above it;
    -1 for everything below 0."""
    match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    scale = _SUFFIX[suffix or ""] * unit
    exact = _EXACT.multiply(_EXACT.create_decimal(number + (exponent or "")), scale)
    if exact < 0:
        return -1
    if exact >= MOST_IN_TOTAL:
        return MOST_IN_TOTAL
    return int(exact.to_integral_value(rounding=ROUND_CEILING))


# --- in words ----------------------------------------------------------------------------------

_BINARY = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_SIZES = ("memory", "ephemeral-storage", "hugepages-")


def quantity(resource: str, amount: float) -> str:
    """Format an amount in its slot's unit as a quantity: ``1500m``, ``24``, ``64Gi``."""
    whole = round(amount)
    if resource_of(resource).startswith(_SIZES):
        return _size(whole)
    unit = unit_of(resource)
    if whole % unit == 0:
        return str(whole // unit)
    return f"{whole}m" if abs(whole) < unit else f"{whole / unit:.3f}".rstrip("0")


def _size(amount: int) -> str:
    for suffix, size in _BINARY:
        if abs(amount) >= size:
            return f"{amount / size:.1f}".removesuffix(".0") + suffix
    return str(amount)
