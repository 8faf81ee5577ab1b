"""Resource lists: ``{"cpu": "1", "memory": "4Gi"}`` as units by resource name."""

from __future__ import annotations

from shared.errors import InvalidInput
from shared.manifests.fields.reader import Fields, is_qualified
from shared.model.storage import Amounts
from shared.units.quantity import amount
from shared.units.things import PORT

_MOST = 256


def read_amounts(fields: Fields | None) -> dict[str, int]:
    """Units per resource, including zeros; {} if the list is absent."""
    if fields is None:
        return {}
    if len(fields.data) > _MOST:
        raise InvalidInput(fields.at, fields.data, f"too many; at most {_MOST} resources allowed")
    for name in fields.data:
        if not is_qualified(name) or name.startswith(PORT):
            raise fields.wrong(name, "not a resource name; write [domain/]name")
    return {name: amount(name, value, fields.path(name)) for name, value in fields.data.items()}


def frozen(amounts: dict[str, int], *, zeros: bool = False) -> Amounts:
    """Sorted pairs; without zeros, unless ``zeros`` because they matter (a limit of 0)."""
    return tuple(sorted((name, n) for name, n in amounts.items() if n or zeros))


def add(into: dict[str, int], amounts: dict[str, int]) -> None:
    for name, n in amounts.items():
        into[name] = into.get(name, 0) + n


def raise_to(into: dict[str, int], amounts: dict[str, int]) -> None:
    """Raise each amount in ``into`` to at least the one in ``amounts``."""
    for name, n in amounts.items():
        if n > into.get(name, 0):
            into[name] = n
