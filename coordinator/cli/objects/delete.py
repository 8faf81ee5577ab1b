"""``quadrant delete``: by name, by label, or what files name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import (
    DryRunChoice,
    DryRunOption,
    FieldSelector,
    Namespace,
    OptionalTargets,
    Selector,
)
from coordinator.cli.objects.apply import SUFFIX
from coordinator.cli.options.failure import EXIT_ERROR, EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from coordinator.cli.client.client import KubeError
    from coordinator.cli.client.kinds import Resource
    from coordinator.cli.client.session import ServerSession

POLL_SECONDS = 0.1
MISSING = 404
CONFLICT = 409


def delete(
    targets: OptionalTargets = None,
    *,
    files: Annotated[
        list[str] | None,
        typer.Option("--filename", "-f", metavar="FILE", help="Delete the objects of these files"),
    ] = None,
    namespace: Namespace = None,
    selector: Selector = "",
    field_selector: FieldSelector = "",
    everything: Annotated[
        bool, typer.Option("--all", help="All objects of the kind in the namespace")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the objects are gone")
    ] = True,
    timeout: Annotated[
        str,
        typer.Option("--timeout", metavar="TIME", help="Maximum time: 30s, 2m; 0 = for ever"),
    ] = "0",
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="Succeed if a name does not exist")
    ] = False,
    dry_run: DryRunOption = DryRunChoice.NONE,
    connection: Connection,
) -> None:
    """Delete objects by name, by label or from files

    Waits until they are gone: a job keeps its name until its last task has ended.

    Examples:

      quadrant delete podgroup/train-7

      quadrant delete pods -l app=eval

      quadrant delete -f job.yaml --no-wait
    """
    from coordinator.cli.client.session import session
    from coordinator.cli.output.durations import seconds_of
    from coordinator.cli.output.printing import write
    from coordinator.cli.output.terminal import say_error

    patience = seconds_of(timeout, "--timeout")
    if bool(targets) == bool(files):
        raise CommandError("name objects, or files with -f; one of both", code=EXIT_USAGE)
    with session(connection, namespace=namespace) as api:
        if targets:
            places = _named(api, targets, selector, field_selector, everything=everything)
        else:
            places = _in_files(api, files or [])
        deletion = _Deletion(api, dry_run, wait=wait, patience=patience)
        for (resource, place, name), first in deletion.try_all(places):
            path, label = resource.path(place, name), f"{resource.label}/{name}"
            error = deletion.settle(path, label, first)
            if error is None:
                write(f"{label} deleted{SUFFIX[dry_run]}\n")
            elif error.code != MISSING or not ignore_not_found:
                deletion.failed += 1
                say_error(str(error))
        deletion.wait_until_gone()
    if deletion.failed:
        raise typer.Exit(EXIT_ERROR)


Place = tuple["Resource", str | None, str]


def _named(
    session: ServerSession, words: list[str], labels: str, fields: str, *, everything: bool
) -> list[Place]:
    places: list[Place] = []
    chosen = bool(labels or fields or everything)
    for target in session.catalog.targets(words):
        place = session.place(target.resource)
        if bool(target.names) == chosen:
            plural = target.resource.plural
            message = f"{plural}: name objects, or choose them with -l, --field-selector or --all"
            raise CommandError(message, code=EXIT_USAGE)
        names = target.names
        if not names:
            query = session.list_query(labels=labels, fields=fields)
            items = session.items(target.resource.path(place), query)
            names = tuple(str(item["metadata"]["name"]) for item in items)
        places += [(target.resource, place, name) for name in names]
    return places


def _in_files(session: ServerSession, files: list[str]) -> list[Place]:
    """The objects of the files, last one first: an object is deleted before those it refers to."""
    from coordinator.cli.client.manifests import placed, read_files

    manifests = [placed(session, source, value) for source, value in read_files(files)]
    return [(m.resource, m.namespace, m.name) for m in reversed(manifests)]


class _Deletion:
    """Deletes objects one by one, and waits for those that are leaving."""

    def __init__(
        self, session: ServerSession, dry_run: DryRunChoice, *, wait: bool, patience: float
    ) -> None:
        self._session = session
        self._dry_run = dry_run
        self._wait = wait and dry_run is DryRunChoice.NONE
        self._patience = patience
        self._leaving: list[tuple[str, str]] = []
        """Path and label."""
        self.failed = 0

    def try_all(self, places: list[Place]) -> Iterator[tuple[Place, KubeError | None]]:
        """Each with the refusal of the server, in order. Raises KubeError without a server."""
        from coordinator.cli.client.parallel import side_by_side

        return side_by_side(self._session, places, self._try, alike=lambda place: place[0])

    def settle(self, path: str, label: str, error: KubeError | None) -> KubeError | None:
        """A queue goes only after its jobs, and those may be among what was named before it: it is
        asked for once more when they are gone."""
        if error is not None and error.code == CONFLICT and self._wait and self._leaving:
            self.wait_until_gone()
            error = self._ask(self._session, path)
        if error is None:
            self._leaving.append((path, label))
        return error

    def _try(self, session: ServerSession, place: Place) -> KubeError | None:
        resource, namespace, name = place
        return self._ask(session, resource.path(namespace, name))

    def _ask(self, session: ServerSession, path: str) -> KubeError | None:
        from coordinator.cli.client.client import RequestRefused

        try:
            if self._dry_run is DryRunChoice.CLIENT:
                session.client.get(path)
            else:
                query = {"dryRun": "All" if self._dry_run is DryRunChoice.SERVER else ""}
                session.client.ask("DELETE", path, query)
        except RequestRefused as error:
            return error
        return None

    def wait_until_gone(self) -> None:
        """Wait until the deleted objects are gone; objects that remain after the timeout have
        failed."""
        from coordinator.cli.output.terminal import say_error

        deadline = time.monotonic() + self._patience if self._patience else None
        leaving, self._leaving = self._leaving if self._wait else [], []
        for path, label in leaving:
            while self._is_there(path):
                if deadline is not None and time.monotonic() > deadline:
                    self.failed += 1
                    say_error(f"{label}: still there when --timeout was over; its tasks are ending")
                    break
                time.sleep(POLL_SECONDS)

    def _is_there(self, path: str) -> bool:
        """Whether the object is still being deleted. One without a deletionTimestamp is a new
        object of the same name."""
        from coordinator.cli.client.client import KubeError

        try:
            obj = self._session.client.get(path)
        except KubeError as error:
            if error.code != MISSING:
                raise
            return False
        return bool((obj.get("metadata") or {}).get("deletionTimestamp"))
