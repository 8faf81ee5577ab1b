"""``quadrant version``: of this command, and of the server where one answers."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from coordinator.commands.kube_options import Context, Output, Server, Verbose

API_VERSION = "quadrant.dev/v1alpha1"


def version(
    *,
    client: Annotated[bool, typer.Option("--client", help="Ask no server")] = False,
    output: Output = "",
    server: Server = None,
    context: Context = None,
    verbose: Verbose = False,
) -> None:
    """Print the version of this command and of the server

    Where no server was named and none answers, only the first.
    """
    from coordinator.commands.failure import CommandError
    from coordinator.commands.printing import form_of, write, write_form
    from coordinator.commands.session import session

    form = form_of(output)
    told: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "Version",
        "clientVersion": own_version(),
    }
    if not client:
        try:
            with session(server=server, context=context, verbose=verbose, timeout=2.0) as asked:
                told["serverVersion"] = asked.client.get("/version")
        except CommandError:
            if server or context:
                raise
    if not form.table:
        write_form(form, told)
        return
    write(f"quadrant {told['clientVersion']}\n")
    if not client:
        remote = told.get("serverVersion", {}).get("gitVersion", "<unknown>")
        write(f"server {remote}\n")


def own_version() -> str:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("quadrant")
    except PackageNotFoundError:
        return "<unknown>"
