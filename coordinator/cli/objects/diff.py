"""``quadrant diff``: what ``apply`` would change, as the server would do it."""

from __future__ import annotations

import sys
from typing import Any

import typer

from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import Files, Namespace
from coordinator.cli.options.failure import CommandError

SAME, DIFFERS, TROUBLE = 0, 1, 2
"""Exit codes of diff(1), which ``kubectl diff`` has too."""


def diff(
    *,
    files: Files,
    namespace: Namespace = None,
    connection: Connection,
) -> None:
    """Show what apply would change

    The server checks the files and changes nothing. Ends with 0 if nothing would change, with 1 if
    something would, and with 2 after an error.
    """
    from coordinator.cli.client.session import session

    try:
        with session(connection, namespace=namespace) as api:
            code = _compare(api, files)
    except CommandError as error:
        raise CommandError(str(error), code=TROUBLE) from None
    raise typer.Exit(code)


def _compare(session: Any, files: list[str]) -> int:
    from coordinator.cli.client.client import RequestRefused
    from coordinator.cli.client.manifests import placed, read_files
    from coordinator.cli.objects.apply import apply_patch, live
    from coordinator.cli.output.terminal import say_error

    code = SAME
    for source, value in read_files(files):
        try:
            manifest = placed(session, source, value)
            before = live(session, manifest)
            after = apply_patch(session, manifest, dry_run=True)
        except (RequestRefused, CommandError) as error:
            say_error(f"{source}: {error}")
            code = TROUBLE
            continue
        lines = _difference(before, after, manifest.label)
        if lines:
            _show(lines)
            code = max(code, DIFFERS)
    return code


def _difference(before: dict[str, Any] | None, after: dict[str, Any], label: str) -> list[str]:
    """A unified diff; status and what moves with every write are left out."""
    from difflib import unified_diff

    old, new = _lines(before), _lines(after)
    if before is None:  # what the server would give it is not decided yet
        new = [line for line in new if not line.startswith(("  uid:", "  creationTimestamp:"))]
    return list(unified_diff(old, new, f"live/{label}", f"applied/{label}", lineterm=""))


def _lines(value: dict[str, Any] | None) -> list[str]:
    from coordinator.cli.objects.apply import bare
    from coordinator.cli.output.printing import as_yaml

    if value is None:
        return []
    shown = {k: v for k, v in bare(value).items() if k != "status"}
    return as_yaml(shown, ordered=True).splitlines()


def _show(lines: list[str]) -> None:
    from coordinator.cli.output.printing import write
    from coordinator.cli.output.terminal import BOLD, GREEN, RED, painted

    for line in lines:
        head = line.startswith(("---", "+++", "@@"))
        style = BOLD if head else {"+": GREEN, "-": RED}.get(line[:1], "")
        write(painted(line, style, sys.stdout) + "\n")
