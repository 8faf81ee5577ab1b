"""Resource lists: ``{"cpu": "1", "memory": "4Gi"}`` as units by resource name."""

from __future__ import annotations

from collections.abc import Callable

from shared.errors import InvalidInput
from shared.manifests.fields.reader import Fields, is_qualified
from shared.model.storage import Amounts
from shared.units.quantity import amount, total_amount
from shared.units.things import PORT

_MOST = 256
_PLAIN = frozenset(("cpu", "memory", "pods", "ephemeral-storage"))
"""Names without a domain that nodes offer, beside the prefixes."""
_PLAIN_PREFIXES = ("hugepages-", "attachable-volumes-")
_QUOTA_PREFIXES = ("requests.", "limits.")
_CLASS = ".storageclass.storage.k8s.io"
"""In a name: an amount of storage of one class."""


def read_amounts(fields: Fields | None) -> dict[str, int]:
    """Units per resource of one node or pod, including zeros; {} if the list is absent."""
    return _read(fields, amount)


def read_totals(fields: Fields | None) -> dict[str, int]:
    """:func:`read_amounts` of what is counted over many nodes."""
    return _read(fields, total_amount)


def _read(fields: Fields | None, parse: Callable[[str, object, str], int]) -> dict[str, int]:
    if fields is None:
        return {}
    if len(fields.data) > _MOST:
        raise InvalidInput(fields.at, fields.data, f"too many; at most {_MOST} resources allowed")
    for name in fields.data:
        if not is_qualified(name) or name.startswith(PORT):
            raise fields.wrong(name, "not a resource name; write [domain/]name")
    return {name: parse(name, value, fields.path(name)) for name, value in fields.data.items()}


def is_of_nodes(name: str) -> bool:
    """Whether a node may offer the resource. The others are what a ResourceQuota counts, or a part
    of it (``requests.cpu``, ``count/pods``).

    Volcano's controllers write both into minResources, by Kubernetes' quota evaluator; its
    scheduler drops the others (NewResource, IsScalarResourceName).
    """
    if name in _PLAIN:
        return True
    domain, slash, _ = name.partition("/")
    if not slash:
        return name.startswith(_PLAIN_PREFIXES)
    return domain != "count" and not domain.startswith(_QUOTA_PREFIXES) and _CLASS not in domain


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
