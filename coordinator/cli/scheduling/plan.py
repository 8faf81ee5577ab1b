"""``quadrant plan``: what would come of manifests, without submitting them."""

from __future__ import annotations

import shlex
from typing import Any

import typer

from coordinator.cli.client.connection import Connection
from coordinator.cli.client.options import Files, Namespace, Output
from coordinator.cli.options.failure import CommandError

EXIT_WAITS = 10
EXIT_NEVER = 11
"""Above 1 and 2, which stand for errors: a script tells "not now" from "it went wrong"."""
EXITS = {"now": 0, "waits": EXIT_WAITS, "never": EXIT_NEVER}
PATH = "/apis/quadrant.dev/v1alpha1/plans"


def plan(
    *,
    files: Files,
    namespace: Namespace = None,
    output: Output = "",
    connection: Connection,
) -> None:
    """Show where jobs would go, without submitting them

    Each job is tried on the live state together with the jobs before it, and everything is undone.
    The answer is now (with nodes), after leaving tasks, not now (with the reason), or never.
    Nothing is reserved.

    Ends with 0 if all would start now, 10 if one would wait, 11 if one can never run or is refused,
    1 on an error.

    Examples:

      quadrant plan -f job.yaml

      quadrant plan -f jobs/ -o json
    """
    from coordinator.cli.client.manifests import read_files
    from coordinator.cli.client.session import session
    from coordinator.cli.output.printing import form_of, write, write_form

    form = form_of(output)
    objects = [_placed(value, namespace) for _, value in read_files(files)]
    with session(connection, namespace=namespace) as api:
        for value in objects:
            _in_namespace(value, api.namespace)
        body = _body(objects)
        answer = api.client.ask("POST", PATH, body=body)[1]
    if form.table:
        write("\n".join(_text(answer, files)) + "\n")
    else:
        write_form(form, answer)
    raise typer.Exit(EXITS[answer["verdict"]])


CLUSTER_WIDE = frozenset(("Node", "Queue", "HyperNode", "PriorityClass"))


def _placed(value: dict[str, Any], namespace: str | None) -> dict[str, Any]:
    """The object as it is. Raises CommandError if ``-n`` contradicts its namespace."""
    meta = value.get("metadata")
    own_namespace = meta.get("namespace") if isinstance(meta, dict) else None
    if namespace and own_namespace and own_namespace != namespace:
        raise CommandError(
            f"{value.get('kind')}/{meta.get('name') if isinstance(meta, dict) else ''}: "
            f"metadata.namespace is {own_namespace}, but -n says {namespace}; leave one of them out"
        )
    return value


def _in_namespace(value: dict[str, Any], namespace: str) -> None:
    meta = value.get("metadata")
    if isinstance(meta, dict) and value.get("kind") not in CLUSTER_WIDE:
        meta.setdefault("namespace", namespace)


def _body(objects: list[dict[str, Any]]) -> bytes:
    import orjson

    body: bytes = orjson.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    return body


def _text(answer: dict[str, Any], files: list[str]) -> list[str]:
    import sys

    from coordinator.cli.output.paragraphs import width
    from coordinator.cli.output.terminal import painted
    from coordinator.cli.scheduling.plan_text import COLOURS, plan_lines, totals

    columns = width()
    lines = [
        painted(line, COLOURS.get(verdict, ""), sys.stdout)
        for verdict, line in plan_lines(answer, columns=columns)
    ]
    lines += ["", *totals(answer, columns=columns)]
    if answer["verdict"] != "never":
        named = " ".join(f"-f {shlex.quote(name)}" for name in files)
        lines += ["", f"To submit: quadrant apply {named}"]
    return lines
