"""Options that mean the same in every command that asks a server."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from coordinator.cli.client.completion import complete_namespaces, complete_targets


class DryRunChoice(StrEnum):
    """How much of a change is only pretended."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace", "-n", autocompletion=complete_namespaces, help="Namespace of the objects"
    ),
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Objects of every namespace")
]
Selector = Annotated[
    str, typer.Option("--selector", "-l", metavar="LABELS", help="Only with these labels: app=web")
]
FieldSelector = Annotated[
    str,
    typer.Option(
        "--field-selector", metavar="FIELDS", help="Only with these fields: status.phase=Pending"
    ),
]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FORM",
        help="wide, json, yaml, name or jsonpath=TEMPLATE; otherwise a table",
    ),
]
Files = Annotated[
    list[str],
    typer.Option(
        "--filename", "-f", metavar="FILE", help="File or directory of manifests; - reads stdin"
    ),
]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Leave out the line of headers")]
DryRunOption = Annotated[
    DryRunChoice,
    typer.Option(
        "--dry-run",
        metavar="HOW",
        help="Change nothing: check here (client) or on the server (server)",
    ),
]
_TARGETS = typer.Argument(
    metavar="TYPE[/NAME] [NAME]...",
    autocompletion=complete_targets,
    help="Kinds, separated by commas, and names; or TYPE/NAME several times",
)
Targets = Annotated[list[str], _TARGETS]
OptionalTargets = Annotated[list[str] | None, _TARGETS]
