"""``quadrant version``: of this command, and of the server where one answers."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import Output

API_VERSION = "quadrant.dev/v1alpha1"


def version(
    *,
    client: Annotated[bool, typer.Option("--client", help="Ask no server")] = False,
    output: Output = "",
    connection: Connection,
) -> None:
    """Print the version of this command and of the server

    Without a server, only that of the command. With it, the schema of the ledger that this version
    reads (one of an older schema is taken up at the first start), and its wire, a digest of what
    coordinators and workers have in common: two versions with the same schema and wire may serve
    side by side.
    """
    from coordinator.cli.client.session import session
    from coordinator.cli.options.failure import CommandError
    from coordinator.cli.output.printing import form_of, write, write_form
    from shared.ledger.schema import SCHEMA
    from shared.wire_digest import WIRE

    form = form_of(output)
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "Version",
        "clientVersion": own_version(),
        "ledgerSchema": SCHEMA,
        "wire": WIRE,
    }
    if not client:
        try:
            with session(connection, timeout=2.0) as api:
                document["serverVersion"] = api.client.get("/version")
        except CommandError:
            if connection.server or connection.context:
                raise
    if not form.table:
        write_form(form, document)
        return
    write(f"quadrant {document['clientVersion']}, schema {SCHEMA} of the ledger, wire {WIRE}\n")
    if not client:
        remote = document.get("serverVersion", {}).get("gitVersion", "<unknown>")
        write(f"server {remote}\n")


def own_version() -> str:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("quadrant")
    except PackageNotFoundError:
        return "<unknown>"
