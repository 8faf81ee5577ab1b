"""Fair shares of the queues in a file, computed by KAI's rules without a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from coordinator.cli.options.failure import EXIT_USAGE, CommandError
from coordinator.explain.queues.queue_tree import QueueBooks, divided, tree_json
from shard_worker.dialects.kai.rules.amounts import NOTHING, Amounts
from shared.errors import InvalidInput
from shared.manifests.kai.queues import read_kai_queue
from shared.units.quantity import amount

Item = Mapping[str, Any]

_GROUP = "scheduling.run.ai/"


@dataclass(frozen=True, slots=True)
class FileShares:
    shown: dict[str, Any]
    """The tree with its figures."""
    left_out: list[str]
    """Queues that do not count, because one above them is missing, or they go round."""


def shares_of(items: Iterable[tuple[str, Item]], total: str, *, k: Fraction) -> FileShares:
    """Divide. ``items``: (file, object). ``total``: what there is to
    divide, as ``cpu=64,nvidia.com/gpu=16``; "" = the nodes of the file. Raises CommandError."""
    nodes, books = NOTHING, dict[str, QueueBooks]()
    requested: dict[str, Amounts | None] = {}
    for source, item in items:
        try:
            if _is_queue(item):
                record = read_kai_queue(dict(item))
                books[record.name] = QueueBooks(record, allocated=_status(item, "allocated"))
                named = (item.get("status") or {}).get("requested")
                requested[record.name] = None if named is None else _status(item, "requested")
            elif item.get("kind") == "Node":
                nodes = nodes.plus(_status(item, "allocatable"))
        except InvalidInput as error:
            name = (item.get("metadata") or {}).get("name")
            refusal = error.refusal(str(item.get("kind")), str(name))
            raise CommandError(f"{source}: {refusal}") from None
    if not books:
        text = f"no Queue of {_GROUP}v2 is in the file; write the queues to divide among"
        raise CommandError(text, code=EXIT_USAGE)
    whole = _written(total) if total else nodes
    if whole == NOTHING:
        text = "there is nothing to divide; add the Nodes to the file, or write --total"
        raise CommandError(text, code=EXIT_USAGE)
    _fill(books, requested, whole)
    tree = divided(whole, books, k=k)
    return FileShares(tree_json(tree), sorted(books.keys() - tree.books.keys()))


def _is_queue(item: Item) -> bool:
    return item.get("kind") == "Queue" and str(item.get("apiVersion")).startswith(_GROUP)


def _fill(books: dict[str, QueueBooks], asked: dict[str, Amounts | None], whole: Amounts) -> None:
    """Fill in missing requests: a leaf asks for the whole cluster, a parent for the sum of its
    children."""
    children: dict[str, list[str]] = {}
    for name, own in books.items():
        children.setdefault(own.record.parent, []).append(name)

    def requested(name: str, seen: frozenset[str]) -> Amounts:
        share = asked[name]
        visited = seen | {name}
        below = [
            requested(child, visited) for child in children.get(name, ()) if child not in visited
        ]
        if share is None:
            share = NOTHING if below else whole
        result = Amounts(*map(max, share, map(sum, zip(*below, strict=True)))) if below else share
        books[name].requested = result
        return result

    for root in children.get("", ()):
        requested(root, frozenset())


def _status(item: Item, field: str) -> Amounts:
    values = (item.get("status") or {}).get(field) or {}
    if not isinstance(values, Mapping):
        raise InvalidInput(f"status.{field}", values, "not an object; write resources and amounts")
    return _amounts(values, f"status.{field}")


def _written(text: str) -> Amounts:
    values: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            message = f"--total {part}: write RESOURCE=AMOUNT, as cpu=64,nvidia.com/gpu=16"
            raise CommandError(message, code=EXIT_USAGE)
        values[name.strip()] = value.strip()
    try:
        return _amounts(values, "--total")
    except InvalidInput as error:
        text = f"{error.field}: {error.value}: {error.message}"
        raise CommandError(text, code=EXIT_USAGE) from None


def _amounts(values: Mapping[str, Any], at: str) -> Amounts:
    cpu = memory = gpu = 0
    for name, value in values.items():
        if name == "cpu":
            cpu += amount(name, value, f"{at}.{name}")
        elif name == "memory":
            memory += amount(name, value, f"{at}.{name}")
        elif name.endswith("gpu"):
            gpu += amount(name, value, f"{at}.{name}")
    return Amounts(cpu, memory, gpu)
