"""Which server a command asks: options, and nothing that talks to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Any

import typer

SERVER = "The server"


def complete_contexts(ctx: Any, args: list[str], incomplete: str) -> list[str]:
    from coordinator.cli.client.kubeconfig import contexts
    from shared.kubeconfig import ConfigError

    try:
        return [name for name in contexts(os.environ) if name.startswith(incomplete)]
    except ConfigError:
        return []


@dataclass(frozen=True, slots=True)
class Connection:
    """Which server is asked, and whether the requests are shown."""

    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            "-s",
            metavar="URL",
            rich_help_panel=SERVER,
            help="Address of the coordinator, several with commas; otherwise QUADRANT_SERVER, or "
            "the kubeconfig's",
        ),
    ] = None
    service: Annotated[
        str | None,
        typer.Option(
            "--service",
            metavar="NAMESPACE/NAME",
            rich_help_panel=SERVER,
            help="Quadrant's service, where the kubeconfig's server is a Kubernetes API server: "
            "asked through its proxy; otherwise QUADRANT_SERVICE, or quadrant/quadrant",
        ),
    ] = None
    service_account: Annotated[
        str | None,
        typer.Option(
            "--service-account",
            metavar="NAMESPACE/NAME",
            rich_help_panel=SERVER,
            help="Service account whose token is shown to Quadrant there; otherwise "
            "QUADRANT_SERVICE_ACCOUNT, or quadrant/quadrant-client",
        ),
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            rich_help_panel=SERVER,
            autocompletion=complete_contexts,
            help="Context of the kubeconfig to use",
        ),
    ] = None
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", rich_help_panel=SERVER, help="Tell every request on stderr"
        ),
    ] = False
