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

from coordinator.commands.failure import CommandError
from coordinator.commands.options import Output, OutputOption

if TYPE_CHECKING:
    from coordinator.gate.tokens import TokenBook

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Make and list the tokens of those who may ask",
)

NameOption = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Whose it is; shown where it is refused")
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
            "--queue", metavar="QUEUE", help="Where it may submit to; may be repeated; none = all"
        ),
    ] = None,
    file: Annotated[
        str, typer.Option("--file", metavar="FILE", help="Add it to this file; made if missing")
    ] = "",
) -> None:
    """Make a token, and print it: it is not shown again

    The token goes to stdout, the entry for the server's file (QUADRANT_TOKENS_FILE) to stderr, or
    with --file into that file. A running server takes up a changed file within seconds.
    """
    from coordinator.gate.tokens import TokenError, entry_of, new_token

    token = new_token()
    try:
        entry = entry_of(token, name=name, role=role, queues=list(queue or ()))
    except TokenError as error:
        raise CommandError(str(error)) from None
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
    """List the tokens of a file: names, roles and queues

    What a token is cannot be told from the file: it holds hashes.
    """
    book = _read(Path(_named(file)))
    principals = [entry.principal for entry in book.entries]
    if output is Output.JSON:
        items = [
            {
                "name": principal.name,
                "role": principal.role.word,
                "queues": None if principal.queues is None else sorted(principal.queues),
            }
            for principal in principals
        ]
        head = {"apiVersion": "quadrant.dev/v1alpha1", "kind": "TokenList"}
        typer.echo(json.dumps({**head, "items": items}))
        return
    rows = [("NAME", "ROLE", "QUEUES")]
    for principal in principals:
        everywhere = "<all>" if principal.role.word != "view" else "<none>"
        queues = everywhere if principal.queues is None else ",".join(sorted(principal.queues))
        rows.append((principal.name, principal.role.word, queues))
    widths = [max(len(row[i]) for row in rows) + 3 for i in range(2)]
    for name, role, queues in rows:
        typer.echo(f"{name:<{widths[0]}}{role:<{widths[1]}}{queues}")


def _named(file: str) -> str:
    named = file or os.environ.get("QUADRANT_TOKENS_FILE", "")
    if not named:
        raise CommandError("no file of tokens is named; give --file or set QUADRANT_TOKENS_FILE")
    return named


def _read(path: Path) -> TokenBook:
    from coordinator.gate.token_file import read_tokens_file
    from coordinator.gate.tokens import TokenError

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
    from coordinator.gate.tokens import TokenError, parse_tokens

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
