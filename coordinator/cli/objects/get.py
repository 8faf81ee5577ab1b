"""``quadrant get``: objects of any kind the server has, once or as they change."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import (
    AllNamespaces,
    FieldSelector,
    Namespace,
    NoHeaders,
    Output,
    Selector,
    Targets,
)
from coordinator.cli.options.failure import EXIT_ERROR, EXIT_USAGE, CommandError


def get(
    targets: Targets,
    *,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    field_selector: FieldSelector = "",
    output: Output = "",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show the objects, and then every change of them")
    ] = False,
    watch_only: Annotated[
        bool, typer.Option("--watch-only", help="Show only changes, not the present objects")
    ] = False,
    no_headers: NoHeaders = False,
    sort_by: Annotated[
        str, typer.Option("--sort-by", metavar="PATH", help="Order by this field: .metadata.name")
    ] = "",
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="Succeed if a name does not exist")
    ] = False,
    show_managed_fields: Annotated[
        bool, typer.Option("--show-managed-fields", help="With json and yaml: owners of fields")
    ] = False,
    connection: Connection,
) -> None:
    """Show objects: pods, nodes, jobs, podgroups, queues, shards, events

    Kinds may be plural, singular or short: quadrant get po,q

    Examples:

      quadrant get pods -A

      quadrant get podgroups,queues -o wide

      quadrant get pod/web-0 -o jsonpath='{.spec.nodeName}'
    """
    from coordinator.cli.client.session import session
    from coordinator.cli.objects.tables import TablePrinter, TableQuestion
    from coordinator.cli.output.printing import form_of, path_of

    question = TableQuestion(
        form=form_of(output),
        everywhere=all_namespaces,
        labels=selector,
        fields=field_selector,
        headers=not no_headers,
        sort=path_of(sort_by, "--sort-by") if sort_by else None,
        ignore_missing=ignore_not_found,
        managers=show_managed_fields,
    )
    if sort_by and (watch or watch_only):
        raise CommandError("--sort-by and --watch exclude each other", code=EXIT_USAGE)
    with session(connection, namespace=namespace) as api:
        chosen = api.catalog.targets(targets)
        shower = TablePrinter(api, question)
        if watch or watch_only:
            if len(chosen) != 1 or len(chosen[0].names) > 1:
                raise CommandError("--watch takes one kind, or one name", code=EXIT_USAGE)
            shower.watch(chosen[0], show_first=not watch_only)
            return
        failed = shower.show(chosen)
    if failed:
        raise typer.Exit(EXIT_ERROR)
