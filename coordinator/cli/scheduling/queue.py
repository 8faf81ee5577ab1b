"""``quadrant queue``: who shares the cluster, how much each has and is due, what waits and why."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator.cli.client.completion import complete_names
from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import DryRunChoice, DryRunOption, NoHeaders, Output
from coordinator.cli.options.records import CommandGroup

if TYPE_CHECKING:
    from coordinator.cli.scheduling.queue_figures import QueueMetrics

app = CommandGroup(no_args_is_help=True, help="List, describe, close and open queues")

Names = Annotated[
    list[str],
    typer.Argument(metavar="NAME...", autocompletion=complete_names("queues"), help="Queues"),
]

HEADS = ("NAME", "STATE", "WEIGHT", "SHARE", "ALLOCATED", "DESERVED", "PENDING", "REASON")
RESOURCES = 2
"""Amounts of this many resources fit into a cell; ``-o wide`` shows all."""
FIRST = ("nvidia.com/gpu", "cpu", "memory")
UNKNOWN = "<unknown>"


@app.command("list")
def list_queues(
    *,
    output: Output = "",
    no_headers: NoHeaders = False,
    connection: Connection,
) -> None:
    """List queues: share, weight, what they have and are due, what waits in them and why"""
    from coordinator.cli.client.session import session
    from coordinator.cli.output.printing import TextColumns, form_of, one_or_list, write, write_form
    from coordinator.cli.output.terminal import painter, width_of
    from coordinator.cli.scheduling.queue_figures import METRICS, queue_figures

    form = form_of(output)
    with session(connection) as api:
        resource = api.catalog.resolve("queues")
        queues = api.items(resource.path(None), {})
        figures = queue_figures(api.client.text(METRICS)) if form.table else {}
    if form.word == "name":
        for queue in queues:
            write(f"{resource.label}/{queue['metadata']['name']}\n")
    elif form.table:
        columns = TextColumns(
            HEADS, not no_headers, paint=painter(sys.stdout), width=width_of(sys.stdout)
        )
        wide = form.word == "wide"
        columns.rows([row_of(queue, figures, wide=wide) for queue in queues])
    else:
        write_form(form, one_or_list(queues, single=False))


@app.command()
def describe(names: Names, *, connection: Connection) -> None:
    """Show queues in full, with what happened to them"""
    from coordinator.cli.objects.describe import describe as described

    described(["queues", *names], connection=connection)


@app.command("close")
def close_queue(
    names: Names,
    *,
    dry_run: DryRunOption = DryRunChoice.NONE,
    connection: Connection,
) -> None:
    """Close queues: nothing new of theirs is placed, what runs goes on"""
    _set_state(names, "Closed", dry_run, connection)


@app.command("open")
def open_queue(
    names: Names,
    *,
    dry_run: DryRunOption = DryRunChoice.NONE,
    connection: Connection,
) -> None:
    """Open queues that were closed"""
    _set_state(names, "Open", dry_run, connection)


def _set_state(names: list[str], state: str, dry_run: DryRunChoice, connection: Connection) -> None:
    import orjson

    from coordinator.cli.client.client import MERGE, Refused
    from coordinator.cli.client.session import session
    from coordinator.cli.objects.apply import MANAGER, SUFFIX
    from coordinator.cli.options.failure import EXIT_ERROR
    from coordinator.cli.output.printing import write
    from coordinator.cli.output.terminal import say_error

    verb = "closed" if state == "Closed" else "opened"
    failed = False
    with session(connection) as api:
        resource = api.catalog.resolve("queues")
        for name in names:
            path = resource.path(None, name)
            query = {
                "fieldManager": MANAGER,
                "dryRun": "All" if dry_run is DryRunChoice.SERVER else "",
            }
            body = orjson.dumps({"status": {"state": state}})
            try:
                if dry_run is DryRunChoice.CLIENT:
                    api.client.get(path)
                else:
                    api.client.ask("PATCH", path, query, body=body, content=MERGE)
            except Refused as error:
                failed = True
                say_error(str(error))
                continue
            write(f"{resource.label}/{name} {verb}{SUFFIX[dry_run]}\n")
    if failed:
        raise typer.Exit(EXIT_ERROR)


# --- rows -------------------------------------------------------------------------------------


def row_of(
    queue: Mapping[str, Any], figures: Mapping[str, QueueMetrics], *, wide: bool
) -> list[str]:
    """One line of the list. What the server does not tell is ``<unknown>``."""
    from coordinator.cli.output.printing import cell

    name = str(queue["metadata"]["name"])
    spec, status = queue.get("spec") or {}, queue.get("status") or {}
    head = [name, cell(status.get("state") or "Open"), cell(spec.get("weight", 1))]
    of_queue = figures.get(name)
    if of_queue is None:
        return [*head, *[UNKNOWN] * (len(HEADS) - len(head))]
    most = None if wide else RESOURCES
    return [
        *head,
        f"{of_queue.share:.2f}",
        amounts(of_queue.amounts.get("allocated"), most),
        amounts(of_queue.amounts.get("deserved"), most),
        str(sum(of_queue.waiting.values())),
        reasons(of_queue.waiting),
    ]


def amounts(values: Mapping[str, float] | None, most: int | None) -> str:
    """``12 gpu, 3 cpu``: accelerators first; resources are named without their domain."""
    from shared.units.quantity import quantity, unit_of

    nonzero = {name: value for name, value in (values or {}).items() if value and name != "pods"}
    order = sorted(nonzero, key=lambda name: (_rank(name), name))
    return ", ".join(
        f"{quantity(name, nonzero[name] * unit_of(name))} {name.rpartition('/')[2]}"
        for name in order[:most]
    )


def _rank(name: str) -> int:
    if name in FIRST:
        return FIRST.index(name)
    return 0 if "/" in name else len(FIRST)


def reasons(waiting: Mapping[str, int]) -> str:
    """Why most of them wait, with how many there are of each."""
    most = sorted(waiting.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{reason} {count}" for reason, count in most[:3])
