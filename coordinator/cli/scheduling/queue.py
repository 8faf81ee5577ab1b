"""``quadrant queue``: who shares the cluster, how much each has and is due, what waits and why."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator.cli.client.completion import complete_names
from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import DryRunChoice, DryRunOption, NoHeaders, Output
from coordinator.cli.options.records import CommandGroup

if TYPE_CHECKING:
    from coordinator.cli.scheduling.queue_figures import QueueMetrics

app = CommandGroup(no_args_is_help=True)

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
    """List queues: share, weight, usage, deserved share, waiting jobs and their reasons

    Under a policy of KAI's: the tree of queues, with quota, limit, weight, fair share and usage of
    each resource; -o wide includes resources that the cluster lacks.
    """
    from coordinator.cli.client.session import session
    from coordinator.cli.output.printing import TextColumns, form_of, one_or_list, write, write_form
    from coordinator.cli.output.terminal import painter, width_of
    from coordinator.cli.scheduling import kai_queues
    from coordinator.cli.scheduling.queue_figures import METRICS, queue_figures

    form = form_of(output)
    with session(connection) as api:
        resource = api.catalog.resolve("queues")
        if resource.group == kai_queues.GROUP and form.table:
            kai_queues.print_tree(kai_queues.read_tree(api), form, no_headers=no_headers)
            return
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
    """Show queues in full, with events

    Under a policy of KAI's: first their shares, with those of the queues above and below them.
    """
    from coordinator.cli.client.session import session
    from coordinator.cli.objects.describe import describe as described
    from coordinator.cli.output.printing import form_of, write
    from coordinator.cli.scheduling import kai_queues

    with session(connection) as api:
        if api.catalog.resolve("queues").group == kai_queues.GROUP:
            tree = kai_queues.read_tree(api)
            only = kai_queues.chain_of(tree, names)
            if only:
                kai_queues.print_tree(tree, form_of(""), only=only)
                write("\n")
    described(["queues", *names], connection=connection)


@app.command("order")
def queue_order(*, output: Output = "", connection: Connection) -> None:
    """Show the next job of each queue in order, and which of KAI's eight steps decides

    The order holds for the present state; each turn changes it. As in the service, queues are
    compared by their usage including the next job. Only under a policy of KAI's.
    """
    from coordinator.cli.client.session import session
    from coordinator.cli.output.printing import TextColumns, form_of, write, write_form
    from coordinator.cli.output.terminal import width_of
    from coordinator.cli.scheduling import kai_queues

    form = form_of(output)
    with session(connection) as api:
        tree = kai_queues.read_tree(api)
    if form.word == "name":
        write("".join(f"{entry['job']}\n" for entry in tree["order"]))
    elif form.table:
        columns = TextColumns(kai_queues.ORDER_HEADS, width=width_of(sys.stdout))
        columns.rows(list(kai_queues.order_rows(tree)))
    else:
        write_form(form, {"kind": "QueueOrder", "order": tree["order"]})


@app.command("pairs")
def show_pairs(
    *,
    resource: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Only this resource; otherwise accelerators, or cpu if none"
        ),
    ] = "",
    output: Output = "",
    connection: Connection,
) -> None:
    """Show what queues lack of their share, and which queues have it instead

    FROM is a queue that borrows, or (free) for amounts that are free and cannot be used yet (by a
    gang, or on nodes that are too small). The pairs of a resource sum exactly to what its queues
    lack. HOURS: since the coordinator began to lead. Then, for each queue that lacks something,
    what reclaim may take back.

    Examples:

      quadrant queue pairs --resource cpu

      quadrant queue pairs -o json
    """
    from coordinator.cli.client.session import session
    from coordinator.cli.output.printing import TextColumns, form_of, write, write_form
    from coordinator.cli.output.terminal import width_of
    from coordinator.cli.scheduling import queue_pairs

    form = form_of(output)
    with session(connection) as api:
        answer = queue_pairs.read_pairs(api, resource)
    if not form.table:
        write_form(form, answer)
        return
    if rows := list(queue_pairs.pair_rows(answer)):
        TextColumns(queue_pairs.HEADS, width=width_of(sys.stdout)).rows(rows)
        write("\n")
    write("".join(f"{line}\n" for line in queue_pairs.sentences(answer)))


@app.command("shares")
def queue_shares(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Queues and Nodes, YAML or JSON")],
    *,
    total: Annotated[
        str,
        typer.Option(
            metavar="AMOUNTS",
            help="Amounts to divide, as cpu=64,memory=256Gi,nvidia.com/gpu=16; otherwise the Nodes",
        ),
    ] = "",
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A policy of KAI's, for its kValue")
    ] = None,
    output: Output = "",
) -> None:
    """Divide a file's nodes among its queues by KAI's rules, without a server

    FILE has Queues of scheduling.run.ai/v2 and Nodes, as quadrant snapshot or kubectl get writes
    them. A queue requests its status.requested, or everything if it has none.

    Examples:

      quadrant queue shares tree.yaml --total nvidia.com/gpu=16

      quadrant snapshot > now.yaml && quadrant queue shares now.yaml -o json
    """
    from fractions import Fraction

    from coordinator.cli.client.manifests import read_files
    from coordinator.cli.options.policy_file import read_policy
    from coordinator.cli.output.printing import form_of, write_form
    from coordinator.cli.scheduling import kai_queues
    from coordinator.cli.scheduling.queue_shares import shares_of
    from coordinator.explain.queues.queue_tree import k_value

    form = form_of(output)
    k = Fraction(1) if policy is None else k_value(read_policy(policy))
    shares = shares_of(read_files([str(file)]), total, k=k)
    for name in shares.left_out:
        text = f"queue {name} is left out: a queue above it is missing, or they go round"
        typer.echo(text, err=True)
    if form.table:
        kai_queues.print_tree(shares.shown, form)
    else:
        write_form(form, shares.shown)


@app.command("close")
def close_queue(
    names: Names,
    *,
    dry_run: DryRunOption = DryRunChoice.NONE,
    connection: Connection,
) -> None:
    """Close queues: no new tasks are placed, running tasks go on

    On a Kubernetes cluster the change goes to the API server, as the kubeconfig's user: as a
    Command if Volcano's controllers run there, otherwise in the queue's status.
    """
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
    from coordinator.cli.client.client import RequestRefused
    from coordinator.cli.client.session import session
    from coordinator.cli.objects.apply import MANAGER, SUFFIX
    from coordinator.cli.options.failure import EXIT_ERROR, EXIT_USAGE, CommandError
    from coordinator.cli.output.printing import write
    from coordinator.cli.output.terminal import say_error
    from coordinator.cli.scheduling import kai_queues
    from coordinator.cli.scheduling.queue_state import queue_states

    verb = "closed" if state == "Closed" else "opened"
    failed = False
    with session(connection) as api:
        resource = api.catalog.resolve("queues")
        if resource.group == kai_queues.GROUP:
            message = "queues of KAI's have no state; set a limit of 0 (spec.resources), or take "
            raise CommandError(message + "it away again", code=EXIT_USAGE)
        with queue_states(api.client, resource, manager=MANAGER) as states:
            for name in names:
                try:
                    states.write(name, state, dry_run)
                except RequestRefused as error:
                    failed = True
                    say_error(str(error))
                else:
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
