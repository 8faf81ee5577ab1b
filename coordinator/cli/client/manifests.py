"""The objects that ``-f`` names: files, directories of files, standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.cli.options.failure import EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from coordinator.cli.client.kinds import Resource
    from coordinator.cli.client.session import ServerSession

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object, and where it stands in the server."""

    source: str
    """The file it is from, for messages."""
    object: dict[str, Any]
    resource: Resource
    namespace: str | None
    name: str

    @property
    def label(self) -> str:
        return f"{self.resource.label}/{self.name}"

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace, self.name)


def read_files(names: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Source and object, in order. Raises :class:`CommandError` where a file cannot be read: then
    nothing has been sent yet."""
    if not names:
        raise CommandError(
            "-f: no file was named; write -f FILE, or -f - for stdin", code=EXIT_USAGE
        )
    return [(source, item) for name in names for source, item in _objects(name)]


def _objects(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    from shared.manifests.text.errors import TextError
    from shared.manifests.text.text import read_objects

    for source, data in _texts(name):
        try:
            objects = read_objects(data, form="json" if source.endswith(".json") else "either")
        except TextError as error:
            raise CommandError(f"{source}: {error}") from None
        yield from ((source, item) for item in objects)


def _texts(name: str) -> Iterator[tuple[str, bytes]]:
    if name == STDIN:
        yield "standard input", sys.stdin.buffer.read()
        return
    path = Path(name)
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
        if not files:
            raise CommandError(f"-f {name}: no {', '.join(SUFFIXES)} file is in this directory")
    for file in files:
        try:
            yield str(file), file.read_bytes()
        except OSError as error:
            raise CommandError(
                f"-f {file}: cannot be read: {error.strerror}; name a file, a directory, or -"
            ) from None


def placed(session: ServerSession, source: str, value: dict[str, Any]) -> Manifest:
    """Find out where an object belongs. Raises KubeError or CommandError with the field."""
    resource = session.catalog.of_object(value)
    meta = value.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = meta.get("name")
    if not isinstance(name, str) or not name:
        if meta.get("generateName"):
            # As kubectl apply: whoever applies the file again means the same object.
            raise CommandError(
                f"{resource.kind}: metadata.generateName: each time it would be another object; "
                "write metadata.name, or create it with: kubectl create -f FILE"
            )
        raise CommandError(f"{resource.kind}: metadata.name: missing; write a name")
    namespace = None
    if resource.namespaced:
        namespace = str(meta.get("namespace") or session.namespace)
        if session.named and namespace != session.namespace:
            raise CommandError(
                f"{resource.label}/{name}: metadata.namespace is {namespace}, but -n says "
                f"{session.namespace}; leave one of them out"
            )
    return Manifest(source, value, resource, namespace, name)
