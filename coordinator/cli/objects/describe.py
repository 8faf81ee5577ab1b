"""``quadrant describe``: everything about objects, with their events."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import typer

from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import (
    AllNamespaces,
    FieldSelector,
    Namespace,
    Selector,
    Targets,
)
from coordinator.cli.options.failure import EXIT_ERROR

if TYPE_CHECKING:
    from coordinator.cli.client.kinds import Resource
    from coordinator.cli.client.session import ServerSession


def describe(
    targets: Targets,
    *,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    field_selector: FieldSelector = "",
    connection: Connection,
) -> None:
    """Show objects in full, with conditions and events

    Labels, specification, status, the reason it waits, conditions and events.

    Examples:

      quadrant describe podgroup/train-7

      quadrant describe nodes -l zone=a
    """
    from coordinator.cli.client.client import RequestRefused
    from coordinator.cli.client.session import session
    from coordinator.cli.output.terminal import say_error

    failed = False
    with session(connection, namespace=namespace) as api:
        objects: list[tuple[Resource, dict[str, Any]]] = []
        query = api.list_query(labels=selector, fields=field_selector)
        for target in api.catalog.targets(targets):
            resource = target.resource
            place = api.place(resource, everywhere=all_namespaces and not target.names)
            if not target.names:
                items = api.items(resource.path(place), query)
                objects += [(resource, item) for item in items]
            for name in target.names:
                try:
                    objects.append((resource, api.client.get(resource.path(place, name))))
                except RequestRefused as error:
                    failed = True
                    say_error(str(error))
        show(api, objects)
        if not objects and not failed:
            typer.echo(f"No resources found in {api.namespace} namespace", err=True)
    if failed:
        raise typer.Exit(EXIT_ERROR)


def show(session: ServerSession, objects: list[tuple[Resource, dict[str, Any]]]) -> None:
    """Print each object, two empty lines between them."""
    from coordinator.cli.objects.description import describe as described
    from coordinator.cli.output.printing import write
    from coordinator.cli.output.terminal import width_of

    width = width_of(sys.stdout)
    for at, (resource, value) in enumerate(objects):
        if at:
            write("\n\n")
        write(described(value, events_about(session, resource, value), time.time(), width=width))


def events_about(
    session: ServerSession, resource: Resource, value: dict[str, Any]
) -> list[dict[str, Any]]:
    """The events of one object; none where the server has no events."""
    from coordinator.cli.client.client import KubeError

    namespace = value["metadata"].get("namespace")
    try:
        events = session.catalog.resolve("events")
    except KubeError:
        return []
    items: list[dict[str, Any]] = []
    for kind, name in _subjects(resource, value):
        fields = {"involvedObject.kind": kind, "involvedObject.name": name}
        if namespace:
            fields["involvedObject.namespace"] = namespace
        query = {"fieldSelector": ",".join(f"{k}={v}" for k, v in fields.items())}
        items += session.items(events.path(namespace), query)
    return items


def _subjects(resource: Resource, value: dict[str, Any]) -> list[tuple[str, str]]:
    """(kind, name) of the object; of a PodGroup its Job, too: what happens to it is told there."""
    meta = value["metadata"]
    subjects = [(resource.kind, str(meta["name"]))]
    if resource.kind == "PodGroup":
        subjects += [(str(o["kind"]), str(o["name"])) for o in meta.get("ownerReferences") or ()]
    return subjects
