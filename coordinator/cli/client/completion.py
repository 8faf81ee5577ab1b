"""Names for the shell's completion, from the server: at once or not at all, and never an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coordinator.cli.client.kinds import Catalog

SECONDS = 1.0
"""After this long a person has typed the name."""
MOST = 500
"""Names in one answer."""


def complete_targets(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    """Kinds for the first word, names of that kind for the next, ``kind/name`` after a slash."""
    return _quietly(ctx, lambda ask: _targets(ask, ctx, incomplete))


def complete_namespaces(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    return _quietly(ctx, lambda ask: _names(ask, ask.catalog.resolve("namespaces"), incomplete))


def complete_names(kind: str) -> Callable[[Any, list[str], str], list[str]]:
    """For an argument that is the name of an object of one kind."""

    def names(ctx: Any, args: list[str], incomplete: str) -> list[str]:
        return _quietly(ctx, lambda ask: _names(ask, ask.catalog.resolve(kind), incomplete))

    return names


def complete_subject_kinds(*kinds: str) -> Callable[[Any, list[str], str], list[str]]:
    """For one of these kinds, or ``KIND/NAME``."""

    def words(ctx: Any, args: list[str], incomplete: str) -> list[str]:
        if "/" in incomplete:
            return _quietly(ctx, lambda ask: _after_slash(ask, incomplete))
        return [kind for kind in kinds if kind.startswith(incomplete)]

    return words


def complete_subjects(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    """For ``[NAMESPACE/]NAME`` after a kind that the argument ``subject`` has."""
    kind = str(ctx.params.get("subject") or "")
    return _quietly(ctx, lambda ask: _subjects(ask, kind, incomplete)) if kind else []


def complete_processes(*others: str) -> Callable[[Any, list[str], str], list[str]]:
    """For the word that names a process: one of these, or ``shard-N``."""

    def processes(ctx: Any, args: list[str], incomplete: str) -> list[str]:
        shards = _quietly(ctx, lambda ask: _names(ask, ask.catalog.resolve("shards"), incomplete))
        return [*(word for word in others if word.startswith(incomplete)), *shards]

    return processes


def complete_pairs(*kinds: str) -> Callable[[Any, list[str], str], list[str]]:
    """For ``TYPE/NAME`` of these kinds alone, or of all where none is named."""

    def pairs(ctx: Any, args: list[str], incomplete: str) -> list[str]:
        if "/" in incomplete:
            return _quietly(ctx, lambda ask: _after_slash(ask, incomplete))
        return [f"{kind}/" for kind in kinds if kind.startswith(incomplete)]

    return pairs


def _quietly(ctx: Any, find: Callable[[Any], list[str]]) -> list[str]:
    from coordinator.cli.client.connection import Connection
    from coordinator.cli.client.session import session
    from coordinator.cli.options.failure import CommandError

    params = ctx.params
    connection = Connection(server=params.get("server"), context=params.get("context"))
    try:
        with session(connection, namespace=params.get("namespace"), timeout=SECONDS) as ask:
            return find(ask)
    except CommandError:
        return []


def _targets(ask: Any, ctx: Any, incomplete: str) -> list[str]:
    before = list(ctx.params.get("targets") or ())
    if "/" in incomplete:
        return _after_slash(ask, incomplete)
    if not before:
        return _kinds(ask.catalog, incomplete)
    if "/" in before[0]:
        return [f"{kind}/" for kind in _kinds(ask.catalog, incomplete)]
    names = _names(ask, ask.catalog.resolve(before[0]), incomplete)
    return [name for name in names if name not in before[1:]]


def _subjects(ask: Any, kind: str, incomplete: str) -> list[str]:
    resource = ask.catalog.resolve(kind)
    namespace, slash, start = incomplete.rpartition("/")
    if not slash:
        return _names(ask, resource, start)
    page = ask.client.get(resource.path(namespace), {"limit": MOST})
    return [f"{namespace}/{name}" for name in _listed(page, start)]


def _kinds(catalog: Catalog, incomplete: str) -> list[str]:
    complete, comma, last = incomplete.rpartition(",")
    names = sorted({resource.plural for resource in catalog.resources})
    return [f"{complete}{comma}{name}" for name in names if name.startswith(last)]


def _after_slash(ask: Any, incomplete: str) -> list[str]:
    kind, _, start = incomplete.partition("/")
    return [f"{kind}/{name}" for name in _names(ask, ask.catalog.resolve(kind), start)]


def _names(ask: Any, resource: Any, incomplete: str) -> list[str]:
    page = ask.client.get(resource.path(ask.place(resource)), {"limit": MOST})
    return _listed(page, incomplete)


def _listed(page: Any, start: str) -> list[str]:
    names = (str(item["metadata"]["name"]) for item in page.get("items") or ())
    return [name for name in names if name.startswith(start)]
