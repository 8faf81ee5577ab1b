"""``quadrant snapshot``: a dump of a running service that ``quadrant replay`` takes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator.cli.client.connection import Connection
from coordinator.cli.options.failure import EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from coordinator.cli.client.session import ServerSession

RECORD = "/apis/quadrant.dev/v1alpha1/record"
TRIES = 3
"""Attempts to read a snapshot before giving up: one fails where the cluster changed meanwhile."""


def snapshot(
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FORM", help="yaml or json")
    ] = "yaml",
    connection: Connection,
) -> None:
    """Write a dump of a running service: all objects that affect decisions

    Nodes, queues, PodGroups, pods with their nodes and phases, everything else that placement
    reads, the policy as a ConfigMap, and the events. quadrant replay decides this moment again,
    under any policy.

    The objects are read kind by kind. If something changed meanwhile they are read again, at most
    three times; then the last reading is written, with a warning on stderr.

    Examples:

      quadrant snapshot > now.yaml

      quadrant replay now.yaml --diff tomorrow.yaml
    """
    from coordinator.cli.client.session import session
    from coordinator.cli.output.printing import as_json, as_yaml
    from laboratory.replay.snapshot import snapshot as made_of

    if output not in ("yaml", "json"):
        raise CommandError(f"-o {output}: not known; write yaml or json", code=EXIT_USAGE)
    with session(connection) as api:
        objects, record = _read(api)
    sys.stdout.write((as_json if output == "json" else as_yaml)(made_of(objects, record)))


def _read(api: ServerSession) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    for _ in range(TRIES):
        before = _version(api)
        record = api.client.get(RECORD)
        objects = [
            item
            for resource in api.catalog.resources
            if "list" in resource.verbs
            for item in api.items(resource.path(None), {})
        ]
        if _version(api) == before:
            return objects, record
    sys.stderr.write(
        "the service did not stand still: objects are of moments that are some milliseconds apart\n"
    )
    return objects, record


def _version(api: ServerSession) -> str:
    """Moves with every change of anything that is listed."""
    answer = api.client.get("/api/v1/pods", {"limit": 1})
    return str((answer.get("metadata") or {}).get("resourceVersion"))
