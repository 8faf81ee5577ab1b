"""``quadrant up``: everything running until Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coordinator.commands.options import ModeOption, Seed, Shards


def up(
    *,
    shards: Shards | None = None,
    mode: ModeOption | None = None,
    seed: Seed | None = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="Address of the HTTP interface; port 0 = any"
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Scheduler configuration, in the form of Volcano's",
        ),
    ] = None,
) -> None:
    """Start the ledger, Ray, the coordinator and a simulated cluster, and keep them running

    Prints the address of the HTTP interface on stdout. Ctrl-C stops everything; what was
    acknowledged is in the ledger's files and is there again after the next start. What no option
    says is taken from the environment (QUADRANT_...); see: quadrant config show --origin
    """
    host, port = _host_and_port(listen)
    from coordinator.commands.failure import CommandError
    from coordinator.commands.stack import run_to_exit_code
    from shared.settings import Settings, SettingsError, load_settings

    try:
        settings = load_settings(
            shards=shards,
            mode=mode and mode.value,
            seed=seed,
            listen_host=host,
            listen_port=port,
            policy=policy,
        )
    except SettingsError as error:
        raise CommandError(str(error)) from None

    async def serve(settings: Settings) -> int:
        from coordinator.supervisor import Supervisor

        async with Supervisor(settings) as supervisor:
            typer.echo(supervisor.url)
            typer.echo("Running; Ctrl-C stops everything", err=True)
            await supervisor.wait()
        return 0

    raise typer.Exit(run_to_exit_code(lambda: serve(settings)))


def _host_and_port(listen: str | None) -> tuple[str | None, int | None]:
    """The parts of HOST:PORT; None where nothing was said."""
    if listen is None:
        return None, None
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal():
        raise typer.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--listen")
    return host, int(port)
