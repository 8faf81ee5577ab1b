"""``quadrant shadow``: what Quadrant would have done beside the scheduler of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import NoHeaders, Output
from coordinator.cli.options.records import CommandGroup

app = CommandGroup(no_args_is_help=True)

SHADOW = "/apis/quadrant.dev/v1alpha1/shadow"
_QUEUE_HEADS = (
    "QUEUE",
    "PODS",
    "SAME-NODE",
    "OTHER-NODE",
    "OURS-ALONE",
    "THEIRS-ALONE",
    "BOTH-WAIT",
    "PLACED-BEFORE",
    "EVICTIONS",
    "WAIT-OURS",
    "WAIT-THEIRS",
)
_POD_HEADS = ("POD", "QUEUE", "VERDICT", "OURS", "THEIRS", "WAITED-OURS", "WAITED-THEIRS", "WHY")
_VERDICTS = ("same node", "other node", "ours alone", "theirs alone", "both wait", "placed before")
_SAME = ("same node", "placed before")

Json = Mapping[str, Any]


@app.command()
def report(
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Pods too for which both decided alike")
    ] = False,
    queue: Annotated[
        str, typer.Option("--queue", metavar="NAME", help="Pods of this queue alone")
    ] = "",
    output: Output = "",
    no_headers: NoHeaders = False,
    connection: Connection,
) -> None:
    """Compare Quadrant's decisions with the cluster's scheduler, per queue and pod

    Needs a coordinator with --shadow. For each pod: the node of each scheduler, the time each took,
    and why Quadrant would have let it wait. A pod with a node from Quadrant alone still waits in
    the cluster.

    Examples:

      quadrant shadow report

      quadrant shadow report --queue research -o json
    """
    from coordinator.cli.client.session import session
    from coordinator.cli.output.printing import TextColumns, form_of, write_form
    from coordinator.cli.output.terminal import width_of

    form = form_of(output)
    with session(connection) as asked:
        answer = asked.client.get(SHADOW)
    if queue:
        answer = {
            **answer,
            "queues": {name: of for name, of in answer["queues"].items() if name == queue},
            "pods": [pod for pod in answer["pods"] if pod["queue"] == queue],
        }
    if form.word not in ("", "wide"):
        write_form(form, answer)
        return
    TextColumns(_QUEUE_HEADS, show_headers=not no_headers).rows(_queue_rows(answer))
    pods = list(_pod_rows(answer, every=every))
    if pods:
        typer.echo("")
        columns = TextColumns(_POD_HEADS, not no_headers, width=width_of(sys.stdout))
        columns.rows(pods)
    for line in _notes(answer):
        typer.echo(line, err=True)


@app.command()
def trace(
    record: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="The shadow's record: shadow.jsonl in QUADRANT_DATA_DIR",
        ),
    ],
    *,
    hashed: Annotated[
        bool, typer.Option("--hash-names", help="Write hashes in place of the names of queues")
    ] = False,
) -> None:
    """Print the jobs of a shadow's record as a trace, for quadrant demo --trace

    A line for each job: creation of its first pod, duration, number of pods, and queue. Unfinished
    jobs have no duration.

    Examples:

      quadrant shadow trace shadow.jsonl --hash-names > jobs.csv

      quadrant demo --trace jobs.csv
    """
    import csv

    from coordinator.cluster.kubernetes.shadow.record import HEAD, trace_rows

    out = csv.writer(sys.stdout)
    out.writerow(HEAD)
    with record.open("rb") as lines:
        out.writerows(trace_rows(lines, hashed=hashed))


def _queue_rows(answer: Json) -> Iterator[list[str]]:
    for name, totals in answer["queues"].items():
        verdicts = totals["verdicts"]
        yield [
            name,
            str(totals["pods"]),
            *(str(verdicts[verdict]) for verdict in _VERDICTS),
            str(totals["evictions"]),
            _seconds(totals["meanWaitOurs"]),
            _seconds(totals["meanWaitTheirs"]),
        ]


def _pod_rows(answer: Json, *, every: bool) -> Iterator[list[str]]:
    for pod in answer["pods"]:
        if not every and pod["verdict"] in _SAME and not pod["evicted"]:
            continue
        why = "; ".join([pod["why"], *(f"would be evicted: {text}" for text in pod["evicted"])])
        yield [
            pod["pod"],
            pod["queue"],
            pod["verdict"],
            pod["ours"] or "-",
            pod["theirs"] or "-",
            _waited(pod, "ours_at"),
            _waited(pod, "theirs_at"),
            why.strip("; ") or "-",
        ]


def _waited(pod: Json, at: str) -> str:
    return _seconds(pod[at] - pod["arrived"]) if pod["seen"] and pod[at] else "-"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}s"


def _notes(answer: Json) -> Iterator[str]:
    if not answer["complete"]:
        yield "The cluster is still being listed; what is above is a part of it"
    unread = answer["notUnderstood"]
    if unread["pods"]:
        yield f"{unread['pods']} pods are not understood and count as somebody else's; the last:"
        for pod, why in list(unread["last"].items())[-10:]:
            yield f"  {pod}: {why}"
