"""The kinds that a server has, by its discovery, and how people name them and their objects."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from coordinator.cli.client.client import KubeClient, KubeError
from shared.manifests.foreign import OTHER_FORM, unknown_kind

OUR_GROUP = "quadrant.dev"


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind as discovery shows it."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    short: tuple[str, ...]
    namespaced: bool
    verbs: tuple[str, ...]

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def label(self) -> str:
        """Prefix before the slash in ``TYPE/NAME``: ``pod``, ``queue.scheduling...``."""
        return f"{self.singular}.{self.group}" if self.group else self.singular

    @property
    def resource(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def names(self) -> frozenset[str]:
        """Every way of writing the kind."""
        plain = {self.plural, self.singular, self.kind.lower(), *self.short}
        full = {f"{self.plural}.{self.group}", f"{self.singular}.{self.group}"}
        long = {f"{self.plural}.{self.version}.{self.group}"}
        return frozenset(plain | full | long if self.group else plain)

    def path(self, namespace: str | None, name: str | None = None, verb: str = "") -> str:
        """``namespace`` None: over all of them, or a kind that has none."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=""))
        return "/".join([*parts, verb] if verb else parts)


@dataclass(frozen=True, slots=True)
class Target:
    """Objects of one kind that were asked for; no names: all of them."""

    resource: Resource
    names: tuple[str, ...] = ()


class Catalog:
    """All kinds of one server."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self.resources = tuple(resources)
        self._by_name: dict[str, Resource] = {}
        for resource in resources:  # the core group comes first, and the first one counts
            for name in resource.names():
                self._by_name.setdefault(name, resource)

    def resolve(self, word: str) -> Resource:
        """Raises :class:`KubeError` with the nearest name."""
        exact = self._by_name.get(word.lower())
        if exact is not None:
            return exact
        near = difflib.get_close_matches(word.lower(), self._by_name, n=1)
        names = ", ".join(resource.plural for resource in self.resources)
        hint = f'did you mean "{near[0]}"? ' if near else ""
        raise KubeError(f'the server has no kind "{word}"; {hint}There are: {names}', code=404)

    def of_object(self, document: Mapping[str, Any]) -> Resource:
        """The kind of an object by its ``apiVersion`` and ``kind``. Raises :class:`KubeError`."""
        version, kind = document.get("apiVersion"), document.get("kind")
        for resource in self.resources:
            if (resource.api_version, resource.kind) == (version, kind):
                return resource
        for resource in self.resources:
            if resource.kind == kind:
                if not version:
                    raise KubeError(f"apiVersion: missing; write {resource.api_version}")
                remedy = OTHER_FORM.get((version, kind), f"write {resource.api_version}")
                raise KubeError(f'apiVersion: "{version}" has no kind {kind}; {remedy}')
        kinds = [(resource.api_version, resource.kind) for resource in self.resources]
        if not kind:
            names = ", ".join(dict.fromkeys(kind for _, kind in kinds))
            raise KubeError(f"kind: missing; write one of {names}")
        remedy = unknown_kind(version, kind, kinds)
        of = version or "no group"
        raise KubeError(f'kind: the server has no kind "{kind}" of {of}; {remedy}')

    def targets(self, words: Sequence[str]) -> list[Target]:
        """``TYPE[,TYPE...] [NAME...]`` or ``TYPE/NAME...``. Raises :class:`KubeError`."""
        if any("/" in word for word in words):
            return list(_merge(self._pair(word) for word in words))
        kinds, *names = words
        resources = [self.resolve(word) for word in kinds.split(",") if word]
        if len(resources) > 1 and names:
            raise KubeError(
                f"names after several kinds are not possible; write {kinds[:1]}.../NAME"
            )
        return [Target(resource, tuple(names)) for resource in resources]

    def _pair(self, word: str) -> Target:
        kind, _, name = word.partition("/")
        if not kind or not name or "/" in name:
            raise KubeError(f'"{word}" is not TYPE/NAME; all arguments must be of that form')
        return Target(self.resolve(kind), (name,))


def _merge(targets: Iterable[Target]) -> Iterator[Target]:
    """Neighbours of one kind as one, so that they are shown in one table."""
    last: Target | None = None
    for target in targets:
        if last is not None and last.resource is target.resource:
            last = Target(last.resource, last.names + target.names)
            continue
        if last is not None:
            yield last
        last = target
    if last is not None:
        yield last


def discover(client: KubeClient) -> Catalog:
    """Ask the server for its kinds. Raises :class:`KubeError`; also where it is not Quadrant's:
    a command must never touch another cluster that happens to be the current context."""
    groups = client.get("/apis").get("groups") or []
    if not any(group.get("name") == OUR_GROUP for group in groups):
        access = client.access
        raise KubeError(
            f"{access.server} ({access.origin}) is not a Quadrant server: it has no group "
            f"{OUR_GROUP}; name one with --server, --context or QUADRANT_SERVER"
        )
    # All versions: KAI's group has its queues in one and its PodGroups in another.
    versions = ["v1", *(str(v["groupVersion"]) for group in groups for v in group["versions"])]
    resources: list[Resource] = []
    for version in versions:
        root = "apis" if "/" in version else "api"
        resources += _resources(version, client.get(f"/{root}/{version}"))
    return Catalog(resources)


def _resources(group_version: str, listed: Mapping[str, Any]) -> Iterator[Resource]:
    group, _, version = group_version.rpartition("/")
    for entry in listed.get("resources") or ():
        verbs = tuple(entry.get("verbs") or ())
        if "/" in entry["name"] or "get" not in verbs:
            continue  # a subresource, or a verb that is no object
        yield Resource(
            group=group,
            version=version,
            plural=entry["name"],
            singular=entry.get("singularName") or entry["kind"].lower(),
            kind=entry["kind"],
            short=tuple(entry.get("shortNames") or ()),
            namespaced=bool(entry["namespaced"]),
            verbs=verbs,
        )
