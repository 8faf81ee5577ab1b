"""``quadrant token``: make tokens for those who may ask the server, and list them.

A token is shown once, when it is made; the file that the server reads holds its hash alone.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coordinator.cli.options.failure import CommandError, as_command_errors
from coordinator.cli.options.options import Output, OutputOption
from coordinator.cli.options.records import CommandGroup

if TYPE_CHECKING:
    from coordinator.api.auth.tokens import TokenBook
    from coordinator.intake.principal import Principal

app = CommandGroup(no_args_is_help=True)

NameOption = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Name of the token's owner, shown in refusals")
]
RoleOption = Annotated[
    str,
    typer.Option(
        "--role",
        metavar="ROLE",
        help="view reads, submit writes jobs and pods too, admin writes everything",
    ),
]


@app.command()
def new(
    *,
    name: NameOption,
    role: RoleOption,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue",
            metavar="QUEUE",
            help="Queues that it may submit to; may be repeated; none = all",
        ),
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            metavar="NAMESPACE",
            help="Namespaces that it may read and write; may be repeated; none = all",
        ),
    ] = None,
    priority_class: Annotated[
        list[str] | None,
        typer.Option(
            "--priority-class",
            metavar="CLASS",
            help="Priority classes that its jobs may name; may be repeated; none = all but system "
            "classes",
        ),
    ] = None,
    file: Annotated[
        str, typer.Option("--file", metavar="FILE", help="Add it to this file; made if missing")
    ] = "",
) -> None:
    """Make a token and print it once

    The token goes to stdout, the entry for the server's file (QUADRANT_TOKENS_FILE) to stderr, or
    with --file into that file. A running server reads a changed file within seconds.
    """
    from coordinator.api.auth.tokens import TokenError, entry_of, new_token

    token = new_token()
    with as_command_errors(TokenError):
        entry = entry_of(
            token,
            name=name,
            role=role,
            queues=queue or [],
            namespaces=namespace,
            priority_classes=priority_class,
        )
    if file:
        _add(Path(file), _written(entry))
        sys.stderr.write(f"token/{name} added to {file}\n")
    else:
        sys.stderr.write(_written(entry))
    typer.echo(token)


@app.command("list")
def list_tokens(
    *,
    file: Annotated[
        str,
        typer.Option(
            "--file", metavar="FILE", help="The file of tokens; unset = QUADRANT_TOKENS_FILE"
        ),
    ] = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """List the tokens of a file: names, roles and limits

    The file holds hashes, so the tokens themselves cannot be shown.
    """
    book = _read(Path(_named(file)))
    principals = [entry.principal for entry in book.entries]
    if output is Output.JSON:
        items = [
            {
                "name": principal.name,
                "role": principal.role.word,
                "queues": _sorted(principal.queues),
                "namespaces": _sorted(principal.namespaces),
                "priorityClasses": _sorted(principal.priority_classes),
            }
            for principal in principals
        ]
        head = {"apiVersion": "quadrant.dev/v1alpha1", "kind": "TokenList"}
        typer.echo(json.dumps({**head, "items": items}))
        return
    rows = [("NAME", "ROLE", "QUEUES", "NAMESPACES", "PRIORITYCLASSES"), *map(_row, principals)]
    widths = [max(len(row[i]) for row in rows) + 3 for i in range(4)]
    for *cells, last in rows:
        typer.echo("".join(f"{c:<{w}}" for c, w in zip(cells, widths, strict=True)) + last)


def _row(principal: Principal) -> tuple[str, ...]:
    writes = "<none>" if principal.role.word == "view" else "<all>"
    usual = "<users'>" if principal.role.word == "submit" else writes  # all but system classes
    limits = (
        (principal.queues, writes),
        (principal.namespaces, "<all>"),
        (principal.priority_classes, usual),
    )
    listed = (absent if names is None else ",".join(sorted(names)) for names, absent in limits)
    return (principal.name, principal.role.word, *listed)


def _sorted(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _named(file: str) -> str:
    named = file or os.environ.get("QUADRANT_TOKENS_FILE", "")
    if not named:
        raise CommandError("no file of tokens is named; give --file or set QUADRANT_TOKENS_FILE")
    return named


def _read(path: Path) -> TokenBook:
    from coordinator.api.auth.token_file import read_tokens_file
    from coordinator.api.auth.tokens import TokenError

    try:
        return read_tokens_file(path)
    except TokenError as error:
        raise CommandError(f"{path}: {error}") from None


def _written(entry: dict[str, Any]) -> str:
    """One entry as it stands in the file."""
    lines = [f"{field}: {json.dumps(value)}" for field, value in entry.items()]
    return "- " + "\n  ".join(lines) + "\n"


def _add(path: Path, entry: str) -> None:
    """Append to the file, at once or not at all; what stands there keeps its comments."""
    from coordinator.api.auth.tokens import TokenError, parse_tokens

    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        text += "" if not text or text.endswith("\n") else "\n"
        parse_tokens(text + entry)
        draft = path.with_name(path.name + ".new")
        draft.touch(mode=0o600)
        if path.exists():
            draft.chmod(path.stat().st_mode & 0o777)
        draft.write_text(text + entry, encoding="utf-8")
        draft.replace(path)
    except TokenError as error:
        raise CommandError(f"{path}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise CommandError(f"{path}: cannot add to it: {reason}; name another file") from None
