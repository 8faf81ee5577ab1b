"""``quadrant debug``: look into a process of a running server."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Annotated, Any

import typer

from coordinator.cli.client.completion import complete_processes
from coordinator.cli.client.connection import Connection
from coordinator.cli.options.options import Output, OutputOption
from coordinator.cli.options.records import CommandGroup

app = CommandGroup(no_args_is_help=True)

BASE = "/apis/quadrant.dev/v1alpha1/debug"
MOST_LINES = 30
Role = Annotated[
    str,
    typer.Argument(
        metavar="ROLE",
        autocompletion=complete_processes("coordinator"),
        help="coordinator, or shard-N",
    ),
]
Json = dict[str, Any]


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


@app.command()
def profile(
    *,
    role: Role,
    seconds: Annotated[int, typer.Option("--seconds", min=1, max=60, help="How long")] = 5,
    folded: Annotated[
        bool, typer.Option("--folded", help="Folded stacks, one a line, for a flame graph")
    ] = False,
    output: OutputOption = Output.TABLE,
    connection: Connection,
) -> None:
    """Sample the stacks of a process while it works, and show where it spends its time

    A hundred samples per second of all threads, including waiting ones. Needs role admin.

    Examples:

      quadrant debug profile shard-0 --seconds 10

      quadrant debug profile coordinator --folded > coordinator.folded
    """
    query = {"seconds": seconds}
    answer = _ask(connection, "GET", f"{role}/profile", query, timeout=seconds + 30.0)
    stacks: dict[str, int] = answer["stacks"]
    if output is Output.JSON:
        _json(answer)
    elif folded:
        typer.echo("\n".join(f"{stack} {count}" for stack, count in sorted(stacks.items())))
    else:
        typer.echo(
            f"{role}: {answer['samples']} samples in {answer['seconds']:.1f} s (process "
            f"{answer['pid']})"
        )
        own, total = _by_frame(stacks)
        _table(
            ("own", "total", "function"),
            [(str(own[frame]), str(total[frame]), frame) for frame in _most(own, total)],
        )


@app.command()
def dump(*, role: Role, output: OutputOption = Output.TABLE, connection: Connection) -> None:
    """Show a process's state: nodes, queues, jobs, versions, open work

    A worker shows its view of the nodes with their versions; the coordinator shows its queues, jobs
    and shards. Compare the two if a decision looks wrong. Needs role admin.

    Examples:

      quadrant debug dump shard-0

      quadrant debug dump coordinator -o json
    """
    answer = _ask(connection, "GET", f"{role}/dump", {})
    if output is Output.JSON:
        _json(answer)
        return
    flat = {name: value for name, value in answer.items() if not isinstance(value, (dict, list))}
    typer.echo("  ".join(f"{name} {value}" for name, value in flat.items()))
    for name, value in answer.items():
        if isinstance(value, dict) and value:
            typer.echo("")
            _table((name, ""), [(key, _cell(each)) for key, each in value.items()])
        elif isinstance(value, list) and value:
            rows = [[_cell(row.get(key)) for key in value[0]] for row in value[:MOST_LINES]]
            typer.echo(f"\n{name}")
            _table([*value[0]], [tuple(row) for row in rows])
            if len(value) > MOST_LINES:
                typer.echo(f"  and {len(value) - MOST_LINES} more {name}; -o json has them")


@app.command()
def loglevel(
    *,
    role: Role,
    level: Annotated[LogLevel, typer.Argument(help="Lowest level to log")],
    connection: Connection,
) -> None:
    """Change the log level of a process until it ends

    Needs role admin.

    Examples:

      quadrant debug loglevel coordinator debug
    """
    answer = _ask(connection, "PUT", f"{role}/loglevel", {"level": level.value})
    typer.echo(f"{role} logs from {answer['level']} on; it was {answer['before']}")


def _ask(
    connection: Connection, method: str, path: str, query: Json, *, timeout: float = 30.0
) -> Json:
    from coordinator.cli.client.session import session

    with session(connection, timeout=timeout) as api:
        return api.client.ask(method, f"{BASE}/{path}", query)[1]


def _json(answer: Json) -> None:
    import orjson

    typer.echo(orjson.dumps(answer).decode())


def _table(heads: tuple[str, ...] | list[str], rows: list[tuple[str, ...]]) -> None:
    from coordinator.cli.output.printing import TextColumns

    TextColumns([head.upper() for head in heads]).rows([list(row) for row in rows])


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items()) or "-"
    return str(value)


def _by_frame(stacks: dict[str, int]) -> tuple[Counter[str], Counter[str]]:
    """(samples with the function at the leaf, samples with it anywhere), by function."""
    own, total = Counter[str](), Counter[str]()
    for stack, count in stacks.items():
        frames = [frame.rpartition(":")[0] + ")" for frame in stack.split(";")[1:]]
        for frame in {*frames}:
            total[frame] += count
        if frames:
            own[frames[-1]] += count
    return own, total


def _most(own: Counter[str], total: Counter[str]) -> list[str]:
    ranked = sorted(total, key=lambda frame: (-own[frame], -total[frame], frame))
    return ranked[:MOST_LINES]
