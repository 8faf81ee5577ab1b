"""``quadrant shard``: the parts of the cluster and their workers."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli.client.completion import complete_names
from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import NoHeaders, Output
from coordinator.cli.options.records import CommandGroup

app = CommandGroup(no_args_is_help=True)


@app.command("list")
def list_shards(
    *,
    output: Output = "",
    no_headers: NoHeaders = False,
    connection: Connection,
) -> None:
    """List shards: state of the worker, nodes, open turns"""
    from coordinator.cli.objects.get import get

    get(
        ["shards"],
        output=output,
        no_headers=no_headers,
        connection=connection,
    )


@app.command()
def describe(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", autocompletion=complete_names("shards"), help="Shards"),
    ],
    *,
    connection: Connection,
) -> None:
    """Show shards in full, with events"""
    from coordinator.cli.objects.describe import describe as described

    names = [f"shard-{name}" if name.isdecimal() else name for name in names]
    described(["shards", *names], connection=connection)
