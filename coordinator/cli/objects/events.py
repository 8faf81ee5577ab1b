"""``quadrant events``: what happened, oldest first."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator.cli.client.completion import complete_pairs
from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import AllNamespaces, Namespace, NoHeaders, Output
from coordinator.cli.options.failure import EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from coordinator.cli.client.session import ServerSession
    from coordinator.cli.output.printing import OutputForm, TextColumns

HEADS = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


def events(
    *,
    about: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="TYPE/NAME",
            autocompletion=complete_pairs("pod", "podgroup", "job", "node", "queue", "shard"),
            help="Only what happened to this object",
        ),
    ] = "",
    types: Annotated[
        str, typer.Option("--types", metavar="TYPES", help="Only these types: Warning, Normal")
    ] = "",
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    output: Output = "",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show the events, and then every new one")
    ] = False,
    watch_only: Annotated[bool, typer.Option("--watch-only", help="Show only new events")] = False,
    no_headers: NoHeaders = False,
    connection: Connection,
) -> None:
    """Show events, oldest first

    Events are kept until the coordinator ends.

    Examples:

      quadrant events --for podgroup/train-7

      quadrant events -A --types=Warning -w
    """
    from coordinator.cli.client.session import session
    from coordinator.cli.output.printing import form_of

    form = form_of(output)
    kinds = [kind.strip().capitalize() for kind in types.split(",") if kind.strip()]
    wrong = [kind for kind in kinds if kind not in ("Normal", "Warning")]
    if wrong:
        raise CommandError(f"--types {wrong[0]}: write Normal, Warning or both", code=EXIT_USAGE)
    with session(connection, namespace=namespace) as api:
        log = _Log(api, form, kinds, everywhere=all_namespaces, headers=not no_headers)
        query = log.query(about)
        if watch or watch_only:
            log.follow(query, show_first=not watch_only)
        else:
            log.show(query)


class _Log:
    def __init__(
        self,
        session: ServerSession,
        form: OutputForm,
        kinds: list[str],
        *,
        everywhere: bool,
        headers: bool,
    ) -> None:
        from coordinator.cli.output.printing import TextColumns
        from coordinator.cli.output.terminal import painter, width_of

        self._session = session
        self._form = form
        self._kinds = kinds
        self._everywhere = everywhere
        heads = ("NAMESPACE", *HEADS) if everywhere else HEADS
        self._columns: TextColumns = TextColumns(
            heads, headers, paint=painter(sys.stdout), width=width_of(sys.stdout)
        )

    def query(self, about: str) -> dict[str, Any]:
        if not about:
            return {}
        (target,) = self._session.catalog.targets([about])
        if not target.names:
            raise CommandError(f"--for {about}: not TYPE/NAME", code=EXIT_USAGE)
        if not target.resource.namespaced:
            self._everywhere_in_path = True
        fields = {
            "involvedObject.kind": target.resource.kind,
            "involvedObject.name": target.names[0],
        }
        return {"fieldSelector": ",".join(f"{k}={v}" for k, v in fields.items())}

    _everywhere_in_path = False
    """Whether events of an object without namespace may be in any namespace."""

    @property
    def _path(self) -> str:
        resource = self._session.catalog.resolve("events")
        everywhere = self._everywhere or self._everywhere_in_path
        return resource.path(self._session.place(resource, everywhere=everywhere))

    def _wanted(self, event: dict[str, Any]) -> bool:
        return not self._kinds or event.get("type") in self._kinds

    def show(self, query: dict[str, Any]) -> None:
        from coordinator.cli.objects.description import time_of

        events = [e for e in self._session.items(self._path, query) if self._wanted(e)]
        self._write(sorted(events, key=time_of), alone=False)

    def follow(self, query: dict[str, Any], *, show_first: bool) -> None:
        from coordinator.cli.objects.description import time_of

        while True:
            listed = self._session.client.get(self._path, query)
            if show_first:
                events = [e for e in listed.get("items") or () if self._wanted(e)]
                self._write(sorted(events, key=time_of), alone=True)
                show_first = False
            version = str(listed["metadata"]["resourceVersion"])
            for change in self._session.changes(self._path, query, version):
                event = change.get("object") or {}
                if change.get("type") in ("ADDED", "MODIFIED") and self._wanted(event):
                    self._write([event], alone=True)

    def _write(self, events: list[dict[str, Any]], *, alone: bool) -> None:
        """``alone``: each event is a document of its own, for there will be more."""
        from coordinator.cli.output.printing import one_or_list, write, write_form

        if self._form.table:
            if events:
                self._columns.rows([self._row(event) for event in events])
            elif not alone:
                sys.stderr.write("No events found\n")
        elif self._form.word == "name":
            for event in events:
                write(f"event/{event['metadata']['name']}\n")
        elif alone:
            for event in events:
                if self._form.word == "yaml":
                    write("---\n")
                write_form(self._form, event)
        else:
            write_form(self._form, one_or_list(events, single=False))
        sys.stdout.flush()

    def _row(self, event: dict[str, Any]) -> list[str]:
        from coordinator.cli.objects.description import last_seen, message_of
        from coordinator.cli.output.printing import cell

        about = event.get("involvedObject") or event.get("regarding") or {}
        row = [
            last_seen(event, time.time()),
            cell(event.get("type")),
            cell(event.get("reason")),
            f"{str(about.get('kind') or '').lower()}/{about.get('name')}",
            message_of(event),
        ]
        return [str(event["metadata"].get("namespace") or ""), *row] if self._everywhere else row
