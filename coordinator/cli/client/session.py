"""Session of a command with a server: the client, the kinds, the namespace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from coordinator.cli.client.client import KubeClient, KubeError
from coordinator.cli.client.connection import Connection
from coordinator.cli.client.kinds import Catalog, Resource, discover
from coordinator.cli.client.reach import connected
from coordinator.cli.options.failure import as_command_errors
from shared.kubeconfig import ConfigError

Loaded = TypeVar("Loaded")

PAGE = 2000
"""Objects in one answer to a list."""
EXPIRED = 410
"""Kubernetes' answer where a continue token or a version is too old: the list is read anew."""
PAUSE = 0.1
"""Seconds between two watches: a server that ends every one at once is not asked in a circle."""


@dataclass
class ServerSession:
    """A server, and the namespace of objects that do not name one."""

    client: KubeClient
    namespace: str
    named: bool
    """Whether the namespace was given with the command."""

    @cached_property
    def catalog(self) -> Catalog:
        return discover(self.client)

    def twin(self) -> ServerSession:
        """The same for another thread: a connection of its own."""
        twin = ServerSession(self.client.twin(), self.namespace, self.named)
        twin.catalog = self.catalog
        return twin

    def list_query(self, *, labels: str = "", fields: str = "") -> dict[str, Any]:
        return {"labelSelector": labels, "fieldSelector": fields}

    def pages(
        self, path: str, query: Mapping[str, Any], *, accept: str = "application/json"
    ) -> Iterator[dict[str, Any]]:
        """Every page of a list. One that expired on the way begins anew by KubeError (410)."""
        token = ""
        while True:
            parameters = {**query, "limit": PAGE, "continue": token}
            page = self.client.get(path, parameters, accept=accept)
            yield page
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return

    def items(self, path: str, query: Mapping[str, Any]) -> list[dict[str, Any]]:
        """All objects of a list, each with its kind."""
        return whole(lambda: _items(self.pages(path, query)))

    def changes(
        self,
        path: str,
        query: Mapping[str, Any],
        version: str,
        *,
        accept: str = "application/json",
    ) -> Iterator[dict[str, Any]]:
        """Every event of a list's objects after ``version``, however often the server ends the
        watch. Ends where the server no longer has the changes since the last one seen: then the
        list must be read again."""
        while True:
            since = {**query, "resourceVersion": version, "allowWatchBookmarks": "true"}
            try:
                for event in self.client.watch(path, since, accept=accept):
                    version = version_of(event.get("object") or {}) or version
                    # A bookmark only moves the version on: a watch that is resumed after a long
                    # silence does not begin too far back.
                    if event.get("type") != "BOOKMARK":
                        yield event
            except KubeError as error:
                if error.code != EXPIRED:
                    raise
                time.sleep(PAUSE)
                return
            time.sleep(PAUSE)

    def place(self, resource: Resource, *, everywhere: bool = False) -> str | None:
        """The namespace in the path of a kind; None where it has none."""
        return self.namespace if resource.namespaced and not everywhere else None


def _items(pages: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for page in pages:
        kind = str(page.get("kind", "")).removesuffix("List")
        head = {"apiVersion": page.get("apiVersion"), "kind": kind}
        items += [{**head, **item} for item in page.get("items") or ()]
    return items


def version_of(value: dict[str, Any]) -> str:
    """The version of an object, or of the one row of a table."""
    rows = value.get("rows") or ()
    inner = [row.get("object") or {} for row in rows[-1:]]
    metas = [candidate.get("metadata") or {} for candidate in (*inner, value)]
    return next((str(m["resourceVersion"]) for m in metas if m.get("resourceVersion")), "")


def whole(read: Callable[[], Loaded]) -> Loaded:
    """Read a list once more where its pages expired while it was read."""
    try:
        return read()
    except KubeError as error:
        if error.code != EXPIRED:
            raise
        return read()


@contextmanager
def session(
    connection: Connection, *, namespace: str | None = None, timeout: float = 30.0
) -> Iterator[ServerSession]:
    """Connect to the server that the options, the environment or a kubeconfig names. Raises
    :class:`CommandError` for every error that the user can fix."""
    with (
        as_command_errors(ConfigError, KubeError),
        closing(connected(connection, timeout=timeout)) as client,
    ):
        place = namespace or client.access.namespace or "default"
        yield ServerSession(client, place, named=bool(namespace))
